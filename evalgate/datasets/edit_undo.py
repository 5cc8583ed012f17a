"""Save edits of eval sets, with undo and redo: an edit changes all of its files, or none of them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.datasets.eval_set_file import EditedFile
from evalgate.system.files import make_folder, read_input_file, write_atomically
from evalgate.system.folder_lock import lock_folder

_MOST_STEPS = 100


class FileChangedError(InvalidInputError):
    """Error for a file that changed after the edit began."""


@frozen
class FileChange:
    """Content of a file before and after an edit; None: there is no file."""

    path: Path
    shown_as: str
    before: bytes | None
    after: bytes | None

    def reverse(self) -> "FileChange":
        """Return the change that undoes this one."""
        return FileChange(self.path, self.shown_as, self.after, self.before)


class UndoableEdits:
    """Saver of edits of eval sets, which keeps the last 100 edits of each set in memory for undo and redo.

    An edit belongs to the path of its eval set. It may change other files, too, such as case notes. All
    methods are thread-safe.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._done: dict[Path, list[Sequence[FileChange]]] = {}
        self._undone: dict[Path, list[Sequence[FileChange]]] = {}

    def save(self, edited: EditedFile, *also: FileChange) -> None:
        """Write the files `also`, then the edited eval set, as one edit.

        Raises:
            FileChangedError: a file changed since the edit began. All files are as before.
            InvalidInputError: a file cannot be read or written. All files are as before, except those that
                the error names because they cannot be restored.
        """
        file = edited.before
        self.save_changes(file.path, [*also, FileChange(file.path, file.shown_as, file.data, edited.data)])

    def save_changes(self, path: Path, changes: Sequence[FileChange]) -> None:
        """Write all files, in this order, as one edit of the eval set at `path`.

        Edits of this set that were undone before cannot be redone afterwards. If no content changes, do
        nothing.

        Raises:
            FileChangedError: a file changed since the edit began. All files are as before.
            InvalidInputError: a file cannot be read or written. All files are as before, except those that
                the error names because they cannot be restored.
        """
        changes = [change for change in changes if change.before != change.after]
        if not changes:
            return
        with self._lock:
            _write_changes(changes)
            steps = self._done.setdefault(path, [])
            steps.append(changes)
            del steps[:-_MOST_STEPS]
            self._undone.pop(path, None)

    def can_undo(self, path: Path) -> bool:
        """Return True if an edit of the eval set at `path` can be undone."""
        return bool(self._done.get(path))

    def can_redo(self, path: Path) -> bool:
        """Return True if an undone edit of the eval set at `path` can be repeated."""
        return bool(self._undone.get(path))

    def undo(self, path: Path, shown_as: str) -> None:
        """Write the files as they were before the last edit of an eval set.

        Raises:
            FileChangedError: a file was changed after the edit. All files are as before.
            InvalidInputError: there is no edit to undo, or a file cannot be read or written. All files are as
                before, except those that the error names because they cannot be restored.
        """
        with self._lock:
            step = _get_last(self._done, path, shown_as, "undo")
            _write_changes([change.reverse() for change in reversed(step)])
            self._done[path].pop()
            self._undone.setdefault(path, []).append(step)

    def redo(self, path: Path, shown_as: str) -> None:
        """Repeat the edit of an eval set that was undone last.

        Raises:
            FileChangedError: a file was changed after the edit was undone. All files are as before.
            InvalidInputError: there is no edit to redo, or a file cannot be read or written. All files are as
                before, except those that the error names because they cannot be restored.
        """
        with self._lock:
            step = _get_last(self._undone, path, shown_as, "redo")
            _write_changes(step)
            self._undone[path].pop()
            self._done.setdefault(path, []).append(step)


def read_content(path: Path, shown_as: str) -> bytes | None:
    """Return the content of a file; None if there is no file.

    Raises:
        InvalidInputError: the file cannot be read.
    """
    try:
        return read_input_file(path, shown_as)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInputError([Problem(shown_as, 0, 0, f"cannot be read: {error.strerror}")]) from None


def _get_last(
    steps: dict[Path, list[Sequence[FileChange]]], path: Path, shown_as: str, verb: str
) -> Sequence[FileChange]:
    if not steps.get(path):
        raise InvalidInputError([Problem(shown_as, 0, 0, f"there is no edit to {verb}")])
    return steps[path][-1]


def _write_changes(changes: Sequence[FileChange]) -> None:
    """Write all files; after an error or an interruption, restore the files that were written.

    Raises:
        FileChangedError: a file changed since the edit began. All files are as before.
        InvalidInputError: a file cannot be read or written. All files are as before, except those that the
            error names because they cannot be restored.
    """
    begun: list[FileChange] = []
    try:
        for change in changes:
            begun.append(change)
            _write_change(change)
    except BaseException as error:
        reasons = error.problems if isinstance(error, InvalidInputError) else ()
        if lost := [problem for change in reversed(begun) for problem in _restore_file(change)]:
            raise InvalidInputError([*reasons, *lost]) from error
        if isinstance(error, InvalidInputError):
            raise type(error)(_add_nothing_saved(reasons)) from None
        raise


def _restore_file(change: FileChange) -> Sequence[Problem]:
    """Write a file as it was before a change; return the problem if it cannot be written.

    If the file does not hold the result of the change, leave it as it is: the change was not made, or another
    program has changed the file since.
    """
    try:
        if read_content(change.path, change.shown_as) == change.after:
            _write_change(change.reverse())
    except InvalidInputError as error:
        message = "was changed already, and cannot be changed back: check by hand what it holds"
        return [Problem(change.shown_as, 0, 0, message), *error.problems]
    return []


def _add_nothing_saved(problems: Sequence[Problem]) -> list[Problem]:
    return [replace(problem, message=f"{problem.message}: nothing was saved") for problem in problems]


def _write_change(change: FileChange) -> None:
    """Write one file.

    Raises:
        FileChangedError: the file changed since the edit began.
        InvalidInputError: the file cannot be read or written.
    """
    real = change.path.resolve()  # a link stays a link
    try:
        make_folder(real.parent)
        with lock_folder(real.parent):
            if read_content(real, change.shown_as) != change.before:
                message = "changed since the edit began"
                raise FileChangedError([Problem(change.shown_as, 0, 0, message)])
            if change.after is None:
                real.unlink()
                return
            mode = real.stat().st_mode & 0o777 if change.before is not None else 0o644
            write_atomically(real, change.after.decode(), mode=mode)
    except OSError as error:
        message = f"cannot be written: {error.strerror}"
        raise InvalidInputError([Problem(change.shown_as, 0, 0, message)]) from None
