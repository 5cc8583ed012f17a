"""Failing cases that broke: a new way to fail needs more evidence if the case is flaky."""

from evalgate.core.types import (
    Baseline,
    BaselineCase,
    BaselineRun,
    BaselineSource,
    CaseMetric,
    CaseResult,
    RunMetric,
    Status,
)
from evalgate.gating.failure_reruns import FailureClassifier
from tests.builders import a_case_result, a_run_result

METRICS = "abcd"
ONE_METRIC_EACH = ("ab", "bc", "ca")
"""The metrics that each of three stored runs missed: never `d`."""
NEVER_FAILED = ("", "", "")


def a_stored_case(name: str, missed: tuple[str, ...]) -> BaselineCase:
    runs = tuple(
        BaselineRun(0, "answered", {metric: float(metric not in each) for metric in METRICS}, 1.0)
        for each in missed
    )
    return BaselineCase("travel", name, "passed", "f00d", dict.fromkeys(METRICS, "m"), runs)


def a_case_missing(name: str, missed: str, runs: int) -> CaseResult:
    """A case of which every run missed these metrics."""
    status: dict[str, Status] = {metric: "failed" if metric in missed else "passed" for metric in METRICS}
    metrics = tuple(
        CaseMetric(metric, float(metric not in missed), 1.0, status[metric], fingerprint="m")
        for metric in METRICS
    )
    made = tuple(
        a_run_result(
            run=run,
            metrics=tuple(
                RunMetric(metric, float(metric not in missed), status[metric]) for metric in METRICS
            ),
        )
        for run in range(1, runs + 1)
    )
    return a_case_result(name, "failed" if missed else "passed", metrics=metrics, runs=made)


def classify(before: tuple[str, ...], *, runs: int, flaky: int = 6) -> str:
    """Classify one case that misses `d` in every run, in a suite with so many flaky cases."""
    stored = [a_stored_case(f"flaky_{at}", ONE_METRIC_EACH) for at in range(flaky)]
    stored += [a_stored_case(f"steady_{at}", NEVER_FAILED) for at in range(13)]
    baseline = Baseline((a_stored_case("case", before), *stored), (BaselineSource("2026-11-20T00:00:00Z"),))
    others = [a_case_missing(each.eval_id, "", 1) for each in stored]
    classifier = FailureClassifier(baseline, keep=20, most=10)
    case, *_ = classifier.classify_failures([a_case_missing("case", "d", runs), *others])
    assert case.follow_up
    return case.follow_up.outcome


def test_a_case_that_never_failed_broke_after_a_few_failures() -> None:
    assert [classify(NEVER_FAILED, runs=runs, flaky=0) for runs in (2, 3)] == ["open", "broke"]
    assert classify(NEVER_FAILED, runs=6) == "broke"


def test_a_new_way_to_fail_of_a_flaky_case_takes_more() -> None:
    assert classify(ONE_METRIC_EACH, runs=6) == "open"
    assert classify(ONE_METRIC_EACH, runs=10) == "broke"


def test_stored_runs_without_a_score_of_the_metric_prove_nothing() -> None:
    without = BaselineRun(0, "answered", {**dict.fromkeys(METRICS, 1.0), "d": None}, 1.0)
    whole = BaselineRun(0, "answered", dict.fromkeys(METRICS, 1.0), 1.0)
    found = {}
    for scored in (0, 1, 20):
        runs = (whole,) * scored + (without,) * (20 - scored)
        stored = BaselineCase("travel", "case", "passed", "f00d", dict.fromkeys(METRICS, "m"), runs)
        baseline = Baseline((stored,), (BaselineSource("2026-11-20T00:00:00Z"),))
        classifier = FailureClassifier(baseline, keep=20, most=10)
        case = a_case_missing("case", "d", 4)
        (done,) = classifier.classify_failures([case])
        again = bool(classifier.plan_reruns([case]))
        found[scored] = (done.follow_up and (done.follow_up.outcome, done.follow_up.baseline_runs), again)
    # Without any score, the metric is like a new one: the failure counts, and needs no further runs.
    assert found == {0: (None, False), 1: (("open", 1), True), 20: (("broke", 20), False)}


def test_a_case_of_which_every_stored_run_crashed_is_run_again() -> None:
    crashed = BaselineRun(0, "crashed", dict.fromkeys(METRICS), 1.0)
    old = BaselineCase("travel", "case", "errored", "f00d", dict.fromkeys(METRICS, "m"), (crashed,) * 20)
    classifier = FailureClassifier(
        Baseline((old,), (BaselineSource("2026-11-20T00:00:00Z"),)), keep=20, most=10
    )
    case = a_case_missing("case", "d", 1)
    (done,) = classifier.classify_failures([case])
    assert done.follow_up
    assert done.follow_up.outcome == "open"
    assert classifier.plan_reruns([case]) == {0: (2,)}


def test_a_metric_without_a_stored_score_is_no_new_way_to_fail() -> None:
    stored = BaselineRun(0, "answered", {**dict.fromkeys(METRICS, 1.0), "a": 0.0, "d": None}, 1.0)
    old = BaselineCase("travel", "case", "failed", "f00d", dict.fromkeys(METRICS, "m"), (stored,) * 20)
    classifier = FailureClassifier(
        Baseline((old,), (BaselineSource("2026-11-20T00:00:00Z"),)), keep=20, most=10
    )
    case = a_case_missing("case", "a", 1)
    run = a_case_missing("case", "ad", 1).runs[0]
    assert classifier.has_new_failure(case, run) is False
