"""The results of earlier runs, kept in the folder `.evalgate/history` of the project."""

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from typing import BinaryIO

from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import Record
from evalgate.datasets.results_io import read_record
from evalgate.system.files import GuardedFolder, Owner, copy_file, replace_file
from evalgate.system.workspace import resolve_workspace

FOLDER = ".evalgate/history"
DEFAULT_KEPT = 20
MOST_BYTES = 256 * 2**20
"""Maximum size of the history in bytes. The oldest results beyond this size are removed, never the newest."""


@frozen
class KeptResult:
    """The `results.json` of an earlier `evalgate run`, kept in the history."""

    result_id: str
    """Start of the run in UTC, such as 20261123T012345Z. Further runs of the same second end in `-2`, `-3`
    and so on."""
    path: Path


def open_history(project: Path) -> GuardedFolder | None:
    """Return the folder of the history; None if it cannot be opened, for example because of a broken link.

    The caller opens the folder before an agent starts, because the agent could replace it by a link.
    """
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: a loop of links, up to Python 3.12
        return GuardedFolder.open_ancestor(project, project / FOLDER)
    return None


def keep_result(
    record: Record, out: GuardedFolder, history: GuardedFolder | None, most: int, owner: Owner | None = None
) -> None:
    """Copy the `results.json` in `out` to the history, and remove the oldest results beyond `most`.

    Also remove the oldest results if the history exceeds `MOST_BYTES`, and incomplete copies of killed runs.
    An empty history gets a `.gitignore`. Do nothing if `most` is 0, or for the record of a shard, which has
    no verdict.

    Raises:
        OSError: `results.json` cannot be read, `history` is None, the history cannot be written, or an old
            result cannot be removed.
    """
    if record.shard is not None or most <= 0:
        return
    if history is None:
        raise FileNotFoundError(errno.ENOENT, "the folder cannot be opened")
    with out.open_folder() as reports, history.open_folder(owner) as results:
        # Only in an empty folder: users who want the results in git delete the file, and a folder that a link
        # leads to may hold other files of theirs.
        if not os.listdir(results):  # noqa: PTH208  of a descriptor
            replace_file(results, ".gitignore", ("*\n",), owner)
        _add_file(build_result_id(record.created_at), reports, results, owner)
        _remove_leftovers(results)
        _remove_oldest(results, most)


def describe_failure(project: Path, error: OSError) -> str:
    """Return a sentence for the user about an error of `keep_result`."""
    reason = _find_obstacle(project) or error.strerror or str(error)
    return f"The history of results in {FOLDER} could not be written: {reason}"


def _find_obstacle(project: Path) -> str:
    """Return a sentence about a file or broken link in the place of the history's folder or its parent.

    Return "" if there is no such obstacle.
    """
    for path in (Path(FOLDER).parent, Path(FOLDER)):
        found = project / path
        if os.path.lexists(found) and not found.is_dir():
            kind = "a link that leads to no folder" if found.is_symlink() else "a file"
            return f"{path} is {kind}, and has to be a folder: move or delete it"
    return ""


def build_result_id(created_at: str) -> str:
    """Return the id of a run's result; `created_at` is the start of the run in ISO 8601, UTC."""
    digits = re.sub(r"\D", "", created_at[:19])
    return f"{digits[:8]}T{digits[8:]}Z"


def _open_regular(folder: int, name: str) -> BinaryIO:
    # An agent may have put a pipe there, and opening that would wait for a writer.
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"{name} is no file")
    return os.fdopen(descriptor, "rb")


def _add_file(result_id: str, reports: int, results: int, owner: Owner | None) -> None:
    later = (f"{result_id}-{number}.json" for number in count(2))
    with _open_regular(reports, "results.json") as source:
        # A copy instead of a hard link: with a link, a change of one file would change the other.
        copy_file(source, results, chain((f"{result_id}.json",), later), owner)


def _remove_oldest(results: int, most: int) -> None:
    names = sorted(filter(_RESULT.fullmatch, os.listdir(results)), key=_sort_key, reverse=True)
    sizes = {name: size for name in names if (size := _measure_kept(results, name)) is not None}
    used = 0
    failed = None
    for index, (name, size) in enumerate(sizes.items()):
        used += size
        if index >= most or (index and used > MOST_BYTES):
            try:
                os.unlink(name, dir_fd=results)
            except FileNotFoundError:  # another run removed it
                pass
            except OSError as error:
                failed = OSError(error.errno, f"{name} cannot be removed: {error.strerror}")
    if failed:
        raise failed


def _remove_leftovers(results: int) -> None:
    """Remove incomplete copies of killed runs from the folder with the descriptor `results`.

    Copies of the last hour stay, because another run may be writing them.
    """
    for name in filter(_LEFTOVER.fullmatch, os.listdir(results)):
        with contextlib.suppress(OSError):
            if time.time() - os.stat(name, dir_fd=results, follow_symlinks=False).st_mtime > _LEFTOVER_AGE_S:
                os.unlink(name, dir_fd=results)


def _measure_kept(results: int, name: str) -> int | None:
    """Return the size of a kept result in bytes; `results` is the descriptor of its folder.

    Return None if the file cannot be read, or if its name does not begin with the id of the run in the file:
    then the file was not written by the history.
    """
    try:
        with _open_regular(results, name) as file:
            head = _HEAD.match(file.read(_HEAD_BYTES))
            is_kept = head and build_result_id(head[1].decode()) == _sort_key(name)[0]
            return os.fstat(file.fileno()).st_size if is_kept else None
    except OSError:
        return None


_RESULT = re.compile(r"(\d{8}T\d{6}Z)(?:-(\d+))?\.json")
_LEFTOVER = re.compile(rf"\.{_RESULT.pattern}\.[0-9a-f]{{12}}\.tmp")
_LEFTOVER_AGE_S = 3_600
_HEAD = re.compile(
    rb'\{\s*"schema_version": \d+,\s*"evalgate_version": "[^"]*",\s*"created_at": "([ -!#-~]*)"'
)
_HEAD_BYTES = 1_000


def _sort_key(name: str) -> tuple[str, int]:
    found = _RESULT.fullmatch(name)
    return (found[1], int(found[2] or 1)) if found else ("", 0)


def list_results(folder: Path) -> Sequence[KeptResult]:
    """Return the kept results of the project in `folder`, newest first; () if there is no history.

    Broken files are listed, too: `read_result` raises an error for them.

    Raises:
        InvalidInputError: the history is not a folder, or cannot be read; or `folder` does not exist.
    """
    try:
        names = [path.name for path in (folder / FOLDER).iterdir()]
    except OSError as error:
        obstacle = _find_obstacle(folder)
        if isinstance(error, FileNotFoundError) and not obstacle:
            resolve_workspace(folder)
            return ()
        raise InvalidInputError(obstacle or f"{FOLDER} cannot be read: {error.strerror}") from None
    found = sorted(filter(_RESULT.fullmatch, names), key=_sort_key, reverse=True)
    return tuple(KeptResult(name.removesuffix(".json"), folder / FOLDER / name) for name in found)


def read_result(kept: KeptResult) -> Record:
    """Return the record of a kept result.

    Raises:
        InvalidInputError: the file is broken or is not a result; the message advises to delete it.
    """
    name = str(kept.path)
    try:
        return read_record(kept.path, name)
    except InvalidInputError as error:
        first = error.problems[0]
        reason = first.message.removeprefix(f"{name}: ").partition(". ")[0]
    if kept.path.is_symlink() and not kept.path.exists():
        reason = "is a link that leads nowhere"
    message = f"{reason}. If you do not need it, delete it"
    raise InvalidInputError([replace(first, file=name, message=message)])


def find_pair(folder: Path, before: str | None, after: str | None) -> tuple[KeptResult, KeptResult]:
    """Return two results of the project in `folder` to compare, the older result first.

    `before` and `after` name results, or are None. If both are None, return the two newest results. If one
    is None, return the named result and the newest other result. If both name a result, return (`before`,
    `after`), even if `before` is newer.

    Raises:
        InvalidInputError: a name means no result or several, both names mean the same result, there are fewer
            than two results, or the history cannot be read.
    """
    if before is not None and after is not None:
        pair = find_result(folder, before), find_result(folder, after)
        if pair[0] == pair[1]:
            raise InvalidInputError(
                f"`{before}` and `{after}` are the same result, {pair[0].result_id}: name two"
            )
        return pair
    named = find_result(folder, next((each for each in (before, after) if each is not None), "1"))
    kept = list_results(folder)
    others = [each for each in kept if each != named]
    if not others:
        raise InvalidInputError("the history has 1 result, and comparing takes two: run `evalgate run` again")
    newer, older = sorted((named, others[0]), key=kept.index)
    return older, newer


def find_result(folder: Path, which: str) -> KeptResult:
    """Return the result that `which` names: by its id, by the start of its id, or by its position.

    A position has one to three digits; 1 is the newest result.

    Raises:
        InvalidInputError: there is no such result, there are several, or the history cannot be read.
    """
    kept = list_results(folder)
    if not kept:
        raise InvalidInputError(f"{folder / FOLDER}: there are no results yet. `evalgate run` keeps them.")
    if which.isdecimal() and len(which) < 4:  # an id begins with a year
        if not 1 <= int(which) <= len(kept):
            there = pluralize(len(kept), "result")
            raise InvalidInputError(f"there is no result {which}: the history has {there}")
        return kept[int(which) - 1]
    equal = [each for each in kept if each.result_id == which]
    named = equal or [each for each in kept if each.result_id.startswith(which)]
    if not named:
        raise InvalidInputError(
            f"there is no result `{which}`: `evalgate results list` names those there are"
        )
    if len(named) > 1:
        raise InvalidInputError(f"{len(named)} results begin with `{which}`: write more of the id")
    return named[0]
