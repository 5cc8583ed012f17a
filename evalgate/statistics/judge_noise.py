"""Separate the noise of a judge from that of an agent; standard library only.

Several runs of a case answer the same question, and the judge scores each response several times. The average
score of a response varies between runs for two reasons: the agent answers differently, and the judge scores
the same response differently when asked again. The judge's part in the variance of the average is estimated
by s² / n, where s² is the variance of the n scores of a response. The estimate is unbiased for every
distribution (a one-way random-effects decomposition with unequal variances; Searle, Casella and McCulloch
1992).
"""

import math
from collections.abc import Sequence
from statistics import fmean

from evalgate.core.frozen import frozen
from evalgate.statistics.threshold_test import compute_student_quantile

FEWEST_CASES = 12
"""Fewest cases with varying scores for an estimate: with fewer, its interval misses the truth too often."""

_TAIL = 0.025


@frozen
class CaseVariance:
    """Variance between the runs of one case, as sums of squares over its questions."""

    total: float
    """Sum of squares: the distance of each response's average score from the average of its question."""
    judge: float
    """Estimated part of `total` that the judge causes."""


@frozen
class JudgeShare:
    """Estimated share (0 to 1) of the score variance between runs that the judge causes."""

    value: float
    low: float
    """Lower limit of the 95 % interval."""
    high: float
    cases: int
    """Number of cases with varying scores."""


def decompose_case(questions: Sequence[Sequence[Sequence[float]]]) -> CaseVariance:
    """Return the variance of one case between its runs, and the judge's part of it, as sums of squares.

    `questions[q][r]` has the scores that the judge gave, in several samples, to the response of run r to
    question q. Responses with fewer than two scores are left out, and then questions with fewer than two
    responses. Both sums are 0 if no question is left.
    """
    total = judge = 0.0
    for question in questions:
        responses = [scores for scores in question if len(scores) >= 2]
        if len(responses) < 2:
            continue
        averages = [fmean(scores) for scores in responses]
        center = fmean(averages)
        total += math.fsum((each - center) ** 2 for each in averages)
        # A distance from the average of m responses keeps 1 - 1/m of the variance of a response.
        kept = 1 - 1 / len(responses)
        judge += kept * math.fsum(map(_estimate_variance_of_mean, responses))
    return CaseVariance(total, judge)


def _estimate_variance_of_mean(scores: Sequence[float]) -> float:
    center, count = fmean(scores), len(scores)
    return math.fsum((each - center) ** 2 for each in scores) / (count - 1) / count


def estimate_judge_share(cases: Sequence[CaseVariance]) -> JudgeShare | None:
    """Estimate the judge's share of the score variance between runs, over all cases.

    Return None if fewer than 12 cases have varying scores, or if no average varies between runs. The limits
    follow from the delta method for a ratio of two sums over independent cases, with Student's quantile.
    """
    varying = [each for each in cases if each.total > 0 or each.judge > 0]
    total = math.fsum(each.total for each in varying)
    if len(varying) < FEWEST_CASES or not total:
        return None
    ratio = math.fsum(each.judge for each in varying) / total
    squares = math.fsum((each.judge - ratio * each.total) ** 2 for each in varying)
    count = len(varying)
    reach = compute_student_quantile(_TAIL, count - 1) * math.sqrt(squares * count / (count - 1)) / total
    value, low, high = (min(1.0, max(0.0, each)) for each in (ratio, ratio - reach, ratio + reach))
    return JudgeShare(value, low, high, count)
