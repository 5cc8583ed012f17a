"""Run the command `evalgate` in its own process, folder and environment."""

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SERVER = Path(__file__).with_name("command_server.py")
LONGEST_S = 600.0


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command that has ended."""

    code: int
    out: str
    err: str
    folder: Path
    """Its working folder."""

    @property
    def record(self) -> Any:
        """Read the record of a run that wrote its reports to the default folder."""
        return json.loads((self.folder / "evalgate-report/results.json").read_text("utf-8"))


def evalgate(*arguments: str, cwd: Path, **environ: str) -> Done:
    """Run `evalgate`, without the variables of GitHub's runner.

    On Linux the process is forked from one that has imported evalgate already: the import takes longer than most
    commands do.

    Args:
        arguments: words of the command line.
        cwd: working folder.
        environ: variables in addition to those of this process.
    """
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_"))
    }
    complete = {**inherited, **environ}
    # A new interpreter reads variables such as PYTHONPATH when it starts.
    if not hasattr(os, "pidfd_open") or any(name.startswith("PYTHON") for name in environ):
        return _start_interpreter(arguments, cwd, complete)
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as command,
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
    ):
        json.dump({"arguments": arguments, "folder": str(cwd), "environ": complete}, command)
        command.flush()
        code = _start_server().run([each.fileno() for each in (command, out, err)])
        for file in (out, err):
            file.seek(0)
        return Done(code, out.read(), err.read(), cwd)


def _start_interpreter(arguments: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "evalgate", *arguments],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_S,
    )
    return Done(done.returncode, done.stdout, done.stderr, cwd)


class CommandServer:
    """Client of a `command_server` process, which ends together with this process."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen([sys.executable, "-P", SERVER], stdin=theirs.fileno())
        self._lock = threading.Lock()

    def run(self, files: list[int]) -> int:
        """Run a command and return its exit code; `files` are the command, its standard output and error."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs, self._lock:
                socket.send_fds(self._requests, [b"x"], [theirs.fileno(), *files])
            ours.settimeout(LONGEST_S)
            return int(ours.recv(20))

    def close(self) -> None:
        """End the process."""
        self._requests.close()
        self._process.wait()


@cache
def _start_server() -> CommandServer:
    server = CommandServer()
    atexit.register(server.close)
    return server
