"""Custom metrics, each in its own process."""

import asyncio
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evalgate
from evalgate.agents.host.custom_metric_function import wrap_metric_as_agent
from evalgate.config.schema.criteria import CustomMetricConfig
from evalgate.core.protocols import MetricEnvironment
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    Message,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
    Reply,
    Rubric,
    Scenario,
    ToolResult,
    TraceSpan,
    TurnScore,
    Usage,
    UserMessage,
)
from evalgate.metrics.custom_metric_process import build_custom_metric
from tests.builders import a_call, a_case, a_reply, a_turn

FOLDER = Path(__file__).parent / "functions"
ENV = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
USED = Usage(10, 5, 0.25, ("m",))
CASE = a_case("c", a_turn(expected=a_reply("sunny")))
RUN = CaseRun(1, "answered", (Reply("sunny", (a_call("find", n=3), a_call("find", n=4))),))


async def judged(
    function: str,
    case: EvalCase = CASE,
    *runs: CaseRun,
    threshold: float = 1.0,
    between: tuple[float, float] | None = None,
    **options: Any,
) -> list[MetricResult]:
    timeout = 120 if function != "hangs" else 0.3
    config = CustomMetricConfig(entry=f"scores.{function}", timeout=timeout, range=between)
    metric = build_custom_metric(
        Criterion("mine", threshold, options), config, MetricEnvironment(FOLDER, ENV)
    )
    try:
        return await asyncio.gather(*[metric.score(case, run) for run in runs or (RUN,)])
    finally:
        await metric.aclose()


@pytest.mark.parametrize(
    ("function", "options", "result"),
    [
        ("ours", {}, MetricScore(1.0)),
        ("ours_with_reason", {}, MetricScore(1.0, reason="5 characters, 10 allowed")),
        ("ours_with_reason", {"limit": 4}, MetricScore(0.0, reason="5 characters, 4 allowed")),
        ("ours_with_a_document", {}, MetricScore(1.0, reason="x" * 10_000 + "… (40,000 more characters)")),
        ("ours_later", {}, MetricScore(3.0)),
        ("brevity", {"limit": 100}, MetricScore(1.0, (TurnScore(1.0),))),
        ("brevity", {"limit": 3}, MetricScore(0.0, (TurnScore(0.0),))),
        ("adk", {}, MetricScore(2.0, (TurnScore(2.0),), passed=False)),
        ("not_evaluated", {}, NotApplicable("the metric says that it did not evaluate the case")),
        ("says_much", {}, MetricScore(1.0)),
    ],
)
async def test_a_function_scores(function: str, options: dict[str, Any], result: MetricResult) -> None:
    assert await judged(function, **options) == [result]


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ({"score": 0.2, "passed": True, "status": "passed"}, MetricScore(0.2, passed=True)),
        ({"score": 1, "passed": True, "status": "unknown"}, MetricScore(1.0, passed=True)),
        (
            {"score": 1, "passed": True, "status": "failed"},
            MetricFailure("the metric gave `passed` as true, but the status 'failed': leave one of them out"),
        ),
        (
            {"score": 1, "passed": True, "status": "not_evaluated"},
            MetricFailure(
                "the metric gave `passed` as true, but the status 'not_evaluated': leave one of them out"
            ),
        ),
        ({"score": 1, "passed": True, "status": "ok"}, MetricScore(1.0, passed=True)),
        ({"score": 0.9, "passed": True, "status": 200}, MetricScore(0.9, passed=True)),
        ({"passed": False, "status": "not_evaluated", "reason": "no order"}, NotApplicable("no order")),
        ({"score": 0.0, "passed": False, "status": "error"}, MetricFailure("the metric says that it broke")),
        ({"score": None, "status": "not_evaluated", "reason": "no order"}, NotApplicable("no order")),
        ({"status": "not_evaluated", "reason": "no order"}, NotApplicable("no order")),
        ({"status": "error", "reason": "no network"}, MetricFailure("no network")),
        (
            {"turns": [{"status": "not_evaluated"}, {"score": 0.5}]},
            MetricScore(0.5, (TurnScore(None), TurnScore(0.5))),
        ),
        (
            {"status": "passed"},
            MetricFailure(
                "the metric gave a dict without `score`; expected a finite number or an object with `score` "
                "(as Google ADK's, with `overall_score`)"
            ),
        ),
    ],
)
async def test_a_status_goes_with_passed_and_with_the_score(given: object, result: MetricResult) -> None:
    assert await judged("gives", result=json.dumps(given)) == [result]


RUBRIC = {"id": "polite", "score": 0.0, "reason": "no greeting"}


@pytest.mark.parametrize(
    ("function", "options", "result"),
    [
        (
            "explained",
            {},
            MetricScore(
                0.9,
                (
                    TurnScore(0.5, "too curt", {"words": 1, "rubric_scores": [RUBRIC]}, passed=False),
                    TurnScore(None, "nothing to judge"),
                ),
                "curt",
                {"words": [1]},
                passed=False,
            ),
        ),
        ("explained", {"status": "not_evaluated"}, NotApplicable("curt")),
        ("explained", {"status": "Error"}, MetricFailure("curt")),
        (
            "explained",
            {"status": "good"},
            MetricFailure(
                "the metric gave the status 'good'; expected `passed`, `failed`, `not_evaluated` or `error`"
            ),
        ),
        (
            "explained_with_objects",
            {},
            MetricScore(
                1.0,
                (
                    TurnScore(
                        1.0,
                        "fine",
                        {"score": 1.0, "rubric_scores": [{"id": "polite", "score": 1.0, "reason": "greets"}]},
                        passed=True,
                    ),
                ),
                "fine",
                passed=True,
            ),
        ),
        (
            "turns_only",
            {},
            MetricScore(0.75, (TurnScore(1.0, "good"), TurnScore(0.5, "half")), "turn 2: half"),
        ),
        (
            "explained_turn",
            {},
            MetricScore(
                0.5,
                (
                    TurnScore(
                        0.5, "half", {"rubric_scores": [{"id": "a", "score": 0.5, "reason": ""}]}, passed=True
                    ),
                ),
                "half",
            ),
        ),
        ("failed_turn", {}, MetricScore(1.0, (TurnScore(1.0, passed=False),), passed=False)),
        ("plain_details", {}, MetricScore(1.0, details={"details": ["a"]})),
        ("even_turns", {}, MetricScore(0.8, (TurnScore(0.8),) * 6)),
        (
            "array_flags",
            {},
            MetricScore(1.0, (TurnScore(1.0, passed=True), TurnScore(1.0, passed=False)), passed=False),
        ),
        (
            "turns_of_another_type",
            {},
            MetricFailure("the metric gave `turns` of type str; expected a list"),
        ),
    ],
)
async def test_a_function_explains_its_score(
    function: str, options: dict[str, Any], result: MetricResult
) -> None:
    assert await judged(function, **options) == [result]


def test_reports_show_what_a_function_says() -> None:
    thresholds = {
        "criteria": {"mine": 0.5},
        "custom_metrics": {"mine": {"entry": "scores.explained", "timeout": 120}},
    }
    record = evalgate.evaluate(
        [{"query": "Hi", "reference": "Hello"}], lambda text: "Hello", thresholds=thresholds, folder=FOLDER
    )
    (metric,), (turn,) = record.cases[0].runs[0].metrics, record.cases[0].runs[0].turns
    assert (metric.status, metric.reason, metric.details) == ("failed", "curt", {"words": [1]})
    assert (turn.metrics[0].status, turn.metrics[0].reason) == ("failed", "too curt")
    assert "mine 0.90 ≥ 0.50: curt" in record.to_junit().replace("&gt;", ">")
    assert "no greeting" in record._repr_html_()


def test_the_function_of_the_guide_runs() -> None:
    text = (Path(__file__).parents[2] / "docs/metrics.md").read_text("utf-8")
    (snippet,) = re.findall(r"```python\n(def politeness.*?)```", text, re.DOTALL)
    found: dict[str, Any] = {}
    exec(snippet, found)
    replies: list[Any] = [{"response": text, "events": []} for text in ("Wait please", "Wait")]
    request = {"case": {}, "run": {"replies": [*replies, None]}, "options": {}}
    answer = json.loads(wrap_metric_as_agent(found["politeness"])(json.dumps(request)))
    assert answer == {
        "score": 0.5,
        "turns": [{"score": 1.0, "reason": "11 characters"}, {"score": 0.0, "reason": "4 characters"}],
        "details": {"word": "please"},
    }


async def test_details_that_json_cannot_hold_break_the_metric() -> None:
    (result,) = await judged("unreadable_details")
    assert isinstance(result, MetricFailure)
    assert result.reason.startswith("the metric gave `details` that JSON cannot hold: ")


@pytest.mark.parametrize(
    ("function", "between", "result"),
    [
        ("ours_later", (1, 3), MetricScore(3.0)),
        ("ours_later", (1, 2.5), MetricFailure("the metric gave 3, which is not in its range of 1 to 2.5")),
        ("ours", (2, 5), MetricFailure("the metric gave 1, which is not in its range of 2 to 5")),
        ("not_evaluated", (1, 5), NotApplicable("the metric says that it did not evaluate the case")),
    ],
)
async def test_a_metric_stays_in_the_range_that_is_declared(
    function: str, between: tuple[float, float], result: MetricResult
) -> None:
    assert await judged(function, between=between) == [result]


async def test_a_metric_of_google_adk_may_find_less_better() -> None:
    (result,) = await judged("adk", threshold=2.0)

    assert result == MetricScore(2.0, (TurnScore(2.0),), passed=True)


async def test_an_invocation_has_the_names_that_google_adk_gives_it() -> None:
    said = (a_call("find", n=3), ToolResult("find", {"ok": True}), Message("wait", "helper"))
    run = CaseRun(1, "answered", (Reply("sunny", said),))

    assert await judged("events", CASE, run) == [MetricScore(1.0)]


async def test_a_metric_hears_what_a_simulated_user_said() -> None:
    case = EvalCase("c", scenario=Scenario("Hi", "Book a room."))
    run = CaseRun(
        1, "answered", (a_reply("a"), a_reply("b")), said=(UserMessage("Hi"), UserMessage("For two."))
    )

    assert await judged("played", case, run) == [MetricScore(1.0)]


async def test_a_metric_knows_the_rubrics() -> None:
    turn = replace(a_turn(), rubrics=(Rubric("b", "Is short.", "MINE", "why"),))
    case = replace(a_case("c", turn), rubrics=(Rubric("a", "Is kind."),))

    assert await judged("rubrics", case) == [MetricScore(1.0)]


async def test_no_turn_is_zipped_away() -> None:
    case = a_case("c", a_turn(), a_turn())
    short, long = CaseRun(1, "answered", (a_reply("a"), None)), CaseRun(1, "answered", (a_reply("a"),) * 4)

    few, many = await judged("brevity", case, short, long, limit=5)

    assert isinstance(few, MetricScore)
    assert few.turns == (TurnScore(1.0), TurnScore(0.0, "the agent gave no reply to this turn"))
    assert isinstance(many, MetricScore)
    assert many.score == 0.5
    assert [turn.score for turn in many.turns] == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("raises", "the metric raised KeyError: 'no such key'"),
        ("exits", "the metric called sys.exit(3)"),
        ("nan", "the metric gave nan; expected a finite number or an object with `score`"),
        ("huge", "the metric gave a number that is too large; expected a finite number"),
        ("text_flag", "the metric gave `passed` as 'false'; expected true or false"),
        ("number_flag", "the metric gave `passed` as 0; expected true or false"),
        ("nothing", "the metric gave None; expected a finite number"),
        ("text", "the metric gave 'good'; expected a finite number"),
        ("scoreless", "the metric gave a dict without `score`; expected a finite number"),
        ("hangs", "the metric gave no answer within 0.3 s"),
        ("dies", "the metric's process was killed by signal SIGSEGV while it answered"),
        ("leaves", "the metric's process ended with exit code 7 while it answered"),
        ("brevity", "the metric raised AttributeError"),
        ("without_parameters", "cannot load the metric `scores:without_parameters`: it takes 0 parameters"),
        ("number", "cannot load the metric `scores:number`: it is of type int, not a function"),
        ("absent", "cannot load the metric `scores:absent`: module `scores` has no attribute `absent`"),
    ],
)
async def test_nothing_that_a_function_does_reaches_the_gate(function: str, sentence: str) -> None:
    (result,) = await judged(function)

    assert isinstance(result, MetricFailure)
    assert result.reason.startswith(sentence)


async def test_a_case_that_kills_the_process_spares_its_neighbours() -> None:
    config = CustomMetricConfig(entry="scores.ours")
    metric = build_custom_metric(Criterion("mine", 1.0), config, MetricEnvironment(FOLDER, ENV))
    try:
        assert await metric.score(CASE, RUN) == MetricScore(1.0)
        broken = await metric.score(CASE, CaseRun(1, "answered", ()))
        assert isinstance(broken, MetricFailure)
        assert await metric.score(CASE, RUN) == MetricScore(1.0)
    finally:
        await metric.aclose()


@pytest.mark.parametrize(
    ("entry", "stored"),
    [
        ("package.module.function", "package.module:function"),
        ("package.module:function", "package.module:function"),
        ("metrics/mine.py:function", "metrics/mine.py:function"),
    ],
)
def test_entries_in_both_spellings(entry: str, stored: str) -> None:
    assert CustomMetricConfig(entry=entry).entry == stored


@pytest.mark.parametrize("entry", ["function", ".function", "module."])
def test_an_entry_names_a_module_and_a_function(entry: str) -> None:
    with pytest.raises(ValueError, match="must name a function"):
        CustomMetricConfig(entry=entry)


async def test_a_function_sees_usage_and_times() -> None:
    step = TraceSpan("1", "m", "model", 0, 0.5, 1.5, usage=USED)
    found = await judged("reports_usage", CASE, replace(RUN, usage=USED, duration_s=2.0, trace=(step,)), RUN)
    assert [each.reason for each in found if isinstance(each, MetricScore)] == [
        "10 + 5 tokens of m, 0.25 USD, 2.0 s; m: 1.5 s, 10 tokens",
        "no usage",
    ]
