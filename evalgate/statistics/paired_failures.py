"""Compare the failures of two agents that are run in turn, one pair of runs after the other.

The head is the changed agent, the control is the agent before the change. Fisher's exact test is repeated
after every pair, which gives equal agents many chances of a small p. `compute_repeated_p` corrects the
smallest p so far: it returns the chance that equal agents ever reach this p, in all pairs that may be made.
So a decision may be taken after any pair. Dividing the level among the pairs would be simpler, but would need
two more pairs to confirm a total break (all runs of the head fail, and all runs of the control pass).
"""

import math
from collections.abc import Sequence
from functools import lru_cache

from evalgate.statistics.case_regression import StoredOutcomes
from evalgate.statistics.parameters import EPSILON, Parameters, is_within_level

DRIFT_LEVEL = 0.05
"""Level of the tests for drift, which compare the control (the agent before the change) with its stored runs.
These tests never close the gate. They only explain failures of a changed agent that is not worse."""

LEAST_PAIRS = 4
"""Fewest pairs of runs that decide about a case, because a short outage can cause three failures."""

MOST_PAIRS = 20
"""Most pairs of runs of a case: further pairs decide little, and computing their p takes seconds."""

_OFTEN = 0.5
"""A control that fails more than this share of its fresh runs counts as drifted, even if its stored runs
failed as often. The share is tested at `DRIFT_LEVEL`."""


@lru_cache(maxsize=8192)
def compute_pairs_p(pairs: int, head_failed: int, control_failed: int) -> float:
    """Return the one-sided p of Fisher's exact test, small if the changed agent fails more often.

    The changed agent (head) and the agent before the change (control) have `pairs` runs each. `head_failed`
    and `control_failed` are the numbers of failed runs.
    """
    failed = head_failed + control_failed
    as_bad = range(head_failed, min(pairs, failed) + 1)
    choices = sum(math.comb(pairs, bad) * math.comb(pairs, failed - bad) for bad in as_bad)
    return choices / math.comb(2 * pairs, failed)


_GRID = 64


@lru_cache(maxsize=1024)
def compute_repeated_p(smallest: float, most: int) -> float:
    """Return the chance that two equal agents ever get a p of at most `smallest` in repeated Fisher's tests.

    The test is repeated after each pair of runs, from 1 to `most` pairs. The chance depends on the failure
    rate of the agents, which is not known. So it is computed exactly for 64 rates, evenly spaced up to one
    half, and the largest chance is returned.
    """
    limit = smallest + EPSILON
    alive = {(0, 0): 1}
    reached: dict[tuple[int, int], int] = {}
    for pairs in range(1, most + 1):
        after: dict[tuple[int, int], int] = {}
        for (head, control), ways in alive.items():
            for state in ((head, control), (head + 1, control), (head, control + 1), (head + 1, control + 1)):
                after[state] = after.get(state, 0) + ways
        alive = {}
        for (head, control), ways in after.items():
            if compute_pairs_p(pairs, head, control) <= limit:
                key = (pairs, head + control)
                reached[key] = reached.get(key, 0) + ways
            else:
                alive[head, control] = ways
    # Swapping the sides and the outcomes gives the same p, so rates above one half add nothing.
    rates = (step / (2 * _GRID) for step in range(1, _GRID + 1))
    return max(
        math.fsum(
            ways * rate**failed * (1 - rate) ** (2 * pairs - failed)
            for (pairs, failed), ways in reached.items()
        )
        for rate in rates
    )


def compute_sequential_p(head: Sequence[bool], control: Sequence[bool], most: int) -> float:
    """Return a one-sided p for the pairs of runs so far, small if the changed agent fails more often.

    The p is valid even if the results so far decide after how many pairs to stop.

    Args:
        head: runs of the changed agent in order, True for a failure.
        control: runs of the agent before the change in order, True for a failure.
        most: largest number of pairs that may be made; further runs do not count.
    """
    smallest = 1.0
    pairs = min(len(head), len(control), most)
    for made in range(1, pairs + 1):
        smallest = min(smallest, compute_pairs_p(made, sum(head[:made]), sum(control[:made])))
    return min(1.0, compute_repeated_p(smallest, most)) if smallest < 1 else 1.0


def has_drifted(stored: StoredOutcomes, control: StoredOutcomes) -> bool:
    """Return True if fresh runs of the agent before the change (`control`) show a drift of its model.

    The runs show a drift if they fail more often than the stored runs of this agent, or if more than half of
    the fresh runs fail. Each of these two conditions is tested at `DRIFT_LEVEL`.
    """
    if control.failed == 0:
        return False
    runs, failed = stored.runs + control.runs, stored.failed + control.failed
    as_bad = range(control.failed, min(control.runs, failed) + 1)
    choices = sum(math.comb(control.runs, bad) * math.comb(stored.runs, failed - bad) for bad in as_bad)
    if is_within_level(choices / math.comb(runs, failed), DRIFT_LEVEL):
        return True
    often = range(control.failed, control.runs + 1)
    chance = math.fsum(
        math.comb(control.runs, bad) * _OFTEN**bad * (1 - _OFTEN) ** (control.runs - bad) for bad in often
    )
    return is_within_level(chance, DRIFT_LEVEL)


def get_max_pairs(suspects: int, parameters: Parameters) -> int:
    """Return the largest number of pairs of runs of a case, 4 to 20, if `suspects` cases share `case_alpha`.

    It is `confirm_runs`, or more if `confirm_runs` pairs cannot confirm a total break (all runs of the
    changed agent fail, and all runs of the other agent pass).
    """
    most = min(max(LEAST_PAIRS, parameters.confirm_runs), MOST_PAIRS)
    level = parameters.case_alpha / max(1, suspects)
    while most < MOST_PAIRS and not is_within_level(_compute_total_break_p(most, most), level):
        most += 1
    return most


def count_first_pairs(suspects: int, most: int, parameters: Parameters) -> int:
    """Return the fewest pairs of runs, from 4 to `most`, that confirm a total break of all suspects at once.

    In a total break, every run of the changed agent fails and every run of the other agent passes. Return
    `most` if fewer pairs do not confirm it.
    """
    # If all suspects broke, Holm's procedure compares the smallest p with this share of the level.
    level = parameters.case_alpha / max(1, suspects)
    return next(
        (
            pairs
            for pairs in range(LEAST_PAIRS, most)
            if is_within_level(_compute_total_break_p(pairs, most), level)
        ),
        most,
    )


def _compute_total_break_p(pairs: int, most: int) -> float:
    return compute_repeated_p(compute_pairs_p(pairs, pairs, 0), most)
