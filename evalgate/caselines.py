"""A `results.json` case by case: each stands on a line of its own, so that not all are held at once."""

from collections.abc import Iterator

from evalgate.model import Record
from evalgate.record import load_record

_BEFORE, _BETWEEN, _AFTER = b',\n "cases": [\n', b",\n", b"\n ]\n}\n"
"""Around the lines of cases in a record. No text in JSON holds a line end, so nothing else looks like it."""


def split_record(data: bytes, shown_as: str) -> tuple[Record, Iterator[bytes]]:
    """The record in such a file without its cases, and the JSON of each case.

    Raises:
        ValueError: the file is not laid out as `record.dump_record` does it, or has no cases.
        InvalidInput: as `load_record`.
    """
    begin = data.find(_BEFORE)
    if begin < 0 or not data.endswith(_AFTER):
        raise ValueError("written by another program")
    head = load_record(data[:begin] + _BEFORE + b"]}", shown_as)
    return head, _lines(data, begin + len(_BEFORE), len(data) - len(_AFTER))


def _lines(data: bytes, start: int, stop: int) -> Iterator[bytes]:
    while (end := data.find(_BETWEEN, start, stop)) >= 0:
        yield data[start:end]
        start = end + len(_BETWEEN)
    yield data[start:stop]
