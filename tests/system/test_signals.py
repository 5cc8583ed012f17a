import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalgate.system.signals import END_SIGNALS, InterruptHandler, cancel_on_signals
from tests.cli.test_cli import eval_set

LOADED = """
import signal
from evalgate.__main__ import entry_point
signal.signal(signal.SIGINT, signal.SIG_DFL)  # while the interpreter starts there is nobody to handle anything
print("loaded", flush=True)
entry_point()
"""
_CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_"))}


@pytest.mark.parametrize("number", END_SIGNALS)
def test_the_first_signal_interrupts_and_no_other(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with InterruptHandler().handle_signals():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        for further in END_SIGNALS:
            os.kill(os.getpid(), further)
    assert signal.getsignal(number) is before


class SignalsAtItsEnd:
    """Sends itself a signal where Python drops every exception."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        time.sleep(0)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[InterruptHandler]:
    """Install a handler as the command does; until all its threads have ended."""
    monkeypatch.setattr("sys.unraisablehook", sys.unraisablehook)
    others, before = threading.enumerate(), {number: signal.getsignal(number) for number in END_SIGNALS}
    handler = InterruptHandler()
    handler.install_handlers()
    yield handler
    for thread in set(threading.enumerate()).difference(others):
        thread.join()
    for number, handler_before in before.items():
        signal.signal(number, handler_before)


@pytest.mark.parametrize("number", END_SIGNALS)
def test_an_interrupt_that_python_drops_comes_again(
    installed: InterruptHandler, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    SignalsAtItsEnd(number)
    with pytest.raises(KeyboardInterrupt):
        time.sleep(60)
    assert installed.has_interrupted
    assert capsys.readouterr().err == ""


def test_a_signal_while_the_last_one_is_repeated_is_not_lost(
    installed: InterruptHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def start_and_signal(thread: threading.Thread) -> None:
        start(thread)
        time.sleep(0.1)  # the signal comes again here, where Python drops every exception

    monkeypatch.setattr(threading.Thread, "start", start_and_signal)
    SignalsAtItsEnd(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        time.sleep(5)
    assert installed.has_interrupted


@pytest.mark.parametrize("number", END_SIGNALS)
def test_no_signal_interrupts_what_is_certain(number: signal.Signals) -> None:
    patience = InterruptHandler()
    with patience.handle_signals():
        patience.ignores_signals = True
        os.kill(os.getpid(), number)


def test_no_signal_interrupts_before_all_of_them_are_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    patience, put = InterruptHandler(), signal.signal
    before = {number: signal.getsignal(number) for number in END_SIGNALS}

    def put_in_a_storm(number: signal.Signals, handler: Any) -> object:
        found = put(number, handler)
        os.kill(os.getpid(), number)
        return found

    monkeypatch.setattr(signal, "signal", put_in_a_storm)
    try:
        with pytest.raises(KeyboardInterrupt):
            patience.install_handlers()
        assert [signal.getsignal(number) for number in END_SIGNALS] == [patience] * len(END_SIGNALS)
    finally:
        for number, handler in before.items():
            put(number, handler)
    assert patience.has_interrupted


@pytest.mark.parametrize(
    "arguments",
    [("validate", "demo.evalset.json"), ("run", "demo.evalset.json", "--agent", "python:agent.py:answer")],
    ids=lambda arguments: str(arguments[0]),
)
@pytest.mark.parametrize("after", range(0, 500, 100))
def test_a_storm_of_signals_at_any_moment_ends_in_one_way(
    tmp_path: Path, arguments: tuple[str, ...], after: int
) -> None:
    """From `after` ms on, counted from when evalgate has begun, every millisecond for as long as it lives."""
    (tmp_path / "agent.py").write_text("def answer(text):\n    return text\n")
    (tmp_path / "demo.evalset.json").write_text(eval_set(*(f"question {number}" for number in range(300))))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    process = subprocess.Popen(
        [sys.executable, "-c", LOADED, *arguments],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_CLEAN,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "loaded\n"
    time.sleep(after / 1000)
    storm = itertools.cycle(END_SIGNALS)
    while process.poll() is None:
        process.send_signal(next(storm))
        time.sleep(0.001)
    out, err = process.communicate(timeout=30)
    if process.returncode < 0:  # so early that there was no handler yet
        assert (after, out, err) == (0, "", ""), err
        return
    assert process.returncode in (0, 130), err
    assert ("Traceback" in err, "Error" in err) == (False, False), err
    assert (process.returncode == 130) == ("Interrupted" in out + err)


LOSING = """
import os, signal, sys
from evalgate.__main__ import entry_point
from evalgate.config import loader

number, load = getattr(signal, sys.argv.pop(1)), loader.load_thresholds

def signal_and_load(*arguments):
    try:
        os.kill(os.getpid(), number)
    except BaseException:  # as pydantic, written in Rust, does with errors in a hash function
        print("caught", file=sys.stderr)
    return load(*arguments)

loader.load_thresholds = signal_and_load
entry_point()
"""


@pytest.mark.parametrize("number", END_SIGNALS)
@pytest.mark.parametrize("options", [("run",), ("matrix", "--vary", "env.A=1,2", "--yes", "--runs", "1")])
def test_an_interrupt_that_other_code_catches_ends_the_run(
    tmp_path: Path, number: signal.Signals, options: tuple[str, ...]
) -> None:
    (tmp_path / "agent.py").write_text("def answer(text):\n    open('ran', 'w')\n    return text\n")
    (tmp_path / "demo.evalset.json").write_text(eval_set("Hi"))
    (tmp_path / "evalgate.yaml").write_text("criteria: {response_match_score: 0.8}\n")
    reports = tmp_path / "evalgate-report"
    reports.mkdir()
    (reports / "results.json").write_text("of an earlier run")
    name, *rest = options
    agent = ("demo.evalset.json", "--agent", "python:agent.py:answer")
    ended = subprocess.run(
        [sys.executable, "-c", LOSING, number.name, name, *agent, *rest],
        cwd=tmp_path, capture_output=True, text=True, env=_CLEAN, check=False, timeout=60,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (130, ""), ended.stderr
    assert ended.stderr.startswith("caught\n")
    assert ended.stderr.endswith("\nInterrupted.\n")
    assert "Traceback" not in ended.stderr
    assert (reports / "results.json").read_text() == "of an earlier run"
    assert not (reports / "journal.jsonl").exists()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("number", END_SIGNALS)
def test_a_signal_cancels_the_task(number: signal.Signals) -> None:
    async def wait() -> None:
        with cancel_on_signals():
            os.kill(os.getpid(), number)
            await asyncio.sleep(60)

    async def run() -> None:
        task = asyncio.create_task(wait())
        with pytest.raises(asyncio.CancelledError):
            await task

    before = signal.getsignal(number)
    asyncio.run(run())
    assert signal.getsignal(number) is before


def test_a_signal_that_another_thread_receives_wakes_the_loop() -> None:
    """It stands for one that comes between Python's last look for signals and the wait for an event."""

    def send_signal() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        time.sleep(0.5)  # the loop waits by then
        os.kill(os.getpid(), signal.SIGTERM)

    async def wait() -> None:
        with cancel_on_signals():
            threading.Thread(target=send_signal).start()
            await asyncio.sleep(60)

    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(wait())
        assert time.monotonic() - began < 50
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


async def test_the_second_signal_leaves_the_tidying_up_alone() -> None:
    tidy = []

    async def wait() -> None:
        with cancel_on_signals():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(60)
            finally:
                os.kill(os.getpid(), signal.SIGHUP)
                await asyncio.sleep(0.01)
                tidy.append(True)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(wait())
    assert tidy == [True]


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with InterruptHandler().handle_signals():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
