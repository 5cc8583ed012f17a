"""Bounded pool of daemon threads, and the termination of child processes that the agent forked.

`concurrent.futures` is not used, since it joins its threads when the interpreter ends: a thread that hangs in
the agent must not keep the process alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import queue
import sys
import threading
import traceback
from typing import Any, Callable, Optional, Tuple

# Process id of the host. A forked child inherits this value and has another id.
_PID = os.getpid()


def mark_host_process() -> None:
    """Mark this process as the host. `end_if_forked` then never terminates it, even if it was forked."""
    global _PID  # noqa: PLW0603  the module is the state: one process has one host
    _PID = os.getpid()


def watch_forks(loop: asyncio.AbstractEventLoop) -> None:
    """Terminate each child that the agent forks from now on, as soon as it runs the host's event loop.

    Children that never run this loop are not terminated. They exit by themselves, or run another program or
    event loop, like the children of `subprocess` and `multiprocessing`.
    """
    register = getattr(os, "register_at_fork", None)
    if register is not None:
        register(after_in_child=lambda: _schedule_end_check(loop))


def _schedule_end_check(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.call_soon(end_if_forked)
    except RuntimeError:  # the loop is closed or, in debug mode, belongs to another thread than the fork
        return


def end_if_forked(error: Optional[BaseException] = None) -> None:
    """Terminate this process if it is a forked child; do nothing in the host process itself.

    The exit code is 0 without `error`. For a `SystemExit`, it is the code in the exception. For any other
    error, it is 1, and the error is written to stderr. `os._exit` is used, because the child has copies of
    the parent's buffers and exit handlers. The copies must not be flushed or run.
    """
    if os.getpid() == _PID:
        return
    code = 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        code = 1
        traceback.print_exception(type(error), error, error.__traceback__)
    sys.stderr.flush()
    os._exit(code & 0xFF)


_Job = Optional[Tuple["asyncio.AbstractEventLoop", "asyncio.Future[Any]", Callable[[], Any]]]
"""Loop, future of the result, and function to call; None ends the thread that takes it."""


class DaemonThreadPool:
    """Pool of up to `size` daemon threads, which are started when they are needed."""

    def __init__(self, size: int) -> None:
        self._size = max(1, size)
        self._threads = 0
        self._idle = threading.Semaphore(0)
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()

    def run_in_thread(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        """Call `work` in a thread, with the caller's context variables, and return the future of its result.

        The future raises the error of `work`. Call this method in the event loop. If it is called after
        `close`, the future may never be done.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        # The context variable of the capture assigns requests in the thread to this turn.
        context = contextvars.copy_context()
        self._jobs.put((loop, done, lambda: context.run(work)))
        # An idle thread takes the job. Only the event loop calls this method, so the count needs no lock.
        if not self._idle.acquire(blocking=False) and self._threads < self._size:
            self._threads += 1
            threading.Thread(target=self._serve_jobs, daemon=True, name=f"agent-{self._threads}").start()
        return done

    def close(self) -> None:
        """End the threads after the queued calls. `run_in_thread` must not be called after `close`."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _serve_jobs(self) -> None:
        while True:
            job = self._jobs.get()
            if job is None:
                return
            loop, done, work = job
            try:
                result = work()
                end_if_forked()
            except BaseException as error:  # noqa: BLE001  the future raises it where the turn is awaited
                end_if_forked(error)
                _finish_job(loop, done, None, error)
            else:
                _finish_job(loop, done, result, None)
            self._idle.release()


def _finish_job(
    loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any], result: object, error: BaseException | None
) -> None:
    def settle_future() -> None:
        if done.cancelled():
            return
        if isinstance(error, StopIteration):  # a future refuses it
            done.set_exception(RuntimeError("the agent raised StopIteration"))
        elif error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    with contextlib.suppress(RuntimeError):  # the loop is closed: the turn was abandoned, and took longer
        loop.call_soon_threadsafe(settle_future)
