"""Several tests at once: levels that keep the budget of all of them together."""

from collections import Counter
from collections.abc import Mapping, Sequence

from evalgate.statistics.pairing import Pair
from evalgate.statistics.parameters import EPSILON, within
from evalgate.statistics.permutation import case_p, largest_p_within
from evalgate.statistics.scores import Thousandths, average


def holm(p_values: Mapping[str, float], alpha: float) -> dict[str, float]:
    """Metric → the level that its p must not exceed (Holm's step-down procedure).

    After the first test that fails to reject, no later one may: they all keep the level of that one.
    """
    levels: dict[str, float] = {}
    stopped: float | None = None
    for index, name in enumerate(sorted(p_values, key=lambda name: (p_values[name], name))):
        levels[name] = stopped or alpha / (len(p_values) - index)
        if not within(p_values[name], levels[name]):
            stopped = levels[name]
    return {name: levels[name] for name in p_values}


def hochberg(p_values: Mapping[str, float], alpha: float) -> dict[str, float]:
    """Return for each metric the level that its p must not exceed (Hochberg's step-up procedure).

    Stronger than Holm's where metrics move together, as several scores of the same runs do: four metrics at
    p = 0.06 are as unusual as one.
    """
    ascending = sorted(p_values.values())
    count = len(ascending)
    reached = (p for at, p in enumerate(ascending) if within(p, alpha / (count - at)))
    level = max(reached, default=0.0)
    return dict.fromkeys(p_values, max(level, alpha / max(1, count)))


def false_discovery_list(pairs: Sequence[Pair], rate: float, *, case_drop: float = 0.0) -> tuple[str, ...]:
    """Cases that fell by `case_drop`, of which at most the share `rate` is expected to be named wrongly.

    The discrete version of Benjamini and Hochberg (after Heyse): a threshold is charged for each case with
    the largest p not above it that the case could have shown at all.

    Raises:
        ValueError: when cases were run unequally often; after re-runs of the bad ones the list means nothing.
    """
    if len({pair.attempted for pair in pairs}) > 1:
        raise ValueError("cases were run unequally often: the list holds for fixed runs only")
    p_values = {
        pair.case: case_p(pair.baseline, pair.candidate)
        for pair in pairs
        if average(pair.baseline) - average(pair.candidate) >= case_drop - EPSILON
    }
    laws = Counter((tuple(sorted(pair.baseline + pair.candidate)), len(pair.candidate)) for pair in pairs)
    for threshold in sorted(set(p_values.values()), reverse=True):
        named = tuple(case for case, p in p_values.items() if p <= threshold)
        if _affordable(laws, threshold, rate * len(named)):
            return named
    return ()


def _affordable(laws: Mapping[tuple[Thousandths, int], int], threshold: float, most: float) -> bool:
    """At most so many unchanged cases are expected at or below the threshold."""
    expected = 0.0
    for (pooled, runs), count in laws.items():
        expected += count * largest_p_within(pooled, runs, threshold)
        if expected > most + EPSILON:
            return False
    return True
