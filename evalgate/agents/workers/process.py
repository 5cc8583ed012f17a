"""A worker's process, its pipes, and its memory limit."""

import asyncio
import errno
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Protocol, TypeAlias

from pydantic import AfterValidator, Field
from typing_extensions import override

from evalgate.agents.workers.orphans import (
    MARK_VARIABLE,
    create_mark,
    kill_orphans,
    kill_reparented,
    start_watchdog,
)
from evalgate.agents.workers.protocol import MAX_LINE_BYTES, WorkerProtocolError
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import truncate_start
from evalgate.core.types import Failure
from evalgate.system.isolation import isolate_process, list_children

MEMORY_POLL_S = 0.1
"""Seconds between two measurements of a worker's memory."""

_UNITS = {"b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE_PATTERN = "^[0-9]+[bkmgBKMG]?$"
_PAGE = os.sysconf("SC_PAGE_SIZE")


def parse_memory_size(text: str) -> int:
    """Return the number of bytes of a size such as `64m`.

    The unit is b, k (1,024 bytes), m or g, in lower or upper case; a size without a unit is in bytes.

    Raises:
        ValueError: `text` is not a whole number of 0 or more, followed by one of these units or none.
    """
    if not re.fullmatch(_SIZE_PATTERN, text):
        raise ValueError(f"{text!r} is no memory size, such as 512m")
    unit = text[-1].lower()
    return int(text[:-1]) * _UNITS[unit] if unit in _UNITS else int(text)


def _validate_memory_limit(text: str | None) -> str | None:
    if text is not None and not os.path.exists("/proc/self/statm"):  # noqa: PTH110  no Path is needed
        raise ValueError("needs Linux, where the memory of a process can be read; use the kind `docker`")
    return text


MemoryOption: TypeAlias = Annotated[
    str | None, Field(default=None, pattern=_SIZE_PATTERN), AfterValidator(_validate_memory_limit)
]
"""Memory that a worker process and its descendants may use, such as `512m`."""


def measure_memory(pid: int) -> int:
    """Return the bytes of unshared memory of a process and its descendants; 0 if the process is gone."""
    found, left = 0, [pid]
    while left:
        current = left.pop()
        found += _measure_private_memory(current)
        left += list_children(current)
    return found


def _measure_private_memory(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:  # noqa: PTH123  ten times a second
            fields = file.read().split()
    except OSError:
        return 0
    return (int(fields[1]) - int(fields[2])) * _PAGE  # resident without shared pages


STDERR_BYTES = 64 * 1024
"""Number of bytes at the end of a worker's stderr that are kept in memory."""
DETAIL_CHARACTERS = 8 * 1024
"""Number of characters at the end of stderr, or of a container's log, that a failure shows."""
# A descendant that was not found can hold the pipes open for ever, although the process itself is gone.
_ORPHANED_PIPES_S = 1.0
_THREAD_ADVICE = "raise `ulimit -u` or `ulimit -v`, or the limits of the job, or start fewer workers"
# The lines of one iteration of the event loop are a burst. It is written in parts, each twice as long as the
# part before, up to `_MAX_BURST_LINES`: the worker works on a part while the rest is written, and does not
# wake up for every line. One case is three lines.
_FIRST_BURST_LINES = 3
_MAX_BURST_LINES = 16


@frozen
class LaunchSpec:
    """Command, folder, environment, user and memory limit of a worker."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    """The whole environment of the process."""
    uid: int | None = None
    """Id of the user of the process; None: the user of the gate."""
    gid: int | None = None
    """Id of the group of the process; None: the group of the gate."""
    memory: int | None = None
    """Bytes of memory that the process and its descendants may use; None for no limit."""


class ProcessListener(Protocol):
    """Receiver of the output and the end of a process."""

    def on_line(self, line: bytes) -> None:
        """Receive one line of stdout, without its line end; blank lines are not passed."""
        ...

    def on_protocol_error(self, error: WorkerProtocolError) -> None:
        """Learn that a line of stdout exceeded 64 MiB (`MAX_LINE_BYTES`), as `error` says."""
        ...

    def on_process_ended(self) -> None:
        """Learn that the process ended.

        All output was passed before, unless a descendant held the pipes open for more than a second.
        """
        ...


class AgentProcess(asyncio.SubprocessProtocol):
    """Child process in its own POSIX session. All methods must be called in the event loop."""

    _running: ClassVar[set["AgentProcess"]] = set()
    """All agent processes that this gate is starting or running."""

    def __init__(self, listener: ProcessListener) -> None:
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._pending: list[bytes] = []
        self._burst_part = 0
        """Number of lines to collect before they are written; 0 if no line was sent in this iteration."""
        self._stdout_parts: list[bytes] = []
        self._stdout_size = 0
        self._stderr = bytearray()
        self._mark = create_mark()
        self._exceeded_limit: int | None = None
        """Memory limit in bytes, if the process was killed for exceeding it; else None."""
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done once the process is gone, or could not be started."""

    async def start(self, launch: LaunchSpec) -> None:
        """Start the process; call this only once.

        Raises:
            OSError, ValueError: the process, or the thread that waits for its end, cannot be started.
        """
        start_watchdog()
        isolate_process()
        # Before the process exists: while one is being started, `kill_reparented` must not run.
        self._running.add(self)
        try:
            await self._loop.subprocess_exec(
                lambda: self,
                *launch.argv,
                cwd=launch.cwd,
                env={**launch.env, MARK_VARIABLE: self._mark},
                # A signal to its process group reaches the agent's children and not the gate. Ctrl-C in a
                # terminal reaches the gate alone, which then ends the agent in order.
                start_new_session=True,
                user=launch.uid,
                group=launch.gid,
                # Otherwise the process keeps the groups of the gate, which may be those of root.
                extra_groups=None if launch.uid is None else (),
            )
        except (OSError, ValueError, RuntimeError) as error:
            self._running.discard(self)
            self.ended.set_result(None)
            if not isinstance(error, RuntimeError):
                raise
            # Before Python 3.12, asyncio starts a thread for each process, after the process.
            kill_orphans(self._mark)
            raise OSError(f"{error}: {_THREAD_ADVICE}") from error
        if launch.memory is not None:
            self._watch_memory(launch.memory)

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, or the negative number of the signal that ended the process.

        Return None while the process runs, and if the exit code is unknown.
        """
        return None if self._transport is None else self._transport.get_returncode()

    @property
    def exit_failure(self) -> Failure:
        """Return a failure that says how the process ended, with the end of stderr as its detail.

        The message names the exit code, the signal or the memory limit. It is an unfinished sentence: the
        caller appends a clause such as " while it answered".
        """
        code = self.exit_code
        if self._exceeded_limit is not None:
            sentence = f"the agent's process used more than {self._exceeded_limit >> 20} MiB of memory"
            return Failure("out_of_memory", sentence, self.get_stderr_tail())
        if code is None:
            return Failure("killed", "the agent's process ended", self.get_stderr_tail())
        if code < 0:
            sentence = f"the agent's process was killed by signal {_get_signal_name(-code)}"
            return Failure("killed", sentence, self.get_stderr_tail())
        return Failure("exited", f"the agent's process ended with exit code {code}", self.get_stderr_tail())

    def get_stderr_tail(self) -> str:
        """Return the end of the process's stderr, about 8,192 characters at most."""
        return truncate_start(self._stderr.decode("utf-8", "replace"), DETAIL_CHARACTERS)

    def write(self, line: bytes) -> None:
        """Send a line, given with its line end; do nothing if stdin is closed.

        Lines of one iteration of the event loop are written together, at most 16 at once.
        """
        if not self._burst_part:
            self._burst_part = _FIRST_BURST_LINES
            self._loop.call_soon(self._end_burst)
        self._pending.append(line)
        if len(self._pending) >= self._burst_part:
            self._burst_part = min(2 * self._burst_part, _MAX_BURST_LINES)
            self._flush_pending()

    def close_stdin(self) -> None:
        """Close stdin after all pending lines; a worker ends when it has read these lines."""
        self._flush_pending()
        if self._stdin is not None:
            self._stdin.close()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the agent's process and its group; do nothing before the start.

        The rest of the group gets the signal even if the agent's process has ended.
        """
        if self._transport is None:
            return
        try:
            os.killpg(self._transport.get_pid(), number)
        except (ProcessLookupError, PermissionError):
            return  # already gone

    def _watch_memory(self, limit: int) -> None:
        if self._transport is None or self.ended.done():
            return
        # Measured, because RLIMIT_AS limits addresses instead of memory, and each process by itself.
        if measure_memory(self._transport.get_pid()) > limit:
            self._exceeded_limit = limit
            self.kill()
        else:
            self._loop.call_later(MEMORY_POLL_S, self._watch_memory, limit)

    def _end_burst(self) -> None:
        self._burst_part = 0
        self._flush_pending()

    def _flush_pending(self) -> None:
        lines, self._pending = self._pending, []
        # asyncio logs a warning for each write into a pipe without a reader.
        if lines and self._stdin is not None and not self._stdin.is_closing():
            self._stdin.write(b"".join(lines))

    # --- called by asyncio ----------------------------------------------------------------------------------

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self.ended.done():  # there was no thread for the process
            transport.close()
        elif isinstance(transport, asyncio.SubprocessTransport):
            self._transport = transport
            stdin = transport.get_pipe_transport(0)
            self._stdin = stdin if isinstance(stdin, asyncio.WriteTransport) else None

    @override
    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 1:
            self._on_stdout(data)
            return
        self._stderr += data
        # Only at twice the size, so that a flood is not copied again for each piece of it.
        if len(self._stderr) > 2 * STDERR_BYTES:
            del self._stderr[:-STDERR_BYTES]

    @override
    def process_exited(self) -> None:
        # What the process wrote may still arrive.
        self.kill()
        kill_orphans(self._mark)
        self._running.discard(self)
        if not self._running:
            # Children of the gate without a mark can belong to any agent, so wait until none runs.
            kill_reparented()
        self._loop.call_later(_ORPHANED_PIPES_S, self._mark_ended)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._mark_ended()

    def _mark_ended(self) -> None:
        if self.ended.done():
            return
        self.ended.set_result(None)
        if self._transport is not None:
            self._transport.close()
        self._listener.on_process_ended()

    def _on_stdout(self, data: bytes) -> None:
        if b"\n" not in data:
            self._append_partial_line(data)
            return
        *lines, rest = b"".join((*self._stdout_parts, data)).split(b"\n")
        self._stdout_parts, self._stdout_size = [], 0
        for line in lines:
            if line and not line.isspace():
                self._listener.on_line(line)
        if rest:
            self._append_partial_line(rest)

    def _append_partial_line(self, data: bytes) -> None:
        self._stdout_parts.append(data)
        self._stdout_size += len(data)
        if self._stdout_size > MAX_LINE_BYTES:
            self._stdout_parts, self._stdout_size = [], 0
            sentence = (
                f"the agent wrote more than {MAX_LINE_BYTES >> 20} MiB on stdout without an end of line"
            )
            self._listener.on_protocol_error(WorkerProtocolError(sentence, "flood"))


def _get_signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def describe_start_error(error: OSError | ValueError, launch: LaunchSpec) -> str:
    """Return the reason why a process could not be started, for an error message."""
    if isinstance(error, FileNotFoundError) and not launch.cwd.is_dir():
        return f"there is no folder {launch.cwd}"
    if isinstance(error, FileNotFoundError):
        return f"there is no command `{launch.argv[0]}`"
    if isinstance(error, PermissionError) and error.errno == errno.EACCES:
        return f"`{launch.argv[0]}` may not be executed"
    return f"`{launch.argv[0]}`: {error}"
