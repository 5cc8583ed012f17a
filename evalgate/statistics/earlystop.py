"""By how much an average is too good because AUTO stopped at it.

AUTO stops after the first round whose average looks good. An average that looks good is good in part by
luck, so the averages at which it stopped are too high. First rounds are unbiased over all gate runs together,
but no run knows whether its own was a lucky one. So this module computes by how much the average of an
unchanged agent is too high, given the round in which AUTO stopped; that is what is taken off.

The averages are taken as normal; their variances come from the runs of each case, pooled over both sides.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist

from evalgate.statistics.change import pooled_variance
from evalgate.statistics.pairing import Pair

_MOST_ROUNDS = 10  # later stops add less than a tenth of a point, and the time grows with each
_REACH = 6.0  # standard deviations; what lies beyond weighs nothing
_STEPS = 60  # of the sums so far
_NODES = 13  # of the baseline's error
_NORMAL = NormalDist()


def early_stop_bias(pairs: Sequence[Pair], *, max_drop: float, rounds: int) -> float:
    """Return by how much the average over `rounds` rounds is too high if AUTO stopped there and not before.

    That is the mean over an agent that did not change. AUTO goes on while the drop is at least half of
    `max_drop`.
    """
    total = math.fsum(pair.weight for pair in pairs)
    spreads = [((pair.weight / total) ** 2 * pooled_variance(pair), len(pair.baseline)) for pair in pairs]
    deviation = math.sqrt(math.fsum(spread for spread, _ in spreads))
    error = math.sqrt(math.fsum(spread / runs for spread, runs in spreads))
    if deviation == 0 or rounds > _MOST_ROUNDS:
        return 0.0
    mass = moment = 0.0
    for weight, shift in _errors(error):
        stopped, summed = _stopping(deviation, shift - max_drop / 2, rounds)
        mass += weight * stopped
        moment += weight * summed
    return moment / mass / rounds if mass > 0 else 0.0


def _errors(deviation: float) -> Iterator[tuple[float, float]]:
    """Yield weights and values of the difference between the baseline's average and the true one."""
    for at in range(_NODES):
        z = _REACH * (at / (_NODES - 1) - 0.5)
        yield _NORMAL.pdf(z), z * deviation


def _stopping(deviation: float, limit: float, rounds: int) -> tuple[float, float]:
    """Return the chance to stop after exactly so many rounds, and the mean of the sum of the rounds there.

    A round's average varies by `deviation` around 0. AUTO goes on after k rounds while their sum is at most
    `k * limit`.
    """
    reached = [(1.0, 0.0)]
    for done in range(1, rounds):
        reached = _going_on(reached, deviation, done * limit, done)
    least, mass, moment = rounds * limit, 0.0, 0.0
    for weight, summed in reached:
        z = (least - summed) / deviation
        chance = 1 - _NORMAL.cdf(z)
        mass += weight * chance
        moment += weight * (summed * chance + deviation * _NORMAL.pdf(z))
    return mass, moment


def _going_on(
    reached: Sequence[tuple[float, float]], deviation: float, most: float, rounds: int
) -> list[tuple[float, float]]:
    """Return weights and sums after one more round, of those that are at most `most`."""
    lowest = min(-_REACH * deviation * math.sqrt(rounds), most - deviation)
    step = (most - lowest) / _STEPS
    found = []
    for at in range(_STEPS):
        summed = lowest + (at + 0.5) * step
        density = math.fsum(weight * _NORMAL.pdf((summed - before) / deviation) for weight, before in reached)
        found.append((density * step / deviation, summed))
    return found
