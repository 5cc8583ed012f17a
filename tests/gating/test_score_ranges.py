"""Scores of another range are judged as the same scores from 0 to 1 are, and reported in their own numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalgate.baselines.history import build_baseline
from evalgate.config.schema.gate import GateConfig
from evalgate.config.schema.thresholds import Config
from evalgate.core.protocols import Reporter
from evalgate.core.score_ranges import UNIT_RANGE, Range
from evalgate.core.types import (
    CaseComparison,
    CaseMetric,
    CaseResult,
    Criterion,
    GateInput,
    MetricComparison,
    MetricSummary,
    Record,
    RunMetric,
)
from evalgate.datasets.results_io import dump_record, load_record
from evalgate.gating.comparison import flag_regressions
from evalgate.gating.verdict import decide_verdict
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.reporting.html.reporter import HtmlReport
from evalgate.reporting.terminal import TerminalReport
from evalgate.runner.regating import GateRules, regate_record
from tests.builders import a_case_result, a_record, a_run_result

FIVE = Range(1.0, 5.0)
RANGES = (FIVE, Range(-8.0, 8.0), Range(0.0, 256.0))
GATE = GateConfig(baseline="b.json", max_regression=0.1)
Scores = Sequence[float]


def cases(known: Range, scores: Sequence[Scores], threshold: float) -> Iterator[CaseResult]:
    for number, own in enumerate(scores):
        metric = CaseMetric("m", None, threshold, "not_evaluated", fingerprint="m", range=known)
        runs = tuple(
            a_run_result(run=run, metrics=(RunMetric("m", known.to_score(score), "passed"),))
            for run, score in enumerate(own, 1)
        )
        yield a_case_result(f"case_{number}", metrics=(metric,), runs=runs)


def judged(
    known: Range, before: Sequence[Scores], now: Sequence[Scores], threshold: float, own: float | None = None
) -> Record:
    drop = own and own * known.width
    criterion = Criterion("m", known.to_score(threshold), max_regression=drop, range=known)
    baseline = build_baseline(a_record(*cases(known, before, criterion.threshold)))
    record = a_record(*cases(known, now, criterion.threshold))
    return regate_record(record, GateRules(GATE, len(now[0]), {"m": criterion}), baseline)


def figures(metric: MetricSummary, known: Range) -> object:
    """What is said of a metric, as if its scores were between 0 and 1."""
    judgement = metric.judgement
    assert judgement is not None
    levels = [metric.score, metric.baseline, metric.flip.limit if metric.flip else None]
    moves = [metric.delta, metric.flip.distance if metric.flip else None, *points(judgement)]
    counts = [metric.status, metric.regressed, judgement.verdict, judgement.reason, judgement.p]
    return [
        *counts,
        *(None if each is None else round(known.to_share(each), 9) for each in levels),
        *(None if each is None else round(each / known.width, 9) + 0.0 for each in moves),
    ]


def points(judgement: MetricComparison) -> list[float | None]:
    found = judgement
    return [found.max_drop, found.drop, found.noise, found.low, found.high, found.notice]


# Exact in both ranges: a last bit must not decide at a threshold.
sixteenths = st.integers(0, 16).map(lambda number: number / 16)
suites = st.integers(1, 4).flatmap(
    lambda runs: st.lists(
        st.tuples(*[st.lists(sixteenths, min_size=runs, max_size=runs)] * 2), min_size=1, max_size=8
    )
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(suites, sixteenths, st.none() | st.sampled_from([0.05, 0.25]), st.sampled_from(RANGES))
def test_the_verdict_does_not_depend_on_how_scores_are_written(
    suite: list[tuple[list[float], list[float]]], threshold: float, own: float | None, known: Range
) -> None:
    before, now = zip(*suite, strict=True)
    usual = judged(UNIT_RANGE, before, now, threshold, own)
    ours = judged(known, before, now, threshold, own)

    assert figures(ours.metrics[0], known) == figures(usual.metrics[0], UNIT_RANGE)
    assert ours.verdict.status == usual.verdict.status
    assert [shares(each, known) for each in ours.cases] == [shares(each, UNIT_RANGE) for each in usual.cases]


@pytest.mark.parametrize("known", [UNIT_RANGE, *RANGES])
@pytest.mark.parametrize(("own", "status"), [(1.0, "pass"), (0.9, "fail")])
def test_a_limit_that_spans_the_range_allows_the_drop_of_a_case(
    known: Range, own: float, status: str
) -> None:
    record = judged(known, [[1.0] * 10] * 8, [[0.0] * 10, *[[1.0] * 10] * 7], 0.0, own)

    assert record.verdict.status == status
    assert record.metrics[0].regressed == (status == "fail")


def shares(case: CaseResult, known: Range) -> CaseComparison | None:
    """How a case stands, as if its scores were between 0 and 1."""
    found = case.metrics[0].standing
    if found is None:
        return None
    mean, then = (
        None if each is None else round(known.to_share(each), 9) for each in (found.mean, found.baseline_mean)
    )
    return replace(found, mean=mean, baseline_mean=then)


LOST = judged(FIVE, [[0.75] * 10] * 10, [[0.5] * 10] * 10, 0.25)
"""From 4.0 to 3.0."""


@pytest.mark.parametrize(
    "report", [CommentReport(), TerminalReport(), HtmlReport()], ids=lambda each: each.file_name
)
def test_every_report_tells_a_drop_in_the_metrics_own_numbers(report: Reporter) -> None:
    text = report.render(LOST)
    assert ": the average fell 1.00 (4.00 → 3.00) over 10 cases × 10 runs." in text
    assert "−1.00" in text
    assert " points" not in text


def test_a_drop_is_compared_in_the_metrics_own_numbers() -> None:
    assert LOST.verdict.status == "fail"
    assert (LOST.metrics[0].baseline, LOST.metrics[0].delta, LOST.metrics[0].range) == (4.0, -1.0, (1.0, 5.0))
    plainly = replace(LOST.metrics[0], judgement=None)
    for delta, status in ((-0.4, "fail"), (-0.39, "pass")):
        metrics = flag_regressions([replace(plainly, delta=delta)], GATE, {})
        verdict = decide_verdict(GateInput(metrics, LOST.cases, LOST.totals), GATE)
        assert verdict.status == status
        if status == "fail":
            expected = "regressed by 0.40 (4.00 → 3.60); allowed is less than 0.40."
            assert verdict.reasons[0].endswith(expected)


def test_a_drop_of_scores_out_of_range_has_the_limit_of_its_criterion() -> None:
    before, now = [[1.4] * 10] * 5, [[1.2] * 10] * 5
    sentence = "m regressed by 0.80 (6.60 → 5.80); allowed is less than 0.60."
    for own, reasons in ((0.5, None), (0.15, (sentence,))):
        found = judged(FIVE, before, now, 0.25, own)
        (metric,) = found.metrics
        assert metric.judgement is None
        assert metric.regressed == bool(reasons)
        assert found.verdict.status == ("fail" if reasons else "pass")
        assert reasons is None or found.verdict.reasons == reasons
        # `decide` of the library has the record, and not the criteria.
        evidence = GateInput(found.metrics, found.cases, found.totals, found.comparison)
        assert decide_verdict(evidence, GateConfig()).status == found.verdict.status


def test_a_crash_is_the_worst_score_of_the_range() -> None:
    baseline = build_baseline(a_record(*cases(FIVE, [[1.0]] * 4, 1.0)))
    crashed = [a_run_result(outcome="crashed")]
    now = [replace(case, runs=tuple(crashed)) for case in cases(FIVE, [[1.0]] * 4, 1.0)]
    criterion = Criterion("m", 1.0, range=FIVE)
    found = regate_record(a_record(*now), GateRules(GATE, 1, {"m": criterion}), baseline).metrics[0]

    assert found.baseline == FIVE.high
    assert found.delta == -FIVE.width


def test_the_catalogue_knows_the_range_of_its_metrics() -> None:
    config = Config.model_validate(
        {"custom_metrics": {"wit": {"entry": "a.b", "range": [-10, 10]}, "joy": "a.c"}}
    )
    names = ("response_evaluation_score", "response_match_score", "wit", "joy")
    assert [config.get_score_range(name) for name in names] == [(1, 5), (0, 1), (-10, 10), (0, 1)]


def test_a_result_says_the_range_of_its_metrics_where_it_is_another() -> None:
    again = load_record(dump_record(LOST), "results.json")
    assert (again.metrics[0].range, again.cases[0].metrics[0].range) == ((1.0, 5.0), (1.0, 5.0))
    assert dump_record(judged(UNIT_RANGE, [[1.0]], [[1.0]], 0.5)).count("range") == 0


@pytest.mark.parametrize(
    ("score", "judged_by_luck"), [(1.0000000000000002, True), (1 + 1e-9, True), (1.5, False), (-1e-17, True)]
)
def test_what_rounding_adds_switches_no_statistics_off(score: float, judged_by_luck: bool) -> None:
    """A score beyond the range, and what the record says of it."""
    before = [[1.0] * 10] * 5
    found = judged(UNIT_RANGE, before, [[score], *[[1.0]] * 4], 0.0)
    assert (found.metrics[0].judgement is not None) is judged_by_luck
    said = [notice for notice in found.notices if "without statistics" in notice]
    expected = (
        "m is compared by its plain mean, without statistics: case_0 scored 1.5, and scores lie between"
    )
    assert judged_by_luck or [notice.startswith(expected) for notice in said] == [True]
    assert not (judged_by_luck and said)
