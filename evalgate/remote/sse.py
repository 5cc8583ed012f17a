"""Server-sent events, as the WHATWG HTML standard (9.2.6) has them, read from bytes as they arrive."""

import re
from collections.abc import Iterator

_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventReader:
    """Takes bytes in pieces of any size and gives the data of each event that is complete."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._seen = 0
        """Bytes of the rest that hold no end of a line."""
        self._data: list[str] = []
        self._is_first = True

    def feed(self, piece: bytes) -> Iterator[str]:
        """The data of the events that `piece` completes."""
        self._rest += piece
        # A \r at the end may be half of an \r\n: it waits for what follows.
        end = len(self._rest) - (self._rest[-1:] == b"\r")
        start = 0
        for found in _LINE_END.finditer(self._rest, self._seen, end):
            line = bytes(self._rest[start : found.start()])
            start = found.end()
            yield from self._line(line)
        self._seen = end - start
        del self._rest[:start]

    def finish(self) -> Iterator[str]:
        """What is left when the stream ends: a last event without its empty line is still an event.

        The standard drops it; servers that forget the last line end exist, and what they said counts.
        """
        if self._rest:
            yield from self._line(bytes(self._rest).rstrip(b"\r"))
        yield from self._line(b"")

    @property
    def held(self) -> int:
        """Bytes of the line that is not complete yet."""
        return len(self._rest)

    def _line(self, line: bytes) -> Iterator[str]:
        if self._is_first:
            line, self._is_first = line.removeprefix(b"\xef\xbb\xbf"), False
        if not line:
            if self._data:
                yield "\n".join(self._data)
            self._data = []
            return
        name, _, value = line.decode("utf-8", "replace").partition(":")
        if name == "data":
            self._data.append(value.removeprefix(" "))
