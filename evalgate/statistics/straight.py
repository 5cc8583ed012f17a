"""How many failures in a row no luck explains, where a baseline is too short for an exact test.

A case that never failed in a short baseline may be flaky all the same. How many of the suite's cases are, its
baselines tell: each case that both passed and failed in them stands for some more that only passed.
"""

from collections.abc import Iterable
from math import factorial

from evalgate.frozen import frozen

LEAST_MISSES = 3
"""Fewer failures in a row are never enough: two of them come from a single outage."""

_CHANCE = 0.035
"""Expected number of flaky cases in the suite that would look broken, at most."""

_UNKNOWN = 0.3
"""Share of flaky cases among those with a single stored run, which cannot show that they are."""


@frozen
class History:
    """The stored runs of one case."""

    runs: int
    failed: int


def estimate_flaky(baselines: Iterable[History]) -> float:
    """Estimate how many cases of a suite are flaky, those included whose stored runs do not show it.

    A flaky case's chance to pass is taken to be anywhere between 0 and 1; then 1 - 2 / (n + 1) of them show
    both ends in n runs.
    """
    flaky = 1.0
    for each in baselines:
        if each.runs == 1:
            flaky += _UNKNOWN
        elif 0 < each.failed < each.runs:
            flaky += (each.runs + 1) / (each.runs - 1)
    return flaky


def count_needed_misses(baseline_runs: int, flaky: float, *, most: int) -> int:
    """Count the failures in a row after which a case that passed `baseline_runs` of as many runs is broken.

    Args:
        baseline_runs: its stored runs, at least 1, none of which failed.
        flaky: how many cases of the suite are flaky, from `estimate_flaky`.
        most: runs that the case may get.
    """
    for misses in range(min(LEAST_MISSES, most), most):
        if flaky * _chance(baseline_runs, misses) <= _CHANCE:
            return misses
    return most


def _chance(passes: int, misses: int) -> float:
    """Return the chance that a flaky case passes so often and then misses so often (a Beta integral)."""
    return factorial(passes) * factorial(misses) / factorial(passes + misses + 1)
