"""Find single cases that broke, by an exact test of scores or by more failures than luck explains.

A case that never failed in a short baseline may be flaky all the same. The number of flaky cases is
estimated from the baselines of the whole suite: each case that both passed and failed there stands for some
more flaky cases that only passed or only failed.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import factorial
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.statistics.exact_test import compute_case_p
from evalgate.statistics.parameters import EPSILON, P_EPSILON, is_within_level
from evalgate.statistics.score_pairs import UNIT, Thousandths, compute_score_mean

Cell: TypeAlias = tuple[str, str]
"""(metric, case): breaks are confirmed for one metric on one case at a time."""

RegressionStatus: TypeAlias = Literal["ok", "suspect", "broken", "rerun"]


@frozen
class ConfirmationPlan:
    """Requirements for calling a case broken, which keep the chance of a false alarm within `case_alpha`."""

    t: float
    """Largest exact p at which a case is called broken."""
    need: Mapping[Cell, int]
    """Fewest runs of a cell that confirm a break if all of them score 0. A cell is absent if its stored
    mean is below `case_drop`, or if even `confirm_runs` such runs confirm nothing."""


def build_confirmation_plan(
    baselines: Mapping[Cell, Thousandths], *, case_alpha: float, case_drop: float, confirm_runs: int
) -> ConfirmationPlan:
    """Divide `case_alpha` among the cells (metric, case) in which a break can be confirmed (Tarone 1990).

    In these cells a break is confirmed if `confirm_runs` runs all score 0. In any other cell no scores
    confirm a break. There no false alarm is possible, so no share is needed.
    """
    # A case that could not fall by `case_drop` even to 0 is never called broken.
    eligible = {
        cell: scores
        for cell, scores in baselines.items()
        if compute_score_mean(scores) >= case_drop - EPSILON
    }
    least = sorted(_compute_smallest_p(scores, confirm_runs) for scores in eligible.values())
    # The smallest number of sharers that is not less than the number of cells whose p can reach the share.
    sharers = 1
    while bisect_right(least, case_alpha / sharers + P_EPSILON) > sharers:
        sharers += 1
    t = case_alpha / sharers
    needs: dict[Cell, int] = {}
    for cell, scores in eligible.items():
        for runs in range(1, confirm_runs + 1):
            if is_within_level(_compute_smallest_p(scores, runs), t):
                needs[cell] = runs
                break
    return ConfirmationPlan(t, needs)


def classify_case(
    baseline: Thousandths,
    candidate: Thousandths,
    *,
    t: float,
    need: int | None,
    case_drop: float,
    limit: int | None = None,
) -> RegressionStatus:
    """Return the status of one case after its runs so far; each side must have at least one score.

    - `ok`: the mean fell by less than `case_drop`.
    - `broken`: the fall is confirmed.
    - `rerun`: further runs can confirm the fall.
    - `suspect`: the case fell, and no further runs are wanted.

    Args:
        baseline: the stored scores.
        candidate: the scores so far.
        t: largest exact p of a confirmed break.
        need: runs that confirm a break if all of them score 0; None: a break cannot be confirmed.
        case_drop: smallest fall of the mean that counts.
        limit: most runs of a case that fails with scores above 0, for example because one of two turns is
            wrong. Such a case gets further runs on two conditions. Each of its runs is below the stored mean
            by at least `case_drop`, and further runs like its worst run would confirm a break. None: no case
            gets more than `need` runs.
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
    is_every_run_lower = compute_score_mean(baseline) - max(candidate) / UNIT >= case_drop - EPSILON
    if limit is not None and len(candidate) < limit and is_every_run_lower:
        alike = _pad_scores(candidate, limit, min(candidate))
        return "rerun" if is_within_level(compute_case_p(baseline, alike), t) else "suspect"
    return "suspect"


def _pad_scores(candidate: Thousandths, runs: int, score: int) -> Thousandths:
    """Return the scores in ascending order, with `score` added until there are `runs` scores."""
    return tuple(sorted((*(score for _ in range(runs - len(candidate))), *candidate)))


def _compute_smallest_p(baseline: Collection[int], runs: int) -> float:
    """Return the smallest possible exact p of `runs` runs: the p if all of them score 0."""
    zeros = sum(score == 0 for score in baseline)
    return math.comb(zeros + runs, runs) / math.comb(len(baseline) + runs, runs)


LEAST_MISSES = 3
"""Fewest failures in a row of a broken case, unless fewer runs are allowed: an outage can cause two."""

_IN_A_ROW = 0.015
_WITH_ONE_PASS = 0.008
"""Limits for the expected number of flaky cases of a suite that look broken.

`_IN_A_ROW` is for failures in a row, `_WITH_ONE_PASS` for failures with one pass among them. The latter finds
broken cases that pass once by luck. It costs few runs: a sound case soon passes twice.
"""

_MORE_AFTER_A_PASS = 2
"""Factor by which a case that passed once may get more runs than one that did not.

With few stored runs and many flaky cases one pass outweighs many failures. Without the further runs a
broken case that still passes 1 run in 50 is missed in one of five large suites.
"""

_IN_A_ROW_ALONE = 0.03
"""Limit for failures in a row if too few runs are allowed to call a case with one pass broken."""

_UNKNOWN = 0.3
"""Assumed share of flaky cases among the cases with a single stored run: one run shows no flakiness."""


@frozen
class StoredOutcomes:
    """Number of runs of one case, and number of failed runs among them."""

    runs: int
    failed: int


def estimate_flaky(baselines: Iterable[StoredOutcomes]) -> float:
    """Estimate the number of flaky cases of a suite, including flaky cases without a failed stored run.

    The result is at least 1. A flaky case's chance to pass is assumed to be uniform between 0 and 1. Then the
    share 1 - 2 / (n + 1) of all flaky cases shows both outcomes in n runs. The items of `baselines` may also
    be ways of failing instead of cases.
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
    """Numbers of first runs that suffice to call a failing case broken."""

    in_a_row: int
    """Number of first runs that suffices if all of them failed."""
    with_one_pass: int | None
    """Number of first runs that suffices if one of them passed; None: a case that passed once is not called
    broken."""

    def classify_runs(self, misses: Sequence[bool]) -> Literal["broke", "flake", "open"]:
        """Classify a case by its runs in order; `misses` has True for each failed run.

        - `broke`: the case is broken.
        - `flake`: too many runs passed.
        - `open`: too few runs were made to decide.

        Only the first runs decide, so that further runs give luck no second chance.
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
    """Return the breakage criteria of a case that now fails in a new way, as none of its stored runs did.

    Args:
        baseline_runs: number of stored runs of the case, at least 1.
        flaky: number of flaky cases (or of flaky ways of failing) of the suite, from `estimate_flaky`.
        most: runs that the case may get while it has not passed.
    """
    in_a_row = _count_in_a_row(baseline_runs, flaky / _IN_A_ROW, most)
    for runs in range(in_a_row + 1, count_runs_allowed(most) + 1):
        orders = in_a_row  # places of the one pass: if as many failures came first, the case broke already
        if flaky * orders * _compute_flaky_chance(baseline_runs + 1, runs - 1) <= _WITH_ONE_PASS:
            return BreakageCriteria(in_a_row, runs)
    return BreakageCriteria(_count_in_a_row(baseline_runs, flaky / _IN_A_ROW_ALONE, most), None)


def count_runs_allowed(most: int) -> int:
    """Return the most runs that a case may get: twice `most`, but 1 if `most` is 1.

    `most` is the limit while the case has not passed; `find_breakage_criteria` takes the same number.
    """
    return most if most == 1 else _MORE_AFTER_A_PASS * most


def _count_in_a_row(baseline_runs: int, rarity: float, most: int) -> int:
    for misses in range(min(LEAST_MISSES, most), most):
        if rarity * _compute_flaky_chance(baseline_runs, misses) <= 1:
            return misses
    return most


def _compute_flaky_chance(passes: int, misses: int) -> float:
    """Return the chance that a flaky case passes `passes` runs, then fails `misses` (a Beta integral)."""
    return factorial(passes) * factorial(misses) / factorial(passes + misses + 1)
