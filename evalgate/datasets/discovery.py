"""Discovery of eval-set files from paths, selections of cases, folders and globs."""

import difflib
import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.system.files import is_readable_name, read_file

TEST_CONFIG = "test_config.json"
"""Name of Google ADK's thresholds file, which is in the same folder as the eval sets."""

METRICS_ENDINGS = (".metrics.json", ".metric.json")
"""Endings of tRPC-Agent-Go's thresholds files; its documentation uses the second one too."""

_RESULT_ENDINGS = (".evalset_result.json", ".evalresult.json")
_ENDINGS = (".evalset.json", ".test.json")
_ANY_JSON = ".json"
_GOALS = b'"goal_details"'
"""Key in every data set of watsonx Orchestrate, whose files may have any name."""


@frozen
class EvalFile:
    """One file with an eval set."""

    path: Path
    shown_as: str
    """Path relative to the base folder, as messages show it."""
    selections: tuple[str, ...] = ()
    """Texts after the colon, one for each pattern that selected cases of this file."""
    is_whole: bool = True
    """True if at least one pattern names the file without selecting cases."""


def find_eval_files(patterns: Sequence[str], *, base: Path, problems: list[Problem]) -> tuple[EvalFile, ...]:
    """Return the files of all patterns in their order; the files of a folder or glob are sorted.

    Each file is returned once. A file that several patterns name keeps its first position, and has the cases
    of all of them. Problems with patterns are appended to `problems`.

    Raises:
        InvalidInputError: `patterns` is empty.
    """
    if not patterns:
        raise InvalidInputError("no eval sets: name files, folders or globs, or list them as `eval_sets`")
    found: dict[str, EvalFile] = {}
    for pattern in patterns:
        try:
            for file in _expand_pattern(pattern, base):
                # Different paths of one file, and links to it, are the same file.
                identity = os.path.realpath(file.path)
                found[identity] = _merge_selections(found[identity], file) if identity in found else file
        except InvalidInputError as error:
            problems += error.problems
        except OSError as error:
            problems.append(Problem(pattern, 0, 0, f"cannot be read: {error.strerror}"))
    return tuple(found.values())


def _merge_selections(one: EvalFile, other: EvalFile) -> EvalFile:
    selections, is_whole = (*one.selections, *other.selections), one.is_whole or other.is_whole
    return EvalFile(one.path, one.shown_as, selections, is_whole)


def _expand_pattern(pattern: str, base: Path) -> list[EvalFile]:
    path = base / pattern
    if not pattern.strip() or "\0" in pattern:
        raise _build_pattern_error(pattern, "an empty pattern names no file")
    if path.is_dir():
        return [_build_eval_file(inner, base) for inner in _list_folder(path, pattern)]
    if path.exists():
        return [_build_eval_file(path, base)]
    if glob.has_magic(pattern) and (matches := _match_glob(pattern, base)):
        return [_build_eval_file(match, base) for match in matches]
    if selected := _parse_selection(pattern, base):
        return [selected]
    raise _build_pattern_error(pattern, _describe_no_match(pattern, base))


def _build_eval_file(path: Path, base: Path, *selections: str) -> EvalFile:
    home = Path(os.path.normpath(base.absolute()))
    absolute = Path(os.path.normpath(home / path))
    inside = absolute.relative_to(home) if absolute.is_relative_to(home) else absolute
    return EvalFile(absolute, str(inside), selections, is_whole=not selections)


def _list_folder(folder: Path, pattern: str) -> list[Path]:
    found = sorted(_walk_folder(folder))
    if not found:
        endings = " or ".join(f"*{ending}" for ending in _ENDINGS)
        message = f"there is no {endings}, and no *{_ANY_JSON} with goals, in this folder or below"
        raise _build_pattern_error(pattern, message)
    return found


def _walk_folder(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder, onerror=_raise_error):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (path for name in files if _is_eval_set(path := Path(place, name)))


def _is_eval_set(path: Path) -> bool:
    """Return True for the name of an eval set, or for JSON with goals of watsonx Orchestrate."""
    if path.name.endswith(_ENDINGS):
        return True
    return path.name.endswith(_ANY_JSON) and path.is_file() and _GOALS in read_file(path)


def _raise_error(error: OSError) -> NoReturn:
    raise error


def _match_glob(pattern: str, base: Path) -> list[Path]:
    names = glob.glob(pattern, root_dir=base, recursive=True)  # noqa: PTH207  Path.glob enters hidden folders
    found = (base / name for name in names)
    return sorted(path for path in found if is_readable_name(path) and _may_be_eval_set(path.name))


def _may_be_eval_set(name: str) -> bool:
    return name != TEST_CONFIG and not name.endswith((*METRICS_ENDINGS, *_RESULT_ENDINGS))


def _parse_selection(pattern: str, base: Path) -> EvalFile | None:
    """Parse `file:case_a,case_b`; return None if there is no such file.

    The longest prefix that is a file counts, because paths and ids may contain colons.
    """
    colons = [at for at, character in enumerate(pattern) if character == ":"]
    for at in reversed(colons):
        path, rest = base / pattern[:at], pattern[at + 1 :]
        if pattern[:at].strip() and is_readable_name(path):
            if not rest.strip(" ,"):
                raise _build_pattern_error(
                    pattern, "no case is named after the colon: name one, or drop the colon for all"
                )
            return _build_eval_file(path, base, rest)
    return None


def _describe_no_match(pattern: str, base: Path) -> str:
    if glob.has_magic(pattern):
        return f"no file matches this pattern in {base}"
    folder = (base / pattern).parent
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    near = difflib.get_close_matches(Path(pattern).name, sorted(names), n=1)
    hint = f". Did you mean {Path(pattern).with_name(near[0])}?" if near else f" in {base}"
    return f"no such file or folder{hint}"


def _build_pattern_error(pattern: str, message: str) -> InvalidInputError:
    return InvalidInputError([Problem(pattern, 0, 0, message)])
