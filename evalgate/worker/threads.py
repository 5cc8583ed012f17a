"""A bounded pool of daemon threads for agents that are not asynchronous.

`concurrent.futures` joins its threads when the interpreter ends; one that hangs in the agent must not keep
the process alive.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from typing import Any, Callable, Tuple

from .forks import end_if_forked

_Job = Tuple["asyncio.AbstractEventLoop", "asyncio.Future[Any]", Callable[[], Any]]


class Threads:
    """Up to `size` threads, started when they are needed."""

    def __init__(self, size: int) -> None:
        self._size = max(1, size)
        self._threads = 0
        self._idle = threading.Semaphore(0)
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()

    def run(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call `work` in a thread, with the caller's context variables. To be called in the event loop."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        self._jobs.put((loop, done, lambda: context.run(work)))
        if not self._idle.acquire(blocking=False) and self._threads < self._size:
            self._threads += 1
            threading.Thread(target=self._serve, daemon=True, name=f"agent-{self._threads}").start()
        return done

    def _serve(self) -> None:
        while True:
            loop, done, work = self._jobs.get()
            try:
                result = work()
                end_if_forked()
            except BaseException as error:  # noqa: BLE001  a future carries it to whoever awaits the turn
                end_if_forked(error)
                _finish(loop, done, None, error)
            else:
                _finish(loop, done, result, None)
            self._idle.release()


def _finish(
    loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any], result: object, error: BaseException | None
) -> None:
    def settle() -> None:
        if done.cancelled():
            return
        if isinstance(error, StopIteration):  # a future refuses it
            done.set_exception(RuntimeError("the agent raised StopIteration"))
        elif error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    loop.call_soon_threadsafe(settle)
