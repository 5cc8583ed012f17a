"""Half widths that do not collapse where no run differs from another."""

import math
from functools import lru_cache
from statistics import NormalDist


@lru_cache(maxsize=64)
def quantile(alpha: float) -> float:
    """The standard normal's one-sided quantile z of `alpha`, between 0 and 0.5."""
    return NormalDist().inv_cdf(1 - alpha)


def half_width(variance: float, inverse_runs: float, alpha: float) -> float:
    """The half width a + √(z²V + a²) with a = z²·m⁻¹/2.

    The a-term is what zero failures in so few runs leave open: at zero variance it is z²·m⁻¹, which is close
    to the rule of three. `inverse_runs` is m⁻¹ = Σw²/R, the inverse of the effective number of runs.
    """
    z = quantile(alpha)
    a = z * z * inverse_runs / 2
    return a + math.sqrt(z * z * variance + a * a)


def wilson_interval(successes: int, trials: int, alpha: float = 0.025) -> tuple[float, float]:
    """Return the bounds of a share that was seen in independent trials, each missed with chance `alpha`.

    Wilson's score interval: unlike share ± 2 standard errors it has a width where no trial, or every one,
    succeeded. By default 95 % for both sides together. No trials: (0, 1).
    """
    if trials == 0:
        return 0.0, 1.0
    z = quantile(alpha)
    share = successes / trials
    middle = share + z * z / (2 * trials)
    reach = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    low = 0.0 if successes == 0 else (middle - reach) / scale
    high = 1.0 if successes == trials else (middle + reach) / scale
    return low, high
