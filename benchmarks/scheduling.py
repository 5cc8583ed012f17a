"""Compare the time of a run with the ideal schedule: 1,000 cases that only wait, 64 at once."""

import heapq
import json
import random
import tempfile
from pathlib import Path

from benchmarks.measure import evalgate, run, write_project

CASES, CONCURRENCY = 1_000, 64


def main():
    """Print time and ideal time of a run with equal and with heavy-tailed latencies.

    The ideal is the list schedule: each case, in file order, starts as soon as one of the 64 slots is free.
    """
    tail = random.Random(7)
    latencies = {
        "constant 50 ms": [0.05] * CASES,
        "heavy tail": [tail.lognormvariate(-3.7, 1.2) for _ in range(CASES)],
    }
    for name, seconds in latencies.items():
        wall, ideal = _run_phase(seconds), _list_schedule(seconds)
        print(f"{name:15} run phase {wall:6.3f} s   ideal {ideal:6.3f} s   × {wall / ideal:.3f}")


def _run_phase(seconds):
    """Return the seconds from the first turn to the last answer, without the start-up of the worker."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = write_project(
            folder, len(seconds), entry="wait", texts=[f"{value:.6f}" for value in seconds]
        )
        empty = _duration(folder, [*arguments[:1], f"{arguments[1]}:case_0", *arguments[2:]]) - seconds[0]
        return _duration(folder, arguments) - empty


def _duration(folder, arguments):
    durations = []
    for _ in range(3):
        run(evalgate(*arguments, "--concurrency", str(CONCURRENCY)), cwd=folder, expect=(0, 1))
        durations.append(
            json.loads((Path(folder) / "evalgate-report/results.json").read_text())["duration_s"]
        )
    return sorted(durations)[1]


def _list_schedule(seconds):
    free = [0.0] * CONCURRENCY
    for latency in seconds:
        heapq.heapreplace(free, free[0] + latency)
    return max(free)
