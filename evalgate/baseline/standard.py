"""What may be held against a run: a baseline that was saved, or any `results.json`."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from evalgate.baseline.history import case_of
from evalgate.baseline.text import KIND, load_baseline
from evalgate.caselines import split_record
from evalgate.errors import InvalidInput
from evalgate.model import Baseline, BaselineSource, CaseResult, Record
from evalgate.protocols import Document
from evalgate.reading.jsontext import parse_json
from evalgate.record import load_record
from evalgate.system.collector import collector_paused

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def read_standard(data: bytes, shown_as: str) -> Baseline:
    """The baseline in the content of a file; a result is a baseline of one run.

    Raises:
        InvalidInput: it is neither, or damaged; with every problem.
    """
    found = _case_by_case(data, shown_as)
    if found is not None:
        return found
    document = parse_json(data, shown_as)
    if is_baseline(document):
        return replace(load_baseline(document), path=shown_as)
    record = load_record(data, shown_as)
    return _of_cases(record, record.cases, shown_as)


def _case_by_case(data: bytes, shown_as: str) -> Baseline | None:
    """The baseline in a result as evalgate writes it, never held as a whole; None in other files."""
    try:
        record, lines = split_record(data, shown_as)
        read = _adapter().validate_json
        with collector_paused():
            return _of_cases(record, (read(line, strict=True) for line in lines), shown_as)
    except (InvalidInput, ValueError):  # whoever reads the whole tells what is wrong
        return None


@cache
def _adapter() -> "TypeAdapter[CaseResult]":
    from pydantic import TypeAdapter

    return TypeAdapter(CaseResult)


def _of_cases(record: Record, cases: Iterable[CaseResult], shown_as: str) -> Baseline:
    return Baseline(tuple(map(case_of, cases)), (BaselineSource(record.created_at),), shown_as)


def is_baseline(document: Document) -> bool:
    """Whether it was saved as a baseline, which alone may grow."""
    return isinstance(document.value, Mapping) and document.value.get("kind") == KIND
