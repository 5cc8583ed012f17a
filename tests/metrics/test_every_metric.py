"""Rules that every metric in the registry keeps, whatever the agent did."""

import math
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalgate.config.schema.judge import JudgeConfig
from evalgate.core.plugin_registry import METRICS
from evalgate.core.protocols import MetricContext, MetricType
from evalgate.core.score_ranges import SCORE_RANGES
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    Criterion,
    EvalCase,
    Event,
    Goal,
    Journey,
    Message,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.llm.errors import JudgeError
from tests.calls import CALLS
from tests.llm.fakes import ScriptedModel
from tests.llm.resolvers import build_scripted_resolver

RUBRICS: dict[str, Any] = {"rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "Is short."}}]}
NEEDED: dict[str, dict[str, Any]] = {
    "trpc/tool_trajectory_avg_score": {"toolTrajectory": {}},
    "trpc/final_response_avg_score": {
        "finalResponse": {"rouge": {"rougeType": "rougeLsum", "splitSummaries": True}, "json": {}}
    },
    "trajectory_single_tool_use": {"tool_name": "f"},
    "rubric_based_final_response_quality_v1": RUBRICS,
    "rubric_based_tool_use_quality_v1": RUBRICS,
    "rubric_based_multi_turn_trajectory_quality_v1": RUBRICS,
    "trpc/llm_judge_template": {
        "llmJudge": {"template": {"prompt": "?", "responseScorerName": "single_score"}}
    },
}
"""Options without which a metric cannot be built."""

ANYTHING = """{"is_the_agent_response_valid": "valid", "is_valid": true, "met": true, "score": 1
}
<sentence>A.</sentence>
sentence: A.
label: supported
rationale: r
supporting_excerpt: null
contradicting_excerpt: null
Property: Is short.
Rationale: because
Verdict: yes
"""
"""What a judge says to whatever it is asked."""


def context() -> MetricContext:
    judge = JudgeConfig(provider="custom", model="judge", base_url="http://localhost:1/v1")
    return MetricContext((2, 13), build_scripted_resolver(ScriptedModel(script=lambda _: ANYTHING), judge))


async def scored(name: str, case: EvalCase, run: CaseRun, **options: Any) -> MetricResult:
    metric_type: MetricType = resolve_name(METRICS[name])
    criterion = Criterion(name, 0.5, {**NEEDED.get(name, {}), **options})
    try:
        return await metric_type.build(criterion, context()).score(case, run)
    except JudgeError as failure:
        return MetricFailure(str(failure), failure.kind)


TEXTS = st.text(max_size=20) | st.sampled_from(
    ["", ".", "İ ß ﬁ", "e\u0301", "é", "漢字 かな", "مرحبا", "👩‍👩‍👧", "{}", "1e400"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.just(10**400) | TEXTS
JSON = st.recursive(
    LEAVES | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ARGS = st.none() | st.dictionaries(TEXTS, JSON, max_size=3)
NAMES = st.sampled_from(["f", "g", "", "f "]) | TEXTS
IDS = st.none() | st.sampled_from(["", "1"])
EVENTS: st.SearchStrategy[Event] = (
    st.builds(ToolCall, NAMES, ARGS, IDS)
    | st.builds(ToolCall, NAMES, other_args=JSON)
    | st.builds(ToolResult, NAMES, JSON, IDS)
    | st.builds(Message, TEXTS, payload=ARGS)
)
REPLIES = st.builds(Reply, st.none() | TEXTS, st.lists(EVENTS, max_size=4).map(tuple))
GOALS = (
    st.builds(Goal, NAMES, st.just("tool_call"), NAMES, ARGS)
    | st.builds(Goal, NAMES, st.just("text"), response=st.none() | TEXTS, keywords=st.lists(TEXTS).map(tuple))
    | st.builds(Goal, NAMES, st.just("interaction"), identifier=st.tuples(TEXTS, TEXTS))
    | st.builds(Goal, st.just(""), st.just("check"), check=TEXTS)
    | st.builds(Goal, NAMES, st.sampled_from(["conversational_search", "tool_response"]))
)
JOURNEYS = st.builds(
    Journey,
    st.lists(GOALS, max_size=4).map(tuple),
    st.dictionaries(NAMES, st.lists(NAMES, max_size=2).map(tuple), max_size=3),
)
STATES = st.none() | st.dictionaries(TEXTS, JSON, max_size=3)
CASES = st.builds(
    EvalCase,
    st.just("c"),
    st.lists(st.builds(CaseTurn, st.builds(UserMessage, TEXTS), REPLIES), max_size=3).map(tuple),
    journey=st.none() | JOURNEYS,
    final_state=STATES,
)
RUNS = st.builds(
    CaseRun,
    st.just(1),
    st.just("answered"),
    st.lists(st.none() | REPLIES, max_size=4).map(tuple),
    final_state=STATES,
)


def a_case(*events: Event) -> EvalCase:
    goals = tuple(
        Goal(f"g{number}", "tool_call", event.name, event.args or {})
        for number, event in enumerate(events)
        if isinstance(event, ToolCall)
    )
    turn = CaseTurn(UserMessage("?"), Reply("a", events))
    return EvalCase("c", (turn,), journey=Journey(goals, {goal.name: () for goal in goals}))


def a_run(*events: Event) -> CaseRun:
    return CaseRun(1, "answered", (Reply("a", events),))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=CASES, run=RUNS)
async def test_no_run_makes_a_metric_raise_and_a_score_is_in_its_range(case: EvalCase, run: CaseRun) -> None:
    await check_every_metric(case, run)


async def check_every_metric(case: EvalCase, run: CaseRun) -> None:
    """Score the run with each metric; a failure names it. Drawing a run takes longer than scoring it."""
    for name in METRICS:
        try:
            check(name, await scored(name, case, run), case, run)
        except Exception as error:
            error.add_note(f"metric: {name}")
            raise


def check(name: str, result: MetricResult, case: EvalCase, run: CaseRun) -> None:
    """That it is a score in its range, or says why there is none."""
    declared: tuple[float, float] = getattr(resolve_name(METRICS[name]), "score_range", (0.0, 1.0))
    low, high = sorted(SCORE_RANGES.get(name, declared))
    if isinstance(result, MetricScore):
        turns = [turn.score for turn in result.turns if turn.score is not None]
        assert all(low <= score <= high for score in (result.score, *turns))
        assert math.isfinite(result.score)
        assert len(result.turns) in {0, max(len(case.turns), len(run.replies))}
    else:
        assert isinstance(result, (NotApplicable, MetricFailure))
        assert result.reason


def nested(depth: int) -> dict[str, Any]:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return {"a": value}


@pytest.mark.parametrize("depth", [500, 2_000, 100_000])
async def test_no_depth_makes_a_metric_raise(depth: int) -> None:
    call, answer = ToolCall("f", nested(depth), "1"), ToolResult("f", nested(depth), "1")
    case = replace(a_case(call, answer), final_state=nested(depth))
    run = replace(a_run(replace(call, args=nested(depth)), answer), final_state=nested(depth))

    await check_every_metric(case, run)


ANY_ORDER: dict[str, dict[str, Any]] = {
    "tool_trajectory_avg_score": {"match_type": "ANY_ORDER"},
    "trajectory_any_order_match": {},
    "trajectory_precision": {},
    "trajectory_recall": {},
    "trajectory_single_tool_use": {},
    "trpc/tool_trajectory_avg_score": {},
}


@pytest.mark.parametrize(("name", "options"), ANY_ORDER.items())
@given(expected=CALLS, actual=CALLS, data=st.data())
async def test_where_order_does_not_count_another_order_changes_nothing(
    name: str, options: dict[str, Any], expected: list[ToolCall], actual: list[ToolCall], data: st.DataObject
) -> None:
    before = await scored(name, a_case(*expected), a_run(*actual), **options)
    case = a_case(*data.draw(st.permutations(expected)))
    after = await scored(name, case, a_run(*data.draw(st.permutations(actual))), **options)

    assert isinstance(before, MetricScore)
    assert isinstance(after, MetricScore)
    assert after.score == before.score


@pytest.mark.parametrize("name", ["trajectory_recall", "orchestrate/tool_call_recall"])
@given(expected=CALLS, actual=CALLS, args=st.dictionaries(st.sampled_from("ab"), st.integers(0, 1)))
async def test_a_further_call_that_was_expected_and_made_never_lowers_recall(
    name: str, expected: list[ToolCall], actual: list[ToolCall], args: dict[str, Any]
) -> None:
    call = ToolCall("h", args)
    before = await scored(name, a_case(*expected), a_run(*actual))
    after = await scored(name, a_case(*expected, call), a_run(*actual, call))

    assert isinstance(after, MetricScore)
    assert not isinstance(before, MetricScore) or after.score >= before.score
