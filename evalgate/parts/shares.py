"""A run over several machines: which of them plays which case."""

from collections.abc import Sequence
from heapq import heapify, heapreplace

from evalgate.model import Baseline


def case_seconds(cases: Sequence[tuple[str, str]], baseline: Baseline | None) -> list[float]:
    """How long each case (eval set, case) takes by the baseline; the mean of the others where it is new."""
    known: dict[tuple[str, str], float] = {}
    for case in baseline.cases if baseline else ():
        if case.runs:
            known[case.eval_set_id, case.eval_id] = sum(run.duration_s for run in case.runs) / len(case.runs)
    usual = sum(known.values()) / len(known) if known else 1.0
    return [known.get(case, usual) for case in cases]


def shares(seconds: Sequence[float], count: int) -> tuple[tuple[int, ...], ...]:
    """The indices of the cases of each of `count` shards, each once, in order.

    The longest first, each to the shard that has least to do: at worst 4/3 of the best possible (Graham 1969,
    "Bounds on Multiprocessing Timing Anomalies"). The same input gives the same shares on every machine.
    """
    found: list[list[int]] = [[] for _ in range(count)]
    busy = [(0.0, 0, shard) for shard in range(count)]
    heapify(busy)
    for index in sorted(range(len(seconds)), key=lambda index: (-seconds[index], index)):
        load, cases, shard = busy[0]
        found[shard].append(index)
        heapreplace(busy, (load + seconds[index], cases + 1, shard))
    return tuple(tuple(sorted(indices)) for indices in found)
