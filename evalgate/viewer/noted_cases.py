"""Case notes that follow the edits of an eval set: tags, new names and deleted cases."""

from collections.abc import Sequence
from pathlib import Path

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.datasets.case_notes import CaseNotes, read_case_notes
from evalgate.datasets.case_notes_edits import drop_notes, rename_notes, set_tags
from evalgate.datasets.eval_set_file import EvalSetFile, FileChange
from evalgate.datasets.loading import build_notes_name
from evalgate.system.files import read_file, write_atomically


def find_notes_file(file: EvalSetFile) -> Path:
    """Return the path of the notes next to an eval set, whether there are any or not."""
    return file.path.with_name(build_notes_name(file.path.name))


def read_notes(file: EvalSetFile) -> CaseNotes:
    """Return the notes about the cases of an eval set; none if they are missing or cannot be read."""
    path = find_notes_file(file)
    try:
        return read_case_notes(path, path.name)[0] if path.is_file() else CaseNotes()
    except InvalidInputError:
        return CaseNotes()


def rename_noted_case(file: EvalSetFile, eval_id: str, new_id: str) -> FileChange | None:
    """Return the change of the notes for a case that gets another id; None if it has no notes."""
    path = find_notes_file(file)
    if eval_id == new_id or eval_id not in read_notes(file).cases:
        return None
    text = read_file(path).decode()
    return FileChange(path, text.encode(), rename_notes(text, eval_id, new_id, path.name).encode())


def drop_noted_case(file: EvalSetFile, eval_id: str) -> FileChange | None:
    """Return the change of the notes for a case that is deleted; None if it has no notes."""
    path = find_notes_file(file)
    if eval_id not in read_notes(file).cases:
        return None
    text = read_file(path).decode()
    return FileChange(path, text.encode(), drop_notes(text, [eval_id], path.name).encode())


def save_tags(file: EvalSetFile, eval_id: str, tags: Sequence[str]) -> None:
    """Write the tags of a case into the notes; comments and other notes stay.

    Raises:
        InvalidInputError: the notes cannot be read, or a tag is invalid. Nothing is written.
        OSError: they cannot be written.
    """
    path = find_notes_file(file)
    text = read_file(path).decode() if path.is_file() else ""
    wanted = tuple(dict.fromkeys(tags))
    changed = set_tags(text, eval_id, wanted, path.name, file.path.name)
    if changed == text:
        return
    write_atomically(path, changed)
    try:
        _check_tags(path, eval_id, wanted)
    except InvalidInputError:
        if text:
            write_atomically(path, text)
        else:
            path.unlink()
        raise


def _check_tags(path: Path, eval_id: str, tags: tuple[str, ...]) -> None:
    notes = read_case_notes(path, path.name)[0]
    if eval_id not in notes.cases or notes.cases[eval_id].tags != tags:
        raise InvalidInputError([Problem(path.name, 0, 0, "cannot hold these tags: nothing was saved")])
