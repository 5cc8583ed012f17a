"""Several tests at once: levels that keep the budget of all of them together."""

from collections.abc import Mapping, Sequence

from evalgate.statistics.pairing import Pair
from evalgate.statistics.parameters import within
from evalgate.statistics.permutation import attainable, case_p


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


def false_discovery_list(pairs: Sequence[Pair], rate: float) -> tuple[str, ...]:
    """Cases that got worse, of which at most the share `rate` is expected to be named wrongly.

    The discrete version of Benjamini and Hochberg (after Heyse): a threshold is charged for each case with
    the largest p not above it that the case could have shown at all.

    Raises:
        ValueError: when cases were run unequally often; after re-runs of the bad ones the list means nothing.
    """
    if len({pair.attempted for pair in pairs}) > 1:
        raise ValueError("cases were run unequally often: the list holds for fixed runs only")
    p_values = {pair.case: case_p(pair.baseline, pair.candidate) for pair in pairs}
    supports = [attainable(pair.baseline, pair.candidate) for pair in pairs]
    threshold = max(
        (t for t in set(p_values.values()) if _expected(supports, t) <= rate * _named(p_values, t)),
        default=-1.0,
    )
    return tuple(case for case, p in p_values.items() if p <= threshold)


def _expected(supports: Sequence[Sequence[float]], t: float) -> float:
    """How many unchanged cases would be named at `t`."""
    return sum(max((p for p in support if p <= t), default=0.0) for support in supports)


def _named(p_values: Mapping[str, float], t: float) -> int:
    return sum(p <= t for p in p_values.values())
