"""How many failures no luck explains, where a baseline is too short for an exact test.

A case that never failed in a short baseline may be flaky all the same. How many of the suite's cases are, its
baselines tell: each case that both passed and failed in them stands for some more that only passed.
"""

from collections.abc import Iterable, Sequence
from math import factorial
from typing import Literal

from evalgate.frozen import frozen

LEAST_MISSES = 3
"""Fewer failures in a row are never enough: two of them come from a single outage."""

_IN_A_ROW = 0.015
_WITH_ONE_PASS = 0.008
"""Expected number of flaky cases in the suite that would look broken in each of these ways, at most.

The second way finds broken cases that pass once by luck. It costs little: a sound case soon passes twice.
"""

_MORE_AFTER_A_PASS = 2
"""A case that passed once may get so many times the runs of one that did not.

With few stored runs and many flaky cases one pass outweighs many failures. Without this room a broken case
that still passes 1 run in 50 stays unknown in one large suite of five.
"""

_IN_A_ROW_ALONE = 0.03
"""The same where so few runs are allowed that no case with one pass can be called broken."""

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


@frozen
class Needs:
    """What a case must show to be called broken, in its first runs."""

    in_a_row: int
    """So many failures without a pass."""
    with_one_pass: int | None
    """Or so many runs of which one passed; None: a case that passed once is not called broken."""

    def judge(self, misses: Sequence[bool]) -> Literal["broke", "flake", "open"]:
        """Return what runs say, each True where it failed; `open` until there are enough of them.

        The first runs alone decide: however many more were made, luck had only this one chance.
        """
        if len(misses) >= self.in_a_row and all(misses[: self.in_a_row]):
            return "broke"
        if self.with_one_pass is None:
            return "open" if all(misses) else "flake"
        first = misses[: self.with_one_pass]
        if first.count(False) > 1:
            return "flake"
        return "broke" if len(first) == self.with_one_pass else "open"


def find_needs(baseline_runs: int, flaky: float, *, most: int) -> Needs:
    """Find what calls a case broken that passed `baseline_runs` of as many runs.

    Args:
        baseline_runs: its stored runs, at least 1, none of which failed.
        flaky: how many cases of the suite are flaky, from `estimate_flaky`.
        most: runs that the case may get while it did not pass.
    """
    in_a_row = _count_in_a_row(baseline_runs, flaky / _IN_A_ROW, most)
    for runs in range(in_a_row + 1, count_runs_allowed(most) + 1):
        orders = in_a_row  # a pass after these came too late to matter
        if flaky * orders * _chance(baseline_runs + 1, runs - 1) <= _WITH_ONE_PASS:
            return Needs(in_a_row, runs)
    return Needs(_count_in_a_row(baseline_runs, flaky / _IN_A_ROW_ALONE, most), None)


def count_runs_allowed(most: int) -> int:
    """Return the runs that a case may get at most, where one that did not pass gets `most`."""
    return most if most == 1 else _MORE_AFTER_A_PASS * most


def _count_in_a_row(baseline_runs: int, rarity: float, most: int) -> int:
    for misses in range(min(LEAST_MISSES, most), most):
        if rarity * _chance(baseline_runs, misses) <= 1:
            return misses
    return most


def _chance(passes: int, misses: int) -> float:
    """Return the chance that a flaky case passes so often and then misses so often (a Beta integral)."""
    return factorial(passes) * factorial(misses) / factorial(passes + misses + 1)
