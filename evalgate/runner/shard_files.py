"""Find and read the records of shards, each a `results.json`."""

import glob
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from evalgate import __version__
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.types import CaseResult, Record
from evalgate.datasets.large.lazy_runs import read_shard_case
from evalgate.datasets.results_io import is_shard_intact, load_record, read_record_bytes, split_record
from evalgate.system.files import is_non_folder
from evalgate.system.globs import find_matches


def find_shards(patterns: Sequence[str], *, folder: Path) -> tuple[str, ...]:
    """Return the paths of the shards' records, relative to `folder`; `patterns` are files, folders or globs.

    A folder stands for every `results.json` in it, at any depth. A folder without a `results.json` counts as
    `FOLDER/results.json`, and a pattern without a match counts as a path: so the reader of these paths
    reports the missing file. The patterns keep their order, and the paths of each pattern are sorted.
    """
    return tuple(file for pattern in patterns for file in _expand_pattern(pattern, folder) or [pattern])


def _expand_pattern(pattern: str, folder: Path) -> list[str]:
    path = folder / pattern
    if path.is_dir():
        found = sorted(file.relative_to(path) for file in path.rglob("results.json"))
        return [str(Path(pattern) / file) for file in found or [Path("results.json")]]
    if path.exists() or not glob.has_magic(pattern):
        return [pattern]
    return sorted(name for name in find_matches(pattern, folder) if is_non_folder(folder / name))


def read_shard(path: Path, shown_as: str) -> Record:
    """Read the record of a shard; `shown_as` is the path in error messages.

    In a record that this version of evalgate wrote, conversations are parsed only on access.

    Raises:
        InvalidInputError: the file cannot be read, or this version wrote it and it was edited afterwards.
    """
    data = read_record_bytes(path, shown_as)
    record = None
    with suppress(InvalidInputError, ValueError):
        record = _read_current_version(data, shown_as)
    if record is None:  # after the block, so that the memory of the failed attempt is free
        record = load_record(data, shown_as)
    if record.shard is not None and record.evalgate_version == __version__ and not is_shard_intact(data):
        message = "was changed since the shard wrote it: run the shard again, or take its file as it was"
        raise InvalidInputError([Problem(shown_as, 0, 0, message)])
    return record


def _read_current_version(data: bytes, shown_as: str) -> Record:
    record, lines = split_record(data, shown_as)
    if record.evalgate_version != __version__:
        raise ValueError("written by another version")
    return replace(record, cases=tuple(_iter_cases(lines)))


def _iter_cases(lines: Iterable[bytes]) -> Iterator[CaseResult]:
    for line in lines:
        if b"\n" in line:
            raise ValueError("written by another program")
        yield read_shard_case(line)
