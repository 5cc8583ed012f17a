"""Pair the cases of baseline and candidate by their scores."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Literal, TypeAlias

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.statistics.parameters import EPSILON, MetricRule

Score: TypeAlias = float | None
"""Score of one run: 0 to 1; None, NaN and infinities are missing. A crash of the agent is 0, not missing."""

Thousandths: TypeAlias = tuple[int, ...]
"""Scores in thousandths, ascending: sums are exact in any order, and -0.0 is 0."""

UNIT = 1000

_OUTSIDE = -1


def normalize_scores(scores: Sequence[Score], case: str = "") -> Thousandths:
    """Return the finite scores in thousandths, ascending; scores up to 1e-9 out of range are clamped.

    Raises:
        InvalidInputError: a score is outside 0 to 1. The message has the id `case` unless it is "".
    """
    found = [_to_thousandths(score) for score in scores if score is not None]
    if _OUTSIDE in found:
        wrong = next(score for score in scores if score is not None and _to_thousandths(score) == _OUTSIDE)
        prefix = f"case {case}: " if case else ""
        raise InvalidInputError(
            f"{prefix}the score {wrong!r} is not between 0 and 1; scale the metric to that range."
        )
    return tuple(sorted(score for score in found if score is not None))


def count_missing(scores: Iterable[Score]) -> int:
    """Count the runs without a score."""
    return sum(score is None or not math.isfinite(score) for score in scores)


def compute_score_mean(scores: Thousandths) -> float:
    """Return the mean of at least one score, 0 to 1."""
    return sum(scores) / (UNIT * len(scores))


def compute_score_variance(scores: Thousandths) -> float:
    """Return the sample variance (ddof 1) of at least two scores."""
    n, total = len(scores), sum(scores)
    return (n * sum(x * x for x in scores) - total * total) / (n * (n - 1) * UNIT * UNIT)


@lru_cache(maxsize=8192)
def _to_thousandths(score: float) -> int | None:
    """Return the score in thousandths; `_OUTSIDE` if it is not between 0 and 1, None if it is not finite."""
    if not math.isfinite(score):
        return None
    # Decimals first: in `score * UNIT` a rounding error can move a half to the other side.
    return round(round(score, 3) * UNIT) if -EPSILON <= score <= 1 + EPSILON else _OUTSIDE


UnpairedReason: TypeAlias = Literal["new", "removed", "changed", "no_score"]


@frozen
class CaseScores:
    """Raw scores of one metric on one case."""

    baseline: Sequence[Score] | None
    """Oldest run first; None: the baseline does not know the case."""
    candidate: Sequence[Score] | None
    """In the order in which the runs were planned, so far; None: the case was removed and will not be run."""
    weight: float = 1.0
    """Greater than 0."""
    comparable: bool = True
    """False: the case, the metric or its judge changed since the baseline was recorded."""
    skips_runs: bool = False
    """True: runs without a score are left out on purpose, and none is missing."""


@frozen
class GatingMetric:
    """Metric that can close the gate: its rule and the measured scores."""

    cases: Mapping[str, CaseScores]
    rule: MetricRule = field(default_factory=MetricRule)


@frozen
class Pair:
    """Case with scores on both sides."""

    case: str
    baseline: Thousandths
    candidate: Thousandths
    weight: float = 1.0
    attempted: int = 0
    """Candidate runs, with and without a score."""


@frozen
class PairedScores:
    """All cases of one metric, grouped by whether they can be compared."""

    pairs: tuple[Pair, ...]
    unpaired: Mapping[str, UnpairedReason]
    measured: Mapping[str, tuple[Thousandths, float]]
    """Case id to the candidate's scores and the weight, for every case in which the candidate has a score;
    new and changed cases too."""
    missing: int
    """Planned candidate runs without a score, over all cases; cases that skip runs miss none."""
    planned: int
    """Planned candidate runs."""


def pair_cases(
    cases: Mapping[str, CaseScores], *, keep: int, first: int | None = None, runs: int = 0
) -> PairedScores:
    """Match the cases that have scores on both sides, and give the reason for each other case.

    Args:
        cases: case id to scores.
        keep: newest baseline runs that count.
        first: only so many candidate runs of each case count; None: all.
        runs: fewest planned runs of each case. A case without any run misses all of them; a case with fewer
            runs was stopped early, and misses only those without a score.

    Raises:
        InvalidInputError: for a score outside 0 to 1 or a weight that is not a positive number.
    """
    pairs, unpaired, measured = [], {}, {}
    lost = planned = 0
    for case, scores in cases.items():
        made = None if scores.candidate is None else tuple(scores.candidate)[:first]
        candidate = normalize_scores(made or (), case)
        baseline = normalize_scores(() if scores.baseline is None else scores.baseline[-keep:], case)
        if not (math.isfinite(scores.weight) and scores.weight > 0):
            raise InvalidInputError(f"case {case}: the weight {scores.weight!r} is not a positive number.")
        if made is not None:
            planned += max(len(made), runs)
            lost += 0 if scores.skips_runs else count_missing(made) if made else runs
        if candidate:
            measured[case] = (candidate, scores.weight)
        if status := _find_unpaired_reason(scores, baseline, candidate):
            unpaired[case] = status
        else:
            pairs.append(Pair(case, baseline, candidate, scores.weight, len(made or ())))
    return PairedScores(tuple(pairs), unpaired, measured, lost, planned)


def _find_unpaired_reason(
    scores: CaseScores, baseline: Thousandths, candidate: Thousandths
) -> UnpairedReason | None:
    if scores.candidate is None:
        return "removed"
    if scores.baseline is None:
        return "new"
    if not scores.comparable:
        return "changed"
    return None if baseline and candidate else "no_score"
