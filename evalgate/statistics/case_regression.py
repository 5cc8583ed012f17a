"""Which single cases broke, by an exact test or by failures that luck cannot explain.

A case that never failed in a short baseline may be flaky all the same. How many of the suite's cases are, its
baselines tell: each case that both passed and failed in them stands for some more that only passed.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import factorial
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.statistics.mean_difference import compute_case_p
from evalgate.statistics.pairing import UNIT, Thousandths, compute_score_mean
from evalgate.statistics.parameters import EPSILON, P_EPSILON, is_within_level

Cell: TypeAlias = tuple[str, str]
"""(metric, case): what is confirmed is one metric's verdict on one case."""

RegressionStatus: TypeAlias = Literal["ok", "suspect", "broken", "rerun"]


@frozen
class ConfirmationPlan:
    """What it takes to call a case broken so that hardly ever one is called so by luck."""

    t: float
    """A case is broken at an exact p of at most this."""
    need: Mapping[Cell, int]
    """Runs after which a cell can be confirmed; absent: its baseline cannot confirm it."""


def build_confirmation_plan(
    baselines: Mapping[Cell, Thousandths], *, case_alpha: float, case_drop: float, confirm_runs: int
) -> ConfirmationPlan:
    """Share `case_alpha` among the cells that `confirm_runs` failures can confirm at all (after Tarone).

    A cell that no outcome of its runs could confirm cannot raise a false alarm either, and needs no share.
    """
    eligible = {
        cell: scores
        for cell, scores in baselines.items()
        if compute_score_mean(scores) >= case_drop - EPSILON
    }
    least = sorted(_compute_smallest_p(scores, confirm_runs) for scores in eligible.values())
    sharers = 1
    while bisect_right(least, case_alpha / sharers + P_EPSILON) > sharers:
        sharers += 1
    t = case_alpha / sharers
    needs = {cell: _count_runs_needed(scores, t, confirm_runs) for cell, scores in eligible.items()}
    return ConfirmationPlan(t, {cell: need for cell, need in needs.items() if need is not None})


def classify_case(
    baseline: Thousandths,
    candidate: Thousandths,
    *,
    t: float,
    need: int | None,
    case_drop: float,
    limit: int | None = None,
) -> RegressionStatus:
    """What the runs so far say about one case; both sides have a score.

    `need` counts runs that score 0. A case whose failures score more, as one wrong turn of two does, takes
    more of them to confirm. With a `limit` it gets up to that many runs while each of them fell and more like
    them would confirm it.
    """
    if compute_score_mean(baseline) - compute_score_mean(candidate) < case_drop - EPSILON:
        return "ok"
    if need is None:
        return "suspect"
    if len(candidate) >= need and is_within_level(compute_case_p(baseline, candidate), t):
        return "broken"
    if len(candidate) < need and is_within_level(
        compute_case_p(baseline, _pad_scores(candidate, need, 0)), t
    ):
        return "rerun"
    if limit is not None and len(candidate) < limit and _is_every_run_lower(baseline, candidate, case_drop):
        alike = _pad_scores(candidate, limit, min(candidate))
        return "rerun" if is_within_level(compute_case_p(baseline, alike), t) else "suspect"
    return "suspect"


def _pad_scores(candidate: Thousandths, runs: int, score: int) -> Thousandths:
    """Return the scores with further runs of one score, up to so many runs."""
    return tuple(sorted((*(score for _ in range(runs - len(candidate))), *candidate)))


def _is_every_run_lower(baseline: Thousandths, candidate: Thousandths, case_drop: float) -> bool:
    return compute_score_mean(baseline) - max(candidate) / UNIT >= case_drop - EPSILON


def _compute_smallest_p(baseline: Collection[int], runs: int) -> float:
    """The p of `runs` runs that all score 0."""
    zeros = sum(score == 0 for score in baseline)
    return math.comb(zeros + runs, runs) / math.comb(len(baseline) + runs, runs)


def _count_runs_needed(baseline: Collection[int], t: float, most: int) -> int | None:
    return next(
        (runs for runs in range(1, most + 1) if is_within_level(_compute_smallest_p(baseline, runs), t)), None
    )


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
class StoredOutcomes:
    """The stored runs of one case."""

    runs: int
    failed: int


def estimate_flaky(baselines: Iterable[StoredOutcomes]) -> float:
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
class BreakageCriteria:
    """What a case must show to be called broken, in its first runs."""

    in_a_row: int
    """So many failures without a pass."""
    with_one_pass: int | None
    """Or so many runs of which one passed; None: a case that passed once is not called broken."""

    def classify_runs(self, misses: Sequence[bool]) -> Literal["broke", "flake", "open"]:
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


def find_breakage_criteria(baseline_runs: int, flaky: float, *, most: int) -> BreakageCriteria:
    """Find what calls a case broken that passed `baseline_runs` of as many runs.

    Args:
        baseline_runs: its stored runs, at least 1, none of which failed.
        flaky: how many cases of the suite are flaky, from `estimate_flaky`.
        most: runs that the case may get while it did not pass.
    """
    in_a_row = _count_in_a_row(baseline_runs, flaky / _IN_A_ROW, most)
    for runs in range(in_a_row + 1, count_runs_allowed(most) + 1):
        orders = in_a_row  # a pass after these came too late to matter
        if flaky * orders * _compute_flaky_chance(baseline_runs + 1, runs - 1) <= _WITH_ONE_PASS:
            return BreakageCriteria(in_a_row, runs)
    return BreakageCriteria(_count_in_a_row(baseline_runs, flaky / _IN_A_ROW_ALONE, most), None)


def count_runs_allowed(most: int) -> int:
    """Return the runs that a case may get at most, where one that did not pass gets `most`."""
    return most if most == 1 else _MORE_AFTER_A_PASS * most


def _count_in_a_row(baseline_runs: int, rarity: float, most: int) -> int:
    for misses in range(min(LEAST_MISSES, most), most):
        if rarity * _compute_flaky_chance(baseline_runs, misses) <= 1:
            return misses
    return most


def _compute_flaky_chance(passes: int, misses: int) -> float:
    """Return the chance that a flaky case passes so often and then misses so often (a Beta integral)."""
    return factorial(passes) * factorial(misses) / factorial(passes + misses + 1)
