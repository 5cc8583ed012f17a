"""Scores from 1 to 5 are judged as the same scores from 0 to 1 are, and told in their own numbers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalgate.baseline import baseline_of
from evalgate.commands.rejudge import Rules, rejudged
from evalgate.config import GateConfig
from evalgate.model import (
    CaseMetric,
    CaseResult,
    Criterion,
    Judgement,
    MetricSummary,
    Record,
    RunMetric,
    Standing,
)
from evalgate.scoring.ranges import UNIT, Range, range_of
from tests.builders import a_case_result, a_record, a_run_result

OWN = "response_evaluation_score"
GATE = GateConfig(baseline="b.json", max_regression=0.1)
Scores = Sequence[float]


def cases(name: str, scores: Sequence[Scores], threshold: float) -> Iterator[CaseResult]:
    known = range_of(name)
    for number, own in enumerate(scores):
        metric = CaseMetric(name, None, threshold, "not_evaluated", fingerprint="m")
        runs = tuple(
            a_run_result(run=run, metrics=(RunMetric(name, known.score(score), "passed"),))
            for run, score in enumerate(own, 1)
        )
        yield a_case_result(f"case_{number}", metrics=(metric,), runs=runs)


def judged(
    name: str, before: Sequence[Scores], now: Sequence[Scores], threshold: float, own: float | None = None
) -> Record:
    known, runs = range_of(name), len(now[0])
    criterion = Criterion(name, known.score(threshold), max_regression=own and own * known.width)
    baseline = baseline_of(a_record(*cases(name, before, criterion.threshold)))
    record = a_record(*cases(name, now, criterion.threshold))
    return rejudged(record, Rules(GATE, runs, {name: criterion}), baseline)


def figures(metric: MetricSummary, known: Range) -> object:
    """What is said of a metric, as if its scores were between 0 and 1."""
    judgement = metric.judgement
    assert judgement is not None
    levels = [metric.score, metric.baseline, metric.flip.limit if metric.flip else None]
    moves = [metric.delta, metric.flip.distance if metric.flip else None, *points(judgement)]
    counts = [metric.status, metric.regressed, judgement.verdict, judgement.reason, judgement.p]
    return [
        *counts,
        *(None if each is None else round(known.share(each), 9) for each in levels),
        *(None if each is None else round(each / known.width, 9) + 0.0 for each in moves),
    ]


def points(judgement: Judgement) -> list[float | None]:
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
@given(suites, sixteenths, st.none() | st.sampled_from([0.05, 0.25]))
def test_the_verdict_does_not_depend_on_how_scores_are_written(
    suite: list[tuple[list[float], list[float]]], threshold: float, own: float | None
) -> None:
    before, now = zip(*suite, strict=True)
    plain = judged("m", before, now, threshold, own)
    ours = judged(OWN, before, now, threshold, own)

    assert figures(ours.metrics[0], range_of(OWN)) == figures(plain.metrics[0], UNIT)
    assert ours.verdict.status == plain.verdict.status
    assert [shares(each, range_of(OWN)) for each in ours.cases] == [
        shares(each, UNIT) for each in plain.cases
    ]


def shares(case: CaseResult, known: Range) -> Standing | None:
    """How a case stands, as if its scores were between 0 and 1."""
    found = case.metrics[0].standing
    if found is None:
        return None
    mean, then = (
        None if each is None else round(known.share(each), 9) for each in (found.mean, found.baseline_mean)
    )
    return replace(found, mean=mean, baseline_mean=then)


def test_a_drop_is_told_in_the_metrics_own_numbers() -> None:
    before = [[0.75] * 10] * 10
    found = judged(OWN, before, [[0.5] * 10] * 10, 0.25)

    assert found.verdict.status == "fail"
    assert found.metrics[0].judgement is not None
    assert (
        found.metrics[0]
        .judgement.sentences[0]
        .startswith("Regression: the average fell 25 points (4.00 → 3.00) over 10 cases × 10 runs.")
    )
    assert (found.metrics[0].baseline, found.metrics[0].delta) == (4.0, -1.0)


def test_a_crash_is_the_worst_score_of_the_range() -> None:
    name, known = OWN, range_of(OWN)
    baseline = baseline_of(a_record(*cases(name, [[1.0]] * 4, 1.0)))
    crashed = [a_run_result(outcome="crashed")]
    now = [replace(case, runs=tuple(crashed)) for case in cases(name, [[1.0]] * 4, 1.0)]
    found = rejudged(a_record(*now), Rules(GATE, 1, {name: Criterion(name, 1.0)}), baseline).metrics[0]

    assert found.baseline == known.high
    assert found.delta == -known.width
