"""Every finished run of a case on disk, as soon as it is finished: what `--resume` goes on from.

JSON on each line; the first says what it is a journal of, the others hold a run with its checksum. A line is
written in one piece, so that a gate that is killed loses at most the line in flight, which the next reader
cuts off.
"""

import fcntl
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Self, TypeAlias
from zlib import crc32

from evalgate.errors import InvalidInput, Problem
from evalgate.model import PlanId, RunResult
from evalgate.parts.rows import load_run
from evalgate.system.files import Owner, make_folder

FILE_NAME = "journal.jsonl"
"""Where it stands in the folder of the reports."""

_KIND = "evalgate-journal"
_VERSION = 1
_ROW = re.compile(rb"\[(\d{1,9}),(\d{1,10}),(.*)\]")
"""Index of the case, checksum of that and the run, and the run."""

Finished: TypeAlias = Mapping[int, Sequence[RunResult]]
"""Index of a case in the plan → its runs that are over."""

Look: TypeAlias = Callable[[RunResult, bytes], RunResult]
"""What is made of a run that was kept, and of its row."""

_WHAT = {
    "eval_sets": "the eval sets, or how often they are run,",
    "thresholds": "the thresholds file",
    "agent": "the agent, or its code,",
}


class Journal:
    """An open journal. Nobody else writes to it while it is open."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self.fault = ""
        """Why runs are no longer written; "" while they are."""

    @classmethod
    def begin(cls, folder: Path, plan: PlanId, owner: Owner | None = None) -> Self:
        """A new journal in `folder`. One that an unfinished run left is kept beside it, as `….previous`.

        Raises:
            InvalidInput: another run writes there.
            OSError: it cannot be written.
        """
        make_folder(folder, owner)
        path = folder / FILE_NAME
        descriptor = _locked(path)
        if os.fstat(descriptor).st_size:
            path.replace(path.with_name(f"{FILE_NAME}.previous"))
            os.close(descriptor)
            descriptor = _locked(path)
        if owner is not None:
            os.fchown(descriptor, *owner)
        journal = cls(path, descriptor)
        head = {"kind": _KIND, "version": _VERSION, "plan": asdict(plan)}
        journal._write(json.dumps(head).encode() + b"\n")
        return journal

    @classmethod
    def resume(
        cls, folder: Path, plan: PlanId, shown_as: str, look: Look = lambda run, _row: run
    ) -> tuple[Self, Finished]:
        """The journal that an unfinished run left in `folder`, and the runs in it, as `look` gives them.

        Raises:
            InvalidInput: there is none, it is damaged, or of a run of something else.
        """
        path = folder / FILE_NAME
        if not path.exists():
            raise InvalidInput(f"{shown_as}: there is no run to resume: leave --resume out")
        descriptor = _locked(path)
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        os.ftruncate(descriptor, len(whole))
        lines = whole.split(b"\n")[:-1]
        _check_head(lines, plan, shown_as)
        return cls(path, descriptor), _finished(lines, shown_as, look)

    def add(self, index: int, run: bytes) -> None:
        """Keep one finished run, as `rows.dump_run` gives it.

        A disk that cannot take it ends the journal, never the run.
        """
        if not self.fault:
            self._write(b"[%d,%d,%b]\n" % (index, crc32(run, index), run))

    def close(self, *, is_over: bool) -> None:
        """Let go of it; a run that came to its end needs no journal."""
        if is_over and not self.fault:
            with suppress(OSError):
                self._path.unlink()
        os.close(self._descriptor)

    def _write(self, data: bytes) -> None:
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


def _locked(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise InvalidInput(
            f"{path.parent.name}: another evalgate is running with this folder: choose another --out"
        ) from None
    return descriptor


def _check_head(lines: Sequence[bytes], plan: PlanId, shown_as: str) -> None:
    head = _object(lines[0]) if lines else {}
    then = head.get("plan")
    if head.get("kind") != _KIND or not isinstance(then, dict):
        raise InvalidInput([Problem(shown_as, 1, 1, "is no journal of evalgate: leave --resume out")])
    if head.get("version") != _VERSION:
        raise InvalidInput([Problem(shown_as, 1, 1, "was written by another version of evalgate")])
    now = asdict(plan)
    changed = [what for key, what in _WHAT.items() if then.get(key) != now[key]]
    if changed:
        raise InvalidInput(
            f"{shown_as}: cannot be resumed: {' and '.join(changed)} changed since. Leave --resume out, or "
            "go back to what it was."
        )


def _finished(lines: Sequence[bytes], shown_as: str, look: Look) -> Finished:
    found: dict[int, dict[int, RunResult]] = {}
    problems = []
    for number, line in enumerate(lines[1:], 2):
        row = _row(line, look)
        if row is None:
            problems.append(Problem(shown_as, number, 1, "is damaged: leave --resume out"))
        else:
            index, run = row
            found.setdefault(index, {}).setdefault(run.run, run)
    if problems:
        raise InvalidInput(problems)
    return {index: tuple(runs.values()) for index, runs in found.items()}


def _row(line: bytes, look: Look) -> tuple[int, RunResult] | None:
    found = _ROW.fullmatch(line)
    if found is None:
        return None
    index, run = int(found[1]), found[3]
    try:
        return (index, look(load_run(run), run)) if crc32(run, index) == int(found[2]) else None
    except ValueError:
        return None


def _object(line: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
