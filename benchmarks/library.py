"""Compare the cost of `evalgate.evaluate` in a Python program with that of pydantic-evals on the same cases.

Both programs create 1,000 different case objects, call an asynchronous function that returns at once, and score its
answer: evalgate with ROUGE-1, pydantic-evals with its test of equality, which does less. Figures are CPU time (user
and system) of whole processes. The CPU time of `import evalgate` is compared with that of importing an empty module.
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
    """Compare the two programs, then compare `import evalgate` with the import of an empty module."""
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
