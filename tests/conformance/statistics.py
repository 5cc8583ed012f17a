"""Test vectors of the statistics: the committed ones, and those of the reference material if available."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalgate.statistics.auto_runs import NextRuns, plan_next_step
from evalgate.statistics.case_permutation_test import compute_case_p
from evalgate.statistics.case_regression import build_confirmation_plan, classify_case
from evalgate.statistics.mean_difference import compare_means
from evalgate.statistics.metric_assessment import decide_mean_verdict
from evalgate.statistics.metric_decisions import Decision, decide_without_follow_ups
from evalgate.statistics.multiple_testing import compute_holm_levels, find_discoveries
from evalgate.statistics.parameters import MetricRule, Parameters, PassKRule
from evalgate.statistics.score_pairs import CaseScores, Pair, ScoreTable, normalize_scores
from evalgate.statistics.threshold_test import (
    WeightedScores,
    compare_mean_with_minimum,
    compare_reliability_with_minimum,
    estimate_mean,
)
from tests.conformance import shared_folder

PARAMETERS = ("alpha", "case_alpha", "case_drop", "max_runs", "confirm_runs", "fail_fast", "deterministic", "max_missing", "fdr")  # fmt: skip
RULES = ("max_drop", "require", "min_score")


@dataclass(frozen=True)
class Vector:
    id: str
    kind: str
    input: dict[str, Any]
    expected: dict[str, Any]
    tolerance: dict[str, float]

    def close_to(self, name: str) -> float:
        return self.tolerance.get(name, self.tolerance["default"])


def vectors() -> list[Vector]:
    folder = shared_folder()
    paths = [Path(__file__).with_name("statistics_cases.json")]
    if folder is not None:
        paths.append(folder / "conformance/statistics.json")
    return [
        Vector(row["id"], row["kind"], row["input"], row["expected"], row["tolerance"])
        for path in paths
        if path.is_file()
        for row in json.loads(path.read_text("utf-8"))["vectors"]
    ]


def answer(vector: Vector) -> dict[str, Any]:
    return ANSWERS[vector.kind](vector.input)


def _case_p(row: dict[str, Any]) -> dict[str, Any]:
    return {"p": compute_case_p(normalize_scores(row["baseline"]), normalize_scores(row["candidate"]))}


def _pairs(row: dict[str, Any]) -> list[Pair]:
    weights = row.get("weights") or [1.0] * len(row["pairs"])
    return [
        Pair(str(index), normalize_scores(baseline), normalize_scores(candidate), weight, len(candidate))
        for index, ((baseline, candidate), weight) in enumerate(zip(row["pairs"], weights, strict=True))
    ]


def _suite_change(row: dict[str, Any]) -> dict[str, Any]:
    change = compare_means(_pairs(row), alpha=row["alpha"])
    return {"drop": change.drop, "p": change.p, "half": change.half, "low": change.low, "high": change.high}


def _change_verdict(row: dict[str, Any]) -> dict[str, Any]:
    settings = row["settings"]
    change = compare_means(_pairs(row), alpha=settings["alpha"])
    rule = MetricRule(max_drop=settings["max_drop"], require=settings["require"])
    verdict, _ = decide_mean_verdict(change, rule, settings["alpha"])
    return {"verdict": verdict, "drop": change.drop, "p": change.p, "high": change.high}


def _weighted(row: dict[str, Any]) -> list[WeightedScores]:
    weights = row.get("weights") or [1.0] * len(row["cases"])
    return [(normalize_scores(scores), weight) for scores, weight in zip(row["cases"], weights, strict=True)]


def _threshold(row: dict[str, Any]) -> dict[str, Any]:
    _, half = estimate_mean(_weighted(row), row["alpha"])
    found = compare_mean_with_minimum(
        _weighted(row), row["minimum"], alpha=row["alpha"], require=row["require"]
    )
    return {"mean": found.value, "half": half, "low": found.low, "high": found.high, "verdict": found.verdict}  # fmt: skip


def _pass_hat_k(row: dict[str, Any]) -> dict[str, Any]:
    demand = PassKRule(row["k"], row["minimum"], row["pass_score"])
    found = compare_reliability_with_minimum(
        _weighted(row), demand, alpha=row.get("alpha", 0.05), require=row["require"]
    )
    if found is None:
        return {"verdict": "inconclusive"}
    return {"mean": found.value, "low": found.low, "high": found.high, "verdict": found.verdict}


def _case_plan(row: dict[str, Any]) -> dict[str, Any]:
    plan = build_confirmation_plan(
        {("metric", str(index)): normalize_scores(runs) for index, runs in enumerate(row["baselines"])},
        case_alpha=row["case_alpha"],
        case_drop=row["case_drop"],
        confirm_runs=row["confirm_runs"],
    )
    return {"t": plan.t, "need": {case: need for (_, case), need in plan.need.items()}}


def _case_status(row: dict[str, Any]) -> dict[str, Any]:
    found = classify_case(
        normalize_scores(row["baseline"]),
        normalize_scores(row["candidate"]),
        t=row["t"],
        need=row["need"],
        case_drop=row["case_drop"],
    )
    return {"status": found}


def _gate_fixed(row: dict[str, Any]) -> dict[str, Any]:
    """Decide with the greatest number of runs of any case as the number of runs of every case."""
    settings, before, after = row["settings"], row["baseline"], row["candidate"]
    runs = max((len(case["runs"]) for case in after.values()), default=1)
    cases = {
        name: CaseScores(
            before[name]["runs"] if name in before else None,
            after[name]["runs"] if name in after else None,
            weight=(row.get("weights") or {}).get(name, 1.0),
            comparable=name not in before or name not in after or before[name]["hash"] == after[name]["hash"],
        )
        for name in (*before, *(name for name in after if name not in before))
    }
    parameters = Parameters(runs=runs, **_chosen(settings, PARAMETERS))
    found = decide_without_follow_ups(
        {"metric": ScoreTable(cases, MetricRule(**_chosen(settings, RULES)))}, parameters
    )
    return _gate(found, list(cases))


def _gate(found: Decision, cases: Sequence[str]) -> dict[str, Any]:
    metric = found.metrics["metric"]
    unpaired = {
        status: list(metric.list_cases(status)) for status in ("new", "removed", "changed", "no_score")
    }
    result: dict[str, Any] = {
        **unpaired,
        "compared": len(cases) - sum(map(len, unpaired.values())),
        "missing_runs": metric.missing,
        "verdict": found.verdict,
        "reason": metric.reason,
        "broken": list(metric.list_cases("broken")),
    }
    if (change := metric.change) is not None:
        result |= {"drop": change.drop, "p": change.p, "low": change.low, "high": change.high}
    return result


def _gate_auto(row: dict[str, Any]) -> dict[str, Any]:
    """Decide adaptively with scripted runs. The script of a case starts again after its end."""
    settings, scripts = row["settings"], row["scripted_runs"]
    parameters = Parameters(**_chosen(settings, PARAMETERS))
    made: list[list[float]] = [[] for _ in scripts]
    while True:
        cases = {
            str(index): CaseScores(runs, tuple(made[index])) for index, runs in enumerate(row["baselines"])
        }
        step = plan_next_step(
            {"metric": ScoreTable(cases, MetricRule(**_chosen(settings, RULES)))}, parameters
        )
        if not isinstance(step, NextRuns):
            break
        for case, numbers in step.runs.items():
            script = scripts[int(case)]
            made[int(case)] += [script[(number - 1) % len(script)] for number in numbers]
    result = _gate(step, list(cases))
    return result | {
        "broken": [int(case) for case in result["broken"]],
        "runs_spent": step.cost.spent,
        "runs_per_case": list(step.runs_per_case.values()),
    }


def _chosen(settings: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: settings[name] for name in names if name in settings}


def _holm(row: dict[str, Any]) -> dict[str, Any]:
    p_values = {str(index): p for index, p in enumerate(row["p_values"])}
    levels = compute_holm_levels(p_values, row["alpha"])
    return {"rejected": [p <= levels[name] for name, p in p_values.items()]}


def _fdr_list(row: dict[str, Any]) -> dict[str, Any]:
    return {"cases": [int(case) for case in find_discoveries(_pairs(row), row["rate"])]}


ANSWERS = {
    "case_p": _case_p,
    "suite_change": _suite_change,
    "change_verdict": _change_verdict,
    "threshold": _threshold,
    "pass_hat_k": _pass_hat_k,
    "case_plan": _case_plan,
    "case_status": _case_status,
    "gate_fixed": _gate_fixed,
    "gate_auto": _gate_auto,
    "holm": _holm,
    "fdr_list": _fdr_list,
}


def differing(vector: Vector) -> Iterator[tuple[str, object, object]]:
    """Yield (name, expected, found) for every result that differs from the expected one."""
    found = answer(vector)
    for name, expected in vector.expected.items():
        got = found[name]
        if isinstance(expected, float) and isinstance(got, (int, float)):
            if abs(got - expected) > vector.close_to(name):
                yield name, expected, got
        elif got != expected:
            yield name, expected, got
