import io
import os
import threading
from pathlib import Path

import pytest

from evalgate.system.stdio import BestEffortFile


def text_on(descriptor: int, encoding: str = "utf-8") -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(BestEffortFile(descriptor)), encoding=encoding, errors="replace"
    )


def test_what_is_written_arrives(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file, text_on(file.fileno(), "latin-1") as stream:
        stream.write("Zoë → 1.00\n")
        assert not stream.isatty()
        assert stream.fileno() == file.fileno()
    assert (tmp_path / "out").read_bytes() == b"Zo\xeb ? 1.00\n"


def test_a_reader_that_leaves_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with text_on(writer) as stream:
        stream.write("x" * 100_000)
        stream.flush()
        stream.write("more")
    os.close(writer)


@pytest.mark.parametrize("text", ["one line\n", "x" * 100_000])
def test_a_full_disk_is_no_error(text: str) -> None:
    with Path("/dev/full").open("wb") as full, text_on(full.fileno()) as stream:
        stream.write(text)


def test_a_closed_descriptor_is_no_error() -> None:
    with text_on(1_000_000) as stream:
        stream.write("nobody")


def test_a_pipe_that_does_not_wait_loses_nothing() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    got: list[bytes] = []

    def read() -> None:
        while data := os.read(reader, 4096):
            got.append(data)

    thread = threading.Thread(target=read)
    thread.start()
    with text_on(writer) as stream:
        stream.write("x" * 500_000)
    os.close(writer)
    thread.join()
    os.close(reader)
    assert b"".join(got) == b"x" * 500_000
