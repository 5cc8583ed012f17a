"""Standard streams that raise no error, so that a failed write does not change the exit code."""

import io
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class BestEffortFile(io.RawIOBase):
    """File that writes to a descriptor until a write fails, and drops all data from then on.

    Every failure, such as a closed pipe or a full disk, has this effect. The file does not close the
    descriptor.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._is_working = True

    def writable(self) -> bool:
        """Return True, also after a write has failed."""
        return True

    def fileno(self) -> int:
        """Return the descriptor of the stream."""
        return self._descriptor

    def isatty(self) -> bool:
        """Return True if the descriptor is a terminal."""
        return os.isatty(self._descriptor)

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write as much of `data` as possible. Return the size of `data`, as if all of it was written."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest and self._is_working:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process made the shared pipe non-blocking
                select.select([], [self._descriptor], [])
            except OSError:
                self._is_working = False
        return size


def ignore_broken_pipes() -> None:
    """Replace `sys.stdout` and `sys.stderr` by streams that raise no error if a write fails.

    Text that cannot be encoded becomes "?". If stdin, stdout or stderr is closed, the null device is opened
    in its place.
    """
    for descriptor in (0, 1, 2):
        if not _is_open(descriptor):
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    sys.stdout = _wrap_stream(sys.stdout, 1)
    sys.stderr = _wrap_stream(sys.stderr, 2)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _wrap_stream(stream: TextIO | None, descriptor: int) -> TextIO:
    """Return a stream to `descriptor` that raises no error, with the encoding of `stream`.

    `stream` is None if the descriptor was closed; then the encoding is UTF-8.
    """
    file = io.BufferedWriter(BestEffortFile(descriptor))
    return io.TextIOWrapper(
        file,
        encoding=stream.encoding if stream else "utf-8",
        errors="replace",
        line_buffering=True,
    )
