"""How often `max_increase` of a budget is wrong and how often it is right, with lognormal figures."""

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
from evalgate.statistics.gate_decision import decide_fixed_runs
from evalgate.statistics.parameters import MetricRule, Parameters
from evalgate.statistics.score_pairs import GatingMetric

ALPHA, AVERAGES, DOUBT = 0.05, 0.6, 0.10
"""Defaults of the gate; the averages of all metrics share the second part of `alpha`."""
BETWEEN = 0.8
"""Standard deviation of the logarithm of a case's typical figure: cases differ more than their runs."""


@frozen
class Design:
    """One line of the table."""

    cases: int
    runs: int
    stored: int
    spread: float
    """Standard deviation of the logarithm of one run's figure within a case; 0.3 is about 30 %."""
    factor: float
    """What the average case costs now, compared with before."""
    max_increase: float


def iter_designs() -> Iterator[Design]:
    """Yield the designs of the table."""
    for spread in (0.15, 0.3, 0.6):
        yield Design(20, 3, 3, spread, 1.0, 0.0)
        for factor in (1.0, 1.15, 1.3):
            yield Design(20, 3, 3, spread, factor, 0.15)
    for runs, stored in ((1, 1), (1, 3)):
        for factor in (1.0, 1.3):
            yield Design(20, runs, stored, 0.3, factor, 0.15)


def simulate_gate(design: Design, draw: random.Random) -> tuple[str, bool]:
    """Return the verdict on drawn figures, and whether the interval of the ratio holds the true one."""
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
    found = decide_fixed_runs({"m": GatingMetric(shares.cases, rule)}, parameters).metrics["m"]
    if found.change is None:
        raise ValueError("nothing was compared")
    low, high = shares.to_ratio(found.change.low), shares.to_ratio(found.change.high)
    return found.verdict, low <= design.factor <= high


def measure_design(number: int, design: Design, repeats: int) -> str:
    """Return the line of a design."""
    draw = random.Random(number)
    # An exact law of 20 cases takes more than its budget in any case: it is not tried in vain.
    mean_difference._BUDGET = 100  # noqa: SLF001
    found = [simulate_gate(design, draw) for _ in range(repeats)]
    verdicts = Counter(verdict for verdict, _ in found)
    return (
        f"{design.cases:>5} × {design.runs} ({design.stored}){design.spread:>18.2f}{design.max_increase:>14.2f}"
        f"{design.factor:>13.2f}{verdicts['fail'] / repeats:>10.1%}{verdicts['inconclusive'] / repeats:>13.1%}"
        f"{sum(holds for _, holds in found) / repeats:>17.1%}"
    )


def main(options=()):
    """Print a table; the option is the number of repetitions, as `-1000`."""
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
