"""The quarantine of a case, in the file that the thresholds file names."""

import re
from pathlib import Path

from evalgate.config.loader import find_thresholds_file, load_thresholds
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.types import Quarantine
from evalgate.gating.quarantine_edits import find_quarantine, set_quarantine
from evalgate.system.files import lock_folder, read_file, write_atomically
from evalgate.viewer.state import Viewer


def find_quarantine_file(viewer: Viewer) -> str:
    """Return the path of the quarantine file, relative to the project's folder; "" if none is named."""
    folder = viewer.folder
    path = folder / viewer.thresholds if viewer.thresholds else find_thresholds_file(folder)
    try:
        return (load_thresholds(path, path.name).config.gate.quarantine or "") if path else ""
    except InvalidInputError:
        return ""


def read_quarantine(viewer: Viewer, eval_id: str) -> Quarantine | None:
    """Return the quarantine of a case by its own id; None if there is none, or the file cannot be read."""
    name = find_quarantine_file(viewer)
    try:
        return find_quarantine(_read_text(viewer.folder / name), _to_pattern(eval_id), name) if name else None
    except (InvalidInputError, OSError):
        return None


def save_quarantine(viewer: Viewer, eval_id: str, quarantine: Quarantine | None) -> None:
    """Write the quarantine of a case, or remove it; comments and other entries stay.

    Raises:
        InvalidInputError: the entry is incomplete, or no file is named. Nothing is written.
        OSError: the file cannot be written.
    """
    name = find_quarantine_file(viewer)
    if not name:
        raise InvalidInputError("the thresholds file names no quarantine file (`gate.quarantine`)")
    path, pattern = viewer.folder / name, _to_pattern(eval_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_folder(path.parent):
        changed = set_quarantine(_read_text(path), pattern, quarantine, name)
        if find_quarantine(changed, pattern, name) != quarantine:
            raise InvalidInputError([Problem(name, 0, 0, "cannot be changed like this: nothing was saved")])
        write_atomically(path, changed)


def _read_text(path: Path) -> str:
    return read_file(path).decode() if path.is_file() else ""


def _to_pattern(eval_id: str) -> str:
    """Return the pattern that only this id matches."""
    return re.sub(r"([*?\[])", r"[\1]", eval_id)
