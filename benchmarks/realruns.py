"""Compare the simulation of `gatechain` with the real command line: the same draws must give the same verdict.

`evalgate init` creates a folder, and the commands of the README's first steps gate it. The agent counts its calls for
each case in a file. The same seeded function as in the simulation decides if a call gives a wrong answer.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.falsealarms import list_chances
from benchmarks.gatechain import SPOKEN, Chain, Outcome, Setup

AGENT = f"""
import fcntl, json, os, pathlib, random

def goes_wrong(seed, phase, case, number, chance):
    return random.Random(f"{{seed}}/{{phase}}/{{case}}/{{number}}").random() >= chance

def answer(text, session):
    case = int(text.removesuffix("?").split()[-1])
    settings = json.loads(pathlib.Path("settings.json").read_text())
    with open(f"counts/{{settings['phase']}}-{{case}}", "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write("x")
        file.flush()
        number = os.path.getsize(file.name)
    chance = settings["chances"][case]
    if chance == "crash":
        raise RuntimeError("drawn")
    if goes_wrong(settings["seed"], settings["phase"], case, number, chance):
        return "No idea."
    session.tool_call("get_weather", {{"place": case}})
    return "{SPOKEN}"
"""


def main(options=()):
    """Print how many verdicts of the command line and of the simulation agree, and each difference."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks realruns", description=__doc__)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=12, help="of each change")
    args = parser.parse_args(options)
    agreed = 0
    changes = ("none", "broken", "crash")
    for change in changes:
        red = [0, 0]
        for repeat in range(args.repeats):
            drawn = _Drawn(args.cases, change, f"{change}/{repeat}")
            real, simulated = drawn.gate_for_real(), drawn.gate_simulated()
            agreed += real == simulated
            red = [red[0] + (real == "fail"), red[1] + (simulated == "fail")]
            if real != simulated:
                print(f"  {change}, repetition {repeat}: {real} for real, {simulated} in the simulation")
        print(f"{change:8} red {red[0]} of {args.repeats} for real, {red[1]} in the simulation", flush=True)
    print(f"{agreed} of {len(changes) * args.repeats} verdicts agree")


class _Drawn:
    """One repetition: the chance of each case to pass a run, before the change and after it."""

    def __init__(self, cases: int, change: str, seed: str) -> None:
        self.cases, self.seed = cases, seed
        self.before: list[float | str] = list(list_chances("realistic", cases, random.Random(seed)))
        first = {"broken": 0.02, "crash": "crash"}.get(change, self.before[0])
        self.after = [first, *self.before[1:]]

    def gate_for_real(self) -> str:
        """Run the commands of the README's first steps, and return the verdict of the last one."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _evalgate(folder, "init")
            (folder / "evals/sample_agent.py").write_text(AGENT, "utf-8")
            (folder / "evals/sample.evalset.json").write_text(json.dumps(_eval_set(self.cases)), "utf-8")
            (folder / "counts").mkdir()
            self._write_settings(folder, "before", self.before)
            _evalgate(folder, "run", "--runs", "10")
            _evalgate(folder, "baseline", "save", *_allow_failing(folder))
            self._write_settings(folder, "after", self.after)
            _evalgate(folder, "run")
            return json.loads((folder / "evalgate-report/results.json").read_text("utf-8"))["verdict"][
                "status"
            ]

    def gate_simulated(self) -> str:
        """Return the verdict of the simulation on the same draws."""
        chain = Chain(Setup(self.cases, "auto", metrics=2))
        missed = frozenset(chain.metrics)
        namespace: dict[str, object] = {}
        exec(AGENT, namespace)  # for `goes_wrong`, which draws the outcomes
        goes_wrong = namespace["goes_wrong"]

        def outcome(phase: str, index: int, number: int, chance: float | str) -> Outcome:
            if chance == "crash":
                return None
            return missed if goes_wrong(self.seed, phase, index, number, chance) else frozenset()

        baseline = chain.store_runs(
            [
                [outcome("before", at, run, chance) for run in range(1, 11)]
                for at, chance in enumerate(self.before)
            ]
        )
        record = chain.run(baseline, lambda index, run: outcome("after", index, run, self.after[index]))
        return record.verdict.status

    def _write_settings(self, folder: Path, phase: str, chances: list[float | str]) -> None:
        settings = {"seed": self.seed, "phase": phase, "chances": chances}
        (folder / "settings.json").write_text(json.dumps(settings), "utf-8")


def _eval_set(cases: int) -> dict[str, object]:
    def case(index: int) -> dict[str, object]:
        turn = {
            "user_content": {"role": "user", "parts": [{"text": f"How is the weather at {index}?"}]},
            "final_response": {"role": "model", "parts": [{"text": SPOKEN}]},
            "intermediate_data": {"tool_uses": [{"name": "get_weather", "args": {"place": index}}]},
        }
        return {"eval_id": f"case-{index}", "conversation": [turn]}

    return {"eval_set_id": "drawn", "eval_cases": [case(index) for index in range(cases)]}


def _allow_failing(folder: Path) -> list[str]:
    """Return the option of `baseline save` that accepts failing cases, or [] if this release lacks it."""
    shown = subprocess.run(
        [sys.executable, "-m", "evalgate", "baseline", "save", "--help"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return ["--allow-failing"] if "--allow-failing" in shown.stdout else []


def _evalgate(folder: Path, *arguments: str) -> int:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "CI"))}
    done = subprocess.run(
        [sys.executable, "-m", "evalgate", *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in {0, 1}:
        raise RuntimeError(
            f"evalgate {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-2000:]}"
        )
    return done.returncode
