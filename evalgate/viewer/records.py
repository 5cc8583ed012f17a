"""List and open the records that the viewer shows.

These are the files that the command line names, the record of the last run, and the history of results. A
page names a record by its id. Only files in this list can be read, so no address leads to another file.
"""

import filecmp
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.reporting.results_history import build_result_id, list_results
from evalgate.viewer.opened_record import OpenedRecord
from evalgate.viewer.recordings import read_any

LAST_RESULTS = "evalgate-report/results.json"
_MOST_OPEN_BYTES = 80 * 2**20
"""Limit for the total size, in bytes, of the files of the records in memory. In memory, a record takes about
six times the size of its file."""
_MOST_IN_FOLDER = 1_000
_NOT_IN_ID = re.compile(r"[^\w.-]+", re.ASCII)


@frozen
class StoredRecord:
    """File with a record, and the record's id and title."""

    record_id: str
    """Name of the record in the addresses of pages."""
    path: Path
    title: str
    """Name of the record that pages show, such as the path that the user typed or the time of the run."""

    def read_version(self) -> tuple[int, int]:
        """Return the modification time (ns) and size (bytes) of the file, which show if it has changed.

        Raises:
            InvalidInputError: the file cannot be read.
        """
        try:
            found = self.path.stat()
        except OSError as error:
            raise InvalidInputError(f"{self.title}: cannot be read: {error.strerror}") from None
        return found.st_mtime_ns, found.st_size


class RecordStore:
    """Records of one viewer. A file is parsed again only if it has changed.

    If the files of all records in memory have more than 80 MiB together, the least recently used records are
    removed from memory.

    The constructor raises `InvalidInputError` if a file in `named` does not exist, or if a folder in `named`
    has no results or too many.
    """

    def __init__(self, folder: Path, named: Sequence[str] = ()) -> None:
        self._folder = folder
        self._named = tuple(_name_files(folder, named))
        self._opened: OrderedDict[str, tuple[tuple[int, int], OpenedRecord]] = OrderedDict()
        self._lock = threading.Lock()

    def list_records(self) -> list[StoredRecord]:
        """Return the records in the order in which pages show them.

        First come the records that the command line names, then the last run, then the history. A result in
        the history is left out if it is a copy of one of the others.

        Raises:
            InvalidInputError: the history cannot be read.
        """
        found = self._list_outside_history()
        return found + [each for each in self._list_history() if not _has_copy(found, each.path)]

    def _list_outside_history(self) -> list[StoredRecord]:
        found = list(self._named)
        last = self._folder / LAST_RESULTS
        if last.is_file() and not any(each.path.samefile(last) for each in found if each.path.exists()):
            found.append(StoredRecord("last", last, f"the last run ({LAST_RESULTS})"))
        return found

    def _list_history(self) -> list[StoredRecord]:
        return [
            StoredRecord(kept.result_id, kept.path, kept.result_id)
            for kept in list_results(self._folder)
            if kept.path.is_file() and not kept.path.is_symlink()
        ]

    def find_previous(self, created_at: str) -> str:
        """Return the id of the newest result in the history that is older than `created_at`.

        `created_at` is a time in ISO 8601, UTC. Return "" if there is no such result, or if `created_at` is
        "", which means that the time is not known.

        Raises:
            InvalidInputError: the history cannot be read.
        """
        if not created_at:
            return ""
        began = build_result_id(created_at)
        found = (each.record_id for each in self._list_history())
        return next((each for each in found if each[: len(began)] < began), "")

    def find_record(self, record_id: str) -> StoredRecord:
        """Return the file of the record with this id, also if `list_records` leaves it out as a copy.

        Raises:
            InvalidInputError: there is no such record, or the history cannot be read.
        """
        for each in (*self._list_outside_history(), *self._list_history()):
            if each.record_id == record_id:
                return each
        raise InvalidInputError(f"there is no record `{record_id}`")

    def open_record(self, record_id: str) -> OpenedRecord:
        """Return the record with this id. Its file is parsed again only if it has changed.

        Raises:
            InvalidInputError: there is no such record, its file is broken, or the history cannot be read.
        """
        stored = self.find_record(record_id)
        with self._lock:  # two requests for a large record parse it once
            version = stored.read_version()
            known = self._opened.pop(record_id, None)
            if known is None or known[0] != version:
                known = (
                    version,
                    OpenedRecord(record_id, stored.title, version, *read_any(stored.path, stored.title)),
                )
            self._opened[record_id] = known
            while (
                len(self._opened) > 1 and sum(each[0][1] for each in self._opened.values()) > _MOST_OPEN_BYTES
            ):
                self._opened.popitem(last=False)
            return known[1]


def _name_files(folder: Path, named: Sequence[str]) -> Iterator[StoredRecord]:
    """Yield a `StoredRecord` with a unique id for each file in `named`, and for each result in a folder.

    A folder in `named` stands for its `results.json`; if it has none, for all of its `.json` files.

    Raises:
        InvalidInputError: a file does not exist, or a folder holds no results or too many.
    """
    taken: set[str] = set()
    for name in named:
        path = folder / name
        if path.is_dir():
            paths = (
                [path / "results.json"] if (path / "results.json").is_file() else sorted(path.glob("*.json"))
            )
            if not paths:
                raise InvalidInputError(f"{name}: the folder holds no results.json and no other .json file")
            if len(paths) > _MOST_IN_FOLDER:
                raise InvalidInputError(
                    f"{name}: the folder holds {len(paths):,} .json files, and at most {_MOST_IN_FOLDER:,} "
                    "can be shown: name those to look at"
                )
        elif path.is_file():
            paths = [path]
        else:
            raise InvalidInputError(f"{name}: no such file. `evalgate run` writes results.json.")
        for each in paths:
            title = name if path == each else f"{name.rstrip('/')}/{each.name}"
            base = _NOT_IN_ID.sub("-", each.stem).strip("-.") or "record"
            # Ids of the history begin with a digit, and `last` and `baseline` have a meaning.
            base = f"file-{base}" if base[0].isdigit() or base in {"last", "baseline"} else base
            record_id, number = base, 2
            while record_id in taken:
                record_id, number = f"{base}-{number}", number + 1
            taken.add(record_id)
            yield StoredRecord(record_id, each, title)


def _has_copy(found: Sequence[StoredRecord], path: Path) -> bool:
    """Return True if a file in `found` has the same content as `path`; False if a file cannot be read."""
    try:
        return any(filecmp.cmp(each.path, path, shallow=False) for each in found)
    except OSError:
        return False
