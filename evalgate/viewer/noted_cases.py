"""Read and change the case notes, a file next to an eval set with the tags, status and checks of its cases.

Edits of the eval set, such as a new id of a case or a deletion, need a change of the notes as well.
"""

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.core.types import EvalCase
from evalgate.datasets.case_notes import CaseNote, CaseNotes, parse_case_notes, read_case_notes
from evalgate.datasets.case_notes_edits import (
    change_notes,
    copy_notes,
    drop_notes,
    mark_expected,
    rename_notes,
    set_check,
    set_tags,
)
from evalgate.datasets.edit_undo import FileChange
from evalgate.datasets.eval_set_file import EvalSetFile, compute_digest
from evalgate.datasets.eval_set_paths import build_notes_name
from evalgate.documents.json_edits import is_same_json


@frozen
class OpenedNotes:
    """Case notes next to an eval set, or the reason why they cannot be read."""

    notes: CaseNotes
    problem: str = ""
    """Reason why the notes cannot be read; then `notes` is empty. "" if they can be read."""

    def get_note(self, eval_id: str) -> CaseNote:
        """Return the note about a case; an empty note if there is none."""
        return self.notes.cases.get(eval_id, CaseNote())

    def is_observed(self, case: EvalCase) -> bool:
        """Return True if a case was imported, but not reviewed yet; it does not count for the verdict."""
        return self.get_note(case.eval_id).status == "observed"


def find_notes_file(file: EvalSetFile) -> Path:
    """Return the path of the notes next to an eval set; the file need not exist."""
    return file.path.with_name(build_notes_name(file.path.name))


def open_notes(file: EvalSetFile) -> OpenedNotes:
    """Return the notes about the cases of an eval set; empty notes if there is no file of notes.

    If the file is invalid, the notes are empty, too, and `problem` of the result has the reason.
    """
    path = find_notes_file(file)
    try:
        found = path.stat()
    except OSError:
        return OpenedNotes(CaseNotes())
    return _read_notes(path, (found.st_mtime_ns, found.st_size, found.st_ino))


@lru_cache(maxsize=64)
def _read_notes(path: Path, _version: tuple[int, int, int]) -> OpenedNotes:
    try:
        return OpenedNotes(read_case_notes(path, path.name)[0])
    except InvalidInputError as error:
        return OpenedNotes(CaseNotes(), str(error))


def find_observed_cases(file: EvalSetFile) -> list[EvalCase]:
    """Return the cases that are not reviewed yet (status `observed`), in the order of the file."""
    opened = open_notes(file)
    return [case for case in file.eval_set.cases if opened.is_observed(case)] if opened.notes.cases else []


def find_next_observed(file: EvalSetFile, eval_id: str) -> str:
    """Return the id of the next case to review after `eval_id`; "" if no other case needs a review.

    After the last case of the file, the search goes on with the first case.
    """
    ids = [case.eval_id for case in file.eval_set.cases]
    at = ids.index(eval_id) + 1 if eval_id in ids else 0
    observed = {case.eval_id for case in find_observed_cases(file)} - {eval_id}
    return next((name for name in ids[at:] + ids[:at] if name in observed), "")


def find_web_address(source: str) -> str:
    """Return `source` if it is the address of a web page; otherwise ""."""
    try:
        parts = urlsplit(source)
    except ValueError:
        return ""
    return source if parts.scheme in {"http", "https"} and parts.netloc else ""


def change_noted_case(
    file: EvalSetFile,
    eval_id: str,
    new_id: str,
    *,
    is_accepted: bool = False,
    checks: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[FileChange]:
    """Return the changes of the notes for a case that gets another id, other checks or a new status.

    Nothing is written yet. `new_id` is the id of the case from now on. `is_accepted=True` sets the status
    `expected`. `checks` has all checks of the case by name; None leaves the checks unchanged. Return [] if
    the case has no notes and gets no checks.

    Raises:
        InvalidInputError: the notes cannot be read or changed.
    """
    if eval_id != new_id or is_accepted:
        _require_notes(file)
    opened, path = open_notes(file), find_notes_file(file)
    changed = {} if checks is None else _list_changed_checks(opened.get_note(eval_id).checks, checks)
    if eval_id not in opened.notes.cases and not changed:
        return []

    def edit(text: str) -> str:
        if eval_id != new_id:
            text = rename_notes(text, eval_id, new_id, path.name)
        if is_accepted:
            text = mark_expected(text, [new_id], path.name)
        for name, conditions in changed.items():
            text = set_check(text, new_id, name, conditions, path.name, file.path.name)
        return text

    return [change_notes(path, path.name, edit)]


def _list_changed_checks(
    stored_checks: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any] | None]:
    """Return the new and changed checks by name, and the names of removed checks with the value None.

    `stored_checks` has the checks in the notes, `wanted` the checks that shall replace them.
    """
    removed: dict[str, Mapping[str, Any] | None] = {
        name: None for name in stored_checks if name not in wanted
    }
    return removed | {
        name: conditions
        for name, conditions in wanted.items()
        if name not in stored_checks or not is_same_json(dict(stored_checks[name]), dict(conditions))
    }


def identify_checks(file: EvalSetFile, eval_id: str) -> str:
    """Return a digest of a case's checks, by which a later request notices that they have changed.

    Return "" if the case has no checks.
    """
    checks = {name: dict(each) for name, each in open_notes(file).get_note(eval_id).checks.items()}
    return compute_digest(json.dumps(checks, default=str).encode()) if checks else ""


def copy_noted_case(file: EvalSetFile, eval_id: str, new_id: str) -> list[FileChange]:
    """Return the changes that copy the notes of a case to the case `new_id`; [] if the case has no notes.

    Raises:
        InvalidInputError: the notes cannot be read or changed.
    """
    if eval_id not in _require_notes(file).cases:
        return []
    path = find_notes_file(file)
    return [change_notes(path, path.name, lambda text: copy_notes(text, eval_id, new_id, path.name))]


def _require_notes(file: EvalSetFile) -> CaseNotes:
    """Return the notes about an eval set's cases, for an edit that also changes the notes.

    Raises:
        InvalidInputError: the notes cannot be read.
    """
    opened = open_notes(file)
    if opened.problem:
        raise InvalidInputError(f"{opened.problem}. Nothing was saved: mend the notes first")
    return opened.notes


def drop_noted_case(file: EvalSetFile, eval_id: str) -> list[FileChange]:
    """Return the changes of the notes for a case that is deleted; [] if it has no notes.

    If the case was imported, the changed notes list its source under `dropped`, so that `evalgate import`
    does not add the case again.

    Raises:
        InvalidInputError: the notes cannot be read or changed.
    """
    if eval_id not in _require_notes(file).cases:
        return []
    path = find_notes_file(file)
    return [change_notes(path, path.name, lambda text: drop_notes(text, [eval_id], path.name))]


def format_tags(tags: Sequence[str]) -> str:
    """Return tags as one line, separated by commas; a tag with a comma or a quotation mark is quoted."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows([tag] for tag in tags)
    return lines.getvalue().removesuffix("\n").replace("\n", ", ")


def parse_tags(line: str) -> list[str]:
    """Return the tags in a typed line; empty tags are left out.

    Raises:
        InvalidInputError: a quotation mark is not closed, or a tag has more than 131,072 characters.
    """
    if line.count('"') % 2:
        raise InvalidInputError("the tags cannot be read: a quotation mark is not closed")
    try:
        [row] = csv.reader([re.sub(r"[\r\n]", " ", line)], skipinitialspace=True)
    except csv.Error as error:
        raise InvalidInputError(f"the tags cannot be read: {error}") from None
    return [tag.strip() for tag in row if tag.strip()]


def tag_case(file: EvalSetFile, eval_id: str, tags: Sequence[str]) -> FileChange:
    """Return the change of the notes that replaces the tags of a case; comments and other notes stay.

    Raises:
        InvalidInputError: the notes cannot be read or changed, or a tag is invalid.
    """
    path, wanted = find_notes_file(file), tuple(dict.fromkeys(tags))
    change = change_notes(
        path, path.name, lambda text: set_tags(text, eval_id, wanted, path.name, file.path.name)
    )
    notes = parse_case_notes((change.after or b"").decode(), path.name)
    if notes.cases.get(eval_id, CaseNote()).tags != wanted:
        raise InvalidInputError([Problem(path.name, 0, 0, "cannot hold these tags: nothing was saved")])
    return change
