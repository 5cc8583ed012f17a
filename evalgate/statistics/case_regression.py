"""Find single cases that broke: by an exact test of scores, or by more failures than luck explains.

A case that never failed in a short baseline may still be flaky. So the number of flaky cases is estimated
from the stored runs of the whole suite. Cases that both passed and failed show that they are flaky. They also
show how many flaky cases to expect among the cases that only passed or only failed.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import factorial
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.statistics.case_permutation_test import compute_case_p
from evalgate.statistics.parameters import EPSILON, P_EPSILON, is_within_level
from evalgate.statistics.score_pairs import UNIT, Thousandths, compute_score_mean

Cell: TypeAlias = tuple[str, str]
"""(metric, case): a break is confirmed separately for each metric on each case."""

RegressionStatus: TypeAlias = Literal["ok", "suspect", "broken", "rerun"]


@frozen
class ConfirmationPlan:
    """Requirements for calling a case broken; they keep the chance of a false alarm within `case_alpha`."""

    t: float
    """Largest exact p at which a case is called broken."""
    need: Mapping[Cell, int]
    """Maps a cell (metric, case) to the fewest runs that confirm a break if all of them score 0. A cell is
    absent if its stored mean is below `case_drop`, or if even `confirm_runs` runs that score 0 do not confirm
    a break."""


def build_confirmation_plan(
    baselines: Mapping[Cell, Thousandths], *, case_alpha: float, case_drop: float, confirm_runs: int
) -> ConfirmationPlan:
    """Divide `case_alpha` among the cells (metric, case) in which a break can be confirmed (Tarone 1990).

    `baselines` has the stored scores of each cell. A break can be confirmed in a cell if `confirm_runs` runs
    that all score 0 would confirm it. Any other cell gets no share of `case_alpha`, because it can cause no
    false alarm.
    """
    # A case that could not fall by `case_drop` even to 0 is never called broken.
    eligible = {
        cell: scores
        for cell, scores in baselines.items()
        if compute_score_mean(scores) >= case_drop - EPSILON
    }
    least = sorted(_compute_smallest_p(scores, confirm_runs) for scores in eligible.values())
    # Take the smallest number n for which at most n cells can reach a p of `case_alpha` / n.
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

    - `ok`: the mean fell by less than `case_drop`, or not at all.
    - `broken`: the mean fell by `case_drop` or more, and the break is confirmed.
    - `rerun`: the mean fell by `case_drop` or more, and further runs can confirm a break.
    - `suspect`: the mean fell by `case_drop` or more; further runs cannot confirm a break or are not allowed.

    Args:
        baseline: the stored scores.
        candidate: the scores so far.
        t: largest exact p of a confirmed break.
        need: number of runs that confirm a break if all of them score 0; None: a break cannot be confirmed.
        case_drop: smallest fall of the mean that counts.
        limit: largest number of runs of a case that fails with scores above 0, for example because one of two
            turns is wrong. Such a case may need more than `need` runs to confirm a break. It gets them on two
            conditions: each of its runs is below the stored mean by at least `case_drop`, and further runs
            like its worst run, up to `limit`, would confirm the break. None: no case gets more than `need`.
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
    """Return the smallest exact p that `runs` runs of the candidate can have: the p if all score 0."""
    zeros = sum(score == 0 for score in baseline)
    return math.comb(zeros + runs, runs) / math.comb(len(baseline) + runs, runs)


LEAST_MISSES = 3
"""Fewest failures in a row that show a broken case, because an outage can cause two failures. If fewer runs
than this are allowed, all allowed runs must fail."""

_IN_A_ROW = 0.015
_WITH_ONE_PASS = 0.008
"""Limits for the expected number of flaky cases in a suite that look broken.

`_IN_A_ROW` applies to cases with only failed runs, `_WITH_ONE_PASS` to cases with one passed run. The second
limit exists to find broken cases that pass once by luck. It costs few runs: a sound case soon passes twice.
"""

_MORE_AFTER_A_PASS = 2
"""A case that passed once may get this many times the runs of a case that never passed.

With few stored runs and many flaky cases, one pass outweighs many failures. Without the additional runs, a
broken case that still passes 1 run in 50 is missed in one of five large suites.
"""

_IN_A_ROW_ALONE = 0.03
"""Limit that replaces `_IN_A_ROW` if the allowed runs are too few to call a case with one pass broken."""

_UNKNOWN = 0.3
"""Assumed share of flaky cases among the cases with one stored run, because one run shows no flakiness."""


@frozen
class StoredOutcomes:
    """Number of runs of one case, and number of failed runs among them."""

    runs: int
    failed: int


def estimate_flaky(baselines: Iterable[StoredOutcomes]) -> float:
    """Estimate the number of flaky cases of a suite, including flaky cases that only passed or only failed.

    The result is at least 1. A flaky case's chance to pass is assumed to be uniform between 0 and 1. Then the
    share 1 - 2 / (n + 1) of all flaky cases shows both outcomes in n runs. `baselines` has one item for each
    case. If it has one item for each way of failing, the result is the number of flaky ways of failing.
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
    """Numbers of runs after which a failing case is called broken; only its first runs count."""

    failures_in_a_row: int
    """A case is broken if this number of runs was made, and all of them failed."""
    with_one_pass: int | None
    """A case is also broken if this number of runs was made, and only one of them passed. It is larger than
    the number for runs that all failed. None: a case with a passed run is never called broken."""

    def classify_runs(self, misses: Sequence[bool]) -> Literal["broke", "flake", "open"]:
        """Classify a case by its runs in order; `misses` has True for each failed run.

        - `broke`: the case is broken.
        - `flake`: too many runs passed.
        - `open`: too few runs were made to decide.

        Only the first runs count, up to the numbers in the fields. So a `broke` or `flake` is final.
        """
        if len(misses) >= self.failures_in_a_row and all(misses[: self.failures_in_a_row]):
            return "broke"
        if self.with_one_pass is None:
            return "open" if all(misses) else "flake"
        first = misses[: self.with_one_pass]
        if first.count(False) > 1:
            return "flake"
        return "broke" if len(first) == self.with_one_pass else "open"


def find_breakage_criteria(baseline_runs: int, flaky: float, *, most: int) -> BreakageCriteria:
    """Return the criteria for calling a case broken if it fails in a way in which no stored run failed.

    Args:
        baseline_runs: number of stored runs of the case, at least 1.
        flaky: number of flaky cases (or of flaky ways of failing) of the suite, from `estimate_flaky`.
        most: largest number of runs that the case may get as long as none of them passed.
    """
    failures_in_a_row = _count_failures_in_a_row(baseline_runs, flaky / _IN_A_ROW, most)
    for runs in range(failures_in_a_row + 1, get_max_runs(most) + 1):
        # Possible places of the one pass: after `failures_in_a_row` failures, the case would be broken.
        orders = failures_in_a_row
        if flaky * orders * _compute_flaky_chance(baseline_runs + 1, runs - 1) <= _WITH_ONE_PASS:
            return BreakageCriteria(failures_in_a_row, runs)
    return BreakageCriteria(_count_failures_in_a_row(baseline_runs, flaky / _IN_A_ROW_ALONE, most), None)


def get_max_runs(most: int) -> int:
    """Return the largest number of runs that a failing case may get if one of its runs passed.

    `most` is the limit as long as no run passed. The result is twice `most`, but 1 if `most` is 1.
    """
    return most if most == 1 else _MORE_AFTER_A_PASS * most


def _count_failures_in_a_row(baseline_runs: int, rarity: float, most: int) -> int:
    for misses in range(min(LEAST_MISSES, most), most):
        if rarity * _compute_flaky_chance(baseline_runs, misses) <= 1:
            return misses
    return most


def _compute_flaky_chance(passes: int, misses: int) -> float:
    """Return the chance that a flaky case passes `passes` runs and then fails `misses` runs.

    It is a Beta integral, because the case's chance to pass is assumed to be uniform between 0 and 1.
    """
    return factorial(passes) * factorial(misses) / factorial(passes + misses + 1)
