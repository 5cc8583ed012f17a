"""Simulate judges: how often does the interval of the judge's share of the noise contain the true share?"""

import random
from collections.abc import Iterator

from evalgate.core.frozen import frozen
from evalgate.statistics.judge_noise import FEWEST_CASES, CaseVariance, decompose_case, estimate_judge_share

SUITES = 400
"""Simulated suites for each line. The true share is computed from 50 * SUITES cases."""
SAMPLES = 5


@frozen
class Design:
    """Parameters of one line of the table."""

    runs: int
    agent: float
    """Standard deviation of the agent's scores; for yes/no scores, the share of cases with varying answers."""
    judge: float
    """Standard deviation of one sample of the judge; for yes/no scores, the share of wrong samples."""
    is_binary: bool
    """True for yes/no scores."""


def iter_designs() -> Iterator[Design]:
    """Yield the designs of the table, one for each line."""
    for runs in (2, 5):
        yield Design(runs, 0.2, 0.2, is_binary=False)
        yield Design(runs, 0.1, 0.4, is_binary=False)
        yield Design(runs, 1.0, 0.1, is_binary=True)
        yield Design(runs, 1.0, 0.3, is_binary=True)
        yield Design(runs, 0.0, 0.2, is_binary=True)


def simulate_case(design: Design, rng: random.Random) -> CaseVariance:
    """Simulate the runs and judge samples of a case, and return their variance by source (agent, judge)."""
    base, flips = rng.random(), rng.random() < design.agent
    responses = []
    for _ in range(design.runs):
        if design.is_binary:
            good = rng.random() < base if flips else base > 0.5
            chance = 1 - design.judge if good else design.judge
            responses.append([float(rng.random() < chance) for _ in range(SAMPLES)])
        else:
            level = base + rng.gauss(0, design.agent)
            responses.append([level + rng.gauss(0, design.judge) for _ in range(SAMPLES)])
    return decompose_case([responses])


def main() -> None:
    """Print a table with a line for each design."""
    print(f"{SUITES} suites of {FEWEST_CASES} cases, {SAMPLES} samples of each answer")
    print("runs  agent  judge  yes/no   share  mean  interval holds  no estimate")
    for design in iter_designs():
        rng = random.Random(1)
        many = [simulate_case(design, rng) for _ in range(50 * SUITES)]
        share = min(1.0, sum(each.judge for each in many) / sum(each.total for each in many))
        suites = ([simulate_case(design, rng) for _ in range(FEWEST_CASES)] for _ in range(SUITES))
        found = [each for suite in suites if (each := estimate_judge_share(suite)) is not None]
        held = sum(each.low <= share <= each.high for each in found) / max(1, len(found))
        mean = sum(each.value for each in found) / max(1, len(found))
        print(
            f"{design.runs:4}  {design.agent:5}  {design.judge:5}  {design.is_binary!s:6}  {share:6.2f}  "
            f"{mean:4.2f}  {held:14.1%}  {1 - len(found) / SUITES:11.0%}"
        )
