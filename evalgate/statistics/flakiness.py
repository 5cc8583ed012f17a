"""How often a case changes its mind, from the runs of the same agent."""

import math
from collections.abc import Mapping, Sequence

from evalgate.frozen import frozen
from evalgate.statistics.parameters import EPSILON
from evalgate.statistics.scores import Score


@frozen
class Flakiness:
    """One case over its history."""

    runs: int
    """With a score."""
    passed: int
    flip_rate: float | None
    """Chance that two of its runs disagree, 0 to 0.5 for many runs; None below two runs.

    The unbiased estimate 2·c·(n−c)/(n·(n−1)): it does not depend on the order of the runs.
    """
    latest_passes: int
    """Passed runs in a row at the end: what was quarantined may have healed."""


def flakiness(history: Mapping[str, Sequence[Score]], *, pass_score: float = 1.0) -> dict[str, Flakiness]:
    """Case → its flakiness; runs oldest first, those without a score do not count."""
    return {case: _flakiness(runs, pass_score) for case, runs in history.items()}


def _flakiness(runs: Sequence[Score], pass_score: float) -> Flakiness:
    passes = [score >= pass_score - EPSILON for score in runs if score is not None and math.isfinite(score)]
    n, passed = len(passes), sum(passes)
    rate = 2 * passed * (n - passed) / (n * (n - 1)) if n > 1 else None
    trailing = next((index for index, good in enumerate(reversed(passes)) if not good), n)
    return Flakiness(n, passed, rate, trailing)
