"""The averages at which `runs: auto` stopped, corrected, line by line and in words."""

from dataclasses import replace

import pytest

from evalgate.baselines.history import build_baseline
from evalgate.config.schema.gate import GateConfig
from evalgate.core.types import BaselineSource, CaseMetric, CaseResult, MetricSummary, Record, RunMetric
from evalgate.runner.regating import GateRules, regate_record
from tests.builders import RESPONSE, a_case_result, a_record, a_run_result


def case(number: int, scores: str, *, scope: str = "") -> CaseResult:
    threshold = 0.6 if scope else 0.5
    metric = CaseMetric(RESPONSE, None, threshold, "not_evaluated", fingerprint="m", scope=scope)
    runs = tuple(
        a_run_result(run=run, metrics=(RunMetric(RESPONSE, float(letter), "passed"),))
        for run, letter in enumerate(scores, 1)
    )
    return a_case_result(f"case_{number:02d}", metrics=(metric,), runs=runs)


def run(now: str, *, runs: int | str = "auto", split: int = 20) -> Record:
    """Twenty cases, whose first ten are flaky; those from `split` on have a tag."""
    stored = ["1101101101"] * 10 + ["1111111111"] * 10
    scopes = ["" if number < split else "tag b" for number in range(20)]
    before = a_record(*[case(at, each, scope=scopes[at]) for at, each in enumerate(stored)])
    record = a_record(*[case(at, each, scope=scopes[at]) for at, each in enumerate(now)])
    source = BaselineSource("2026-11-20T00:00:00Z", "0123456789ab", "main")
    rules = GateRules(GateConfig(baseline="b.json", max_failed_cases=20), "auto" if runs == "auto" else 1)
    return regate_record(record, rules, build_baseline(before, source, "b.json"))


def run_with_outage(lost: int) -> Record:
    """Compare 20 cases with themselves: half of them always fail, and the judge failed in so many others."""
    stored = ["0000"] * 10 + ["1111"] * 10
    before = a_record(*[case(at, each) for at, each in enumerate(stored)])
    down = a_run_result(run=4, metrics=(RunMetric(RESPONSE, None, "errored", "the judge is down"),))
    made = [case(at, each) for at, each in enumerate(stored)]
    made[20 - lost :] = [replace(each, runs=(*each.runs[:3], down)) for each in made[20 - lost :]]
    source = BaselineSource("2026-11-20T00:00:00Z", "0123456789ab", "main")
    rules = GateRules(GateConfig(baseline="b.json"), 4)
    return regate_record(a_record(*made), rules, build_baseline(before, source, "b.json"))


def test_an_outage_of_the_judge_closes_nothing() -> None:
    assert [run_with_outage(lost).verdict.status for lost in (0, 8)] == ["pass", "pass"]
    record = run_with_outage(10)
    (metric,) = record.metrics
    # The mean is below what each case must score, which is no minimum of the mean beside a baseline.
    assert metric.score is not None
    assert metric.score < metric.threshold
    assert (metric.status, metric.mean_judged_by) == ("passed", "baseline")
    assert (record.verdict.status, record.verdict.exit_code) == ("error", 3)
    assert record.verdict.reasons[0] == (
        f"{RESPONSE}: Not enough data: 10 of 80 runs have no score (judge or API errors)."
    )


NOTICE = "`runs: auto` stops at averages that look good"
USUAL = "1110110110" + "1" * 10


def taken_off(metric: MetricSummary) -> float:
    assert metric.score is not None
    assert metric.corrected_score is not None
    return metric.score - metric.corrected_score


def test_the_average_that_stopped_the_rounds_is_corrected_and_said() -> None:
    record = run(USUAL)
    (metric,) = record.metrics

    assert metric.score == pytest.approx(0.85)
    assert metric.corrected_score is not None
    assert 0.80 < metric.corrected_score < 0.85
    (told,) = [notice for notice in record.notices if notice.startswith(NOTICE)]
    assert f"{RESPONSE} {metric.corrected_score:.2f} instead of 0.85" in told
    assert record.verdict.status == "pass"
    assert metric.delta == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("now", "runs"),
    [(USUAL, 1), ("0" * 20, "auto")],
    ids=["a fixed number of runs stops at nothing", "a fail is no good look"],
)
def test_other_averages_stay_as_they_are(now: str, runs: int | str) -> None:
    record = run(now, runs=runs)

    assert [metric.corrected_score for metric in record.metrics] == [None]
    assert not [notice for notice in record.notices if notice.startswith(NOTICE)]


def test_a_line_is_corrected_by_what_it_had_to_do_with_it() -> None:
    whole = run(USUAL).metrics[0]
    flaky, steady = run(USUAL, split=10).metrics

    assert steady.corrected_score is None
    assert taken_off(flaky) == pytest.approx(2 * taken_off(whole))
