"""Decide the status of a case by pass^k (all of k runs pass) or pass@k (at least one of k runs passes).

Both are estimated without bias from n ≥ k runs of which c passed. pass^k is C(c, k) / C(n, k) (Yao et al.
2024, arXiv:2406.12045). pass@k is 1 − C(n − c, k) / C(n, k) (Chen et al. 2021, arXiv:2107.03374).
"""

from collections.abc import Iterable, Sequence
from math import comb

from evalgate.core.formatting import format_score_pair, pluralize
from evalgate.core.types import Criterion, ReliabilityRule, RunMetric, Status


def find_least_runs(criteria: Iterable[Criterion]) -> int:
    """Return the fewest runs per case that are enough for all criteria: the largest k; 1 without any k."""
    return max((each.reliability.k for each in criteria if each.reliability is not None), default=1)


def estimate_reliability(rule: ReliabilityRule, *, passed: int, runs: int) -> float:
    """Estimate pass^k or pass@k, in [0, 1]: exactly 0.0 if no run passed, exactly 1.0 if all runs passed.

    `runs` must be at least `rule.k`, and `passed` at most `runs`.
    """
    samples = comb(runs, rule.k)
    if rule.kind == "pass^k":
        return comb(passed, rule.k) / samples
    return (samples - comb(runs - passed, rule.k)) / samples


def decide_reliability(rule: ReliabilityRule, scored: Sequence[RunMetric]) -> tuple[Status, str]:
    """Return the status of a case by pass^k or pass@k, and its reason ("" for a passed case).

    `scored` holds the metric of each run that has a score. With fewer than k runs, the status is "errored".
    """
    if len(scored) < rule.k:
        return "errored", f"{rule.kind} with k = {rule.k} needs as many runs; {len(scored)} have a score"
    passed = sum(run.status == "passed" for run in scored)
    estimate = estimate_reliability(rule, passed=passed, runs=len(scored))
    if estimate >= rule.at_least:
        return "passed", ""
    shown, least = format_score_pair(estimate, rule.at_least)
    reason = (
        f"{rule.kind} with k = {rule.k} is {shown}, below {least}: "
        f"{passed} of {pluralize(len(scored), 'run')} passed"
    )
    return "failed", reason
