"""Finds the folder that evalgate works in from a folder within a repository."""

from collections.abc import Iterator
from pathlib import Path

from evalgate.config.read import find_thresholds_file
from evalgate.frozen import frozen

_STATE_FOLDER = ".evalgate"


@frozen
class Project:
    """The folder that a command works in when none is named."""

    folder: Path
    found: str
    """Name of what marks the folder; "" when nothing does."""


def find_project(start: Path) -> Project:
    """Return the nearest folder, from `start` up to the repository's root, with a thresholds file.

    If there is none, the nearest folder with `.evalgate`, where a baseline may be; else `start` itself.
    Outside a repository only `start` counts: a file in a shared folder such as /tmp would name programs
    to run.
    """
    folders = tuple(_folders_of_repository(start))
    for folder in folders:
        if (file := find_thresholds_file(folder)) is not None:
            return Project(folder, file.name)
    for folder in folders:
        if (folder / _STATE_FOLDER).is_dir():
            return Project(folder, _STATE_FOLDER)
    return Project(start, "")


def find_repository_root(start: Path) -> Path | None:
    """Return the nearest folder from `start` upwards that holds `.git`; None outside a repository."""
    last = list(_folders_of_repository(start))[-1]
    return last if (last / ".git").exists() else None


def _folders_of_repository(start: Path) -> Iterator[Path]:
    """Yield `start` and its parents up to the one that holds `.git`, as long as they have one owner."""
    found = []
    for folder in (start, *start.parents):
        try:
            if folder.stat().st_uid != start.stat().st_uid:
                break  # as with git's safe.directory: another user's files do not decide here
            is_root = (folder / ".git").exists()
            found.append(folder)
            if is_root:
                yield from found
                return
        except OSError:
            break
    yield start
