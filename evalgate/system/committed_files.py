"""Read the files of a workspace from its folder or from a commit, for the code of custom metrics."""

import os
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Protocol

from evalgate.core.errors import InvalidInputError
from evalgate.core.sanitize import to_one_line
from evalgate.system.files import is_virtual_environment, read_file
from evalgate.system.git import (
    MOST_LINKS,
    SUBMODULE_HISTORY,
    GitError,
    execute_git,
    find_submodule_commit,
)

_PACKAGE_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
_LINK = b"120000"
_SUBMODULE = b"160000"
_NOTHING = (b"", "", 0)


class CodeFiles(Protocol):
    """Files of a workspace. Paths are relative to the workspace, with slashes, and never lead out of it."""

    def is_file(self, path: str) -> bool:
        """Return True if there is a file at `path`."""
        ...

    def read_files(self, paths: Collection[str]) -> Mapping[str, bytes]:
        """Return the content of files by path; b"" for a file that cannot be read."""
        ...

    def list_folder(self, folder: str) -> Mapping[str, int]:
        """Return the size in bytes of each file below a folder, by path.

        If `folder` is "", return only the files directly in the workspace, because it may be very large.
        Hidden files and folders, and folders of installed packages, are left out.
        """
        ...


class FolderFiles:
    """Files of a workspace as they are now on the disk."""

    def __init__(self, home: Path) -> None:
        self._home = home.resolve()

    def is_file(self, path: str) -> bool:
        """Return True if `path` is a file of the workspace. A link that leads out of it does not count."""
        place = Path(os.path.realpath(self._home / path))  # `Path.resolve` raises for a link to itself
        return place.is_file() and place.is_relative_to(self._home)

    def read_files(self, paths: Collection[str]) -> Mapping[str, bytes]:
        """Return the content of files in the folder by path; b"" for a file that cannot be read."""
        return {path: self._read_content(path) for path in paths}

    def _read_content(self, path: str) -> bytes:
        try:
            return read_file(self._home / path)
        except OSError:
            return b""

    def list_folder(self, folder: str) -> Mapping[str, int]:
        """Return the size in bytes of each file below `folder`, by path relative to the workspace.

        If `folder` is "", return only the files directly in the workspace. Hidden files, installed packages,
        virtual environments and links that lead out of the workspace are left out.
        """
        found: dict[str, int] = {}
        for parent, folders, names in os.walk(self._home / folder):
            inner = (each for each in folders if not each.startswith(".") and each not in _PACKAGE_FOLDERS)
            own = [each for each in inner if not is_virtual_environment(Path(parent, each))]
            folders[:] = sorted(own) if folder else []
            for name in sorted(names):
                path = Path(parent, name).relative_to(self._home).as_posix()
                if not name.startswith(".") and self.is_file(path):
                    found[path] = (self._home / path).stat().st_size
        return found


class CommittedFiles:
    """Files of a workspace as they are in a commit.

    Files of a submodule are read at the submodule commit that this commit records. The constructor and the
    methods raise InvalidInputError if git cannot read the commit or one of its files.
    """

    def __init__(self, home: Path, commit: str) -> None:
        self._home = home
        self._blobs: dict[str, tuple[bytes, str, int]] = {}
        """Maps the path of each file and link to its mode, hash and size in bytes."""
        self._submodules: dict[str, str] = {}
        """Maps the path of each submodule to its commit; its files are not in `_blobs` yet."""
        self._repositories: dict[str, Path] = {}
        """Maps the hash of each file in a submodule to the folder of the submodule."""
        self._targets: dict[str, str] = {}
        """Maps the path of a symbolic link to its target, once the target was read."""
        self._add_entries("", commit)

    def _add_entries(self, submodule: str, commit: str) -> None:
        """Add the files and submodules of a commit in the repository at `submodule`; "" is the outer one."""
        if submodule and not find_submodule_commit(self._home / submodule, commit):
            raise _build_error(f"the submodule {submodule} is not checked out with its history")
        for path, entry in _list_entries(self._home / submodule, commit):
            place = f"{submodule}/{path}" if submodule else path
            if entry[0] == _SUBMODULE:
                self._submodules[place] = entry[1]
            else:
                self._blobs[place] = entry
                if submodule:
                    self._repositories[entry[1]] = self._home / submodule

    def _enter_submodules(self, path: str) -> None:
        """Add the files of all submodules that contain `path`."""
        for step in (*reversed(PurePosixPath(path).parents), PurePosixPath(path)):
            if commit := self._submodules.pop(str(step), ""):
                self._add_entries(str(step), commit)

    def is_file(self, path: str) -> bool:
        """Return True if the commit has a file, or a symbolic link to a file, at `path`."""
        return bool(self._resolve_blob(path))

    def read_files(self, paths: Collection[str]) -> Mapping[str, bytes]:
        """Return the content of files in the commit by path; b"" for a file that the commit lacks."""
        blobs = {path: self._resolve_blob(path) for path in paths}
        contents = self._read_blobs({blob for blob in blobs.values() if blob})
        return {path: contents.get(blob, b"") for path, blob in blobs.items()}

    def _read_blobs(self, blobs: Collection[str]) -> Mapping[str, bytes]:
        by_folder: dict[Path, list[str]] = {}
        for blob in sorted(blobs):
            by_folder.setdefault(self._repositories.get(blob, self._home), []).append(blob)
        return ChainMap(*(dict(_read_blobs(folder, some)) for folder, some in by_folder.items()))

    def list_folder(self, folder: str) -> Mapping[str, int]:
        """Return the size in bytes of each file below `folder` in the commit, by path.

        If `folder` is "", return only the files directly in the workspace. Hidden files, installed packages
        and symbolic links are left out. `folder` itself may be a link to a folder.
        """
        place = self._follow_links(folder) if folder else ""
        above = len(PurePosixPath(place).parts)
        return {
            str(PurePosixPath(folder, PurePosixPath(path).relative_to(place))): size
            for path, (mode, _, size) in self._blobs.items()
            if mode != _LINK and _is_below(PurePosixPath(path), place, above)
        }

    def _resolve_blob(self, path: str) -> str:
        """Return the hash of the content of the file at a path; "" if the commit has no such file."""
        mode, blob, _size = self._blobs.get(self._follow_links(path), _NOTHING)
        return "" if mode == _LINK else blob

    def _follow_links(self, path: str) -> str:
        """Return `path` with its symbolic links resolved, also links to folders on the way.

        At most 40 links are followed, one after the other. With more links, the returned path still contains
        a link, and the caller finds no file there.
        """
        for _ in range(MOST_LINKS):
            self._enter_submodules(path)
            steps = (path, *map(str, PurePosixPath(path).parents))
            link = next((each for each in steps if self._blobs.get(each, _NOTHING)[0] == _LINK), "")
            if not link:
                break
            rest = PurePosixPath(path).relative_to(link)
            path = os.path.normpath(PurePosixPath(link).parent / self._read_target(link) / rest)
        return path

    def _read_target(self, link: str) -> str:
        if link not in self._targets:
            blob = self._blobs[link][1]
            self._targets[link] = os.fsdecode(self._read_blobs([blob])[blob])
        return self._targets[link]


def _is_below(path: PurePosixPath, folder: str, above: int) -> bool:
    if not folder:
        return len(path.parts) == 1 and not path.name.startswith(".")
    inner = path.parts[above:]
    is_own = not any(part.startswith(".") or part in _PACKAGE_FOLDERS for part in inner)
    return path.is_relative_to(folder) and is_own


def _list_entries(home: Path, commit: str) -> Iterator[tuple[str, tuple[bytes, str, int]]]:
    """Yield the path of each file, link and submodule of a commit, with its mode, hash and size in bytes.

    The hash of a submodule is its commit, and its size is 0.
    """
    for line in _run_git(home, "ls-tree", "-r", "-l", "-z", commit).split(b"\0"):
        about, _, path = line.partition(b"\t")
        words = about.split()
        if len(words) == 4:
            size = words[3].decode()
            yield os.fsdecode(path), (words[0], words[2].decode(), int(size) if size.isdigit() else 0)


def _read_blobs(home: Path, blobs: Collection[str]) -> Mapping[str, bytes]:
    """Return the contents of blobs (files in git's storage), by their hashes."""
    if not blobs:
        return {}
    given = "".join(f"{blob}\n" for blob in blobs).encode()
    output, found = _run_git(home, "cat-file", "--batch", given=given), {}
    while output:
        head, _, output = output.partition(b"\n")
        words = head.split()
        if len(words) != 3 or not words[2].isdigit():
            raise _build_error(f"object {head.decode()}")
        size = int(words[2])
        found[words[0].decode()], output = output[:size], output[size + 1 :]
    return found


def _run_git(home: Path, *words: str, given: bytes = b"") -> bytes:
    try:
        return execute_git(home, *words, given=given)
    except GitError as error:
        raise _build_error(str(error)) from None


def _build_error(reason: str) -> InvalidInputError:
    return InvalidInputError(
        "git cannot read the code of custom metrics as the base branch has it: check out without a filter "
        f"such as `filter: blob:none`, which leaves out files of other commits, and {SUBMODULE_HISTORY}. Git "
        f"says: {to_one_line(reason, 200)}"
    )
