"""What `evaluate` costs in a Python program, next to pydantic-evals on the same cases.

Both make 1,000 case objects with words of their own, call an asynchronous function that returns at once, and score
its answer: evalgate by ROUGE-1, pydantic-evals by its own test of equality, which does less. Figures are of user and
system time of whole processes, and of an import of the package over that of an empty module.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import run
from benchmarks.overhead import ROOT, find_peer

CASES = 1_000
ROUNDS = 5
PEERS = Path(__file__).parent / "peers"
GOAL, STRETCH = 1.0, 0.5
IMPORT_GOAL = 5  # milliseconds


def main():
    """Compare the two programs, then the import with that of an empty module."""
    programs = {
        "evalgate": [sys.executable, str(PEERS / "library_with_evalgate.py"), str(CASES)],
        "pydantic-evals": [find_peer(), str(PEERS / "library_with_pydantic_evals.py"), str(CASES)],
    }
    with tempfile.TemporaryDirectory() as folder:
        rounds = [
            {
                name: run(argv, cwd=folder, env={"PYTHONPATH": str(ROOT)}).cpu
                for name, argv in programs.items()
            }
            for _ in range(ROUNDS)
        ]
        (Path(folder) / "empty_module.py").touch()
        imports = {
            name: min(_time_import(name, folder) for _ in range(3 * ROUNDS))
            for name in ("empty_module", "evalgate")
        }
    for name in programs:
        print(f"{CASES} cases  {name:15} {min(each[name] for each in rounds):.2f} s CPU")
    ratio = statistics.median(each["evalgate"] / each["pydantic-evals"] for each in rounds)
    print(f"evalgate × {ratio:.2f} of pydantic-evals (at most {GOAL}, goal {STRETCH})")
    further = imports["evalgate"] - imports["empty_module"]
    print(f"import evalgate: {further:+.1f} ms of CPU over an empty module (at most {IMPORT_GOAL})")


def _time_import(name, folder):
    argv = [sys.executable, "-c", f"import {name}"]
    return run(argv, cwd=folder, env={"PYTHONPATH": f"{folder}:{ROOT}"}).cpu * 1000
