"""Which single cases broke for certain, and which only look so."""

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

from evalgate.frozen import frozen
from evalgate.statistics.parameters import EPSILON, P_EPSILON, within
from evalgate.statistics.permutation import case_p
from evalgate.statistics.scores import UNIT, Thousandths, average

Cell: TypeAlias = tuple[str, str]
"""(metric, case): what is confirmed is one metric's verdict on one case."""

Standing: TypeAlias = Literal["ok", "suspect", "broken", "rerun"]


@frozen
class ConfirmationPlan:
    """What it takes to call a case broken so that hardly ever one is called so by luck."""

    t: float
    """A case is broken at an exact p of at most this."""
    need: Mapping[Cell, int]
    """Runs after which a cell can be confirmed; absent: its baseline cannot confirm it."""


def confirmation_plan(
    baselines: Mapping[Cell, Thousandths], *, case_alpha: float, case_drop: float, confirm_runs: int
) -> ConfirmationPlan:
    """Share `case_alpha` among the cells that `confirm_runs` failures can confirm at all (after Tarone).

    A cell that no outcome of its runs could confirm cannot raise a false alarm either, and needs no share.
    """
    eligible = {cell: scores for cell, scores in baselines.items() if average(scores) >= case_drop - EPSILON}
    least = sorted(_least_p(scores, confirm_runs) for scores in eligible.values())
    sharers = 1
    while bisect_right(least, case_alpha / sharers + P_EPSILON) > sharers:
        sharers += 1
    t = case_alpha / sharers
    needs = {cell: _need(scores, t, confirm_runs) for cell, scores in eligible.items()}
    return ConfirmationPlan(t, {cell: need for cell, need in needs.items() if need is not None})


def standing(
    baseline: Thousandths,
    candidate: Thousandths,
    *,
    t: float,
    need: int | None,
    case_drop: float,
    limit: int | None = None,
) -> Standing:
    """What the runs so far say about one case; both sides have a score.

    `need` counts runs that score 0. A case whose failures score more, as one wrong turn of two does, takes
    more of them to confirm. With a `limit` it gets up to that many runs while each of them fell and more like
    them would confirm it.
    """
    if average(baseline) - average(candidate) < case_drop - EPSILON:
        return "ok"
    if need is None:
        return "suspect"
    if len(candidate) >= need and within(case_p(baseline, candidate), t):
        return "broken"
    if len(candidate) < need and within(case_p(baseline, _extend(candidate, need, 0)), t):
        return "rerun"
    if limit is not None and len(candidate) < limit and _each_fell(baseline, candidate, case_drop):
        alike = _extend(candidate, limit, min(candidate))
        return "rerun" if within(case_p(baseline, alike), t) else "suspect"
    return "suspect"


def _extend(candidate: Thousandths, runs: int, score: int) -> Thousandths:
    """Return the scores with further runs of one score, up to so many runs."""
    return tuple(sorted((*(score for _ in range(runs - len(candidate))), *candidate)))


def _each_fell(baseline: Thousandths, candidate: Thousandths, case_drop: float) -> bool:
    return average(baseline) - max(candidate) / UNIT >= case_drop - EPSILON


def _least_p(baseline: Collection[int], runs: int) -> float:
    """The p of `runs` runs that all score 0."""
    zeros = sum(score == 0 for score in baseline)
    return math.comb(zeros + runs, runs) / math.comb(len(baseline) + runs, runs)


def _need(baseline: Collection[int], t: float, most: int) -> int | None:
    return next((runs for runs in range(1, most + 1) if within(_least_p(baseline, runs), t)), None)
