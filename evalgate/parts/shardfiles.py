"""Finding the records of shards, and reading one, whose cases are written again as they stand there."""

import glob
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate import __version__
from evalgate.errors import InvalidInput
from evalgate.model import Record
from evalgate.record import load_record, read_bytes
from evalgate.writtencase import WrittenCase

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_BEFORE, _BETWEEN, _AFTER = b',\n "cases": [\n', b",\n", b"\n ]\n}\n"
"""Around the lines of cases in a record. No text in JSON holds a line end, so nothing else looks like it."""


def find_shards(patterns: Sequence[str], *, base: Path) -> tuple[str, ...]:
    """The files that files, folders and globs name, relative to `base`, in their order.

    A folder stands for every `results.json` in it, however deep. What names nothing stays as it is written,
    as in a shell: whoever reads it tells that there is no such file.
    """
    return tuple(file for pattern in patterns for file in _named(pattern, base) or [pattern])


def _named(pattern: str, base: Path) -> list[str]:
    path = base / pattern
    if path.is_dir():
        return sorted(str(Path(pattern) / file.relative_to(path)) for file in path.rglob("results.json"))
    if path.exists() or not glob.has_magic(pattern):
        return [pattern]
    names = glob.glob(pattern, root_dir=base, recursive=True)  # noqa: PTH207  as eval sets are found
    return sorted(name for name in names if (base / name).is_file())


def read_shard(path: Path, shown_as: str) -> Record:
    """The record of a shard, its cases as `WrittenCase` where this version wrote them.

    Raises:
        InvalidInput: as `read_record`.
    """
    data = read_bytes(path, shown_as)
    head, _, rest = data.partition(_BEFORE)
    if rest.endswith(_AFTER):
        with suppress(InvalidInput, ValueError):  # whoever reads the whole tells what is wrong
            return _read(head, rest.removesuffix(_AFTER).split(_BETWEEN), shown_as)
    return load_record(data, shown_as)


def _read(head: bytes, lines: list[bytes], shown_as: str) -> Record:
    record = load_record(head + _BEFORE + b"]}", shown_as)
    if record.evalgate_version != __version__ or any(b"\n" in line for line in lines):
        raise ValueError("written by another program")
    return replace(record, cases=tuple(_cases(lines)))


def _cases(lines: list[bytes]) -> Iterator[WrittenCase]:
    read = _adapter().validate_json
    for line in lines:
        case = read(line, strict=True)
        case.written_as(line.decode())
        yield case


@cache
def _adapter() -> "TypeAdapter[WrittenCase]":
    from pydantic import TypeAdapter

    return TypeAdapter(WrittenCase)
