"""An edit of several files changes all of them or none, and the error says what is not as before."""

from collections.abc import Callable
from pathlib import Path

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.datasets import edit_undo
from evalgate.datasets.edit_undo import FileChange, UndoableEdits
from evalgate.system.files import write_atomically

Write = Callable[..., None]


def build_changes(folder: Path) -> list[FileChange]:
    """Return an edit of the notes, which exist, and of a new eval set."""
    notes = folder / "set.cases.yaml"
    notes.write_bytes(b"before")
    return [
        FileChange(notes, notes.name, b"before", b"after"),
        FileChange(folder / "set.json", "set.json", None, b"{}"),
    ]


def fail_at(*failing: int) -> Write:
    """Return a function that writes files, but finds the disk full in the calls `failing`, from 1."""
    calls = 0

    def write(path: Path, text: str, *, mode: int) -> None:
        nonlocal calls
        calls += 1
        if calls in failing:
            raise OSError(28, "No space left on device")
        write_atomically(path, text, mode=mode)

    return write


def interrupt_after(name: str) -> Write:
    """Return a function that writes files, and is interrupted after the file `name`."""

    def write(path: Path, text: str, *, mode: int) -> None:
        write_atomically(path, text, mode=mode)
        if path.name == name and text != "before":
            raise KeyboardInterrupt

    return write


FULL = "set.json: cannot be written: No space left on device"


@pytest.mark.parametrize(
    ("write", "notes", "error"),
    [
        pytest.param(fail_at(2), "before", f"{FULL}: nothing was saved", id="restored"),
        pytest.param(
            fail_at(2, 3),
            "after",
            f"{FULL}\nset.cases.yaml: was changed already, and cannot be changed back: check by hand what it "
            "holds\nset.cases.yaml: cannot be written: No space left on device",
            id="not_restored",
        ),
    ],
)
def test_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, notes: str, error: str
) -> None:
    edits, changes = UndoableEdits(), build_changes(tmp_path)
    monkeypatch.setattr(edit_undo, "write_atomically", write)
    with pytest.raises(InvalidInputError) as caught:
        edits.save_changes(changes[1].path, changes)
    assert str(caught.value) == error
    assert (tmp_path / "set.cases.yaml").read_text() == notes
    assert not (tmp_path / "set.json").exists()
    assert not edits.can_undo(changes[1].path)


@pytest.mark.parametrize("name", ["set.cases.yaml", "set.json"])
def test_an_interruption_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    changes = build_changes(tmp_path)
    monkeypatch.setattr(edit_undo, "write_atomically", interrupt_after(name))
    with pytest.raises(KeyboardInterrupt):
        UndoableEdits().save_changes(changes[1].path, changes)
    assert (tmp_path / "set.cases.yaml").read_text() == "before"
    assert not (tmp_path / "set.json").exists()


def test_what_another_program_wrote_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = build_changes(tmp_path)

    def write(path: Path, text: str, *, mode: int) -> None:
        write_atomically(path, text, mode=mode)
        changes[1].path.write_text("mine")

    monkeypatch.setattr(edit_undo, "write_atomically", write)
    with pytest.raises(
        InvalidInputError, match=r"^set\.json: changed since the edit began: nothing was saved$"
    ):
        UndoableEdits().save_changes(changes[1].path, changes)
    assert (tmp_path / "set.cases.yaml").read_text() == "before"
    assert (tmp_path / "set.json").read_text() == "mine"
