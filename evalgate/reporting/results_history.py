"""The results of earlier runs, kept in a folder next to the reports of the newest one."""

import contextlib
import errno
import os
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import Record
from evalgate.system.files import AnchoredFolder, Owner, replace_file

FOLDER = ".evalgate/history"
DEFAULT_KEPT = 20
MOST_BYTES = 256 * 2**20
"""Size of the whole history; the oldest results are removed beyond it."""


@frozen
class KeptResult:
    """A result of an earlier run."""

    result_id: str
    """Time of the run in UTC, such as 20261123T012345Z."""
    path: Path


def keep_result(
    record: Record, out: AnchoredFolder, history: AnchoredFolder, most: int, owner: Owner | None = None
) -> None:
    """Add the `results.json` in `out` to the history, and remove the oldest results beyond `most`.

    A shard has no verdict of its own and is not added. Nothing is raised if the history cannot be written: it
    is no part of a verdict.
    """
    if record.shard is not None or most <= 0:
        return
    with (
        contextlib.suppress(OSError),
        out.open_folder() as reports,
        history.open_folder(owner) as results,
    ):
        if ".gitignore" not in os.listdir(results):  # noqa: PTH208  of a descriptor
            replace_file(results, ".gitignore", ("*\n",), owner)
        _add_file(_build_id(record.created_at), reports, results, owner)
        _remove_oldest(results, most)


def _build_id(created_at: str) -> str:
    digits = re.sub(r"\D", "", created_at[:19])
    return f"{digits[:8]}T{digits[8:]}Z"


def _add_file(result_id: str, reports: int, results: int, owner: Owner | None) -> None:
    for number in count(1):
        name = f"{result_id}.json" if number == 1 else f"{result_id}-{number}.json"
        try:
            # A link costs no room and no time: `results.json` is replaced by the next run, never changed.
            os.link("results.json", name, src_dir_fd=reports, dst_dir_fd=results, follow_symlinks=False)
        except FileExistsError:
            continue
        except OSError as error:
            if error.errno not in {errno.EXDEV, errno.EPERM}:
                raise
            descriptor = os.open("results.json", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=reports)
            with os.fdopen(descriptor, encoding="utf-8") as file:  # another file system
                replace_file(results, name, file, owner)
        return


def _remove_oldest(results: int, most: int) -> None:
    names = sorted(filter(_RESULT.fullmatch, os.listdir(results)), key=_sort_key, reverse=True)
    used = 0
    for index, name in enumerate(names):
        used += os.stat(name, dir_fd=results, follow_symlinks=False).st_size
        if index >= most or (index and used > MOST_BYTES):
            os.unlink(name, dir_fd=results)


_RESULT = re.compile(r"(\d{8}T\d{6}Z)(?:-(\d+))?\.json")


def _sort_key(name: str) -> tuple[str, int]:
    found = _RESULT.fullmatch(name)
    return (found[1], int(found[2] or 1)) if found else ("", 0)


def list_results(folder: Path) -> Sequence[KeptResult]:
    """Return the results that are kept of the runs in a folder, newest first."""
    try:
        names = [path.name for path in (folder / FOLDER).iterdir()]
    except OSError:
        return ()
    found = sorted(filter(_RESULT.fullmatch, names), key=_sort_key, reverse=True)
    return tuple(KeptResult(name.removesuffix(".json"), folder / FOLDER / name) for name in found)


def find_result(folder: Path, which: str) -> KeptResult:
    """Return the result that `which` names: its id, the beginning of one, or a number, 1 for the newest.

    Raises:
        InvalidInputError: there is none, or there are several.
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
