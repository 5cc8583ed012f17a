"""Write every finished run of a case to disk at once, so that `--resume` can continue from there.

Each line is JSON. The first line identifies the plan. Each other line holds a checksum and either a run or
the total model usage so far. Runs that finish at the same moment are written together: if the gate is killed,
at most these runs are lost. The next reader cuts off an incomplete last line.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Self, TypeAlias
from zlib import crc32

from evalgate import __version__
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.lazy_pattern import compile_lazily
from evalgate.core.types import PlanId, RunResult
from evalgate.llm.usage import RunUsage
from evalgate.runner.checkpoint.plan_id import describe_changed_parts, describe_changes
from evalgate.runner.checkpoint.row_codec import dump_usage, load_run, load_usage
from evalgate.system.files import Owner, SpecialFileError, check_is_regular, make_folder
from evalgate.system.gc import pause_gc

FILE_NAME = "journal.jsonl"
"""Name of the journal in the folder of the reports."""

_KIND = "evalgate-journal"
_VERSION = 1
_RUN_LINE = compile_lazily(rb"\[(\d{1,9}),(\d{1,10}),(.*)\]")
"""Pattern of the line of a run: index of the case, checksum of index and run, and the run."""
_USAGE_PREFIX = b'["used",'
_USAGE_LINE = compile_lazily(rb'\["used",(\d{1,10}),(.*)\]')
"""Pattern of a line with usage: checksum, and the total usage since the first start, across all resumes."""

_Row: TypeAlias = tuple[int, RunResult, bytes]
"""(index of the case in the plan, run, bytes of the line from which the run was parsed)."""

FinishedRuns: TypeAlias = Mapping[int, Sequence[RunResult]]
"""Finished runs of each case, by the index of the case in the plan."""

RunTransform: TypeAlias = Callable[[Sequence[tuple[RunResult, bytes]]], Sequence[RunResult]]
"""Function that gets pairs (stored run, its bytes), and returns the transformed runs in the same order."""

NO_PARTS: Mapping[str, str] = {}

_BATCH_SIZE = 64
"""Number of runs that are transformed together."""


class Journal:
    """Journal that is open for appending; a lock keeps other runs of evalgate from writing to the file."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self.fault = ""
        """Message of the first error of a write; "" if there was none. After an error, no more is written."""
        self.used = RunUsage()
        """Usage that the journal held when it was opened; zero for a new journal."""

    @classmethod
    def create(
        cls,
        folder: Path,
        plan: PlanId,
        owner: Owner | None = None,
        lock: int | None = None,
        parts: Mapping[str, str] = NO_PARTS,
    ) -> Self:
        """Create a journal in `folder`. The journal of an unfinished run is renamed to `….previous`.

        `owner` is (user id, group id) for the file; None for the ids of this process. `lock` is the
        descriptor that `lock_journal` returned; with None, the lock is taken here. `parts` holds the values
        of the plan's parts by name. They are stored, so that `resume` can name the parts that have changed.

        Raises:
            InvalidInputError: another run writes to the journal, or its path is a link or a special file.
            OSError: the file cannot be opened. A failed write raises no error, but sets `fault`.
        """
        path = folder / FILE_NAME
        descriptor = lock_journal(folder, owner) if lock is None else lock
        if os.fstat(descriptor).st_size:
            descriptor = _clear_journal(path, descriptor)
        if owner is not None:
            os.fchown(descriptor, *owner)
        journal = cls(path, descriptor)
        journal._write_bytes(_build_head(plan, parts))
        return journal

    @classmethod
    def resume(
        cls,
        folder: Path,
        plan: PlanId,
        shown_as: str,
        transform: RunTransform | None = None,
        parts: Mapping[str, str] = NO_PARTS,
    ) -> tuple[Self, FinishedRuns]:
        """Open the journal of an unfinished run. Return the journal and its runs, changed by `transform`.

        `plan` must equal the plan in the journal. Otherwise the error names the parts that differ: `parts`
        maps the names of the plan's parts to their values. `shown_as` is the name of the file in messages.
        An incomplete last line is cut off the file.

        Raises:
            InvalidInputError: the journal is missing or damaged; cannot be opened, read or cut; belongs to
                another plan or version of evalgate; or another run writes to the journal.
        """
        path = folder / FILE_NAME
        if not path.exists():
            raise InvalidInputError(f"{shown_as}: there is no run to resume: leave --resume out")
        try:
            descriptor = _open_locked(path)
            try:
                return cls._open_resumed(path, descriptor, plan, shown_as, transform, parts)
            except (InvalidInputError, OSError):
                os.close(descriptor)
                raise
        except OSError as error:
            reason = error.strerror or error
            raise InvalidInputError(f"{shown_as}: cannot be resumed: {reason}: leave --resume out") from None

    @classmethod
    def _open_resumed(
        cls,
        path: Path,
        descriptor: int,
        plan: PlanId,
        shown_as: str,
        transform: RunTransform | None,
        parts: Mapping[str, str],
    ) -> tuple[Self, FinishedRuns]:
        with os.fdopen(os.dup(descriptor), "rb") as file:
            file.seek(0)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[:-1]
        if begun := not whole and _is_partial_head(data):
            lines = [_build_head(plan, parts)]
        _check_head(lines, plan, shown_as, parts)
        with pause_gc():
            finished = _parse_finished_runs(lines, shown_as, transform)
            used = _parse_usage(lines, shown_as)
        # Cut off the incomplete line before anything is appended to it.
        os.ftruncate(descriptor, len(whole))
        journal = cls(path, descriptor)
        journal.used = used
        if begun:
            journal._write_bytes(lines[0])
        return journal, finished

    def append_runs(self, runs: Iterable[tuple[int, bytes]]) -> None:
        """Append finished runs, given as pairs (index of the case, bytes from `row_codec.dump_run`).

        A failed write raises no error, but sets `fault`. If `fault` is set, nothing is written.
        """
        if not self.fault:
            # The checksum covers the index too, so that no run can be moved to another case unnoticed.
            self._write_bytes(
                b"".join([b"[%d,%d,%b]\n" % (index, crc32(run, index), run) for index, run in runs])
            )

    def append_usage(self, used: RunUsage) -> None:
        """Append a line with the total usage so far; readers use only the last such line.

        A failed write raises no error, but sets `fault`. If `fault` is set, nothing is written.
        """
        if not self.fault:
            row = dump_usage(used)
            self._write_bytes(b"%b%d,%b]\n" % (_USAGE_PREFIX, crc32(row), row))

    def close(self, *, is_over: bool) -> None:
        """Close the file. With `is_over` (the run is complete and its record is written), delete it, too."""
        if is_over:
            with suppress(OSError):
                self._path.unlink()
        try:
            os.close(self._descriptor)
        except OSError as error:  # a network disk may report a failed write only now
            self.fault = self.fault or error.strerror or str(error)

    def _write_bytes(self, data: bytes) -> None:
        # One write for whole lines, so that a gate that is killed leaves at most one incomplete line. Nothing
        # is forced to the disk: that would slow every case down, and only a power failure can lose the lines.
        try:
            written = os.write(self._descriptor, data)
            if written < len(data):  # the disk is full
                os.ftruncate(self._descriptor, self._size)
                self.fault = "no space is left on the disk"
                return
        except OSError as error:
            self.fault = error.strerror or str(error)
            return
        self._size += written


def lock_journal(folder: Path, owner: Owner | None = None) -> int:
    """Lock the journal of `folder` without changing its contents, and return the open file descriptor.

    The file is created if it does not exist. `owner` is (user id, group id) for a new folder; None for the
    ids of this process.

    Raises:
        InvalidInputError: another run writes to the journal, or its path is a link or a special file.
        OSError: the file cannot be opened.
    """
    make_folder(folder, owner)
    return _open_locked(folder / FILE_NAME)


def unlock_journal(folder: Path, descriptor: int) -> None:
    """Release the lock of a run that never began, and remove the journal file if it is empty.

    `descriptor` is the result of `lock_journal`.
    """
    with suppress(OSError):
        if not os.fstat(descriptor).st_size:
            (folder / FILE_NAME).unlink()
    with suppress(OSError):
        os.close(descriptor)


def _open_locked(path: Path) -> int:
    while True:
        _check_is_journal(path)
        # No link is followed: a change may add a link, and a gate that runs as root would create the link's
        # target and give it to the agent's user.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            # The journal itself is locked, without a lock file: the kernel unlocks it when a gate is killed.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise InvalidInputError(
                f"{path.parent.name}: another evalgate is running with this folder: choose another --out"
            ) from None
        if _is_same_file(descriptor, path):
            return descriptor
        # The previous owner of the lock moved or deleted the file before it released the lock: try again.
        os.close(descriptor)


def _check_is_journal(path: Path) -> None:
    """Check that the path is a regular file, or that nothing is there: a pipe would block the writer.

    Raises:
        InvalidInputError: the path is a link, a folder, a pipe or a device.
    """
    with suppress(FileNotFoundError):
        try:
            check_is_regular(path)
        except SpecialFileError as error:
            raise InvalidInputError(f"{path.name}: {error.strerror}, or remove it") from None
    if path.is_symlink():
        raise InvalidInputError(f"{path.name}: is a link, and no journal is written through one: remove it")


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _clear_journal(path: Path, descriptor: int) -> int:
    # Read through the descriptor, because the agent may have put a pipe at the path.
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        has_rows = not _is_partial_head(file.readline()) or bool(file.readline())
    if not has_rows:
        os.ftruncate(descriptor, 0)
        return descriptor
    # Kept, because a user who forgot --resume would lose runs that were paid for.
    path.replace(path.with_name(f"{FILE_NAME}.previous"))
    os.close(descriptor)
    return _open_locked(path)


def _build_head(plan: PlanId, parts: Mapping[str, str]) -> bytes:
    head: dict[str, object] = {"kind": _KIND, "version": _VERSION, "evalgate": __version__}
    head |= {"plan": asdict(plan), "parts": dict(parts)}
    return json.dumps(head).encode() + b"\n"


def _is_partial_head(data: bytes) -> bool:
    """Return True if `data` is a journal's first line, whole or cut off by an interrupted write.

    Only the beginning of the line is compared, up to the value of `kind`. Empty data count as cut off.
    """
    start = json.dumps({"kind": _KIND}).encode()[:-1]
    return data.startswith(start[: len(data)])


def _check_head(lines: Sequence[bytes], plan: PlanId, shown_as: str, parts: Mapping[str, str]) -> None:
    head = _parse_object(lines[0]) if lines else {}
    then = head.get("plan")
    if head.get("kind") != _KIND or not isinstance(then, dict):
        raise InvalidInputError([Problem(shown_as, 1, 1, "is no journal of evalgate: leave --resume out")])
    if head.get("version") != _VERSION:
        raise InvalidInputError([Problem(shown_as, 1, 1, "was written by another version of evalgate")])
    # Rows hold fields by position, without names, and the order of fields may differ in every version.
    if (version := head.get("evalgate")) != __version__:
        raise InvalidInputError(
            f"{shown_as}: cannot be resumed: it was written by evalgate {version}, and this is "
            f"{__version__}. Leave --resume out, or go on with evalgate {version}."
            if isinstance(version, str)
            else f"{shown_as}:1:1: is damaged: leave --resume out"
        )
    if changed := list(describe_changes(then, plan)):
        named = ", ".join(describe_changed_parts(head.get("parts"), parts))
        raise InvalidInputError(
            f"{shown_as}: cannot be resumed: {' and '.join(changed)} changed since"
            f"{f': {named}' if named else ''}. Leave --resume out, or go back to what it was."
        )


def _parse_finished_runs(
    lines: Sequence[bytes], shown_as: str, transform: RunTransform | None
) -> FinishedRuns:
    rows = {
        number: _parse_row(line)
        for number, line in _enumerate_rows(lines)
        if not line.startswith(_USAGE_PREFIX)
    }
    damaged = [number for number, row in rows.items() if row is None]
    if damaged:
        raise InvalidInputError(_build_damage_problem(shown_as, number) for number in damaged)
    found: dict[int, dict[int, RunResult]] = {}
    for index, run in _transform_rows([row for row in rows.values() if row is not None], transform):
        # If a run occurs twice, the first one counts, so that no run is replaced by a better one.
        found.setdefault(index, {}).setdefault(run.run, run)
    return {index: tuple(runs.values()) for index, runs in found.items()}


def _parse_usage(lines: Sequence[bytes], shown_as: str) -> RunUsage:
    """Return the usage on the last line that holds usage; zero usage if there is no such line.

    Raises:
        InvalidInputError: the line is damaged.
    """
    candidates = (
        (number, line)
        for number, line in reversed(list(_enumerate_rows(lines)))
        if line.startswith(_USAGE_PREFIX)
    )
    number, line = next(candidates, (0, b""))
    if not line:
        return RunUsage()
    found = _USAGE_LINE.fullmatch(line)
    if found is not None and crc32(found[2]) == int(found[1]):
        with suppress(ValueError):
            return load_usage(found[2])
    raise InvalidInputError([_build_damage_problem(shown_as, number)])


def _enumerate_rows(lines: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield (1-based line number, line) for each line after the first."""
    return enumerate(lines[1:], 2)


def _build_damage_problem(shown_as: str, number: int) -> Problem:
    return Problem(shown_as, number, 1, "is damaged: leave --resume out")


def _transform_rows(rows: Sequence[_Row], transform: RunTransform | None) -> Iterator[tuple[int, RunResult]]:
    for start in range(0, len(rows), _BATCH_SIZE):
        some = rows[start : start + _BATCH_SIZE]
        runs = transform([(run, data) for _, run, data in some]) if transform else [run for _, run, _ in some]
        yield from zip([index for index, _, _ in some], runs, strict=True)


def _parse_row(line: bytes) -> _Row | None:
    found = _RUN_LINE.fullmatch(line)
    if found is None:
        return None
    index, run = int(found[1]), found[3]
    try:
        return (index, load_run(run), run) if crc32(run, index) == int(found[2]) else None
    except ValueError:
        return None


def _parse_object(line: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
