"""Correct for several tests at once: family-wise error (Holm, Hochberg) and false discovery rate.

With twenty unchanged metrics, luck alone gives one of them a p of 0.05 or less on average. Without a
correction, this metric would close the gate.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from evalgate.statistics.case_permutation_test import compute_case_p, find_largest_p
from evalgate.statistics.parameters import EPSILON, is_within_level
from evalgate.statistics.score_pairs import Pair, Thousandths, compute_score_mean


def compute_holm_levels(p_values: Mapping[str, float], alpha: float) -> dict[str, float]:
    """Return the level of each test, by name: the largest p that is significant, by Holm's procedure.

    This step-down procedure stops at the smallest p that is not significant. Tests with a larger p are not
    significant either, and get the same level as the test at which the procedure stopped.
    """
    levels: dict[str, float] = {}
    stopped: float | None = None
    for index, name in enumerate(sorted(p_values, key=lambda name: (p_values[name], name))):
        levels[name] = stopped or alpha / (len(p_values) - index)
        if not is_within_level(p_values[name], levels[name]):
            stopped = levels[name]
    return {name: levels[name] for name in p_values}


def compute_hochberg_levels(p_values: Mapping[str, float], alpha: float) -> dict[str, float]:
    """Return the level of each test, by name: the largest p that is significant, by Hochberg's procedure.

    This step-up procedure finds more significant tests than Holm's if metrics change together, as several
    scores of the same runs do. If alpha is 0.06 and four metrics have a p of 0.06, all four are significant,
    but none by Holm's procedure.
    """
    ascending = sorted(p_values.values())
    count = len(ascending)
    reached = (p for at, p in enumerate(ascending) if is_within_level(p, alpha / (count - at)))
    level = max(reached, default=0.0)
    return dict.fromkeys(p_values, max(level, alpha / max(1, count)))


def find_discoveries(pairs: Sequence[Pair], rate: float, *, case_drop: float = 0.0) -> tuple[str, ...]:
    """Return the ids of the cases that fell most significantly, in the order of `pairs`.

    These are all cases that fell by `case_drop` or more, and have a p up to a threshold. The function chooses
    the largest threshold with which at most the share `rate` of the returned cases is expected to be
    unchanged (the false discovery rate). It uses the discrete version of the method of Benjamini and Hochberg
    (Heyse 2011): the expected number of unchanged cases is a sum, to which each case adds the largest p that
    its scores make possible and that is not above the threshold.

    Raises:
        ValueError: cases have unequal numbers of runs. If only bad cases were run again, the list would be
            biased.
    """
    if len({pair.attempted for pair in pairs}) > 1:
        raise ValueError("cases were run unequally often: the list holds for fixed runs only")
    p_values = {
        pair.case: compute_case_p(pair.baseline, pair.candidate)
        for pair in pairs
        if compute_score_mean(pair.baseline) - compute_score_mean(pair.candidate) >= case_drop - EPSILON
    }
    case_counts = Counter(
        (tuple(sorted(pair.baseline + pair.candidate)), len(pair.candidate)) for pair in pairs
    )
    for threshold in sorted(set(p_values.values()), reverse=True):
        named = tuple(case for case, p in p_values.items() if p <= threshold)
        if _is_within_discovery_budget(case_counts, threshold, rate * len(named)):
            return named
    return ()


def _is_within_discovery_budget(
    case_counts: Mapping[tuple[Thousandths, int], int], threshold: float, most: float
) -> bool:
    """Return True if, by luck alone, at most `most` cases are expected to have a p up to the threshold.

    `case_counts` maps (pooled scores, number of candidate runs) to the number of cases that have both alike.
    """
    expected = 0.0
    for (pooled, runs), count in case_counts.items():
        expected += count * find_largest_p(pooled, runs, threshold)
        if expected > most + EPSILON:
            return False
    return True
