"""Read files that a user names, and write files atomically, also into folders that an agent may change."""

import codecs
import contextlib
import errno
import glob
import io
import os
import secrets
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, TypeAlias

from evalgate.core.errors import InvalidInputError, Problem

Owner: TypeAlias = tuple[int, int]
"""User id and group id."""


_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # UTF-32 begins with one of them, or with two zeros

_SPECIAL = {
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}

_FOLDER = "is a folder, and has to be a file: move the folder, or name another file"
_DEAD_LINK = "is a link that leads nowhere: restore the file that it names, or remove the link"


class SpecialFileError(OSError):
    """The path leads to a device, a pipe or a socket, which is not read: reading might never end."""

    def __init__(self, kind: str) -> None:
        message = f"is {kind}: only files are read; write what it gives into a file first"
        super().__init__(errno.EINVAL, message)


def read_file(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        SpecialFileError: the file is a device, a pipe or a socket.
        OSError: the file cannot be read.
    """
    _refuse_special_file(path.stat())  # before it is opened: opening some devices has effects
    with open(path, "rb", opener=_open_without_waiting) as file:
        _refuse_special_file(os.fstat(file.fileno()))  # it may have been replaced in the meantime
        return file.read()


def read_text(path: Path, encoding: str = "utf-8", errors: str = "strict") -> str:
    """Return the text of a regular file, with every line end converted to a newline.

    Raises:
        UnicodeDecodeError: the file cannot be decoded with `encoding`.
        SpecialFileError: the file is a device, a pipe or a socket.
        OSError: the file cannot be read.
    """
    return io.StringIO(read_file(path).decode(encoding, errors), newline=None).read()


def decode_text(data: bytes, shown_as: str) -> str:
    """Decode UTF-8, with or without a byte order mark; `shown_as` names the file in errors.

    Raises:
        InvalidInputError: the data is not UTF-8. If it looks like UTF-16 or UTF-32, the message says so.
            Otherwise the error has the position of the first wrong byte.
    """
    if data.startswith(_UTF_16_MARKS) or b"\0" in data[:4]:
        message = (
            "this is UTF-16 or UTF-32: save the file as UTF-8 (`iconv -f UTF-16 -t UTF-8`; in PowerShell "
            "`Out-File -Encoding utf8`, for `>` writes UTF-16)"
        )
        raise InvalidInputError([Problem(shown_as, 1, 1, message)])
    data = data.removeprefix(codecs.BOM_UTF8)  # not `utf-8-sig`: its error positions do not count the mark
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        message = f"byte 0x{data[error.start]:02x} is not valid UTF-8: save the file as UTF-8"
        raise InvalidInputError([Problem(shown_as, line, column, message)]) from None


def read_input_file(path: Path, shown_as: str) -> bytes:
    """Return the content of a file that a user names; `shown_as` names the file in errors.

    Raises:
        InvalidInputError: the file is a folder, a device, a pipe or a socket, or a link that leads nowhere.
        OSError: there is no such file, or it cannot be read.
    """
    try:
        return read_file(path)
    except SpecialFileError as error:
        raise InvalidInputError([Problem(shown_as, 0, 0, str(error.strerror))]) from None
    except IsADirectoryError:
        raise InvalidInputError([Problem(shown_as, 0, 0, _FOLDER)]) from None
    except FileNotFoundError:
        # A link shows that there should be a file. Callers may take a missing file for none.
        if path.is_symlink():
            raise InvalidInputError([Problem(shown_as, 0, 0, _DEAD_LINK)]) from None
        raise


def read_input_text(path: Path, shown_as: str) -> str:
    """Return the text of a UTF-8 file that a user names; `shown_as` names the file in errors.

    Raises:
        InvalidInputError: the file cannot be read, or is not UTF-8.
    """
    try:
        data = read_input_file(path, shown_as)
    except FileNotFoundError:
        raise InvalidInputError([Problem(shown_as, 0, 0, "no such file")]) from None
    except OSError as error:
        raise InvalidInputError([Problem(shown_as, 0, 0, f"cannot be read: {error.strerror}")]) from None
    return decode_text(data, shown_as)


def is_non_folder(path: Path) -> bool:
    """Return True if `path` exists and is not a folder.

    True is returned for pipes and devices, too: reading them raises an error that names the kind of file.

    Raises:
        OSError: the system cannot check the path, for example because a folder may not be entered.
    """
    return exists(path) and not path.is_dir()


def is_taken(path: Path) -> bool:
    """Return True if anything is at `path`: a file, a folder, or a link, also one that leads nowhere.

    Raises:
        OSError: the system cannot check the path, for example because a folder may not be entered.
    """
    return exists(path) or os.path.islink(path)  # noqa: PTH114  Path.is_symlink raises on a long name


def exists(path: Path) -> bool:
    """Return True if there is a file or folder at `path`. Return False if the path is too long to exist.

    Raises:
        OSError: the system cannot check the path, for example because a folder may not be entered.
    """
    try:
        return path.exists()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return False


def is_virtual_environment(folder: Path) -> bool:
    """Return True if `folder` is a virtual environment of Python; False if it may not be read."""
    return os.path.exists(folder / "pyvenv.cfg")  # noqa: PTH110  Path.exists raises an error


def check_is_regular(path: Path) -> None:
    """Check that the path does not lead to a device, a pipe or a socket; a folder is accepted.

    Call this before other code, such as a library, opens the file.

    Raises:
        SpecialFileError: the file is a device, a pipe or a socket.
        OSError: the file does not exist, or its status cannot be read.
    """
    _refuse_special_file(path.stat())


def _refuse_special_file(status: os.stat_result) -> None:
    kind = _SPECIAL.get(stat.S_IFMT(status.st_mode))
    if kind:
        raise SpecialFileError(kind)


def _open_without_waiting(path: str, flags: int) -> int:
    # Opening a pipe would wait for a writer if one was put at the path after the check.
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


_TEMPORARY = ".tmp"


def _build_temporary_prefix(path: Path) -> str:
    # Shortened: with the random part, a long name would exceed the 255 bytes that file systems allow.
    return f".{path.name[:100]}."


def write_atomically(
    path: Path, text: str | Iterable[str], owner: Owner | None = None, *, mode: int = 0o644
) -> None:
    """Replace the file at `path` with `text` in UTF-8; `mode` has the permissions of the new file.

    If writing fails, the earlier file is unchanged. `text` is one string or its pieces. Missing folders are
    created. A symbolic link at `path` is replaced, not followed. The file and the created folders get
    `owner`, if one is given: root in a container may write into the checkout of another user.

    Raises:
        OSError: the file cannot be written; no temporary file is left behind.
    """
    make_folder(path.parent, owner)
    # In the same folder: a rename is atomic only within one file system.
    descriptor, name = tempfile.mkstemp(
        prefix=_build_temporary_prefix(path), suffix=_TEMPORARY, dir=path.parent
    )
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.writelines((text,) if isinstance(text, str) else text)
            _complete_file(file, owner, mode)
        temporary.replace(path)
    except BaseException:  # an interruption must leave no temporary file behind either
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def remove_temporaries(path: Path) -> None:
    """Remove the temporary files of `path` that a killed `write_atomically` left; errors are ignored.

    Call this only while no process writes `path`.
    """
    with contextlib.suppress(OSError):
        # `mkstemp` inserts eight characters. With `*`, the pattern for `results` would also match the
        # temporary files of `results.json`.
        for left in path.parent.glob(f"{glob.escape(_build_temporary_prefix(path))}{'?' * 8}{_TEMPORARY}"):
            left.unlink()


def make_folder(folder: Path, owner: Owner | None = None) -> None:
    """Create `folder` and its missing parents. The created folders get `owner`, if one is given.

    Raises:
        NotADirectoryError: a file, or a link that leads nowhere, has the name of a folder.
        OSError: a folder cannot be created.
    """
    missing = [created for created in (folder, *folder.parents) if not created.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:  # a file, or a link that leads nowhere
        raise NotADirectoryError(errno.ENOTDIR, f"{error.filename} is no folder") from None
    if owner is not None:
        for created in missing:
            # An agent may replace the folder with a link, and must not become the owner of its target.
            os.chown(created, *owner, follow_symlinks=False)


_OPEN_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class GuardedFolder:
    """Folder for output that an agent cannot redirect by replacing a folder with a link.

    An agent may own the folder. Checking the path before writing is not enough: the agent could replace a
    folder between the check and the write. So an ancestor is opened before the agent starts, and each folder
    below is opened relative to the descriptor of the folder above, without following links. Links that
    existed before the agent started belong to the user, and are resolved once.
    """

    path: Path
    """Path as the user gave it."""
    ancestor: int
    """Descriptor of the ancestor folder, which was opened before the agent started."""
    parts: tuple[str, ...]
    """Names of the folders from the ancestor to the folder."""

    @classmethod
    def open_ancestor(cls, root: Path, path: Path) -> "GuardedFolder":
        """Open an ancestor of the folder at `path`, which need not exist, and return this folder.

        The ancestor is `root` if `path` is below it, else the parent of `path`. Call this before the agent
        starts.

        Raises:
            OSError: the ancestor does not exist, or cannot be opened.
        """
        real, top = path.resolve(), root.resolve()
        if real == top or not real.is_relative_to(top):
            top = real.parent
        folder = cls(path, os.open(top, _OPEN_FLAGS), real.relative_to(top).parts)
        weakref.finalize(folder, os.close, folder.ancestor)
        return folder

    def build_subfolder(self, path: str) -> "GuardedFolder":
        """Return the subfolder at `path`, a relative path with `/` between its parts.

        The subfolder need not exist. Both objects share the descriptor `ancestor`, which is closed when this
        object is deleted. So keep a reference to this object while the subfolder is in use.
        """
        return GuardedFolder(self.path / path, self.ancestor, (*self.parts, *path.split("/")))

    @contextmanager
    def open_folder(self, owner: Owner | None = None) -> Iterator[int]:
        """Yield a descriptor of the folder. Missing folders are created and get `owner`, if one is given.

        Raises:
            OSError: a link or a file is on the way, `path` leads to another folder than before, or a folder
                cannot be created or opened.
        """
        descriptor = os.dup(self.ancestor)
        try:
            # Step by step: O_NOFOLLOW refuses a link only at the end of a path.
            for part in self.parts:
                above, descriptor = descriptor, _enter_folder(descriptor, part, owner)
                os.close(above)
            if not os.path.samestat(os.fstat(descriptor), self.path.stat()):
                raise OSError(errno.ELOOP, "it leads to another folder than before the run")
            yield descriptor
        finally:
            os.close(descriptor)


def _enter_folder(above: int, part: str, owner: Owner | None) -> int:
    # Create first and check afterwards: after an earlier check, an agent could still put a link there.
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, dir_fd=above)
        if owner is not None:
            os.chown(part, *owner, dir_fd=above, follow_symlinks=False)
    try:
        return os.open(part, _OPEN_FLAGS | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        # For a link that may not be followed, Linux reports ENOTDIR, and macOS ELOOP.
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise OSError(error.errno, f"{part} was replaced by a link or a file during the run") from None
        raise


def replace_nested_file(folder: int, path: str, text: Iterable[str], owner: Owner | None) -> None:
    """Replace the file at `path` in an open folder, and create missing folders on the way.

    `folder` is the descriptor of the open folder. `path` is relative to it, with `/` between its parts. The
    file and the created folders get `owner`, if one is given.

    Raises:
        OSError: the file cannot be written, or the path leads through a link or out of the folder.
    """
    *parts, name = path.split("/")
    if not {"", ".", ".."}.isdisjoint([*parts, name]):
        raise OSError(errno.EINVAL, f"{path!r} is no path below the folder")
    descriptor = os.dup(folder)
    try:
        for part in parts:
            above, descriptor = descriptor, _enter_folder(descriptor, part, owner)
            os.close(above)
        replace_file(descriptor, name, text, owner)
    finally:
        os.close(descriptor)


def replace_file(folder: int, name: str, text: Iterable[str], owner: Owner | None) -> None:
    """Replace the file `name` in the folder with the descriptor `folder`; readers never see a partial file.

    `text` holds the pieces of the new text, which is written in UTF-8. A link of this name is replaced.

    Raises:
        OSError: the file cannot be written; no temporary file is left behind.
    """
    with _create_temporary(folder, name) as (descriptor, temporary):
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            file.writelines(text)
            _complete_file(file, owner)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def replace_with_copy(source: BinaryIO, folder: int, name: str, owner: Owner | None) -> None:
    """Replace the file `name` in the folder with the descriptor `folder` by a copy of `source`, atomically.

    Raises:
        OSError: a file cannot be read or written; no temporary file is left behind.
    """
    with _create_copy(source, folder, name, owner) as temporary:
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def copy_file(source: BinaryIO, folder: int, names: Iterator[str], owner: Owner | None) -> None:
    """Copy `source`, atomically, to the first name in `names` that is free in the folder.

    `folder` is the descriptor of the folder.

    Raises:
        StopIteration: all of `names` are taken.
        OSError: a file cannot be read or written; no temporary file is left behind.
    """
    name = next(names)
    with _create_copy(source, folder, name, owner) as temporary:
        while not _reserve_name(folder, name):
            name = next(names)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


@contextmanager
def _create_copy(source: BinaryIO, folder: int, name: str, owner: Owner | None) -> Iterator[str]:
    """Yield the name of a temporary copy of `source` in the folder with the descriptor `folder`.

    The block must rename the copy. If the block raises an error, the copy is removed.
    """
    with _create_temporary(folder, name) as (descriptor, temporary):
        with os.fdopen(descriptor, "wb") as file:
            shutil.copyfileobj(source, file, 2**20)
            _complete_file(file, owner)
        yield temporary


@contextmanager
def _create_temporary(folder: int, name: str) -> Iterator[tuple[int, str]]:
    temporary = f".{name[:100]}.{secrets.token_hex(6)}{_TEMPORARY}"
    descriptor = os.open(temporary, _CREATE_FLAGS, 0o600, dir_fd=folder)
    try:
        yield descriptor, temporary
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _complete_file(file: IO[Any], owner: Owner | None, mode: int = 0o644) -> None:
    file.flush()
    os.fchmod(file.fileno(), mode)  # `mkstemp` lets only its user read the file
    if owner is not None:
        os.fchown(file.fileno(), *owner)
    # Before the file is renamed: a file system may store the new name first, and after a power failure that
    # would be the name of an empty file.
    os.fsync(file.fileno())


def _reserve_name(folder: int, name: str) -> bool:
    # A hard link would make this empty file unnecessary, but not every file system has hard links.
    try:
        os.close(os.open(name, _CREATE_FLAGS, 0o600, dir_fd=folder))
    except FileExistsError:
        return False
    return True
