"""A baseline in one file: what `evalgate baseline save` wrote, or any `results.json`."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from evalgate.baseline import KIND, baseline_of, dump_baseline, load_baseline
from evalgate.errors import InvalidInput
from evalgate.model import Baseline, Record, Reply
from evalgate.protocols import Document
from evalgate.reading.jsontext import parse_json
from evalgate.record import load_record
from evalgate.system.files import atomic_write, make_folder


@dataclass(frozen=True, slots=True)
class BaselineFile:
    """The file at `path`; `shown_as` is how reports name it."""

    path: Path
    shown_as: str
    owner: tuple[int, int] | None = None
    """uid and gid that files written here belong to."""

    def read(self) -> Baseline | None:
        """The baseline, or None when there is no such file yet."""
        document = self._document()
        if document is None:
            return None
        if _is_ours(document):
            return replace(load_baseline(document), path=self.shown_as)
        record = load_record(self.path.read_bytes(), self.shown_as)
        return replace(baseline_of(record, path=self.shown_as), replies=_replies(record))

    def update(self, change: Callable[[Baseline | None], Baseline]) -> Baseline:
        """Read, change and replace the file, atomically; who else does so waits. Folders are made."""
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with _alone(self.path.parent, self.owner):
            document = self._document()
            if document is not None and not _is_ours(document):
                raise InvalidInput(
                    f"{self.shown_as}: this is no baseline but a result, which is left as it is. Choose "
                    "another file with --to, or remove it."
                )
            before = self.read()
            after = change(before)
            if after != before:
                atomic_write(self.path, dump_baseline(after), owner=self.owner)
        return replace(after, path=self.shown_as)

    def _document(self) -> Document | None:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidInput(f"{self.shown_as}: the baseline cannot be read: {error.strerror}") from None
        return parse_json(data, self.shown_as)


def _is_ours(document: Document) -> bool:
    return isinstance(document.value, Mapping) and document.value.get("kind") == KIND


@contextmanager
def _alone(folder: Path, owner: tuple[int, int] | None) -> Iterator[None]:
    """No other process of this machine updates a baseline in the folder; nothing is left behind in it."""
    make_folder(folder, owner)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replies(record: Record) -> Mapping[str, Mapping[str, tuple[Reply | None, ...]]]:
    """What the agent did in the first run of each case that was answered."""
    found: dict[str, dict[str, tuple[Reply | None, ...]]] = {}
    for case in record.cases:
        run = next((run for run in case.runs if run.outcome == "answered"), None)
        if run is not None:
            turns = tuple(turn.actual for turn in run.turns)
            found.setdefault(case.eval_set_id, {})[case.eval_id] = turns
    return found
