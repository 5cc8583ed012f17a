"""Scoring a run, a case and the whole run; failures stay failures."""

import math
from dataclasses import dataclass, replace
from typing import Any

import pytest

from evalgate.core.types import (
    CasePolicy,
    CaseResult,
    CaseRun,
    Criterion,
    EvalCase,
    Failure,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
    Quarantine,
    ScopedThreshold,
    TurnScore,
    Usage,
    UserMessage,
)
from evalgate.metrics.metric_summaries import (
    compute_totals,
    describe_inconsistent_cases,
    describe_partly_scored_cases,
    summarize_metrics,
)
from evalgate.metrics.scoring import BoundMetric, score_case, score_run
from tests.builders import a_case, a_reply, a_turn


@dataclass(frozen=True)
class FakeMetric:
    result: MetricResult

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        return self.result


@dataclass(frozen=True)
class RaisingMetric:
    error: BaseException

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        raise self.error


def bound(result: MetricResult, threshold: float = 0.8, name: str = "m") -> BoundMetric:
    return BoundMetric(Criterion(name, threshold), FakeMetric(result))


def answered(run: int = 1) -> CaseRun:
    return CaseRun(run, "answered", (a_reply(),), 0.5, Usage(10, 5, 0.25))


def misscored(score: Any) -> MetricScore:
    return MetricScore(score)


CRASHED = CaseRun(2, "crashed", (), 0.1, None, Failure("exited", "the agent's process ended"))


async def case_of(runs: list[CaseRun], *metrics: BoundMetric) -> CaseResult:
    return score_case("set", a_case(), [await score_run(a_case(), run, metrics) for run in runs], metrics)


@pytest.mark.parametrize(
    ("result", "score", "status", "reason"),
    [
        (MetricScore(0.8), 0.8, "passed", ""),
        (MetricScore(0.79, reason="too short"), 0.79, "failed", "too short"),
        (NotApplicable("no reference"), None, "not_evaluated", "no reference"),
        (MetricFailure("judge down"), None, "errored", "judge down"),
    ],
)
async def test_each_result_of_a_metric_stays_what_it_is(
    result: MetricResult, score: float | None, status: str, reason: str
) -> None:
    case = await case_of([answered()], bound(result))
    metric = case.metrics[0]
    assert (metric.score, metric.status, metric.reason, case.status) == (score, status, reason, status)


async def test_a_full_score_is_written_as_the_metric_gave_it() -> None:
    scores = [
        (await score_run(a_case(), answered(), [bound(misscored(one))])).metrics[0].score
        for one in (1.0, 1, 1.0, 1)
    ]
    assert [type(score) for score in scores] == [float, int, float, int]


@pytest.mark.parametrize(
    ("error", "reason"),
    [(KeyError("colour"), "KeyError: 'colour'"), (SystemExit(3), "SystemExit: 3")],
)
async def test_a_metric_that_raises_is_a_failed_metric(error: BaseException, reason: str) -> None:
    metrics = [BoundMetric(Criterion("m", 1.0), RaisingMetric(error)), bound(MetricScore(1.0), name="other")]
    case = await case_of([answered()], *metrics)
    assert case.metrics[0].status == "errored"
    assert case.metrics[0].reason == f"the metric raised {reason}"
    assert case.metrics[1].status == "passed"
    assert case.status == "errored"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (None, "the metric gave no result, but a value of type NoneType"),
        (0.5, "the metric gave no result, but a value of type float"),
        (MetricScore(math.nan), "the metric gave the score nan, no finite number"),
        (MetricScore(math.inf), "the metric gave the score inf, no finite number"),
        (
            MetricScore(1.0, (TurnScore(None), TurnScore(math.nan))),
            "the metric gave the score nan, no finite number",
        ),
        (misscored("good"), "the metric gave the score 'good', no finite number"),
    ],
)
async def test_what_is_no_result_is_a_failed_metric(given: Any, reason: str) -> None:
    case = await case_of([answered()], bound(given))
    assert (case.metrics[0].status, case.metrics[0].score, case.metrics[0].reason) == (
        "errored",
        None,
        reason,
    )


async def test_a_crash_is_never_a_score_but_stays_in_the_case() -> None:
    case = await case_of([answered(), CRASHED], bound(MetricScore(1.0)))
    assert case.status == "errored"
    assert case.metrics[0].status == "errored"
    assert case.metrics[0].score is None
    assert case.runs[0].metrics[0].score == 1.0
    assert case.metrics[0].reason == "the agent's process ended"
    assert [run.metrics == () for run in case.runs] == [False, True]
    summary = summarize_metrics([case])[0]
    assert (summary.n, summary.errors) == (1, 1)


async def test_turns_are_never_zipped_away() -> None:
    case = a_case("two", a_turn("one"), a_turn("two"))
    run = CaseRun(1, "answered", (a_reply("a"),))
    result = await score_run(
        case, run, [bound(MetricScore(0.5, (TurnScore(1.0), TurnScore(0.0, "no such turn"))))]
    )
    assert [turn.user for turn in result.turns] == ["one", "two"]
    assert result.turns[1].actual is None
    assert result.turns[1].metrics[0].reason == "no such turn"
    longer = CaseRun(1, "answered", (a_reply("a"), a_reply("b"), a_reply("c")))
    assert (await score_run(case, longer, [])).turns[2].expected is None


async def test_a_last_message_without_an_answer_is_recorded() -> None:
    said = (UserMessage("hi"), UserMessage("crash, please"))
    run = CaseRun(1, "crashed", (a_reply("hello"),), failure=Failure("exception", "boom"), said=said)

    turns = (await score_run(EvalCase("played", ()), run, [])).turns

    assert [(turn.user, turn.actual, turn.expected) for turn in turns] == [
        ("hi", a_reply("hello"), None),
        ("crash, please", None, None),
    ]


async def test_a_case_score_is_the_mean_of_its_runs() -> None:
    runs = [
        (await score_run(a_case(), answered(n), [bound(MetricScore(score))]))
        for n, score in enumerate((1.0, 0.5), 1)
    ]
    case = score_case("set", a_case(), runs, [bound(MetricScore(0))])
    assert (case.metrics[0].score, case.status) == (0.75, "failed")
    assert describe_inconsistent_cases([case]) == "1 case did not end the same way in every run: weather."
    assert (
        describe_inconsistent_cases([replace(case, quarantine=Quarantine("anna", "slow", "2026-12-31"))])
        == ""
    )


async def test_the_owner_of_a_metric_may_judge_otherwise() -> None:
    lenient, strict = MetricScore(0.7999999999, passed=True), MetricScore(0.9, passed=False)
    assert (await case_of([answered()], bound(lenient))).status == "passed"
    case = await case_of([answered()], bound(strict))
    assert (case.status, case.metrics[0].score) == ("failed", 0.9)
    assert summarize_metrics([await case_of([answered()], bound(lenient))])[0].status == "passed"
    runs = [
        await score_run(a_case(), answered(n), [bound(MetricScore(score, passed=True))])
        for n, score in enumerate((1.0, 0.5), 1)
    ]
    assert score_case("set", a_case(), runs, [bound(MetricScore(0))]).status == "passed"


async def test_runs_without_a_score_next_to_scored_runs_are_named() -> None:
    half, none = MetricScore(1.0), NotApplicable("no idea")
    results: tuple[MetricResult, ...] = (half, none, none)
    runs = [
        await score_run(a_case(), answered(n), [bound(result), bound(half, name="other")])
        for n, result in enumerate(results, 1)
    ]
    metrics = [bound(half), bound(half, name="other")]
    case = score_case("set", a_case(), runs, metrics)

    assert [*describe_partly_scored_cases([case, replace(case, eval_id="b")])] == [
        "m has no score in 4 of 6 runs of 2 cases (weather, b): its mean is that of the rest. The first reason: no idea"
    ]
    assert [*describe_partly_scored_cases([case])] == [
        "m has no score in 2 of 3 runs of 1 case (weather): its mean is that of the rest. The first reason: no idea"
    ]
    for whole in (score_case("set", a_case(), some, metrics) for some in (runs[:1], runs[1:], [])):
        assert [*describe_partly_scored_cases([whole])] == []
    assert [*describe_partly_scored_cases([replace(case, observed=True)])] == []


@pytest.mark.parametrize(
    ("scores", "threshold"), [((0.6, 0.8, 1.0), 0.8), ((0.0, 0.0, 0.3), 0.1), ((0.1, 0.7), 0.4)]
)
async def test_rounding_errors_of_a_mean_do_not_miss_a_threshold(
    scores: tuple[float, ...], threshold: float
) -> None:
    """The plain mean of these doubles is the next double below the threshold."""
    assert math.fsum(scores) / len(scores) < threshold
    metrics = [bound(MetricScore(score), threshold) for score in scores]
    runs = [await score_run(a_case(), answered(n), [each]) for n, each in enumerate(metrics, 1)]

    case = score_case("set", a_case(), runs, metrics[:1])

    assert (case.status, case.metrics[0].score) == ("passed", threshold)
    cases = [score_case("set", a_case(), [run], metrics[:1]) for run in runs]
    assert [(each.score, each.status) for each in summarize_metrics(cases)] == [(threshold, "passed")]


async def test_a_single_score_just_below_the_threshold_misses_it() -> None:
    score = math.nextafter(0.8, 0)

    case = await case_of([answered()], bound(MetricScore(score)))

    assert (case.status, case.metrics[0].score) == ("failed", score)
    assert [(each.score, each.status) for each in summarize_metrics([case])] == [(score, "failed")]
    runs = [await score_run(a_case(), answered(n), [bound(MetricScore(score))]) for n in (1, 2)]
    assert score_case("set", a_case(), runs, [bound(MetricScore(0))]).status == "failed"


async def test_totals_add_up() -> None:
    cases = [
        await case_of([answered()], bound(MetricScore(1.0))),
        await case_of([answered()], bound(MetricScore(0.0))),
        await case_of([CRASHED], bound(MetricScore(1.0))),
        await case_of([answered()], bound(NotApplicable("n/a"))),
    ]
    totals = compute_totals(cases)
    assert (totals.passed, totals.failed, totals.errored, totals.not_evaluated, totals.cases) == (
        1,
        1,
        1,
        1,
        4,
    )
    assert (totals.input_tokens, totals.output_tokens, totals.cost_usd) == (30, 15, 0.75)
    summary = summarize_metrics(cases)[0]
    assert (summary.score, summary.n, summary.errors) == (0.5, 3, 1)


async def test_one_name_with_two_thresholds_gives_two_summaries() -> None:
    strict, lenient = bound(MetricScore(0.9), 1.0), bound(MetricScore(0.9), 0.5)
    cases = [
        score_case(name, a_case(), [await score_run(a_case(), answered(), [metric])], [metric])
        for name, metric in (("one", strict), ("two", lenient))
    ]
    assert [(s.threshold, s.status, s.eval_sets) for s in summarize_metrics(cases)] == [
        (1.0, "failed", ("one",)),
        (0.5, "passed", ("two",)),
    ]


async def test_a_mean_goes_by_the_weights_of_the_cases() -> None:
    heavy, light = bound(MetricScore(1.0), 0.9), bound(MetricScore(0.0), 0.9)
    cases = [
        score_case(
            "set", a_case(), [await score_run(a_case(), answered(), [metric])], [metric], case_policy=policy
        )
        for metric, policy in ((heavy, CasePolicy(weight=3)), (light, CasePolicy()))
    ]
    [summary] = summarize_metrics(cases)
    assert (summary.score, summary.status, summary.n) == (0.75, "failed", 2)


async def test_cases_with_a_threshold_of_their_own_are_summed_up_apart() -> None:
    lenient = bound(MetricScore(0.6), 0.9).apply_threshold(ScopedThreshold(0.5, "tag hard"))
    strict = bound(MetricScore(0.9), 0.9)
    cases = [
        score_case("set", a_case(), [await score_run(a_case(), answered(), [metric])], [metric])
        for metric in (strict, lenient)
    ]
    assert [(s.scope, s.threshold, s.score, s.status) for s in summarize_metrics(cases)] == [
        ("", 0.9, 0.9, "passed"),
        ("tag hard", 0.5, 0.6, "passed"),
    ]


@pytest.mark.parametrize(
    ("score", "kept"), [(1.0000000000000002, 1.0), (-1e-10, 0.0), (1.1, 1.1), (0.9999999999, 0.9999999999)]
)
async def test_a_score_beyond_the_range_by_rounding_is_the_end_of_it(score: float, kept: float) -> None:
    found = await score_run(a_case(), answered(), (bound(MetricScore(score)),))
    assert found.metrics[0].score == kept


@dataclass(frozen=True)
class WayMetric:
    """Metric that scores 1.0 if the case expects one text, else 0.0."""

    wanted: str

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        return MetricScore(1.0 if case.turns[0].expected.response == self.wanted else 0.0)


async def test_metrics_that_only_report_do_not_choose_the_way_that_a_run_is_scored_against() -> None:
    case = replace(a_case("c", a_turn(expected=a_reply("gate"))), alternatives=((a_reply("report"),),))
    metrics = [
        BoundMetric(Criterion(name, 1.0, gates=gates), WayMetric(wanted))
        for name, gates, wanted in [("m", True, "gate"), ("n", False, "report"), ("o", False, "report")]
    ]

    for ways in (
        case,
        replace(case, turns=(a_turn(expected=a_reply("report")),), alternatives=((a_reply("gate"),),)),
    ):
        result = await score_run(ways, answered(), metrics)

        assert [metric.score for metric in result.metrics] == [1.0, 0.0, 0.0]
