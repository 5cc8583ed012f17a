"""Read a single case, or a record without its cases, from a large file without parsing the rest of it."""

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import CaseKey, CaseResult, Record
from evalgate.datasets.results_io import load_case, read_record, read_record_bytes, split_record
from evalgate.viewer.records import RecordStore, StoredRecord

_heads: OrderedDict[Path, tuple[tuple[int, int], Record | InvalidInputError]] = OrderedDict()
_recordings: dict[Path, tuple[tuple[int, int], bool]] = {}
_MOST_HEADS = 200


def read_head(stored: StoredRecord) -> Record:
    """Return a record without its cases. The file is read again only if it has changed.

    Raises:
        InvalidInputError: the file is broken.
    """
    version = stored.read_version()
    known = _heads.get(stored.path)
    if known is None or known[0] != version:
        known = version, _try_head(stored)
        _heads[stored.path] = known
        while len(_heads) > _MOST_HEADS:
            _heads.popitem(last=False)
    if isinstance(known[1], InvalidInputError):
        raise known[1].with_traceback(None)
    return known[1]


def _try_head(stored: StoredRecord) -> Record | InvalidInputError:
    """Return the record without its cases, or the error if the file is broken; both can be cached."""
    try:
        return _read_parts(stored)[0]
    except InvalidInputError as error:
        return error


def is_recording(records: RecordStore, stored: StoredRecord) -> bool:
    """Return True if a file holds a recording, such as a session or a trace; False for a record of a run.

    Return False also if the content of the file is broken.

    Raises:
        InvalidInputError: the time and size of the file cannot be read.
    """
    version = stored.read_version()
    known = _recordings.get(stored.path)
    if known is None or known[0] != version:
        try:
            known = version, records.open_record(stored.record_id).is_recording
        except InvalidInputError:
            known = version, False
        _recordings[stored.path] = known
    return known[1]


def find_earlier(records: Sequence[StoredRecord], after: StoredRecord) -> StoredRecord | None:
    """Return the newest record that is older than `after`, by the start of the run; None if there is none.

    `after` must be in `records`. If two records have the same time, the one that comes later in `records`
    counts as older.
    """
    began, place = _read_time(after), records.index(after)
    times = [(_read_time(each), -at) for at, each in enumerate(records)]
    found = max((each for each in times if each < (began, -place)), default=None)
    return records[-found[1]] if found else None


def find_newest(records: Sequence[StoredRecord]) -> StoredRecord | None:
    """Return the record of the newest run; None if `records` is empty.

    If no record has a known time, return the first record.
    """
    return max(records, key=_read_time, default=None)


def _read_time(stored: StoredRecord) -> str:
    """Return the start time of a record's run as digits that sort like times; "" if it is not known."""
    try:
        return re.sub(r"\D", "", read_head(stored).created_at)
    except InvalidInputError:
        return ""


def find_case(stored: StoredRecord, key: CaseKey) -> tuple[Record, CaseResult | None]:
    """Return (record without its cases, case with the key `key`); the case is None if the record lacks it.

    A file that evalgate wrote has one case on each line. Only lines that contain the case's id are parsed. An
    id with special characters may be escaped in the file, so in this case all lines are parsed.

    Raises:
        InvalidInputError: the file is broken.
    """
    read_head(stored)  # a file that is known to be broken is not read again
    head, lines = _read_parts(stored)
    # The file may escape other characters in several ways.
    plain = key[1].isascii() and key[1].isprintable() and not {'"', "\\", "#", "<"} & set(key[1])
    needle = key[1].encode() if plain else b""
    for line in lines:
        if isinstance(line, CaseResult):
            case = line
        elif needle in line:
            case = load_case(line, stored.title)
        else:
            continue
        if case.key == key:
            return head, case
    return head, None


def _read_parts(stored: StoredRecord) -> tuple[Record, Iterator[bytes | CaseResult]]:
    """Return the record without its cases, and an iterator over the cases.

    The cases are lines of JSON if evalgate wrote the file. Otherwise they are parsed already.

    Raises:
        InvalidInputError: the file is broken.
    """
    try:
        return split_record(read_record_bytes(stored.path, stored.title), stored.title)
    except ValueError:
        record = read_record(stored.path, stored.title)
        return record, iter(record.cases)
