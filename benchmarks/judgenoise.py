"""How often the interval of the judge's share of the noise holds the true share, with simulated judges."""

import random
from collections.abc import Iterator

from evalgate.core.frozen import frozen
from evalgate.statistics.judge_noise import FEWEST_CASES, CaseVariance, decompose_case, estimate_judge_share

SUITES = 400
"""Simulated suites for each line; the true share comes from fifty times as many cases."""
SAMPLES = 5


@frozen
class Design:
    """One line of the table."""

    runs: int
    agent: float
    """Standard deviation of the agent's scores; for answers of yes or no, the share of cases that flip."""
    judge: float
    """Standard deviation of one sample; for answers of yes or no, the share of wrong samples."""
    is_binary: bool


def iter_designs() -> Iterator[Design]:
    """Yield the designs of the table."""
    for runs in (2, 5):
        yield Design(runs, 0.2, 0.2, is_binary=False)
        yield Design(runs, 0.1, 0.4, is_binary=False)
        yield Design(runs, 1.0, 0.1, is_binary=True)
        yield Design(runs, 1.0, 0.3, is_binary=True)
        yield Design(runs, 0.0, 0.2, is_binary=True)


def simulate_case(design: Design, rng: random.Random) -> CaseVariance:
    """Return the variance of a case with one question."""
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
    """Print a line for each design."""
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
