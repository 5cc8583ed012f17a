"""Paths of eval sets: the files that patterns name, and the names of files next to an eval set.

A pattern, on the command line or in `eval_sets`, is a file, `file:case_a,case_b`, a folder or a glob.
`loading.py` reads the files, and selects the cases that a pattern names after the colon. Options such as
`--tag` are handled by `evalgate.runner.selection_options`.
"""

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.system.files import exists, is_non_folder, read_file

TEST_CONFIG = "test_config.json"
"""Name of Google ADK's thresholds file, which is in the same folder as the eval sets."""

METRICS_ENDINGS = (".metrics.json", ".metric.json")
"""Endings of tRPC-Agent-Go's thresholds files; tRPC-Agent-Go's documentation uses both."""

NOTES_ENDING = ".cases.yaml"
"""Ending of the file with evalgate's notes about the cases of an eval set."""

_RESULT_ENDINGS = (".evalset_result.json", ".evalresult.json")
_ENDINGS = (".evalset.json", ".test.json")
_ANY_JSON = ".json"
_GOALS = b'"goal_details"'
"""Key in every data set of watsonx Orchestrate. A file with such a data set may have any name."""

_DEAD_LINK = "this link leads to no file"


@frozen
class EvalFile:
    """One file with an eval set, and the cases in it that patterns select."""

    path: Path
    shown_as: str
    """Path as messages show it: relative to the base folder, or absolute for a file outside of it."""
    selections: tuple[str, ...] = ()
    """Text after the colon of each pattern `file:case_a,case_b` that selects cases of this file."""
    is_whole: bool = True
    """True if at least one pattern names the file without selecting cases."""

    def add_selections(self, other: "EvalFile") -> "EvalFile":
        """Return this file with its own selections and those of `other`, which names the same file."""
        selections, is_whole = (*self.selections, *other.selections), self.is_whole or other.is_whole
        return replace(self, selections=selections, is_whole=is_whole)


def find_eval_files(
    patterns: Sequence[str], *, folder: Path, problems: list[Problem]
) -> tuple[EvalFile, ...]:
    """Return the files of all patterns in their order; the files of a folder or glob are sorted.

    Each file is returned once. A file that several patterns name keeps its first position, with the cases
    of all these patterns. Problems with patterns are appended to `problems`.

    Raises:
        InvalidInputError: `patterns` is empty.
    """
    if not patterns:
        raise InvalidInputError("no eval sets: name files, folders or globs, or list them as `eval_sets`")
    found: dict[str, EvalFile] = {}
    for pattern in patterns:
        try:
            for file in _expand_pattern(pattern, folder):
                # Different paths of one file, and links to it, are the same file.
                identity = os.path.realpath(file.path)
                earlier = found.get(identity)
                found[identity] = earlier.add_selections(file) if earlier else file
        except InvalidInputError as error:
            problems += error.problems
        except OSError as error:
            problems.append(Problem(pattern, 0, 0, f"cannot be read: {error.strerror}"))
    return tuple(found.values())


def find_adjacent_thresholds_file(
    eval_set_path: Path, eval_set_id: str, exists: Callable[[Path], bool] = Path.is_file
) -> Path | None:
    """Return the thresholds file next to an eval set; None if there is none.

    If there is a file of tRPC-Agent-Go and a file of Google ADK, the file of tRPC-Agent-Go is returned.
    `exists` returns True if a path is a file.
    """
    return find_metrics_file(eval_set_path, eval_set_id, exists) or find_test_config(eval_set_path, exists)


def find_test_config(eval_set_path: Path, exists: Callable[[Path], bool] = Path.is_file) -> Path | None:
    """Return Google ADK's thresholds file in the folder of an eval set; None if there is none."""
    path = eval_set_path.parent / TEST_CONFIG
    return path if exists(path) else None


def find_metrics_file(
    eval_set_path: Path, eval_set_id: str, exists: Callable[[Path], bool] = Path.is_file
) -> Path | None:
    """Return tRPC-Agent-Go's thresholds file in the folder of an eval set; None if there is none.

    The file has the name of the eval set's file, with one of `METRICS_ENDINGS` in place of `.evalset.json` or
    `.json`. If there is no such file, the eval set's id is tried as the name.
    """
    stem = eval_set_path.name.removesuffix(".json").removesuffix(".evalset")
    for name in (stem, eval_set_id):
        for ending in METRICS_ENDINGS:
            path = eval_set_path.with_name(Path(name).name + ending)
            if exists(path):
                return path
    return None


def build_notes_name(file_name: str) -> str:
    """Return the name of the notes file of an eval set's file: `.cases.yaml` replaces `.evalset.json`.

    Any other ending is kept before `.cases.yaml`, so that two files of a folder never share a notes file.

    >>> build_notes_name("refunds.evalset.json")
    'refunds.cases.yaml'
    >>> build_notes_name("refunds.test.json")
    'refunds.test.json.cases.yaml'
    """
    return file_name.removesuffix(".evalset.json") + NOTES_ENDING


def build_eval_set_id(file_name: str) -> str:
    """Return the id of a new eval set in a file of this name: the name without its ending.

    >>> build_eval_set_id("refunds.v2.evalset.json")
    'refunds.v2'
    """
    ending = next((each for each in _ENDINGS if file_name.endswith(each)), Path(file_name).suffix)
    return file_name.removesuffix(ending).strip() or file_name.strip()


def _expand_pattern(pattern: str, folder: Path) -> list[EvalFile]:
    path = folder / pattern
    if not pattern.strip() or "\0" in pattern:
        raise _build_pattern_error(pattern, "an empty pattern names no file")
    files = []
    if exists(path):
        files = _list_folder(path, pattern) if path.is_dir() else [path]
    if glob.has_magic(pattern):
        # Matched even if a file has the pattern as its name: a change that adds such a file must not hide
        # the files that the glob matches.
        files += [match for match in _match_glob(pattern, folder) if match not in files]
    if files:
        return [_build_eval_file(file, folder) for file in files]
    if selected := _parse_selection(pattern, folder):
        return [selected]
    is_dead = os.path.islink(path)  # noqa: PTH114  Path.is_symlink raises an error
    raise _build_pattern_error(pattern, _DEAD_LINK if is_dead else _describe_no_match(pattern, folder))


def _build_eval_file(path: Path, folder: Path, *selections: str) -> EvalFile:
    home = Path(os.path.normpath(folder.absolute()))
    absolute = Path(os.path.normpath(home / path))
    inside = absolute.relative_to(home) if absolute.is_relative_to(home) else absolute
    return EvalFile(absolute, str(inside), selections, is_whole=not selections)


def _list_folder(folder: Path, pattern: str) -> list[Path]:
    found: list[Path] = []
    # Without `onerror`, a folder that cannot be read would count as empty, and its cases would not be run.
    for parent, folders, files in os.walk(folder, onerror=_raise_error):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += (path for name in files if _is_eval_set(path := Path(parent, name)))
    if not found:
        endings = " or ".join(f"*{ending}" for ending in _ENDINGS)
        message = f"there is no {endings}, and no *{_ANY_JSON} with goals, in this folder or below"
        raise _build_pattern_error(pattern, message)
    return sorted(found)


def _is_eval_set(path: Path) -> bool:
    """Return True for a file that is named like an eval set, or for JSON with watsonx Orchestrate's goals."""
    if path.name.endswith(_ENDINGS):
        return True
    if not path.name.endswith(_ANY_JSON) or not path.is_file():
        return False
    found = path.stat()
    return _holds_goals(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=10_000)
def _holds_goals(path: Path, _changed_ns: int, _size: int) -> bool:
    """Return True if a file has the key of Orchestrate's goals.

    The file's time and size are only for the cache: a changed file is read again.
    """
    return _GOALS in read_file(path)


def _raise_error(error: OSError) -> NoReturn:
    raise error


def _match_glob(pattern: str, folder: Path) -> list[Path]:
    from evalgate.system.globs import find_matches

    found = (folder / name for name in find_matches(pattern, folder))
    # A glob such as `*.json` also matches these files next to eval sets.
    others = (*METRICS_ENDINGS, *_RESULT_ENDINGS, NOTES_ENDING)
    named = [path for path in found if path.name != TEST_CONFIG and not path.name.endswith(others)]
    if dead := [path for path in sorted(named) if path.is_symlink() and not exists(path)]:
        shown = [_build_eval_file(path, folder).shown_as for path in dead]
        raise InvalidInputError(Problem(name, 0, 0, _DEAD_LINK) for name in shown)
    return sorted(path for path in named if is_non_folder(path))


def _parse_selection(pattern: str, folder: Path) -> EvalFile | None:
    """Parse `file:case_a,case_b`; return None if there is no such file.

    The longest prefix that is a file counts, because paths and ids may contain colons.

    Raises:
        InvalidInputError: no case is named after the colon.
    """
    colons = [at for at, character in enumerate(pattern) if character == ":"]
    for at in reversed(colons):
        path, rest = folder / pattern[:at], pattern[at + 1 :]
        if pattern[:at].strip() and is_non_folder(path):
            if not rest.strip(" ,"):
                raise _build_pattern_error(
                    pattern, "no case is named after the colon: name one, or drop the colon for all"
                )
            return _build_eval_file(path, folder, rest)
    return None


def _describe_no_match(pattern: str, folder: Path) -> str:
    if glob.has_magic(pattern):
        return f"no file matches this pattern in {folder}"
    parent = (folder / pattern).parent
    names = [path.name for path in parent.iterdir()] if parent.is_dir() else []
    from evalgate.core.did_you_mean import find_similar

    near = find_similar(Path(pattern).name, sorted(names))
    hint = f". Did you mean {Path(pattern).with_name(near[0])}?" if near else f" in {folder}"
    return f"no such file or folder{hint}"


def _build_pattern_error(pattern: str, message: str) -> InvalidInputError:
    return InvalidInputError([Problem(pattern, 0, 0, message)])
