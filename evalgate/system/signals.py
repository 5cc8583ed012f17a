"""Handle the signals that ask the gate to end, so that results are kept and reports are still written.

The effect of the first Ctrl-C, or of another end signal, depends on the phase of `evalgate run`:

    phase                        handler                                      effect
    options and plan are read    `InterruptHandler`, installed by `__main__`  KeyboardInterrupt, no record
    the agent starts, cases run  `cancel_on_signals`, by `pipeline.run_gate`  a record of what was made
    verdict, reports, posts      `InterruptHandler` with `ignores_signals`    none
    the exit code is certain     SIG_IGN, by `ignore_end_signals`             none

In the first two phases the exit code is 130. The command sets `ignores_signals` shortly before the agent's
first turn. This has no effect while cases run, because `cancel_on_signals` replaces the handler. After the
last case it restores the `InterruptHandler`, which then ignores signals. If another Python program calls the
command, `__main__` does not run, and `InterruptHandler.handle_signals` installs the handler.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import asyncio
    from sys import UnraisableHookArgs

_Handler: TypeAlias = Callable[[int, FrameType | None], None]

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a command, unless they were ignored from the start, as `nohup` does."""

_REPEAT_S = 0.01


class InterruptHandler:
    """Handler of the end signals: the first signal raises KeyboardInterrupt in the command.

    While `ignores_signals` is True, signals have no effect. Writing reports and cleaning up take a moment,
    and a runner that cancels a job sends several signals, or a user may press Ctrl-C twice.
    """

    def __init__(self) -> None:
        self.ignores_signals = False
        self.has_interrupted = False
        self._is_ready = False
        self._was_asked = False
        self._number: int = signal.SIGINT
        """The signal that came last."""

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Handle one signal. Python calls this in the main thread, between any two bytecode instructions.

        Raises:
            KeyboardInterrupt: always, with two exceptions. While signals are ignored, nothing is raised.
                While handlers are being installed, the error is raised at the end of the installation.
        """
        # A signal may arrive while handlers are still being installed. Raising there would leave some of them
        # installed and the previous ones forgotten, so it is only noted, and raised by `_mark_ready`.
        self._was_asked, self._number = True, number
        # Python would also drop an exception within `_repeat_lost_interrupt`, which sends the signal again.
        if self._is_ready and not _is_called_by(self._repeat_lost_interrupt.__code__, frame):
            self._interrupt_command()

    def install_handlers(self) -> None:
        """Install the handler until the process ends. Call this in the main thread of evalgate's command.

        Raises:
            KeyboardInterrupt: a signal arrived before all handlers were installed.
        """
        sys.unraisablehook = self._repeat_lost_interrupt
        _install_handler(self)
        self._mark_ready()

    def _repeat_lost_interrupt(self, lost: "UnraisableHookArgs") -> None:
        """Send the last signal again until it has an effect, if Python dropped its KeyboardInterrupt.

        Python calls this for every error that it drops because it cannot raise it, such as an error in
        `__del__`. Errors of other types are handled as usual.
        """
        if lost.exc_type is not KeyboardInterrupt:
            sys.__unraisablehook__(lost)
            return

        def send_until_raised() -> None:
            time.sleep(_REPEAT_S)
            while not self.ignores_signals:
                os.kill(os.getpid(), self._number)
                time.sleep(_REPEAT_S)

        self.ignores_signals = False
        threading.Thread(target=send_until_raised, daemon=True).start()

    @contextmanager
    def handle_signals(self) -> Iterator[None]:
        """Handle the signals within the block. Outside the main thread no handler is installed."""
        with _use_handler(self):
            self._mark_ready()
            yield

    def _mark_ready(self) -> None:
        """Store that all handlers are installed. If a signal has arrived before, interrupt the command."""
        self._is_ready = True
        if self._was_asked:
            self._interrupt_command()

    def _interrupt_command(self) -> None:
        # Only once: a second KeyboardInterrupt could be raised inside a `finally` that the first one runs.
        if not self.ignores_signals:
            self.note_interrupt()
            raise KeyboardInterrupt

    def raise_lost_interrupt(self) -> None:
        """Raise KeyboardInterrupt if a signal has raised it before; other code may have caught it.

        Pydantic, for example, catches it in a hash function.

        Raises:
            KeyboardInterrupt: a signal has interrupted the command.
        """
        if self.has_interrupted:
            raise KeyboardInterrupt

    def note_interrupt(self) -> None:
        """Store that a signal ended the command, and ignore all further signals."""
        self.ignores_signals = self.has_interrupted = True


def _is_called_by(caller: CodeType, frame: FrameType | None) -> bool:
    """Return True if `frame`, or one of its callers, runs the code `caller`."""
    while frame is not None and frame.f_code is not caller:
        frame = frame.f_back
    return frame is not None


def ignore_end_signals() -> None:
    """Ignore further end signals, so that none changes the exit code. Call this once all output is written.

    The system ignores the signals (SIG_IGN), because Python removes its own handlers while the interpreter
    shuts down.
    """
    for number in END_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def cancel_on_signals(on_signal: Callable[[int], None] | None = None) -> Iterator[None]:
    """Cancel the current task at the first end signal within the block.

    `on_signal` is called with the number of each signal, before the task is cancelled. After the block, the
    earlier handlers are restored. Outside the main thread no handler is installed.

    Raises:
        RuntimeError: no task of asyncio is running.
    """
    import asyncio

    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is None:
        raise RuntimeError("only a task can be cancelled")

    def cancel_task() -> None:
        if not task.cancelling():  # a second cancellation would interrupt the cleanup after the first
            task.cancel()

    def schedule_cancel(number: int, _frame: FrameType | None) -> None:
        if on_signal is not None:
            on_signal(number)
        # Not `task.cancel()` directly: the loop may be waiting for input, and this call wakes it.
        loop.call_soon_threadsafe(cancel_task)

    with _wake_on_signals(loop), _use_handler(schedule_cancel):
        yield


@contextmanager
def _wake_on_signals(loop: "asyncio.AbstractEventLoop") -> Iterator[None]:
    """Let every signal wake the event loop within the block, so that Python handles the signal at once.

    Outside of the main thread, do nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Python handles signals in its main thread. Without the socket, the handler might not run before the
    # loop's next event.
    import socket

    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        loop.add_reader(reader, lambda: reader.recv(4096))
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(reader)


@contextmanager
def _use_handler(handler: _Handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Python lets only the main thread set handlers
        return
    before = _install_handler(handler)
    try:
        yield
    finally:
        for number, handler_before in before.items():
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # `ignore_end_signals` was called within the block, and holds until the end
            signal.signal(number, signal.SIG_DFL if handler_before is None else handler_before)


def _install_handler(handler: _Handler) -> dict[signal.Signals, _Handler | int | None]:
    """Install `handler` for the end signals that are not ignored; return their earlier handlers by signal."""
    # A command that `nohup` started must survive the end of its terminal.
    numbers = [number for number in END_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    return {number: signal.signal(number, handler) for number in numbers}
