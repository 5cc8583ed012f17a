"""The agent's dependencies are installed into its own environment, also after an interrupted attempt."""

import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from evalgate.core.errors import NoVerdictError
from evalgate.system.venv_setup import STOP_EVENT, SetupResult, run_setup


def provided(folder: Path, command: str, python: str | None = None) -> SetupResult:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return run_setup(command, python=python, cwd=folder, env=env, cache=folder / "cache")


def test_two_at_the_same_time_make_one_environment_and_one_that_was_cut_short_is_made_anew(
    tmp_path: Path,
) -> None:
    with ThreadPoolExecutor(2) as threads:
        commands = [f"command -v pip > {name}.txt" for name in ("first", "second")]
        first, second = threads.map(lambda command: provided(tmp_path, command), commands)
    assert first == second
    home = Path(first.python).parent.parent
    assert [*tmp_path.glob("cache/agent-*/")] == [home]
    for name in ("first", "second"):
        assert (tmp_path / f"{name}.txt").read_text() == f"{home}/bin/pip\n"

    (home / "bin" / "pip").unlink()
    (home / "evalgate-complete").unlink()
    assert provided(tmp_path, "command -v pip > again.txt") == first
    assert (tmp_path / "again.txt").read_text() == f"{home}/bin/pip\n"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo oh no >&2; exit 3", "exit code 3. Its last output:\noh no"),
        ("exit 4", "exit code 4. It wrote nothing."),
    ],
)
def test_a_command_that_fails_is_shown_with_its_end(tmp_path: Path, command: str, said: str) -> None:
    with pytest.raises(NoVerdictError) as caught:
        provided(tmp_path, command, sys.executable)
    assert str(caught.value) == f"the setup command `{command}` failed with {said}"


def test_a_setup_in_another_thread_ends_with_its_children(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    before = STOP_EVENT.set(stop)
    try:
        with pytest.raises(NoVerdictError, match="failed with exit code -9"):
            provided(tmp_path, "sleep 60 | cat", sys.executable)
    finally:
        STOP_EVENT.reset(before)


def test_an_interrupted_setup_ends_with_its_children(tmp_path: Path) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    os.mkfifo(tmp_path / "alive")
    reader = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        with pytest.raises(KeyboardInterrupt):
            provided(tmp_path, "sleep 60 > alive | cat", sys.executable)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    wait_for_end_of_writers(reader)
    os.close(reader)


def wait_for_end_of_writers(reader: int) -> None:
    """Wait until no process has the other end of the pipe open."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with suppress(BlockingIOError):
            assert os.read(reader, 1) == b""
            return
        time.sleep(0.01)
    raise AssertionError("a child of the setup is still alive")
