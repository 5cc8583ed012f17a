"""Several runs summed up as tRPC-Agent-Go sums them up, and its pass@k and pass^k."""

from typing import Any

import pytest

from evalgate.core.types import Criterion, NotApplicable, ReliabilityRule, RunMetric, RunResult, Status
from evalgate.metrics.pass_at_k import estimate_reliability
from evalgate.metrics.scoring import BoundMetric, score_case
from tests.builders import a_case, a_run_result
from tests.conformance.trpc import rows


class Silent:
    """A metric that is not asked."""

    async def score(self, case: object, run: object) -> NotApplicable:
        return NotApplicable("")


def a_metric(name: str, score: float | None, threshold: float) -> dict[str, Any]:
    status = "not_evaluated" if score is None else "passed" if score >= threshold else "failed"
    return {"metricName": name, "score": score or 0, "threshold": threshold, "evalStatus": status}


def a_row(
    name: str, overall: str, averages: dict[str, tuple[float, str]], *runs: list[dict[str, Any]]
) -> dict[str, Any]:
    results = [
        {"evalId": "a", "runId": number, "overallEvalMetricResults": metrics}
        for number, metrics in enumerate(runs, start=1)
    ]
    summed = [
        {"metricName": name, "averageScore": score, "evalStatus": status}
        for name, (score, status) in averages.items()
    ]
    summary = {"evalCaseSummaries": [{"evalId": "a", "overallStatus": overall, "metricSummaries": summed}]}
    return {
        "id": name,
        "input": {"evalSetResult": {"evalCaseResults": results}},
        "output": {"summary": summary},
    }


OURS = [
    a_row("mean at the threshold", "passed", {"m": (0.5, "passed")}, [a_metric("m", 1, 0.5)], [a_metric("m", 0, 0.5)]),
    a_row("mean below", "failed", {"m": (0.5, "failed")}, [a_metric("m", 1, 0.6)], [a_metric("m", 0, 0.6)]),
    a_row(
        "every run fails, each in another metric",
        "passed",
        {"m": (0.5, "passed"), "n": (0.5, "passed")},
        [a_metric("m", 1, 0.5), a_metric("n", 0, 0.5)],
        [a_metric("m", 0, 0.5), a_metric("n", 1, 0.5)],
    ),
    a_row("one run is not evaluated", "passed", {"m": (1, "passed")}, [a_metric("m", 1, 1)], [a_metric("m", None, 1)]),
    a_row("nothing is", "not_evaluated", {"m": (0, "not_evaluated")}, [a_metric("m", None, 1)]),
]  # fmt: skip
RUNS = [
    *OURS,
    *(row for row in rows("numeric.json") if row["kind"] == "multirun" and "summary" in row["output"]),
]


@pytest.mark.parametrize("row", RUNS, ids=lambda row: row["id"])
def test_runs_are_summed_up_alike(row: dict[str, Any]) -> None:
    results = row["input"]["evalSetResult"]["evalCaseResults"]
    for case in row["output"]["summary"]["evalCaseSummaries"]:
        own = [result for result in results if result["evalId"] == case["evalId"]]
        summed = score_case("s", a_case(case["evalId"]), [_run(result) for result in own], _bound(own))

        assert summed.status == case["overallStatus"]
        assert [(metric.name, metric.score or 0, metric.status) for metric in summed.metrics] == [
            (metric["metricName"], metric.get("averageScore", 0), metric["evalStatus"])
            for metric in case["metricSummaries"]
        ]


def _run(result: dict[str, Any]) -> RunResult:
    metrics = tuple(
        RunMetric(metric["metricName"], _score(metric), _status(metric))
        for metric in result["overallEvalMetricResults"]
    )
    return a_run_result(run=result["runId"], metrics=metrics)


def _score(metric: dict[str, Any]) -> float | None:
    return None if metric["evalStatus"] == "not_evaluated" else metric.get("score", 0.0)


def _status(metric: dict[str, Any]) -> Status:
    status: Status = metric["evalStatus"]
    return status


def _bound(results: list[dict[str, Any]]) -> list[BoundMetric]:
    metrics = {metric["metricName"]: metric for metric in results[0]["overallEvalMetricResults"]}
    return [
        BoundMetric(Criterion(name, metric.get("threshold", 0.0)), Silent())
        for name, metric in metrics.items()
    ]


ESTIMATES: list[tuple[str, int, int, int, float]] = [
    ("pass@k", 5, 1, 1, 0.2),
    ("pass@k", 10, 3, 3, 17 / 24),
    ("pass@k", 4, 0, 2, 0.0),
    ("pass@k", 4, 3, 2, 1.0),
    ("pass^k", 7, 3, 1, 3 / 7),
    ("pass^k", 4, 4, 3, 1.0),
    ("pass^k", 4, 0, 3, 0.0),
    *(
        (
            {"passAtK": "pass@k", "passHatK": "pass^k"}[row["kind"]],
            *(row["input"][name] for name in "nck"),
            row["output"]["value"],
        )
        for row in rows("numeric.json")
        if row["kind"].startswith("pass") and "value" in row["output"]
    ),
]


@pytest.mark.parametrize(("kind", "runs", "passed", "k", "theirs"), ESTIMATES)
def test_reliability(kind: Any, runs: int, passed: int, k: int, theirs: float) -> None:
    ours = estimate_reliability(ReliabilityRule(kind, k), passed=passed, runs=runs)

    if kind == "pass@k" or k == 1 or passed in {0, runs}:
        assert ours == pytest.approx(theirs, abs=1e-12)
    else:  # theirs is (c / n)^k, which is biased upwards: see docs/conformance.md
        assert ours < theirs
