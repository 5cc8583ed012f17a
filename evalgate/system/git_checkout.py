"""Write the files of a commit into a temporary folder, without running hooks or filters of the repository."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path, PurePosixPath

from evalgate.core.errors import EvalgateError
from evalgate.core.frozen import frozen
from evalgate.system.git import run_git, run_git_bytes

_PREFIX = "evalgate-control-"
_LOCK = "lock"
_LINK, _SUBMODULE, _EXECUTABLE = "120000", "160000", "100755"
_BYTECODE = "__pycache__"
_BATCH_BYTES = 32 * 1024 * 1024
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_LONGEST_POINTER = 1024


class CheckoutError(EvalgateError):
    """The exact files of a commit cannot be written. The message is a part of a sentence."""


@frozen
class _Entry:
    """File of a commit, with its mode, hash and size in bytes."""

    path: str
    mode: str
    blob: str
    size: int


@frozen
class CommitCheckout:
    """Files of one commit, written to a folder."""

    commit: str
    """Full hash of the commit."""
    root: Path
    """Folder with the files of the whole repository."""
    folder: Path
    """Copy of the folder that was passed to `check_out_commit`: `root` itself, or a folder below it."""
    entries: tuple[_Entry, ...] = field(default=(), repr=False)

    def find_changed_files(self) -> tuple[str, ...]:
        """Return the paths of written files that are now missing or have other content than in the commit.

        New files and changed permissions are ignored.
        """
        return tuple(entry.path for entry in self.entries if not _is_unchanged(self.root, entry))


@contextmanager
def check_out_commit(
    folder: Path, commit: str, owner: tuple[int, int] | None = None
) -> Iterator[CommitCheckout]:
    """Write the files of a commit into a new folder, which is removed when the block ends.

    Hooks and filters do not run, and line ends are those of the commit. The repository's index and list of
    worktrees are not changed. Files in folders named `__pycache__` are left out, because Python would compile
    the sources again anyway. Checkouts that killed processes left behind are removed first.

    Args:
        folder: A folder of the repository.
        commit: Full hash of the commit.
        owner: uid and gid to which the files belong; None: those of this process.

    Raises:
        CheckoutError: git cannot read the commit or one of its files, the commit has submodules, files of
            Git LFS or an unsafe path, or the files cannot be written.
    """
    _remove_abandoned_folders()
    home = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
    try:
        with (home / _LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            root = home / "checkout"
            root.mkdir()
            entries = tuple(_list_entries(folder, commit))
            try:
                _write_files(folder, root, entries)
                if owner is not None:
                    _change_owner(home, owner)
            except OSError as error:
                raise CheckoutError(f"its files cannot be written: {error}") from None
            prefix = run_git(folder, "rev-parse", "--show-prefix")
            yield CommitCheckout(commit, root, root / prefix, entries)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _list_entries(folder: Path, commit: str) -> Iterator[_Entry]:
    listed = run_git_bytes(folder, "ls-tree", "-r", "-l", "-z", "--full-tree", commit).split(b"\0")
    if not any(listed):
        raise CheckoutError("git cannot read its files")
    for line in filter(None, listed):
        about, _, name = line.partition(b"\t")
        mode, _, blob, size = about.decode().split()
        path = os.fsdecode(name)
        if mode == _SUBMODULE:
            raise CheckoutError(f"it has the submodule {path}, which is not checked out")
        if _BYTECODE in path.split("/"):
            continue  # useless: the sources get new modification times, so Python compiles them again
        if {"..", ".git", ""} & set(path.split("/")):
            raise CheckoutError(f"it has a file with the name {path!r}")
        if not size.isdigit():
            raise CheckoutError(f"git does not have its file {path}: check out without a filter")
        yield _Entry(path, mode, blob, int(size))


def _write_files(folder: Path, root: Path, entries: tuple[_Entry, ...]) -> None:
    """Write regular files, then symbolic links, so that no file is written through a link."""
    links = []
    for batch in _iter_batches(entries):
        contents = _read_blobs(folder, batch)
        for entry in batch:
            content = contents.get(entry.blob)
            if content is None:
                raise CheckoutError(f"git cannot read its file {entry.path}")
            if len(content) <= _LONGEST_POINTER and content.startswith(_LFS_POINTER):
                raise CheckoutError(f"its file {entry.path} is in Git LFS, which is not read")
            if entry.mode == _LINK:
                links.append((entry, content))
                continue
            path = root / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755 if entry.mode == _EXECUTABLE else 0o644)
    for entry, target in links:
        (root / entry.path).parent.mkdir(parents=True, exist_ok=True)
        (root / entry.path).symlink_to(os.fsdecode(target))


def _iter_batches(entries: tuple[_Entry, ...]) -> Iterator[list[_Entry]]:
    batch: list[_Entry] = []
    size = 0
    for entry in entries:
        batch.append(entry)
        size += entry.size
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _read_blobs(folder: Path, entries: list[_Entry]) -> Mapping[str, bytes]:
    given = "".join(f"{entry.blob}\n" for entry in entries).encode()
    output, found, at = run_git_bytes(folder, "cat-file", "--batch", given=given), {}, 0
    while (end := output.find(b"\n", at)) >= 0:
        words = output[at:end].split()
        if len(words) != 3 or not words[2].isdigit():
            break
        size = int(words[2])
        found[words[0].decode()] = output[end + 1 : end + 1 + size]
        at = end + size + 2
    return found


def _change_owner(home: Path, owner: tuple[int, int]) -> None:
    for parent, folders, files in os.walk(home):
        for name in (*folders, *files):
            os.lchown(Path(parent, name), *owner)
    os.chown(home, *owner)


def _is_unchanged(root: Path, entry: _Entry) -> bool:
    path = root / entry.path
    try:
        if any((root / parent).is_symlink() for parent in PurePosixPath(entry.path).parents):
            return False
        if entry.mode == _LINK:
            content = os.fsencode(path.readlink())
        elif path.is_symlink():
            return False
        else:
            content = path.read_bytes()
    except OSError:
        return False
    hashed = hashlib.sha256() if len(entry.blob) == 64 else hashlib.sha1(usedforsecurity=False)
    hashed.update(f"blob {len(content)}\0".encode() + content)
    return hashed.hexdigest() == entry.blob


def _remove_abandoned_folders() -> None:
    """Remove the checkout folders of killed processes: the folders with locks that no process holds.

    Only the user's own folders are removed. Root removes the folders of all users, because root may have
    given a checkout to the agent's user (`owner` of `check_out_commit`).
    """
    own = os.geteuid()
    for home in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if home.is_symlink() or (own != 0 and home.stat().st_uid != own):
                continue
            with (home / _LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(home, ignore_errors=True)
