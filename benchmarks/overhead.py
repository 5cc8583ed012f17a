"""Measure the overhead of evalgate per case, compared with pydantic-evals and with a plain loop over the same cases.

All cases have different words, calls and answers, and every tenth answer is wrong (`benchmarks.distinct_cases`). The
three programs ask the same agent, compare its calls exactly, and compute ROUGE-1 of its answer with the same function:

- evalgate: the whole command, with its worker, its journal, and results.json, junit.xml, comment.md and report.html;
- pydantic-evals: the whole process, with its dataset in JSON and two custom evaluators. It writes and prints no
  report, because a report would double its time;
- the loop: reads the cases, asks, scores, and writes one JSON file.

Figures are CPU time (user and system) of a process and its children. Each is the smallest of all rounds, because other
programs on the machine can only increase it. Ratios are medians over the rounds, in which the programs run one after
the other. pydantic-evals is installed in its own environment, `.venv-pydantic-evals`, at the first use; the variable
`EVALGATE_BENCH_PYDANTIC_EVALS` can name another interpreter.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from benchmarks.distinct_cases import write_distinct
from benchmarks.measure import Cost, evalgate, run

ROOT = Path(__file__).parents[1]
PEERS = Path(__file__).parent / "peers"
PEER = ("pydantic-evals==2.62.0", "pydantic==2.14.3")  # releases of November 2026
GOAL = 0.6  # of the CPU time of pydantic-evals
LARGE, LARGE_GOAL = 100_000, 40  # cases, of which half fail; seconds of wall time
ROUNDS = 3


def main(options=()):
    """Compare the programs at 10,000 cases, then run evalgate with 100,000 cases, of which half fail.

    The option `--small` leaves out the second part.
    """
    peer = find_peer()
    base, medium = _measure_alone(1), _measure_alone(1_000)
    cases = 10_000
    with tempfile.TemporaryDirectory() as folder:
        ours = evalgate(*write_distinct(folder, cases))
        programs = {
            "evalgate": ours,
            "pydantic-evals": [peer, str(PEERS / "with_pydantic_evals.py")],
            "plain loop": [sys.executable, str(PEERS / "plain_loop.py")],
        }
        # One after the other within a round, so that a slow minute of the machine affects all of them.
        rounds = [
            {name: _run_with_root(argv, folder) for name, argv in programs.items()} for _ in range(ROUNDS)
        ]
    for name in programs:
        cost = _take_smallest([costs[name] for costs in rounds])
        print(
            f"{cases:6} cases  {name:15} {cost.cpu:6.2f} s CPU  {cost.cpu / cases * 1e6:5.0f} µs a case  {cost.peak_mb:4.0f} MB"
        )
    to_peer, to_loop = (_compute_ratio(rounds, name) for name in ("pydantic-evals", "plain loop"))
    print(f"evalgate × {to_peer:.2f} of pydantic-evals (goal {GOAL}), × {to_loop:.1f} of the loop")
    our = _take_smallest([costs["evalgate"] for costs in rounds])
    marginal = (our.cpu - base.cpu) / cases * 1e6
    memory = (our.peak_mb - medium.peak_mb) / (cases - 1_000) * 1024
    print(f"{marginal:.0f} µs CPU and {memory:.1f} KB in the gate for each further case")
    if "--small" not in options:
        large = _measure_alone(LARGE, wrong_every=2, rounds=1)
        print(
            f"{LARGE} cases, half failing  {large.wall:.0f} s wall (goal {LARGE_GOAL})  {large.cpu:.0f} s CPU  "
            f"{large.peak_mb:.0f} MB"
        )


def find_peer():
    """Return the path of an interpreter with pydantic-evals. Create its environment if necessary."""
    given = os.environ.get("EVALGATE_BENCH_PYDANTIC_EVALS")
    if given:
        return given
    folder = ROOT / ".venv-pydantic-evals"
    ready = folder / "+".join(PEER)
    if not ready.exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([str(folder / "bin/pip"), "install", "--quiet", *PEER], check=True)
        ready.touch()
    return str(folder / "bin/python")


def _compute_ratio(rounds, name):
    return statistics.median(costs["evalgate"].cpu / costs[name].cpu for costs in rounds)


def _measure_alone(cases, *, wrong_every=10, rounds=3):
    with tempfile.TemporaryDirectory() as folder:
        argv = evalgate(*write_distinct(folder, cases, wrong_every=wrong_every))
        return _take_smallest([_run_with_root(argv, folder) for _ in range(rounds)])


def _run_with_root(argv, folder):
    """Run a program with this checkout on PYTHONPATH, so that it can import `evalgate.metrics.rouge`. Return its cost.

    That module imports only the standard library.
    """
    return run(argv, cwd=folder, expect=(0, 1), env={"PYTHONPATH": str(ROOT)})


def _take_smallest(costs):
    return Cost(*(min(getattr(cost, name) for cost in costs) for name in ("wall", "cpu", "peak_mb")))
