"""What changed since the baseline."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.baselines.history import add_run, build_baseline
from evalgate.core.types import (
    Baseline,
    BaselineSource,
    CaseMetric,
    CaseResult,
    FollowUp,
    MetricComparison,
    RunMetric,
    Status,
)
from evalgate.gating.case_changes import (
    add_deltas,
    build_comparison,
    describe_missing_checks,
    explain_missing_deltas,
)
from evalgate.metrics.metric_summaries import summarize_metrics
from evalgate.reporting.baseline_lines import find_still_failing, format_change_counts
from tests.builders import TRAJECTORY, a_case_result, a_record, a_run_result


def scored(eval_id: str, score: float, status: Status | None = None, fingerprint: str = "f") -> CaseResult:
    status = status or ("passed" if score == 1 else "failed")
    case = a_case_result(
        eval_id,
        status,
        metrics=(CaseMetric(TRAJECTORY, score, 1.0, status),),
        runs=(a_run_result(metrics=(RunMetric(TRAJECTORY, score, status),)),),
    )
    return replace(case, fingerprint=fingerprint)


def baseline(*cases: CaseResult) -> Baseline:
    return build_baseline(a_record(*cases), path="b.json")


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (scored("a", 1.0), scored("a", 0.0), "newly_failing"),
        (scored("a", 1.0), scored("a", 0.0, "errored"), None),
        (
            scored("a", 1.0),
            replace(scored("a", 0.0, "errored"), runs=(a_run_result(outcome="crashed"),)),
            "newly_failing",
        ),
        (scored("a", 0.0), scored("a", 1.0), "newly_passing"),
        (scored("a", 0.0, "errored"), scored("a", 1.0), "newly_passing"),
        (scored("a", 0.0), scored("a", 0.0, "errored"), None),
        (scored("a", 1.0), scored("a", 1.0), None),
        (scored("a", 1.0), scored("a", 0.0, fingerprint="other"), "changed"),
        (None, scored("a", 1.0), "new"),
        (scored("a", 1.0), None, "removed"),
    ],
)
def test_how_a_case_changed(before: CaseResult | None, after: CaseResult | None, change: str | None) -> None:
    found = build_comparison([after] if after else [], baseline(*([before] if before else [])))
    assert [entry.change for entry in found.changes] == ([change] if change else [])
    assert found.unchanged == (0 if change or not (after and after.is_conclusive) else 1)
    assert found.source == "b.json"


def flipping(*scores: float, follow_up: FollowUp | None = None) -> CaseResult:
    """A case with a run for each score, whose status is that of its mean."""
    runs = tuple(
        a_run_result(run=at, metrics=(RunMetric(TRAJECTORY, score, "passed" if score else "failed"),))
        for at, score in enumerate(scores, 1)
    )
    status: Status = "passed" if all(scores) else "failed"
    metric = CaseMetric(TRAJECTORY, sum(scores) / len(scores), 1.0, status)
    found = a_case_result("a", status, metrics=(metric,), runs=runs)
    return replace(found, fingerprint="f", follow_up=follow_up)


SOME = (1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        pytest.param(flipping(*SOME), flipping(0.0), "flaky", id="6 of 10, fails now"),
        pytest.param(flipping(*SOME), flipping(1.0), None, id="6 of 10, passes now"),
        pytest.param(flipping(*[1.0] * 19, 0.0), flipping(0.0), "flaky", id="19 of 20, fails now"),
        pytest.param(flipping(*[1.0] * 19, 0.0), flipping(1.0), None, id="19 of 20, passes now"),
        pytest.param(flipping(*[0.0] * 9, 1.0), flipping(*[1.0] * 5), "newly_passing", id="mended"),
        pytest.param(flipping(*[0.0] * 9, 1.0), flipping(1.0), None, id="passed once more"),
        pytest.param(
            flipping(*SOME),
            flipping(0.0, follow_up=FollowUp("excused", 1, 1, 0, 10, 4)),
            "flaky",
            id="excused",
        ),
        pytest.param(
            flipping(*SOME),
            flipping(0.0, 0.0, 0.0, follow_up=FollowUp("broke", 3, 3, 3, 10, 0)),
            "newly_failing",
            id="in another way than before",
        ),
        pytest.param(flipping(*[1.0] * 10), flipping(0.0), "newly_failing", id="steady until now"),
        pytest.param(flipping(*[0.0] * 10), flipping(0.0), None, id="still failing"),
    ],
)
def test_a_flaky_case_is_compared_by_its_stored_runs(
    before: CaseResult, after: CaseResult, change: str | None
) -> None:
    found = build_comparison([after], baseline(before))
    assert [entry.change for entry in found.changes] == ([change] if change else [])
    if change == "flaky":
        record = a_record(after, comparison=found)
        assert format_change_counts(record, found) == "1 failing now and then, 0 unchanged"
        assert find_still_failing(record) == []


@pytest.mark.parametrize(
    ("whole_sets", "removed", "left_out"),
    [(None, ["b", "c"], 0), ({"travel"}, ["b"], 1), ({"food"}, ["c"], 1), (set(), [], 2)],
)
def test_what_was_not_asked_for_is_not_removed(
    whole_sets: set[str] | None, removed: list[str], left_out: int
) -> None:
    before = baseline(scored("a", 1.0), scored("b", 1.0), replace(scored("c", 1.0), eval_set_id="food"))
    found = build_comparison([scored("a", 1.0)], before, whole_sets=whole_sets)
    assert [(each.eval_id, each.change) for each in found.changes] == [(name, "removed") for name in removed]
    assert (found.left_out, found.unchanged) == (left_out, 1)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (scored("a", 1.0), scored("a", 1.0), ""),
        (scored("a", 1.0), scored("b", 1.0), "it holds none of these cases."),
        (None, scored("a", 1.0), "it holds none of these cases."),
        (scored("a", 1.0), scored("a", 1.0, fingerprint="other"), "the cases that it holds ask or expect something else now."),
        (replace(a_case_result("a", metrics=(), runs=()), fingerprint="f"), scored("a", 1.0), "it holds no score of these metrics as they are now."),
    ],
)  # fmt: skip
def test_why_nothing_is_compared_is_said(before: CaseResult | None, after: CaseResult, why: str) -> None:
    then = baseline(*([before] if before else []))
    metrics = add_deltas(summarize_metrics([after]), [after], then)
    said = explain_missing_deltas(metrics, build_comparison([after], then))
    assert said == (why and f"Nothing could be compared with the baseline b.json: {why}")


def test_a_metric_that_lacks_runs_reports_itself() -> None:
    metric = replace(
        summarize_metrics([scored("a", 1.0)])[0],
        judgement=MetricComparison("inconclusive", "missing_runs", (), 0.1),
    )

    assert (
        explain_missing_deltas([metric], build_comparison([scored("a", 1.0)], baseline(scored("a", 1.0))))
        == ""
    )


def test_deltas_speak_of_comparable_cases_alone() -> None:
    before = baseline(scored("same", 1.0), scored("edited", 1.0, fingerprint="old"), scored("gone", 0.0))
    now = [scored("same", 0.0), scored("edited", 0.0), scored("new", 1.0)]
    metric = add_deltas(summarize_metrics(now), now, before)[0]
    assert (metric.baseline, metric.delta, metric.compared) == (1.0, -1.0, 1)
    assert metric.score == pytest.approx(1 / 3)


def test_a_metric_that_was_another_one_is_not_compared() -> None:
    def as_metric(fingerprint: str) -> CaseResult:
        case = scored("a", 1.0)
        return replace(case, metrics=(replace(case.metrics[0], fingerprint=fingerprint),))

    now, before = [as_metric("new")], baseline(as_metric("old"))
    assert add_deltas(summarize_metrics(now), now, before)[0].delta is None
    assert build_comparison(now, before).other_metrics == (TRAJECTORY,)
    assert build_comparison(now, baseline(as_metric("new"))).other_metrics == ()


def test_a_check_that_a_case_lost_is_named() -> None:
    """A pull request may take a check out of the case notes, which are not rules of the base branch."""

    def check(eval_id: str, *names: str, fingerprint: str = "f") -> CaseResult:
        case = scored(eval_id, 1.0, fingerprint=fingerprint)
        metrics = (*case.metrics, *(CaseMetric(name, 1.0, 1.0, "passed") for name in names))
        scores = tuple(RunMetric(metric.name, 1.0, "passed") for metric in metrics)
        return replace(case, metrics=metrics, runs=(a_run_result(metrics=scores),))

    before = baseline(check("a", "check/x", "check/y"), check("b", "check/x"), check("c", "check/x"))
    after = [check("a", "check/y"), check("b"), check("c", fingerprint="other"), check("d")]
    assert describe_missing_checks(after, before) == (
        "The baseline has scores of checks that cases do not have any more: check/x (2 cases)."
    )
    assert describe_missing_checks([check("b", "check/x"), check("a", "check/y", "check/x")], before) == ""
    record = a_record(check("b"))
    later = add_run(before, record, BaselineSource("2099-01-01T00:00:00+00:00", "c", "main", digest="d"))
    # Once a run without the check is stored, the difference is no news.
    assert describe_missing_checks([check("b")], later) == ""


def test_a_crashed_case_has_no_delta() -> None:
    now = [replace(scored("a", 0.0, "errored"), metrics=(CaseMetric(TRAJECTORY, None, 1.0, "errored"),))]
    metric = add_deltas(summarize_metrics(now), now, baseline(scored("a", 1.0)))[0]
    assert (metric.baseline, metric.delta, metric.compared) == (None, None, 0)


@given(st.lists(st.tuples(st.uuids().map(str), st.floats(0, 1)), unique_by=lambda pair: pair[0], max_size=10))
def test_comparing_a_run_with_itself_finds_no_change(pairs: list[tuple[str, float]]) -> None:
    cases = [scored(eval_id, score) for eval_id, score in pairs]
    own = baseline(*cases)
    found = build_comparison(cases, own)
    assert (found.changes, found.unchanged) == ((), len(cases))
    assert all(metric.delta in (0, None) for metric in add_deltas(summarize_metrics(cases), cases, own))
