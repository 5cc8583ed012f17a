"""Writing to the stdin of a worker: when, and in which parts. Sizes of its memory."""

import asyncio
import os
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.agents.workers.orphans import signal_orphans, start_watchdog
from evalgate.agents.workers.process import AgentProcess, LaunchSpec, parse_memory_size
from evalgate.agents.workers.protocol import WorkerProtocolError


class Silent:
    """A listener that expects nothing."""

    def on_line(self, line: bytes) -> None:
        raise AssertionError(line)

    def on_protocol_error(self, error: WorkerProtocolError) -> None:
        raise AssertionError(error)

    def on_process_ended(self) -> None:
        raise AssertionError


class Stdin(asyncio.WriteTransport):
    """A transport that stores the parts that are written."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.parts.append(bytes(data))


class Started(asyncio.SubprocessTransport):
    """The transport of a process with stdin."""

    def __init__(self, stdin: Stdin) -> None:
        super().__init__()
        self._stdin = stdin

    def get_pipe_transport(self, fd: int) -> asyncio.BaseTransport | None:
        return self._stdin if fd == 0 else None


async def write_bursts(bursts: list[int]) -> list[list[int]]:
    """Return the numbers of lines in each write, burst by burst."""
    stdin, number, found = Stdin(), 0, []
    process = AgentProcess(Silent())
    process.connection_made(Started(stdin))
    for lines in bursts:
        for _ in range(lines):
            process.write(b"%d\n" % number)
            number += 1
        await asyncio.sleep(0)
        found.append([part.count(b"\n") for part in stdin.parts])
        assert b"".join(stdin.parts).split() == [b"%d" % each for each in range(number - lines, number)]
        stdin.parts.clear()
    return found


async def test_line_is_written_in_the_same_iteration_of_the_loop() -> None:
    assert await write_bursts([1, 1]) == [[1], [1]]


async def test_burst_is_written_in_growing_parts() -> None:
    assert await write_bursts([70, 5]) == [[3, 6, 12, 16, 16, 16, 1], [3, 2]]


@given(st.lists(st.integers(0, 100), max_size=5))
def test_every_line_is_written_once_and_in_order(bursts: list[int]) -> None:
    found = asyncio.run(write_bursts(bursts))
    assert [sum(parts) for parts in found] == bursts


@pytest.mark.parametrize(
    ("text", "size"), [("64m", 64 << 20), ("1G", 1 << 30), ("5k", 5 << 10), ("7b", 7), ("12", 12), ("0", 0)]
)
def test_memory_size_is_read(text: str, size: int) -> None:
    assert parse_memory_size(text) == size


@pytest.mark.parametrize("text", ["", "m", "-5m", "-5", "1.5g", "5x", "5mm"])
def test_memory_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no memory size"):
        parse_memory_size(text)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="asyncio needs no thread for a process")
async def test_a_process_without_a_thread_for_it_is_ended_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asyncio starts a process, and then a thread that waits for its end."""

    def fail_to_start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    process = AgentProcess(Silent())
    start_watchdog()
    monkeypatch.setattr(threading.Thread, "start", fail_to_start)
    with pytest.raises(OSError, match=r"^can't start new thread: raise `ulimit -u` or `ulimit -v`, or "):
        await process.start(LaunchSpec(("sleep", "60"), tmp_path, dict(os.environ)))
    assert process.ended.done()
    await asyncio.sleep(0.1)
    assert not signal_orphans(process._mark, 0)
