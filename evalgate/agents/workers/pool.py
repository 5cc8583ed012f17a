"""Pool of worker processes. They are started on demand, and the conversations are spread over them."""

import asyncio
import signal
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY
from typing import Self

from evalgate.agents.workers.process import AgentProcess, LaunchSpec, ProcessListener
from evalgate.agents.workers.session import WorkerSession
from evalgate.agents.workers.worker import Worker
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import AgentUnreachableError
from evalgate.core.types import ENTRY_NOT_FOUND, EvalCase

EXIT_GRACE_S = 1.0
"""Seconds that workers may take to end once their stdin is closed, and again after SIGTERM."""
# A killed process ends at once unless the kernel holds it (a dead network mount): then nothing can end it.
_KILL_WAIT_S = 10.0
# One crash can lose every session of a worker. Up to this many processes then run these sessions again, each
# session alone, even if `workers` is less. Processes beyond `workers` end when no session waits any more.
_ISOLATION_WORKERS = 4
# Number of workers that are tried for a session if each of them dies while the session waits.
_MAX_ATTEMPTS = 3


@frozen
class PoolOptions:
    """Options of a pool: number of workers and time limits."""

    _: KW_ONLY
    workers: int
    """Largest number of worker processes. A session that must be alone may add processes, up to 4 in all."""
    timeout_s: float
    """Seconds that one turn may take."""
    start_timeout_s: float = 60.0
    """Seconds that a worker may take until it is ready."""
    track_files: bool = False
    """True: the workers report the project's files that the agent imports or opens for reading."""


class WorkerPool:
    """`Agent` in worker processes. Leaving the pool, which is a context manager, ends all its processes."""

    def __init__(
        self,
        launch: LaunchSpec,
        options: PoolOptions,
        process_factory: Callable[[ProcessListener], AgentProcess] = AgentProcess,
    ) -> None:
        self._launch = launch
        self._process_factory = process_factory
        self._options = options
        self._workers: list[Worker] = []
        self._first: Worker | None = None
        self._processes: set[Worker] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._waiting: list[asyncio.Future[None]] = []
        self._files = None
        if options.track_files:
            from evalgate.agents.workers.opened_files import OpenedFiles  # few runs track files

            self._files = OpenedFiles()
        self._dropped_spans: list[int] = []
        """Numbers of dropped spans, one for each turn with more than 16 MiB of spans."""

    async def __aenter__(self) -> Self:
        self._first = self._add_worker()
        return self

    async def __aexit__(self, *exc: object) -> None:
        ending = asyncio.create_task(self._end_workers(graceful=not any(exc)))
        cancelled: asyncio.CancelledError | None = None
        while not ending.done():
            try:
                await asyncio.wait([ending])
            except asyncio.CancelledError as error:  # cancelled again: kill, then it ends in milliseconds
                cancelled = error
                self._kill_workers()
        ending.result()
        if cancelled is not None:
            raise cancelled

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> "_SessionContext":
        """Return an asynchronous context manager that opens a conversation.

        Entering it waits for a ready worker. It raises AgentUnreachableError if the worker cannot start. With
        `alone`, the worker has no other conversation.
        """
        del run
        return _SessionContext(self, case, alone=alone)

    @property
    def notices(self) -> tuple[str, ...]:
        """Return notices about eval sets with files that could not be tracked, and about dropped spans."""
        return (*self._describe_unknown_files(), *self._describe_dropped_spans())

    @property
    def opened_files(self) -> Mapping[str, tuple[str, ...]]:
        """Return the opened files of each eval set, without sets that have unknown files.

        Return an empty mapping if the pool does not track files.
        """
        return self._files.by_eval_set if self._files is not None else {}

    def _describe_unknown_files(self) -> tuple[str, ...]:
        if self._files is None or not self._files.incomplete:
            return ()
        sentence = (
            f"The files of {', '.join(self._files.incomplete)} could not be tracked completely: the agent "
            "started other programs, crashed or took too long."
        )
        return (sentence,)

    def _describe_dropped_spans(self) -> tuple[str, ...]:
        if not self._dropped_spans:
            return ()
        spans = pluralize(sum(self._dropped_spans), "OpenTelemetry span")
        sentence = (
            f"{spans} of the agent could not be read, as those of a turn took more than 16 MiB: steps of "
            "traces may be missing, and tool calls unless the agent reports them itself. Record less in them."
        )
        return (sentence,)

    async def check_entry(self) -> None:
        """Wait until the first worker is ready or has failed; do nothing if the pool was not entered.

        Raises:
            InvalidInputError: the first worker cannot find the agent's entry.
        """
        try:
            if self._first is not None:
                await asyncio.shield(self._first.ready)
        except AgentUnreachableError as error:
            if error.failure.kind == ENTRY_NOT_FOUND:
                raise InvalidInputError(error.failure.message) from None

    async def acquire_session(self, case: EvalCase, *, alone: bool) -> WorkerSession:
        """Wait for a ready worker and return a new session in it.

        With `alone`, the worker has no other session. The caller must close the session. If a worker dies
        while the session waits for it, try another one. If the third worker dies, too, return the session in
        this dead worker: the session's first turn raises the error.

        Raises:
            AgentUnreachableError: the worker cannot start.
        """
        attempts = 0
        while True:
            worker = self._choose_worker(alone=alone)
            if worker is None:
                await self._wait_for_change()
                continue
            # Before anything is awaited, so that no other session can enter meanwhile.
            worker.reserved = alone
            session = worker.open_session(case, self._options.timeout_s)
            try:
                if alone or not worker.ready.done():
                    await self._wait_until_ready(worker, alone=alone)
                worker.ready.result()
            except BaseException:  # also a cancellation: an open session would keep its worker busy
                session.close()
                raise
            attempts += 1
            if not worker.gone or attempts == _MAX_ATTEMPTS:
                return session

    async def _wait_until_ready(self, worker: Worker, *, alone: bool) -> None:
        """Wait until the worker is ready. With `alone`, also wait until it has only the caller's session."""
        if not worker.ready.done():
            # All sessions of the worker await this future: the cancellation of one must not cancel it.
            await asyncio.shield(worker.ready)
        while alone and len(worker.sessions) > 1 and not worker.gone:
            await self._wait_for_change()

    def on_worker_changed(self) -> None:
        """Drop workers that are gone or take no new sessions (`retiring`), and wake all waiting sessions.

        If there are more workers than the options allow and no session waits, end an idle worker.
        """
        self._workers = [each for each in self._workers if not (each.gone or each.retiring)]
        if len(self._workers) > self._options.workers and not self._waiting:
            self._end_idle_worker()
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _end_idle_worker(self) -> None:
        idle = next((each for each in self._workers if not each.sessions), None)
        if idle is not None:
            self._workers.remove(idle)
            idle.kill_process()

    def _choose_worker(self, *, alone: bool) -> Worker | None:
        """Return the worker for a new session; None if the session must wait.

        Return the first of these workers that exists:

        1. an idle worker
        2. a new worker, if the options allow one more; with `alone`, up to 4 workers are always allowed
        3. of the workers that are not reserved by a session with `alone`, the one with the fewest sessions
        """
        best: Worker | None = None
        for each in self._workers:
            if not each.reserved and (best is None or len(each.sessions) < len(best.sessions)):
                best = each
        if best is not None and not best.sessions:
            return best
        workers = self._options.workers
        if len(self._workers) < (max(workers, _ISOLATION_WORKERS) if alone else workers):
            return self._add_worker()
        # It is busy: a session that must be alone reserves it and waits until the others have left.
        return best

    def _add_worker(self) -> Worker:
        worker = Worker(
            self.on_worker_changed, self._process_factory, self._dropped_spans.append, self._files
        )
        self._workers.append(worker)
        self._processes.add(worker)
        worker.process.ended.add_done_callback(lambda _: self._processes.discard(worker))
        task = asyncio.create_task(worker.start(self._launch, self._options.start_timeout_s))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return worker

    async def _wait_for_change(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        await waiter

    async def _end_workers(self, *, graceful: bool) -> None:
        # A process that is just being started has no id to kill it by yet.
        if self._starting:
            await asyncio.wait(self._starting)
        if graceful:
            for worker in self._processes:
                worker.process.close_stdin()
            await self._wait_for_end(EXIT_GRACE_S)
            for worker in self._processes:
                worker.process.kill(signal.SIGTERM)
            await self._wait_for_end(EXIT_GRACE_S)
        self._kill_workers()
        await self._wait_for_end(_KILL_WAIT_S)

    def _kill_workers(self) -> None:
        for worker in self._processes:
            worker.kill_process()

    async def _wait_for_end(self, seconds: float) -> None:
        ends = [worker.process.ended for worker in self._processes]
        if ends:
            await asyncio.wait(ends, timeout=seconds)


class _SessionContext:
    """Asynchronous context manager of one conversation."""

    __slots__ = ("_alone", "_case", "_pool", "_session")

    def __init__(self, pool: WorkerPool, case: EvalCase, *, alone: bool) -> None:
        self._pool = pool
        self._case = case
        self._alone = alone
        self._session: WorkerSession | None = None

    async def __aenter__(self) -> WorkerSession:
        self._session = await self._pool.acquire_session(self._case, alone=self._alone)
        return self._session

    async def __aexit__(self, *exc: object) -> None:
        if self._session is not None:
            self._session.close()
