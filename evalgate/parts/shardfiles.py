"""Finding the records of shards, and reading one, whose cases are written again as they stand there."""

import glob
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from evalgate import __version__
from evalgate.caselines import split_record
from evalgate.errors import InvalidInput, Problem
from evalgate.model import Record
from evalgate.parts.shardcases import read_case
from evalgate.record import is_shard_intact, load_record, read_bytes
from evalgate.system.files import is_readable_name
from evalgate.writtencase import WrittenCase


def find_shards(patterns: Sequence[str], *, base: Path) -> tuple[str, ...]:
    """The files that files, folders and globs name, relative to `base`, in their order.

    A folder stands for every `results.json` in it, however deep, or for the one that should be there. What
    names nothing stays as it is written, as in a shell: whoever reads it tells that there is no such file.
    """
    return tuple(file for pattern in patterns for file in _named(pattern, base) or [pattern])


def _named(pattern: str, base: Path) -> list[str]:
    path = base / pattern
    if path.is_dir():
        found = sorted(file.relative_to(path) for file in path.rglob("results.json"))
        return [str(Path(pattern) / file) for file in found or [Path("results.json")]]
    if path.exists() or not glob.has_magic(pattern):
        return [pattern]
    names = glob.glob(pattern, root_dir=base, recursive=True)  # noqa: PTH207  as eval sets are found
    return sorted(name for name in names if is_readable_name(base / name))


def read_shard(path: Path, shown_as: str) -> Record:
    """The record of a shard, its cases as `WrittenCase` where this version wrote them.

    Raises:
        InvalidInput: as `read_record`; or this version wrote the shard, and somebody changed it.
    """
    data = read_bytes(path, shown_as)
    record = _read_any(data, shown_as)
    if record.shard is not None and record.evalgate_version == __version__ and not is_shard_intact(data):
        message = "was changed since the shard wrote it: run the shard again, or take its file as it was"
        raise InvalidInput([Problem(shown_as, 0, 0, message)])
    return record


def _read_any(data: bytes, shown_as: str) -> Record:
    with suppress(InvalidInput, ValueError):  # whoever reads the whole tells what is wrong
        return _read(data, shown_as)
    return load_record(data, shown_as)


def _read(data: bytes, shown_as: str) -> Record:
    record, lines = split_record(data, shown_as)
    if record.evalgate_version != __version__:
        raise ValueError("written by another version")
    return replace(record, cases=tuple(_cases(lines)))


def _cases(lines: Iterable[bytes]) -> Iterator[WrittenCase]:
    for line in lines:
        if b"\n" in line:
            raise ValueError("written by another program")
        yield read_case(line)
