"""Event loops for the gate and for an agent in the same process: two loops in two threads.

A blocking call of the library uses both loops (`run_in_gate_loop`). If the agent then blocks its loop or
ignores a cancellation, `evalgate.agents.adapters.in_process` abandons the agent's thread, and the gate goes
on. If the caller awaits the evaluation instead, gate and agent share the caller's loop.
"""

import asyncio
import contextlib
import ctypes
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, TypeVar

from evalgate.agents.host.conversations import CANCEL_WAIT_S

_T = TypeVar("_T")
_END_WAIT_S = 1.0
"""Seconds that the thread may take to end before it is interrupted and abandoned."""

_gate_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("gate_loop", default=None)


def run_in_gate_loop(evaluation: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in a new event loop that no agent uses, and return the result of the coroutine.

    Raises:
        RuntimeError: an event loop already runs in the calling thread.
    """

    async def mark_loop() -> _T:
        _gate_loop.set(asyncio.get_running_loop())
        return await evaluation

    return asyncio.run(mark_loop())


def is_gate_loop_running() -> bool:
    """Return True if `run_in_gate_loop` created the running event loop.

    Raises:
        RuntimeError: no event loop is running.
    """
    # Compared, because a loop that was started in this context, such as the agent's, inherits the variable.
    return _gate_loop.get() is asyncio.get_running_loop()


class AgentThread:
    """Event loop in a separate daemon thread. The constructor starts the thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.on_exit: Callable[[BaseException], object] | None = None
        """Function that is called in the thread with the SystemExit or KeyboardInterrupt of a task.

        None: such an exception is ignored.
        """
        self._is_stopping = False
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run_loop, daemon=True, name="agent-loop")
        self._thread.start()

    def call_soon(self, function: Callable[..., object], *args: object) -> None:
        """Schedule a function in the loop, with the caller's context variables, unless the loop is closed."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(function, *args)

    async def stop(self) -> None:
        """Cancel every task and end the thread.

        If the thread does not end within a second, interrupt its Python code and stop waiting for the thread.
        """
        self._request_stop()
        await asyncio.wait([asyncio.wrap_future(self._ended)], timeout=_END_WAIT_S)
        if not self._ended.done():
            self._interrupt()

    def abandon(self) -> None:
        """Stop waiting for a thread with a blocked loop. Interrupt its Python code; a call into C goes on."""
        self._request_stop()
        self._interrupt()

    def _request_stop(self) -> None:
        self._is_stopping = True
        self.call_soon(self.loop.stop)

    def _interrupt(self) -> None:
        # An endless loop would take its share of the processor, and of Python's lock, from all other cases.
        if self._thread.ident is not None:
            thread_id = ctypes.c_ulong(self._thread.ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread_id, ctypes.py_object(SystemExit))

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._is_stopping:
                try:
                    self.loop.run_forever()
                except (SystemExit, KeyboardInterrupt) as error:
                    # A task of the agent called sys.exit, which asyncio raises out of the loop, too.
                    if self.on_exit is not None:
                        self.on_exit(error)
            self._end_tasks()
        finally:
            self.loop.close()
            self._ended.set_result(None)

    def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            _, pending = self.loop.run_until_complete(asyncio.wait(tasks, timeout=CANCEL_WAIT_S))
            for task in pending:
                _destroy_task(task)
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())


def _destroy_task(task: asyncio.Task[Any]) -> None:
    """Close the coroutine of a task that ignored its cancellation.

    This runs the agent's `finally` blocks now and in this thread. Otherwise, the garbage collector would run
    them later, in any thread. asyncio's warning about a pending task is switched off, because the results
    report the turn.
    """
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  asyncio.gather does the same
    coroutine = task.get_coro()
    if asyncio.iscoroutine(coroutine):
        with contextlib.suppress(Exception):  # the agent's code may raise anything, or ignore this as well
            coroutine.close()
