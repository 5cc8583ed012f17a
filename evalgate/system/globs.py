"""Find the paths that a glob matches, without endless searches if links lead back to a folder above."""

import glob
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_ANY_DEPTH = re.compile(r"(?:^|/+)\*\*(?:/+\*\*)*(?:/+|$)")
"""Pattern of the part `**` of a glob, with the slashes around it; several in a row count as one."""


def find_matches(pattern: str, folder: Path, within: Path | None = None) -> list[str]:
    """Return the paths that a glob matches, relative to `folder` if the glob is relative.

    The rules are those of `glob.glob`, but `**` enters each folder only once, even if links lead to it on
    several paths. (With two links from a folder to itself, `glob.glob` finds 2^40 paths of each file.) `**`
    follows links to other folders. If `within` is given, `**` enters no folder outside of `within`. A
    pattern that ends with `**` matches files only.
    """
    if "\0" in pattern:
        return []
    found = _ANY_DEPTH.search(pattern)
    if found is None:
        return glob.glob(pattern, root_dir=folder)  # noqa: PTH207  Path.glob enters hidden folders
    rest, is_for_folders = pattern[found.end() :], pattern.endswith("/")
    # An absolute pattern may begin with `/**`.
    start = pattern[: found.start()] or ("/" if pattern.startswith("/") else "")
    starts = sorted(find_matches(start, folder)) if glob.has_magic(start) else [start]
    matches: list[str] = []
    for name, files in _walk_folders(starts, folder, within):
        names = find_matches(rest, folder / name, within) if rest else () if is_for_folders else files
        matches += (_join(name, each) for each in names)
    return matches


def _walk_folders(
    starts: Iterable[str], folder: Path, within: Path | None
) -> Iterator[tuple[str, list[str]]]:
    """Yield (path, names of the files in it) of each folder at or below `starts`, hidden ones left out.

    The order is that of the sorted paths. Folders that cannot be read count as empty.
    """
    root = None if within is None else Path(os.path.realpath(within))
    entered: set[str] = set()
    # Pairs (path as it is yielded, path without links). The last pair is the next.
    left = [(name, os.path.realpath(folder / name)) for name in starts][::-1]
    while left:
        name, place = left.pop()
        if place in entered or (root is not None and not Path(place).is_relative_to(root)):
            continue
        entered.add(place)
        try:
            with os.scandir(place) as found:
                entries = sorted((each for each in found if not each.name.startswith(".")), key=_get_name)
        except OSError:
            continue
        folders = [each for each in entries if _is_folder(each)]
        inner = {each.name for each in folders}
        yield name, [each.name for each in entries if each.name not in inner]
        left += ((_join(name, each.name), _find_place(each)) for each in reversed(folders))


def _join(folder: str, name: str) -> str:
    return os.path.join(folder, name)  # noqa: PTH118  a Path would drop the `./` that was typed


def _get_name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, or the folder may not be read
        return False


def _find_place(entry: os.DirEntry[str]) -> str:
    return os.path.realpath(entry.path) if entry.is_symlink() else entry.path
