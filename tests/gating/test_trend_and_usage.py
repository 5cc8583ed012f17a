"""The trend of a metric over earlier gate runs, and the usage of a run compared with the baseline."""

from dataclasses import replace

import pytest

from evalgate.core.formatting import format_sparkline
from evalgate.core.types import (
    AverageRunUsage,
    Baseline,
    BaselineCase,
    BaselineRun,
    BaselineSource,
    CaseResult,
    Comparison,
    Record,
    Usage,
)
from evalgate.gating.case_changes import MOST_POINTS, add_deltas, build_comparison
from evalgate.reporting.baseline_lines import describe_run_costs, find_still_failing
from evalgate.reporting.findings import find_flaky_cases
from evalgate.reporting.repro_command import build_replay_command
from tests.builders import TRAJECTORY, a_case_result, a_record, a_run_result, a_summary
from tests.situations import GOLDEN, flaky_runs, regression


def a_baseline(**cases: list[float | None]) -> Baseline:
    """Name of a case → its score in each gate run, the oldest first."""
    length = max(map(len, cases.values()))
    return Baseline(
        tuple(
            BaselineCase(
                "travel",
                name,
                "passed",
                "f00d",
                {TRAJECTORY: ""},
                tuple(
                    BaselineRun(at, "answered", {TRAJECTORY: score}, 2.0, Usage(100, 10, 0.5))
                    for at, score in enumerate(scores)
                    if score is not None
                ),
            )
            for name, scores in cases.items()
        ),
        tuple(BaselineSource() for _ in range(length)),
    )


@pytest.mark.parametrize(
    ("baseline", "expected"),
    [
        (a_baseline(paris=[1.0], oslo=[0.5]), (0.75,)),
        (a_baseline(paris=[0.0, 1.0], oslo=[0.5, 0.5]), (0.25, 0.75)),
        (a_baseline(paris=[0.0, 1.0], oslo=[None, 0.5]), (0.75,)),
        (a_baseline(paris=[0.0, 1.0]), (0.0, 1.0)),
        (a_baseline(rome=[1.0]), ()),
        (a_baseline(paris=[0.5] * 30, oslo=[0.5] * 30), (0.5,) * MOST_POINTS),
    ],
)
def test_the_course_of_a_metric(baseline: Baseline, expected: tuple[float, ...]) -> None:
    cases = [a_case_result("paris"), a_case_result("oslo")]
    (summary,) = add_deltas([a_summary(n=2)], cases, baseline)
    assert summary.trend == expected


def test_the_course_of_a_metric_is_weighted_as_its_mean_is() -> None:
    cases = [replace(a_case_result("paris"), weight=3.0), a_case_result("oslo")]
    (summary,) = add_deltas([a_summary(n=2)], cases, a_baseline(paris=[1.0, 1.0], oslo=[0.0, 1.0]))
    assert summary.trend == (0.75, 1.0)


def a_case_that_took(eval_id: str, *seconds: float, usage: Usage | None = None) -> CaseResult:
    runs = (replace(a_run_result(run=at, duration_s=each), usage=usage) for at, each in enumerate(seconds, 1))
    return a_case_result(eval_id, runs=tuple(runs))


def test_what_a_run_takes_is_compared_over_the_same_cases() -> None:
    cases = [a_case_that_took("paris", 1.0, 3.0), a_case_that_took("new", 100.0)]
    comparison = build_comparison(cases, a_baseline(paris=[1.0], gone=[1.0]))
    assert comparison.then == AverageRunUsage(1, 2.0, 100.0, 10.0, 0.5)
    assert comparison.now == AverageRunUsage(1, 2.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize("outcome", ["crashed", "timed_out"])
def test_a_run_without_an_answer_tells_nothing_of_what_one_takes(outcome: str) -> None:
    run = a_run_result(outcome="crashed" if outcome == "crashed" else "timed_out")
    comparison = build_comparison([a_case_result("paris", "errored", runs=(run,))], a_baseline(paris=[1.0]))
    assert (comparison.then, comparison.now) == (None, None)
    assert describe_run_costs(comparison) == ""


@pytest.mark.parametrize(
    ("then", "now", "told"),
    [
        pytest.param(
            AverageRunUsage(2, 0.0123, 0.0, 0.0, 0.0),
            AverageRunUsage(2, 0.0052, 0.0, 0.0, 0.0),
            "",
            id="milliseconds",
        ),
        pytest.param(
            AverageRunUsage(2, 10.0, 90.0, 10.0, 1.0),
            AverageRunUsage(2, 11.9, 100.0, 19.0, 1.1),
            "",
            id="noise",
        ),
        pytest.param(
            AverageRunUsage(2, 10.0, 0.0, 0.0, 0.0),
            AverageRunUsage(2, 12.0, 0.0, 0.0, 0.0),
            "12.00 s (+2.00 s)",
            id="slower",
        ),
        pytest.param(
            AverageRunUsage(2, 1.0, 90.0, 10.0, 1.0),
            AverageRunUsage(2, 1.0, 70.0, 10.0, 1.0),
            "80 tokens (−20)",
            id="fewer tokens",
        ),
        pytest.param(
            AverageRunUsage(2, 1.0, 90.0, 10.0, 1.0),
            AverageRunUsage(2, 1.0, 90.0, 10.0, 1.5),
            "1.5000 USD (+0.5000 USD)",
            id="dearer",
        ),
        pytest.param(
            AverageRunUsage(2, 1.0, 90.0, 10.0, 0.00004),
            AverageRunUsage(2, 1.0, 90.0, 10.0, 0.000026),
            "0.000026 USD (−0.000014 USD)",
            id="a little cheaper",
        ),
    ],
)
def test_only_changes_of_usage_beyond_noise_are_reported(
    then: AverageRunUsage, now: AverageRunUsage, told: str
) -> None:
    expected = f"a run takes {told}, on average over 2 cases" if told else ""
    assert describe_run_costs(Comparison("b.json", then=then, now=now)) == expected


def test_what_a_run_takes_in_words() -> None:
    comparison = regression().comparison
    assert comparison is not None
    assert describe_run_costs(comparison) == ("a run takes 1.75 s (+0.50 s), on average over 3 cases")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1.0,), "█"),
        ((0.0, 1.0), "▁█"),
        ((0.5, 0.5, 0.5), "███"),
        ((0.98, 1.0), "▇█"),
        ((0.0, 0.25, 0.5, 0.75, 1.0), "▁▃▅▇█"),
    ],
)
def test_a_tiny_chart(values: tuple[float, ...], expected: str) -> None:
    assert format_sparkline(values) == expected


def test_which_cases_fail_still_and_which_now_and_then() -> None:
    assert [case.eval_id for case in find_still_failing(regression())] == ["rome"]
    assert [(case.eval_id, passed, runs) for case, passed, runs in find_flaky_cases(flaky_runs())] == [
        ("rome", 2, 3)
    ]
    assert find_flaky_cases(regression()) == []


@pytest.mark.parametrize(
    ("record", "index", "expected"),
    [
        (regression(), 2, "evalgate run evals/travel.evalset.json:paris --agent replay:results.json"),
        (
            replace(regression(), options=("-C", "desk", "--python", "py", "-c", "x.yaml", "--env", "KEY")),
            2,
            "evalgate run evals/travel.evalset.json:paris --agent replay:results.json -C desk -c x.yaml",
        ),
        (GOLDEN["crash_and_timeout"](), 0, ""),
        (a_record(a_case_result("new\nline")), 0, ""),
    ],
)
def test_the_command_that_needs_no_agent(record: Record, index: int, expected: str) -> None:
    assert build_replay_command(record, record.cases[index]) == expected
