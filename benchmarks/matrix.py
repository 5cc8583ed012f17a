"""How often the sentences of `evalgate matrix` are right: false differences, false "not worse", power."""

import random
import sys

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
    print(f"\nintervals of cost ratios that miss the true one, % of {repeats:,}; typical width")
    for cases in (5, 10, 20, 50):
        dice, missed, widths = random.Random(f"ratio {cases}"), 0, []
        for _ in range(repeats):
            means = []
            for _ in range(cases):
                size = dice.lognormvariate(0, 0.8)
                then = sum(size * dice.lognormvariate(0, 0.3) for _ in range(3)) / 3
                now = sum(0.25 * size * dice.lognormvariate(0, 0.3) for _ in range(3)) / 3
                means.append((then, now))
            found = estimate_usage_ratio(means)
            missed += not found.low <= 0.25 <= found.high
            widths.append(found.high / found.low)
        print(f"  {cases} cases, 3 runs: {100 * missed / repeats:4.1f}   x{sorted(widths)[repeats // 2]:.2f}")
    sys.stdout.flush()


def _draw(dice, repeats, cases, runs, variants, metrics, drop, how="spread"):
    """Yield the comparisons of simulated matrices; metrics of one run go up and down together."""
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
    """60 % of the cases all but certain to pass, 10 % to fail, 30 % flaky."""
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
    """Return the scores of each case by metric; half of a further metric's runs agree with the first one."""
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
