"""Run gates in separate processes, with an interpreter that has Ray."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil
import pytest

from tests.commands import Done

ROOT = Path(__file__).parents[3]
MARK = "RAY_EVALGATE_TEST"
"""Environment variable of a gate that its Ray processes inherit; it identifies them."""
_LONGEST_S = 900


@dataclass(frozen=True)
class Rays:
    """Starter of gates. The value `mark` identifies their processes."""

    python: str
    mark: str

    def run(self, *arguments: str, cwd: Path, **environ: str) -> Done:
        with self.started(*arguments, cwd=cwd, **environ) as gate:
            out, err = gate.communicate(timeout=_LONGEST_S)
        return Done(gate.returncode, out, err, cwd)

    def started(self, *arguments: str, cwd: Path, **environ: str) -> "subprocess.Popen[str]":
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GITHUB_", "INPUT_", "RAY_"))
        }
        return subprocess.Popen(
            [self.python, "-m", "evalgate", *arguments],
            cwd=cwd,
            env={**clean, "PYTHONPATH": str(ROOT), MARK: self.mark, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_enable_interrupts,  # noqa: PLW1509  no thread of ours is between fork and exec
        )

    def actors(self) -> list[psutil.Process]:
        """Return the processes of the actors of a local cluster."""
        return [process for process in psutil.process_iter() if self._is_actor(process)]

    def _is_actor(self, process: psutil.Process) -> bool:
        try:
            is_ours = process.environ().get(MARK) == self.mark
            return is_ours and " ".join(process.cmdline()).startswith("ray::AgentActor")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False


def _enable_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it


@dataclass(frozen=True)
class Nodes:
    """Connection to a cluster that `nodes.py` runs."""

    address: str
    commands: IO[str]
    says: IO[str]

    def ask(self, word: str) -> str:
        self.commands.write(word + "\n")
        self.commands.flush()
        return self.says.readline().strip()

    def actors_left(self) -> int:
        """Return the number of living actors, after a wait for actors that are being ended."""
        for _ in range(600):
            if not (living := int(self.ask("actors"))):
                break
            time.sleep(0.1)
        return living


def wait_until(reached: Callable[[], bool], gate: "subprocess.Popen[str]") -> None:
    """Wait until `reached` returns True, while the gate is running."""
    deadline = time.monotonic() + _LONGEST_S
    while not reached():
        if gate.poll() is not None or time.monotonic() > deadline:
            gate.kill()
            pytest.fail("it never came to that: " + "".join(gate.communicate()))
        time.sleep(0.05)


def count_finished_runs(folder: Path) -> int:
    """Return the number of runs in the journal so far."""
    journal = folder / "evalgate-report" / "journal.jsonl"
    return max(0, len(journal.read_bytes().splitlines()) - 1) if journal.exists() else 0
