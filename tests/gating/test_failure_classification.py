"""Failing cases that broke: a new way to fail needs more evidence if the case is flaky."""

from dataclasses import replace

import pytest

from evalgate.config.schema.gate import GateConfig
from evalgate.core.types import (
    Baseline,
    BaselineCase,
    BaselineRun,
    BaselineSource,
    CaseMetric,
    CaseResult,
    FollowUp,
    Outcome,
    RunMetric,
    Status,
    Verdict,
)
from evalgate.gating.failure_classification import FailureClassifier
from evalgate.runner.regating import GateRules, regate_record
from tests.builders import a_case_result, a_record, a_run_result

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
    case, *_ = classifier.classify_cases([a_case_missing("case", "d", runs), *others])
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
        (done,) = classifier.classify_cases([case])
        again = bool(classifier.plan_follow_ups([case]))
        found[scored] = (done.follow_up and (done.follow_up.outcome, done.follow_up.baseline_runs), again)
    # Without any score, the metric is like a new one: the failure counts, and needs no further runs.
    assert found == {0: (None, False), 1: (("open", 1), True), 20: (("broke", 20), False)}


def a_stored_run(outcome: Outcome = "answered", **scores: float | None) -> BaselineRun:
    """A stored run in which the agent scored 1.0 in all other metrics; a crash has no score."""
    found = dict.fromkeys(METRICS, 1.0) | scores if outcome == "answered" else dict.fromkeys(METRICS)
    return BaselineRun(0, outcome, found, 1.0)


CRASHED = a_stored_run("crashed")
UNSCORED = a_stored_run(d=None)


def a_baseline(*runs: BaselineRun, status: Status = "passed") -> Baseline:
    case = BaselineCase("travel", "case", status, "f00d", dict.fromkeys(METRICS, "m"), runs)
    return Baseline((case,), (BaselineSource("2026-11-20T00:00:00Z", branch="main"),), path="b.json")


def decide(case: CaseResult, baseline: Baseline, runs: int) -> Verdict:
    """Decide by the failures of single cases alone; a second case passes."""
    cases = [
        replace(each, metrics=tuple(replace(metric, min_mean=0.0) for metric in each.metrics))
        for each in (case, a_case_missing("other", "", 1))
    ]
    rules = GateRules(GateConfig(baseline="b.json", max_regression=1), runs)
    return regate_record(a_record(*cases), rules, baseline).verdict


def test_a_case_of_which_every_stored_run_crashed_did_not_break() -> None:
    baseline = a_baseline(*[CRASHED] * 20, status="errored")
    classifier = FailureClassifier(baseline, keep=20, most=10)
    case = a_case_missing("case", "d", 3)

    (done,) = classifier.classify_cases([case])
    assert done.follow_up == FollowUp("excused", 3, 0, 0, baseline_runs=20, baseline_failed=20)
    assert classifier.plan_follow_ups([case]) == {}
    assert decide(case, baseline, 3).status == "pass"


@pytest.mark.parametrize(
    ("stored", "runs", "sentence"),
    [
        ([a_stored_run()] * 20, 3, "case broke: failed all 3 runs; passed 20 of 20 on main."),
        (
            [*[CRASHED] * 19, a_stored_run()],
            10,
            "case broke: failed all 10 runs; passed 1 of 1 on main (19 more without a score).",
        ),
        (
            [*[UNSCORED] * 17, *[a_stored_run()] * 3],
            10,
            "case broke: failed all 10 runs; passed 3 of 3 on main (17 more without a score).",
        ),
        (
            [*[a_stored_run(a=0.0)] * 12, *[a_stored_run()] * 8],
            10,
            "case broke: failed all 10 runs; passed 8 of 20 on main (12 failed in another way).",
        ),
        (
            [CRASHED, UNSCORED, a_stored_run(a=0.0), *[a_stored_run()] * 17],
            10,
            (
                "case broke: failed all 10 runs; passed 17 of 18 on main (1 failed in another way; "
                "2 more without a score)."
            ),
        ),
    ],
)
def test_only_stored_runs_that_passed_are_said_to_have_passed(
    stored: list[BaselineRun], runs: int, sentence: str
) -> None:
    assert decide(a_case_missing("case", "d", runs), a_baseline(*stored), runs).reasons[0] == sentence


def test_a_crash_is_told_apart_from_other_failures_of_the_stored_runs() -> None:
    case = replace(
        a_case_missing("case", "", 1),
        status="errored",
        runs=tuple(a_run_result(run=run, outcome="crashed") for run in range(1, 11)),
    )
    assert decide(case, a_baseline(*[a_stored_run(a=0.0)] * 20), 10).reasons[0] == (
        "case broke: crashed or timed out in all 10 runs; passed 0 of 20 on main (20 failed in another way)."
    )


def test_no_run_follows_a_failure_that_no_stored_run_can_excuse() -> None:
    baseline = a_baseline(*[UNSCORED] * 20)
    classifier = FailureClassifier(baseline, keep=20, most=10)
    for missed, again in (("a", {0: (2,)}), ("d", {}), ("ad", {})):
        case = a_case_missing("case", missed, 1)
        assert classifier.plan_follow_ups([case]) == again
        assert decide(case, baseline, 1).status == ("inconclusive" if again else "fail")
        assert decide(replace(case, fingerprint="new"), baseline, 1).status == "fail"


def test_a_metric_without_a_stored_score_is_no_new_way_to_fail() -> None:
    stored = BaselineRun(0, "answered", {**dict.fromkeys(METRICS, 1.0), "a": 0.0, "d": None}, 1.0)
    old = BaselineCase("travel", "case", "failed", "f00d", dict.fromkeys(METRICS, "m"), (stored,) * 20)
    classifier = FailureClassifier(
        Baseline((old,), (BaselineSource("2026-11-20T00:00:00Z"),)), keep=20, most=10
    )
    case = a_case_missing("case", "a", 1)
    run = a_case_missing("case", "ad", 1).runs[0]
    assert classifier.has_new_failure(case, run) is False
