"""Run the command `agent.setup`, which installs the agent's packages, in the agent's virtual environment.

The packages of the agent and of the gate are separate, so that neither can break the other.
"""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path

from evalgate.core.errors import NoVerdictError
from evalgate.core.frozen import frozen

_TAIL = 4000  # characters of the command's output that an error shows

STOP_EVENT: ContextVar[threading.Event | None] = ContextVar("STOP_EVENT", default=None)
"""Event that a caller sets to end a setup in another thread. Signals and cancellations do not reach that
thread."""

_POLL_S = 0.1

_COMPLETE = "evalgate-complete"
"""Name of the file that marks a complete virtual environment. In an incomplete one, `pip` could be the `pip`
of another environment."""

_MAKE = """
import fcntl, os, sys, venv
home, complete = sys.argv[1], os.path.join(*sys.argv[1:])
os.makedirs(os.path.dirname(home), exist_ok=True)
with open(home + ".lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    if not os.path.exists(complete):
        venv.create(home, clear=True, symlinks=True, with_pip=True)
        open(complete, "w").close()
"""
"""Program that creates the virtual environment. It runs in a process of its own, as the agent's user.

A lock makes a second run wait for the first run, and use the environment that the first run created.
"""


@frozen
class SetupResult:
    """Python interpreter and environment variables of the agent after the setup."""

    python: str
    """Name or path of the interpreter that can import the installed packages."""
    env: Mapping[str, str]
    """Environment variables of the agent. If `python` is a path, its folder is the first on PATH."""


def run_setup(
    command: str,
    *,
    python: str | None,
    cwd: Path,
    env: Mapping[str, str],
    cache: Path,
    agent_user: tuple[int, int] | None = None,
) -> SetupResult:
    """Run `command` in a shell in `cwd`, with `pip` and `python` of the agent's virtual environment.

    If `python` is given, this interpreter is used and no environment is created. Otherwise the folder `cache`
    gets one virtual environment for each `cwd` and interpreter of the gate, and later runs use it again if it
    is complete. `agent_user` is the uid and gid as which the commands run; None: those of this process.

    Raises:
        NoVerdictError: the command or the creation of the environment failed. The message has the end of
            the output.
    """
    if python is None:
        key = hashlib.sha256(f"{sys.version}\0{sys.prefix}\0{cwd}".encode()).hexdigest()[:16]
        home = cache / f"agent-{key}"
        python = str(home / "bin" / "python")
        if not (home / _COMPLETE).exists():
            argv = [sys.executable, "-I", "-c", _MAKE, str(home), _COMPLETE]
            _run_command(argv, "creating the agent's environment", cwd, env, agent_user)
    path = f"{Path(python).parent}:{env.get('PATH', '')}" if "/" in python else env.get("PATH", "")
    agent_env = {**env, "PATH": path}
    _run_command(["/bin/sh", "-c", command], f"the setup command `{command}`", cwd, agent_env, agent_user)
    return SetupResult(python, agent_env)


def _run_command(
    argv: list[str], description: str, cwd: Path, env: Mapping[str, str], agent_user: tuple[int, int] | None
) -> None:
    uid, gid = agent_user or (None, None)
    stop = STOP_EVENT.get()
    with subprocess.Popen(
        argv,
        cwd=cwd,
        env=dict(env),
        user=uid,
        group=gid,
        extra_groups=[] if agent_user else None,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # so that the command's own children end with it
    ) as process:
        try:
            written = _wait_for_end(process, stop)
        except BaseException:
            _kill_group(process)
            raise
    if process.returncode:
        tail = written[-_TAIL:].rstrip()
        output = f"Its last output:\n{tail}" if tail else "It wrote nothing."
        raise NoVerdictError(f"{description} failed with exit code {process.returncode}. {output}")


def _wait_for_end(process: subprocess.Popen[str], stop: threading.Event | None) -> str:
    """Wait for the end of a process and return its output; kill its group when `stop`, if any, is set."""
    while True:
        try:
            return process.communicate(timeout=None if stop is None else _POLL_S)[0]
        except subprocess.TimeoutExpired:
            if stop is not None and stop.is_set():
                _kill_group(process)
                return process.communicate()[0]


def _kill_group(process: subprocess.Popen[str]) -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
