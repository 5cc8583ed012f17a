"""Read and change a case's entries in the quarantine file that the thresholds file names."""

import re

from evalgate.config.loader import find_thresholds_file, load_thresholds
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.types import Quarantine
from evalgate.datasets.edit_undo import FileChange, read_content
from evalgate.datasets.eval_set_file import EvalSetFile, compute_digest
from evalgate.documents.validation_errors import list_case_names
from evalgate.gating.quarantine_edits import find_quarantine, rename_quarantine, set_quarantine
from evalgate.system.files import decode_text
from evalgate.viewer.state import Viewer


def find_quarantine_file(viewer: Viewer) -> str:
    """Return the path of the quarantine file, relative to the project's folder.

    Return "" if the thresholds file is missing or invalid, or names no quarantine file.
    """
    folder = viewer.folder
    path = folder / viewer.thresholds if viewer.thresholds else find_thresholds_file(folder)
    try:
        return (load_thresholds(path, path.name).config.gate.quarantine or "") if path else ""
    except InvalidInputError:
        return ""


def read_quarantine(viewer: Viewer, eval_id: str) -> Quarantine | None:
    """Return the quarantine entry of a case; None if there is no entry, or if the file cannot be read."""
    name = find_quarantine_file(viewer)
    try:
        return find_quarantine(_read_text(viewer, name)[1], _to_pattern(eval_id), name) if name else None
    except InvalidInputError:
        return None


def compute_quarantine_digest(viewer: Viewer) -> str:
    """Return the SHA-256 of the quarantine file, by which a later request notices that it has changed.

    A missing file has the digest of an empty file. Return "" if the file cannot be read.
    """
    name = find_quarantine_file(viewer)
    try:
        return compute_digest((read_content(viewer.folder / name, name) if name else None) or b"")
    except InvalidInputError:
        return ""


def build_quarantine_change(viewer: Viewer, eval_id: str, quarantine: Quarantine | None) -> FileChange:
    """Return a change of the quarantine file that sets the entry of a case; nothing is written yet.

    `quarantine` is the new entry; None removes the entry. Comments and other entries stay.

    Raises:
        InvalidInputError: the entry is incomplete, the thresholds file names no quarantine file, or the
            quarantine file cannot be read or changed.
    """
    name = find_quarantine_file(viewer)
    if not name:
        raise InvalidInputError("the thresholds file names no quarantine file (`gate.quarantine`)")
    pattern = _to_pattern(eval_id)
    before, text = _read_text(viewer, name)
    changed = set_quarantine(text, pattern, quarantine, name)
    if find_quarantine(changed, pattern, name) != quarantine:
        raise InvalidInputError([Problem(name, 0, 0, "cannot be changed like this: nothing was saved")])
    return FileChange(viewer.folder / name, name, before, before if changed == text else changed.encode())


def build_quarantine_changes(
    viewer: Viewer, file: EvalSetFile, eval_id: str, new_id: str | None = None
) -> list[FileChange]:
    """Return the change that renames or removes a case's quarantine entries; [] if no entry has to change.

    `new_id` is the case's new id; None if the case is deleted. Without the change, the next run would end
    with an error, because an entry names a missing case. Entries with globs stay, and so do entries that also
    name a case of another eval set. Nothing is written yet.

    Raises:
        InvalidInputError: the quarantine file cannot be read or changed.
    """
    name = find_quarantine_file(viewer)
    if not name or eval_id == new_id:
        return []
    before, text = _read_text(viewer, name)
    changed = text
    patterns, new_patterns = _list_patterns(file, eval_id), _list_patterns(file, new_id or "")
    if not any(find_quarantine(text, each, name) for each in patterns):
        return []
    if new_id is not None and _is_in_another_set(viewer, file, new_id):
        new_patterns[0] = new_patterns[1]  # the id alone would quarantine the case of the other set, too
    for old, new in zip(patterns, new_patterns, strict=True):
        if old is patterns[0] and _is_in_another_set(viewer, file, eval_id):
            continue
        while find_quarantine(changed, old, name) is not None:  # an entry may stand there twice
            before_edit = changed
            if new_id is not None:
                changed = rename_quarantine(changed, old, new, name)
            else:
                changed = _end_quarantine(changed, old, name)
            if changed == before_edit:
                raise InvalidInputError(f"change `{old}` in {name} by hand first: evalgate cannot")
    if changed == text:
        return []
    return [FileChange(viewer.folder / name, name, before, changed.encode())]


def _end_quarantine(text: str, pattern: str, name: str) -> str:
    try:
        return set_quarantine(text, pattern, None, name)
    except InvalidInputError as error:
        raise InvalidInputError(f"take `{pattern}` out of {name} first: {error}") from None


def _list_patterns(file: EvalSetFile, eval_id: str) -> list[str]:
    """Return the patterns by which an entry may name a case: `ID`, `EVAL_SET:ID` and `FILE:ID`.

    The first pattern also matches cases of other eval sets with the same id.
    """
    names = list_case_names(file.eval_set.eval_set_id, file.shown_as, eval_id)
    return [_to_pattern(each) for each in names]


def _is_in_another_set(viewer: Viewer, file: EvalSetFile, eval_id: str) -> bool:
    return any(
        case.eval_id == eval_id
        for each in viewer.eval_sets.list_sets()
        if each.file is not None and each.shown_as != file.shown_as
        for case in each.file.eval_set.cases
    )


def _read_text(viewer: Viewer, name: str) -> tuple[bytes | None, str]:
    data = read_content(viewer.folder / name, name)
    return data, "" if data is None else decode_text(data, name)


def _to_pattern(eval_id: str) -> str:
    """Return a glob pattern that matches only `eval_id`."""
    return re.sub(r"([*?\[])", r"[\1]", eval_id)
