"""Pair the scores of baseline and candidate for each case, and convert scores to whole thousandths."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from typing import Literal, TypeAlias

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.statistics.parameters import EPSILON, MetricRule

Score: TypeAlias = float | None
"""Score of one run, 0 to 1. None, NaN or an infinity: the score is missing. A crash of the agent scores 0."""

Thousandths: TypeAlias = tuple[int, ...]
"""Scores in thousandths, ascending. Whole numbers are used because their sums are exact in any order."""

UNIT = 1000

EQUAL_WEIGHTS: Mapping[str, float] = {}
"""Weights by case id. A case that is missing has the weight 1, so here all cases have the same weight."""

_OUTSIDE = -1


def normalize_scores(scores: Sequence[Score], case: str = "") -> Thousandths:
    """Return the finite scores in thousandths, ascending; None, NaN and infinite scores are left out.

    Scores up to 1e-9 outside of 0 to 1 are clamped. `case` is the id of the case for the error message; "":
    the message has no id.

    Raises:
        InvalidInputError: a score is outside 0 to 1.
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
    """Count the scores that are None, NaN or infinite."""
    return sum(score is None or not math.isfinite(score) for score in scores)


def compute_score_mean(scores: Thousandths) -> float:
    """Return the mean of the scores, 0 to 1; `scores` must not be empty."""
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
    """Scores of the stored runs, the oldest first; None: the baseline does not know the case."""
    candidate: Sequence[Score] | None
    """Scores of the runs so far, in the planned order of runs; None: the case was removed and is not run."""
    weight: float = 1.0
    """Weight of the case in the average, greater than 0."""
    comparable: bool = True
    """False: the case, the metric or its judge changed since the baseline was recorded."""
    skips_runs: bool = False
    """True: runs without a score do not count as missing, because they were left out on purpose."""


@frozen
class ScoreTable:
    """Scores of a metric that can close the gate, by case id, with the rule of the metric."""

    cases: Mapping[str, CaseScores]
    rule: MetricRule = field(default_factory=MetricRule)


@frozen
class Pair:
    """Case that can be compared: it has at least one score of the baseline and one of the candidate."""

    case: str
    baseline: Thousandths
    candidate: Thousandths
    weight: float = 1.0
    attempted: int = 0
    """Number of candidate runs, with and without a score."""


@frozen
class PairedScores:
    """All cases of one metric: the cases that can be compared, and the reasons why other cases cannot."""

    pairs: tuple[Pair, ...]
    unpaired: Mapping[str, UnpairedReason]
    """Maps the id of each case that cannot be compared to the reason."""
    measured: Mapping[str, tuple[Thousandths, float]]
    """Maps a case id to the candidate's scores and the weight, for every case with a score of the candidate.
    New and changed cases are included."""
    missing: int
    """Number of planned candidate runs without a score, over all cases except those with `skips_runs`."""
    planned: int
    """Number of planned candidate runs, over all cases."""


def pair_cases(
    cases: Mapping[str, CaseScores], *, keep: int, first: int | None = None, runs: int = 0
) -> PairedScores:
    """Pair the baseline's and the candidate's scores of each case, with a reason for each unpaired case.

    Args:
        cases: maps a case id to its scores.
        keep: number of newest baseline runs that count.
        first: number of first candidate runs of each case that count; None: all count.
        runs: number of planned runs of each case, for the counts `planned` and `missing` of the result. A
            case without any run adds this number to `missing`. A case with fewer runs was stopped early on
            purpose, and adds only its runs without a score.

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
