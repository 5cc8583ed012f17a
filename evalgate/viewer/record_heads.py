"""Records without their cases, and single cases, read from large files without parsing the rest."""

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from evalgate.core.types import CaseKey, CaseResult, Record
from evalgate.datasets.results_io import load_case, read_record, read_record_bytes, split_record
from evalgate.viewer.records import StoredRecord

_heads: OrderedDict[Path, tuple[tuple[int, int], Record]] = OrderedDict()
_MOST_HEADS = 200


def read_head(stored: StoredRecord) -> Record:
    """Return a record without its cases; the file is read again only if it has changed.

    Raises:
        InvalidInputError: the file is broken.
    """
    version = stored.read_version()
    known = _heads.get(stored.path)
    if known is None or known[0] != version:
        known = version, _read_parts(stored)[0]
        _heads[stored.path] = known
        while len(_heads) > _MOST_HEADS:
            _heads.popitem(last=False)
    return known[1]


def find_case(stored: StoredRecord, key: CaseKey) -> tuple[Record, CaseResult | None]:
    """Return a record without its cases, and one of its cases; None if it has no such case.

    Of a file that evalgate wrote, only the lines that contain the case's id are parsed.

    Raises:
        InvalidInputError: the file is broken.
    """
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
    """Return the record without its cases, and the JSON of each case; of a foreign layout, the cases."""
    try:
        return split_record(read_record_bytes(stored.path, stored.title), stored.title)
    except ValueError:
        record = read_record(stored.path, stored.title)
        return record, iter(record.cases)
