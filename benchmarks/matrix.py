"""Simulate how often conclusions of `evalgate matrix` are right: false differences, false "not worse", power."""

import math
import random
from functools import partial

from evalgate.statistics.score_pairs import Pair
from evalgate.statistics.variant_comparison import ComparedScores, compare_variants, estimate_usage_ratio

LIMIT = 0.05
UNIT = 1000


def main(repeats):
    """Print the tables of docs/matrix.md."""
    _measure_false_differences(repeats)
    _measure_false_limits(repeats)
    _measure_power(repeats)
    _measure_ratios(repeats)


def _measure_false_differences(repeats):
    print(f'equal variants: matrices with a false "better" or "worse", % of {repeats:,}')
    for cases in (10, 20, 50):
        for runs in (1, 3, 5):
            cells = []
            for variants, metrics in ((2, 1), (4, 1), (8, 1), (2, 3), (4, 3), (8, 3)):
                dice = random.Random(f"aa {cases} {runs} {variants} {metrics}")
                false = sum(
                    any(score.conclusion in {"better", "worse"} for score in found.values())
                    for found in _draw(dice, repeats, cases, runs, variants, metrics, 0.0)
                )
                cells.append(f"{variants}x{metrics}: {100 * false / repeats:4.1f}")
            print(f"  {cases} cases, {runs} runs:  {'   '.join(cells)}", flush=True)


def _measure_false_limits(repeats):
    print(f'\nvariants worse by 5 and 6 points: matrices with a false "not worse", % of {repeats:,}')
    for how in ("spread", "broken"):
        for cases in (20, 50, 100):
            for runs in (3, 10):
                cells = []
                for variants, drop in ((2, 0.05), (4, 0.05), (2, 0.06), (4, 0.06), (8, 0.06)):
                    dice = random.Random(f"limit {how} {cases} {runs} {variants} {drop}")
                    false = sum(
                        any(score.is_within_limit for score in found.values())
                        for found in _draw(dice, repeats, cases, runs, variants, 1, drop, how)
                    )
                    cells.append(f"{variants} by {100 * drop:.0f}: {100 * false / repeats:4.1f}")
                print(f"  {how}, {cases} cases, {runs} runs:  {'   '.join(cells)}", flush=True)


def _measure_power(repeats):
    print("\ntold right, %, of 2 and of 4 variants: not worse if equal; worse by 10, by 20 points")
    for cases in (20, 50, 100, 200):
        for runs in (3, 5, 10):
            cells = []
            for variants in (2, 4):
                for drop in (0.0, 0.10, 0.20):
                    dice = random.Random(f"power {cases} {runs} {variants} {drop}")
                    few = max(1, repeats // 4)
                    right = sum(
                        found["variant 1", "metric 0"].conclusion == ("worse" if drop else "not_worse")
                        for found in _draw(dice, few, cases, runs, variants, 1, drop)
                    )
                    cells.append(f"{100 * right / few:3.0f}")
            print(f"  {cases} cases, {runs} runs:  {'  '.join(cells)}", flush=True)


def _measure_ratios(repeats):
    few = 5 * repeats
    print(f"\nintervals of cost ratios that miss the true one, % of {few:,}, and their typical width; 3 runs")
    for name, (draw, true) in COSTS.items():
        cells = []
        for cases in (5, 10, 20, 50):
            dice, missed, widths = random.Random(f"ratio {name} {cases}"), 0, []
            for _ in range(few):
                found = estimate_usage_ratio([_average_runs(dice, draw) for _ in range(cases)])
                if found is None:  # one side used nothing: there is no interval
                    continue
                missed += not found.low <= true <= found.high
                widths.append(found.high / found.low)
            cells.append(
                f"{cases} cases: {100 * missed / len(widths):4.1f} x{sorted(widths)[len(widths) // 2]:.2f}"
            )
        print(f"  {name:34}  {'   '.join(cells)}", flush=True)


def _average_runs(dice, draw):
    """Return the mean cost of three simulated runs of one case, for the reference and for the variant."""
    run = draw(dice)
    costs = [run() for _ in range(3)]
    return sum(then for then, _ in costs) / 3, sum(now for _, now in costs) / 3


def _vary_size(spread, noise):
    """Return a law of costs that vary between cases by `spread` and between runs by `noise`.

    Both are standard deviations of the logarithm. The variant costs a quarter of the reference.
    """

    def draw(dice):
        size = dice.lognormvariate(0, spread)
        return lambda: (
            size * dice.lognormvariate(0, noise),
            0.25 * size * dice.lognormvariate(0, noise),
        )

    return draw


def _vary_ratio(dice):
    size = dice.lognormvariate(0, 0.8)
    own = 0.25 * size * dice.lognormvariate(0, 0.4)
    return lambda: (size * dice.lognormvariate(0, 0.3), own * dice.lognormvariate(0, 0.3))


def _be_unrelated(dice):
    then, now = dice.lognormvariate(0, 0.8), 0.25 * dice.lognormvariate(0, 0.8)
    return lambda: (then * dice.lognormvariate(0, 0.3), now * dice.lognormvariate(0, 0.3))


def _cache_runs(dice):
    size = dice.lognormvariate(0, 0.5)
    return lambda: (
        size * dice.lognormvariate(0, 0.3) * (dice.random() > 0.4),
        0.25 * size * dice.lognormvariate(0, 0.3) * (dice.random() > 0.4),
    )


def _add_overhead(dice):
    size = dice.lognormvariate(0, 0.4)
    return lambda: (
        0.2 + size * dice.lognormvariate(0, 0.3),
        0.1 + 0.5 * size * dice.lognormvariate(0, 0.3),
    )


def _retry_runs(dice, both):
    size = dice.lognormvariate(0, 0.5)
    return lambda: (
        size * dice.lognormvariate(0, 0.2) * (5 if both and dice.random() < 0.1 else 1),
        0.25 * size * dice.lognormvariate(0, 0.2) * (5 if dice.random() < 0.1 else 1),
    )


def _retry_cases(dice):
    size = dice.lognormvariate(0, 0.5)
    own = 0.25 * size * (6 if dice.random() < 0.15 else 1)
    return lambda: (size * dice.lognormvariate(0, 0.2), own * dice.lognormvariate(0, 0.2))


_LARGE = math.exp((0.4**2 + 0.3**2) / 2)

COSTS = {
    "sizes differ": (_vary_size(0.8, 0.3), 0.25),
    "sizes differ widely": (_vary_size(1.3, 0.3), 0.25),
    "runs differ widely": (_vary_size(0.8, 0.7), 0.25),
    "the ratio differs by case": (_vary_ratio, 0.25 * math.exp(0.4**2 / 2)),
    "costs are unrelated": (_be_unrelated, 0.25),
    "40 % of the runs cost nothing": (_cache_runs, 0.25),
    "seconds with overhead": (_add_overhead, (0.1 + 0.5 * _LARGE) / (0.2 + _LARGE)),
    "10 % of all runs cost 5 times": (partial(_retry_runs, both=True), 0.25),
    "10 % of the variant's cost 5 times": (partial(_retry_runs, both=False), 0.25 * 1.4),
    "15 % of its cases cost 6 times": (_retry_cases, 0.25 * 1.75),
}
"""Name to a law of the costs, and the true ratio of the variant's costs to the reference's.

A law draws a case and returns a function that draws the costs (reference, variant) of one of its runs.
"""


def _draw(dice, repeats, cases, runs, variants, metrics, drop, how="spread"):
    """Yield the comparisons of simulated matrices. Scores of several metrics in the same run are correlated."""
    for _ in range(repeats):
        chances = _choose_chances(dice, cases)
        lowered = _lower(dice, chances, drop, how)
        tables = {}
        sides = [_run_all(dice, chances, runs, metrics)]
        sides += [_run_all(dice, lowered, runs, metrics) for _ in range(variants - 1)]
        for variant in range(1, variants):
            for metric in range(metrics):
                pairs = [
                    Pair(f"case {at:03}", before[metric], after[metric])
                    for at, (before, after) in enumerate(zip(sides[0], sides[variant], strict=True))
                ]
                tables[f"variant {variant}", f"metric {metric}"] = ComparedScores(pairs, LIMIT)
        yield compare_variants(tables)


def _choose_chances(dice, cases):
    """Return the chance to pass for each case: 60 % of the cases stable, 10 % failing, 30 % flaky."""
    stable, failing = round(0.6 * cases), round(0.1 * cases)
    return (
        [0.995] * stable
        + [0.02] * failing
        + [dice.uniform(0.3, 0.95) for _ in range(cases - stable - failing)]
    )


def _lower(dice, chances, drop, how):
    if how == "spread":
        share = drop * len(chances) / sum(chances)
        return [chance * (1 - share) for chance in chances]
    lowered, left = list(chances), drop * len(chances)
    for at in dice.sample(range(len(chances)), len(chances)):
        fall = min(left, lowered[at])
        lowered[at] -= fall
        left -= fall
    return lowered


def _run_all(dice, chances, runs, metrics):
    """Return the scores of each case by metric.

    In half of the runs, a further metric has the score of the first metric; in the others, its score is drawn.
    """
    rows = []
    for chance in chances:
        first = [dice.random() < chance for _ in range(runs)]
        rows.append(
            [
                tuple(
                    sorted(
                        UNIT * (one if metric == 0 or dice.random() < 0.5 else dice.random() < chance)
                        for one in first
                    )
                )
                for metric in range(metrics)
            ]
        )
    return rows
