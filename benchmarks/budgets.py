"""Simulate how often `max_increase` of a budget closes the gate rightly and wrongly, with lognormal figures."""

import math
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from evalgate.core.frozen import frozen
from evalgate.statistics import mean_difference
from evalgate.statistics.budget_figures import CaseFigures, scale_logarithms
from evalgate.statistics.metric_decisions import decide_without_follow_ups
from evalgate.statistics.parameters import MetricRule, Parameters
from evalgate.statistics.score_pairs import ScoreTable

ALPHA, AVERAGES, DOUBT = 0.05, 0.6, 0.10
"""Defaults of the gate. `AVERAGES` is the part of `ALPHA` that the averages of all metrics share."""
BETWEEN = 0.8
"""Standard deviation of the logarithm of a case's typical figure: cases differ more than their runs."""


@frozen
class Design:
    """Parameters of one line of the table."""

    cases: int
    runs: int
    stored: int
    """Runs of each case in the baseline."""
    spread: float
    """Standard deviation of the logarithm of one run's figure within a case; 0.3 is about 30 %."""
    factor: float
    """True ratio of a case's current figures to its stored figures."""
    max_increase: float


def iter_designs() -> Iterator[Design]:
    """Yield the designs of the table, one for each line."""
    for spread in (0.15, 0.3, 0.6):
        yield Design(20, 3, 3, spread, 1.0, 0.0)
        for factor in (1.0, 1.15, 1.3):
            yield Design(20, 3, 3, spread, factor, 0.15)
    for runs, stored in ((1, 1), (1, 3)):
        for factor in (1.0, 1.3):
            yield Design(20, runs, stored, 0.3, factor, 0.15)


def simulate_gate(design: Design, draw: random.Random) -> tuple[str, bool]:
    """Return the verdict on drawn figures, and True if the interval of the ratio contains the true ratio."""
    rows = {}
    for at in range(design.cases):
        typical = draw.gauss(8, BETWEEN)
        stored = [math.exp(draw.gauss(typical, design.spread)) for _ in range(design.stored)]
        level = typical + math.log(design.factor)
        rows[f"c{at}"] = CaseFigures(
            stored, [math.exp(draw.gauss(level, design.spread)) for _ in range(design.runs)]
        )
    shares = scale_logarithms(rows)
    rule = MetricRule(shares.to_drop(design.max_increase), is_figure=True)
    parameters = Parameters(alpha=ALPHA, averages_share=AVERAGES, doubt=DOUBT, runs=design.runs)
    found = decide_without_follow_ups({"m": ScoreTable(shares.cases, rule)}, parameters).metrics["m"]
    if found.change is None:
        raise ValueError("nothing was compared")
    low, high = shares.to_ratio(found.change.low), shares.to_ratio(found.change.high)
    return found.verdict, low <= design.factor <= high


def measure_design(number: int, design: Design, repeats: int) -> str:
    """Simulate a design `repeats` times and return its line of the table. `number` is the random seed."""
    draw = random.Random(number)
    # For 20 cases, the exact distribution always exceeds its time budget, so it is not even tried.
    mean_difference._BUDGET = 100  # noqa: SLF001
    found = [simulate_gate(design, draw) for _ in range(repeats)]
    verdicts = Counter(verdict for verdict, _ in found)
    return (
        f"{design.cases:>5} × {design.runs} ({design.stored}){design.spread:>18.2f}{design.max_increase:>14.2f}"
        f"{design.factor:>13.2f}{verdicts['fail'] / repeats:>10.1%}{verdicts['inconclusive'] / repeats:>13.1%}"
        f"{sum(holds for _, holds in found) / repeats:>17.1%}"
    )


def main(options=()):
    """Print the table. The only option is the number of repetitions, such as `-1000`."""
    repeats = int(options[0].lstrip("-")) if options else 1_000
    began = time.perf_counter()
    print("cases × runs (stored)  spread  max_increase  true factor    closed   can't tell   interval holds")
    with ProcessPoolExecutor(2) as pool:
        lines = [
            pool.submit(measure_design, number, design, repeats)
            for number, design in enumerate(iter_designs())
        ]
        for line in lines:
            print(line.result(), flush=True)
    print(f"{repeats:,} repetitions each, {time.perf_counter() - began:.0f} s", file=sys.stderr)
