"""Budgets: what a run consumes, measured and compared with limits."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalgate.config.loader import load_thresholds, parse_thresholds
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import MetricContext
from evalgate.core.score_ranges import BUDGETS, UNLIMITED
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    MetricResult,
    MetricScore,
    NotApplicable,
    Reply,
    ToolCall,
    ToolMock,
    ToolRecording,
    TraceSpan,
    Usage,
)
from evalgate.metrics.budgets import BudgetMetric
from evalgate.runner.metric_binding import find_criterion_problems

CONTEXT = MetricContext((2, 13))
RUN = CaseRun(
    1,
    "answered",
    (Reply("a", (ToolCall("find"), ToolCall("find"))), None, Reply("b", (ToolCall("book"),))),
    duration_s=2.5,
    usage=Usage(1000, 200, 0.03),
    trace=(
        TraceSpan("0", "m", "model", 0, 0.0, 0.1),
        TraceSpan("1", "t", "tool", 0, 0.1, 0.1),
        TraceSpan("2", "m", "model", 0, 0.2, 0.1),
    ),
)


def measure(name: str, run: CaseRun, context: MetricContext = CONTEXT) -> MetricResult:
    metric = BudgetMetric.build(Criterion(f"budget/{name}", 9.0), context)
    return asyncio.run(metric.score(EvalCase("a"), run))


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("tokens", 1200),
        ("output_tokens", 200),
        ("cost_usd", 0.03),
        ("tool_calls", 3),
        ("model_calls", 2),
        ("turns", 3),
        ("latency_s", 2.5),
    ],
)
def test_figures_of_a_run(name: str, figure: float) -> None:
    assert measure(name, RUN) == MetricScore(figure)


def test_a_cost_that_adds_up_to_its_limit_is_no_more() -> None:
    usage = Usage(1, 1, 0.1) + Usage(1, 1, 0.1) + Usage(1, 1, 0.1)
    assert usage.cost_usd is not None
    assert usage.cost_usd > 0.3

    assert measure("cost_usd", replace(RUN, usage=usage)) == MetricScore(0.3)
    assert measure("cost_usd", replace(RUN, usage=Usage(1, 1, 2.5e-9))) == MetricScore(2.5e-9)


SILENT = replace(RUN, usage=None, trace=(), duration_s=0.0)
UNPRICED = replace(RUN, usage=Usage(1000, 200, None, ("acme-1",)))


@pytest.mark.parametrize(
    ("name", "run", "reason"),
    [
        ("tokens", SILENT, "the agent reports no tokens"),
        ("tokens", replace(RUN, usage=Usage()), "the agent reports no tokens"),
        ("output_tokens", SILENT, "the agent reports no tokens"),
        ("cost_usd", SILENT, "the agent reports no tokens and no cost"),
        ("cost_usd", UNPRICED, "no price for acme-1: add it to `prices`"),
        ("model_calls", SILENT, "without a trace model calls are not counted: set `trace: true` in `agent`"),
        ("latency_s", SILENT, "no latency is known"),
    ],
)
def test_an_unknown_figure_is_not_applicable(name: str, run: CaseRun, reason: str) -> None:
    assert measure(name, run) == NotApplicable(reason)


def test_a_run_with_mocked_tools_has_no_latency() -> None:
    mocks = EvalCase("a", tool_mocks=(ToolMock("find", 1),))
    recorded = EvalCase("a", tool_recording=ToolRecording("tools.json"))
    for name, is_known in (("latency_s", False), ("tool_calls", True)):
        metric = BudgetMetric.build(Criterion(f"budget/{name}", 9.0), CONTEXT)
        for case in (mocks, recorded):
            assert isinstance(asyncio.run(metric.score(case, RUN)), MetricScore) is is_known


def test_a_recorded_run_has_no_latency_and_no_model_calls_and_calls_of_tools_may_be_none() -> None:
    recorded = replace(CONTEXT, is_recording=True)
    assert measure("model_calls", RUN, recorded) == NotApplicable("a recording has no model calls")
    assert measure("latency_s", RUN, recorded) == NotApplicable("a recorded run has no latency")
    assert measure("tool_calls", replace(RUN, replies=(Reply("a"),))) == MetricScore(0.0)


def parse(criteria: Mapping[str, Any]) -> dict[str, Criterion]:
    return {each.metric: each for each in parse_thresholds({"criteria": criteria}, Path()).criteria}


def test_the_threshold_of_a_budget_is_its_max() -> None:
    found = parse(
        {"budget/tokens": 6000, "budget/turns": {"max": 4}, "budget/cost_usd": {"max_increase": 0.1}}
    )
    assert [each.threshold for each in found.values()] == [6000, 4, UNLIMITED]
    assert all(each.gates and each.range.lower_is_better for each in found.values())
    assert not parse({"budget/latency_s": 8})["budget/latency_s"].gates
    assert parse({"budget/latency_s": {"max": 8, "gates": True}})["budget/latency_s"].gates


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "must have `max`, `max_increase` or `p95`"),
        ("{max: -1}", "`criteria.budget/tokens.max` should be greater than or equal to 0"),
        ("{max: 0}", "has `max: 0`, which no run can keep"),
        ("{max_increase: 15}", "which allows 16 times as much: it is a share, and 0.15 allows 15 %"),
        ("{max: .nan}", "`criteria.budget/tokens.max` must be a finite number"),
        ("{max: many}", "`criteria.budget/tokens.max` must be a number, not 'many'"),
        (
            "{max_increase: -0.1}",
            "`criteria.budget/tokens.max_increase` should be greater than or equal to 0",
        ),
        ("{maxi: 1}", "`criteria.budget/tokens.maxi` is not a known key. Did you mean `max`?"),
        ("{max_increase: 1, min_mean: 3}", "has `min_mean`, which is for scores"),
        ("{max_increase: 1, threshold_rule: statistical}", "has `threshold_rule: statistical`"),
        ("{max_increase: 1, pass_hat_k: 2}", "counts the runs that keep `max`, which is missing"),
        ("{max: 5, threshold: 6}", "has the threshold 6 and `max: 5`: use `max` alone"),
    ],
)
def test_impossible_budgets_are_errors_at_their_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "evalgate.yaml"
    file.write_text(f"criteria:\n  response_match_score: 0.5\n  budget/tokens: {text}\n")
    try:
        problems = [*find_criterion_problems(load_thresholds(file, "evalgate.yaml"))]
    except InvalidInputError as error:
        problems = list(error.problems)
    assert message in problems[0].message
    assert problems[0].line == 3
    assert len(problems) == 1


def test_a_number_in_a_file_of_google_adk_is_max(tmp_path: Path) -> None:
    file = tmp_path / "test_config.json"
    file.write_text('{"criteria": {"response_match_score": 0.5, "budget/tokens": 3000}}')
    rules = load_thresholds(file, "test_config.json")
    assert not list(find_criterion_problems(rules))
    assert [(each.threshold, each.min_mean) for each in rules.effective_criteria] == [
        (0.5, 0.5),
        (3000, None),
    ]


def test_budgets_alone_join_the_criteria_next_to_an_eval_set() -> None:
    rules = parse_thresholds(
        {"criteria": {"budget/turns": 3}, "checks": {"a": {"response": {"max_words": 9}}}}, Path()
    )
    assert [each.metric for each in rules.checks_and_budgets] == ["budget/turns", "check/a"]


def test_a_percentile_of_turns_is_an_error() -> None:
    rules = parse_thresholds({"criteria": {"budget/turns": {"p95": 3}}}, Path())
    assert "the eval set decides" in next(find_criterion_problems(rules)).message
    others = {name: {"p95": 3} for name in BUDGETS if name != "budget/turns"}
    assert not list(find_criterion_problems(parse_thresholds({"criteria": others}, Path())))
