"""List, open and create the eval sets that the viewer shows and edits.

These are the eval sets that the thresholds file names, or else all in the project's folder. A page names an
eval set by its path. Only files in this list can be read or changed.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import urlencode

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseResult, EvalCase, EvalSet, RunResult
from evalgate.datasets.eval_set_file import EvalSetFile, create_eval_set, open_eval_set
from evalgate.datasets.eval_set_paths import EvalFile, find_eval_files

NEW_ENDING = ".evalset.json"


@frozen
class ListedEvalSet:
    """File in the list of all eval sets, with its content or the reason why it cannot be read."""

    shown_as: str
    file: EvalSetFile | None
    """Content of the file; None if it cannot be read."""
    problem: str = ""
    """Reason why the file cannot be read; "" if it can be read."""


class EvalSetStore:
    """Eval sets of one viewer. A file is parsed again only if it has changed."""

    def __init__(self, folder: Path, thresholds_file: str | None) -> None:
        self._folder = folder
        self._thresholds = thresholds_file
        self._opened: dict[Path, tuple[tuple[int, int], EvalSetFile]] = {}

    def list_sets(self) -> list[ListedEvalSet]:
        """Return all eval sets of the project, including files that cannot be read."""
        return list(self._iter_sets())

    def _iter_sets(self) -> Iterator[ListedEvalSet]:
        for file in self.list_files():
            try:
                yield ListedEvalSet(file.shown_as, self._open(file))
            except InvalidInputError as error:
                yield ListedEvalSet(file.shown_as, None, str(error))

    def list_files(self) -> Sequence[EvalFile]:
        """Return the eval set files that the thresholds file names.

        Return all eval set files in the folder if there is no valid thresholds file, if it names no eval
        sets, or if no file matches.
        """
        problems: list[Problem] = []
        patterns = self._list_patterns()
        found = find_eval_files(patterns, folder=self._folder, problems=problems)
        if found or patterns == ["."]:
            return found
        return find_eval_files(["."], folder=self._folder, problems=problems)

    def _list_patterns(self) -> Sequence[str]:
        from evalgate.config.loader import find_thresholds_file, load_thresholds

        path = self._folder / self._thresholds if self._thresholds else find_thresholds_file(self._folder)
        if path is None:
            return ["."]
        try:
            return load_thresholds(path, path.name).config.eval_sets or ["."]
        except InvalidInputError:
            return ["."]  # a wrong thresholds file must not hide the sets

    def open_set(self, shown_as: str) -> EvalSetFile:
        """Return the eval set with the listed path `shown_as`.

        Raises:
            InvalidInputError: the path is not listed, or its file cannot be read.
        """
        for file in self.list_files():
            if file.shown_as == shown_as:
                return self._open(file)
        raise InvalidInputError(f"{shown_as}: no eval set of this project")

    def has_set(self, eval_set_id: str, path: str = "") -> bool:
        """Return True if a listed file has the path `path`, or if a readable listed file has the id."""
        if any(each.shown_as == path for each in self.list_files()):
            return True
        try:
            self.find_set(eval_set_id)
        except InvalidInputError:
            return False
        return True

    def _open(self, file: EvalFile) -> EvalSetFile:
        try:
            found = file.path.stat()
        except OSError as error:
            raise InvalidInputError(f"{file.shown_as}: cannot be read: {error.strerror}") from None
        version = found.st_mtime_ns, found.st_size
        known = self._opened.get(file.path)
        if known is None or known[0] != version:
            known = version, open_eval_set(file.path, file.shown_as)
            self._opened[file.path] = known
        return known[1]

    def forget(self, path: Path) -> None:
        """Forget the parsed content of a file that has changed; its next use reads the file again."""
        self._opened.pop(path, None)

    def find_set(self, eval_set_id: str, path: str = "") -> EvalSetFile:
        """Return the eval set with the id `eval_set_id`.

        If several eval sets have this id, return the one at `path`, or else the first one.

        Raises:
            InvalidInputError: no readable eval set has this id.
        """
        listed = sorted(self.list_sets(), key=lambda each: each.shown_as != path)
        for each in listed:
            if each.file is not None and each.file.eval_set.eval_set_id == eval_set_id:
                return each.file
        where = f", and there is no file {path}" if path else ""
        raise InvalidInputError(f"no eval set of this project has the id {eval_set_id!r}{where}")

    def create_set(self, name: str, format_name: str, eval_set: EvalSet) -> EvalSetFile:
        """Write a new eval set to the path `name` below the project's folder.

        If an error is raised, no file is left behind.

        Raises:
            InvalidInputError: the path leads out of the folder or does not end in `.evalset.json`, the file
                exists, `eval_sets` in the thresholds file does not match the path, or the format cannot hold
                the eval set.
        """
        path = PurePosixPath(name.strip())
        if not path.name or path.is_absolute() or ".." in path.parts or "\0" in name:
            raise InvalidInputError(f"{name!r} is no path below the project's folder")
        if not path.name.endswith(NEW_ENDING):
            raise InvalidInputError(f"the name must end in {NEW_ENDING}, so that `evalgate run` finds it")
        target = self._folder / path
        if not Path(os.path.realpath(target)).is_relative_to(os.path.realpath(self._folder)):
            raise InvalidInputError(f"{name!r} leads out of the project's folder")
        missing = [folder for folder in target.parents if not folder.exists()]
        created = create_eval_set(target, str(path), format_name, eval_set)
        read = find_eval_files(self._list_patterns(), folder=self._folder, problems=[])
        if all(file.shown_as != created.shown_as for file in read):
            target.unlink()
            for folder in missing:
                folder.rmdir()
            patterns = ", ".join(self._list_patterns())
            raise InvalidInputError(f"{name!r} is not among the eval sets that a run reads ({patterns})")
        return created


def build_edit_address(case: CaseResult, record_id: str = "", run: RunResult | None = None) -> str:
    """Return the address of the page that edits a case. The page also shows the agent's replies in `run`.

    `record_id` names the record of the run; "" means the viewer's first record. If `run` is None, the page
    chooses a run.
    """
    values = {"set": case.eval_set_id, "path": case.path, "case": case.eval_id, "record": record_id}
    values["run"] = str(run.run) if run else ""
    return f"/edit?{urlencode({name: value for name, value in values.items() if value})}"


def describe_first_message(case: EvalCase) -> str:
    """Return the user's first message in a case.

    For a case without turns, return the first prompt of the simulated user, or else the user's plan. Return
    "" if there is neither.
    """
    if case.turns:
        return case.turns[0].user.text
    if case.scenario is not None:
        return case.scenario.starting_prompt or case.scenario.conversation_plan
    return ""
