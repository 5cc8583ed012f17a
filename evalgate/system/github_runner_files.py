"""Protect the files through which GitHub's runner and a step communicate: the event, and the command files.

In a container action the agent runs as the runner's user, who owns these files. An agent could name another
pull request, set outputs, or put `LD_PRELOAD` into the environment of later steps. So the gate reads the
event and opens the command files before the first process of an agent starts. Later the gate writes only
through the descriptors of these files. At the end it restores every command file that was replaced. A file
that only the gate may write must then contain its earlier content and the gate's output, and nothing else.
The gate follows no link at a path that the runner named, and does not wait for a pipe.
"""

import errno
import os
import signal
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from evalgate.core.frozen import frozen
from evalgate.system.pull_requests import is_github_actions

WRITTEN = ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
"""Environment variables with the paths of the command files that the gate writes."""
NOT_WRITTEN = ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE")
"""Environment variables with the paths of command files that the gate never writes. These files set the
environment of later steps."""

_EVENT = "GITHUB_EVENT_PATH"
_LARGEST_EVENT = 30 * 1024 * 1024
_LARGEST_HELD = 16 * 1024 * 1024
_PRIVATE = 0o600
_DYING_S = 2.0
_LOOK_S = 0.01


class NotRegularError(OSError):
    """The path does not lead to a regular file."""


def open_regular(path: str, flags: int, *, dir_fd: int | None = None) -> int:
    """Open a regular file and return the descriptor. A link or pipe at `path` raises an error at once.

    Raises:
        OSError: the file cannot be opened, or is not a regular file.
    """
    wanted = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, wanted, 0o644, dir_fd=dir_fd)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    raise NotRegularError(0, "Is a directory" if stat.S_ISDIR(mode) else "Is not a regular file", path)


@frozen
class _CommandFile:
    """Command file of the runner that was opened before the agent started."""

    variable: str
    path: str
    folder: int
    """Descriptor of the file's folder."""
    descriptor: int
    before: os.stat_result
    content: bytearray
    """Bytes that the file must hold in the end: its earlier content and the gate's output."""

    @property
    def is_private(self) -> bool:
        """Return True if only the gate may write the file, so that writes of other processes are undone.

        This holds for a file that sets the environment of later steps (`variable` is in `NOT_WRITTEN`), and
        for a file that belongs to root while the gate runs (`is_taken`).
        """
        return self.variable in NOT_WRITTEN or self.is_taken

    @property
    def is_taken(self) -> bool:
        """Return True if the gate, as root, has taken the file from another user for the time of the run."""
        return os.geteuid() == 0 and self.before.st_uid != 0


class _HeldFiles:
    """All command files that this process has opened, and the events that it has read, by path."""

    def __init__(self) -> None:
        self.files: dict[str, _CommandFile] = {}
        self.events: dict[str, bytes | None] = {}
        self.process = 0
        """Id of the process that opened the files; 0 before they are opened."""


_HELD = _HeldFiles()


def hold_command_files(environ: Mapping[str, str]) -> None:
    """Read the event and open the command files. Call this before any process of the agent starts.

    Do nothing outside of GitHub Actions. If the gate is root and a command file is another user's, the file
    belongs to root until `release_command_files` is called. A file that cannot be read is skipped.
    """
    if not is_github_actions(environ):
        return
    _HELD.process = os.getpid()
    if event := environ.get(_EVENT):
        _HELD.events[event] = _read_file(event)
    for variable in (*WRITTEN, *NOT_WRITTEN):
        path = environ.get(variable, "")
        if path and path not in _HELD.files and (held := _hold_file(variable, path)):
            _HELD.files[path] = held


def read_event(environ: Mapping[str, str]) -> bytes | None:
    """Return the payload of the GitHub event as JSON bytes; None if its file cannot be read or is too large.

    The payload is the one that `hold_command_files` read. If it was not called, the file is read now.
    """
    path = environ.get(_EVENT, "")
    if path in _HELD.events:
        return _HELD.events[path]
    return _read_file(path) if path else None


def append_to_command_file(path: str, data: bytes) -> None:
    """Append to a command file. If `hold_command_files` has opened the file, use the open descriptor.

    Raises:
        OSError: the file cannot be written, or is not a regular file.
    """
    if held := _HELD.files.get(path):
        held.content.extend(data)
        _write_all(held.descriptor, data)
        return
    descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        _write_all(descriptor, data)
    finally:
        os.close(descriptor)


def measure_command_file(path: str) -> int:
    """Return the size of a command file in bytes; 0 if there is no such file."""
    held = _HELD.files.get(path)
    try:
        return os.fstat(held.descriptor).st_size if held else os.lstat(path).st_size
    except OSError:
        return 0


def release_command_files() -> list[str]:
    """Restore the command files and close them.

    If a command file was opened and this process is process 1 of a container, all other processes are killed
    first. A file that was replaced is written again. A file that only the gate may write
    (`_CommandFile.is_private`) gets exactly its earlier content and the gate's output. Each file gets its
    earlier owner and permissions back. In a forked copy of the process, do nothing.

    Returns:
        A sentence for each file with a change that was undone, or that cannot be restored.
    """
    if _HELD.process != os.getpid():
        return []  # in a forked copy of the process: the parent restores the files
    if _HELD.files and os.getpid() == 1:
        _kill_other_processes()
    sentences = []
    for held in _HELD.files.values():
        try:
            if _restore_file(held):
                sentences.append(f"{held.variable} was changed, but not by the gate: the change was undone.")
        except OSError as error:
            sentences.append(
                f"{held.variable} was changed, and cannot be restored: {error.strerror or error}."
            )
        finally:
            os.close(held.descriptor)
            os.close(held.folder)
    _HELD.files.clear()
    _HELD.events.clear()
    return sentences


def _kill_other_processes() -> None:
    """Kill all other processes of the container, and wait up to 2 seconds until they are gone.

    Otherwise a process that `setup` or an agent left behind could write to a file after the last check. Call
    this only in process 1 of the container.
    """
    try:
        os.kill(-1, signal.SIGKILL)
        deadline = time.monotonic() + _DYING_S
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(_LOOK_S)
    except (ChildProcessError, ProcessLookupError, PermissionError):
        return  # none is left


def _hold_file(variable: str, path: str) -> _CommandFile | None:
    opened = []
    try:
        opened.append(os.open(Path(path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        opened.append(open_regular(Path(path).name, os.O_RDWR | os.O_APPEND, dir_fd=opened[0]))
        content = bytearray(_read_all(opened[1], _LARGEST_HELD))
        held = _CommandFile(variable, path, opened[0], opened[1], os.fstat(opened[1]), content)
        if held.is_taken:
            os.fchown(held.descriptor, 0, 0)
            os.fchmod(held.descriptor, _PRIVATE)
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        return None
    return held


def _restore_file(held: _CommandFile) -> bool:
    """Restore the content of a command file if needed, and its owner and permissions.

    The content is restored if the file was replaced, or if another process changed a file that only the gate
    may write. Return True in these two cases.

    Raises:
        OSError: the file cannot be read or written.
    """
    is_same_file = _is_at_its_place(held)
    wanted = bytes(held.content)
    size = os.fstat(held.descriptor).st_size
    # Other processes may write to a file that is not private, so changes of its content are allowed.
    is_changed = held.is_private and (size != len(wanted) or _read_all(held.descriptor, size) != wanted)
    if is_changed:
        os.ftruncate(held.descriptor, 0)
        _write_all(held.descriptor, wanted)
    if is_same_file:
        _restore_owner(held.descriptor, held)
        return is_changed
    _put_in_place(held, wanted)
    return True


def _is_at_its_place(held: _CommandFile) -> bool:
    try:
        found = os.stat(Path(held.path).name, dir_fd=held.folder, follow_symlinks=False)
    except OSError:
        return False
    own = os.fstat(held.descriptor)
    return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)


def _put_in_place(held: _CommandFile, content: bytes) -> None:
    """Write a new command file to its path, in place of a pipe, link or file that is there now.

    A folder at this path is renamed. The new file gets the owner and permissions of the original file.
    """
    name = Path(held.path).name
    fresh, aside = f".{name}.{os.urandom(8).hex()}", f".{name}.{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(fresh, flags, _PRIVATE, dir_fd=held.folder)
    try:
        _write_all(descriptor, content)
        _restore_owner(descriptor, held)
    finally:
        os.close(descriptor)
    try:
        os.replace(fresh, name, src_dir_fd=held.folder, dst_dir_fd=held.folder)
    except IsADirectoryError:
        os.rename(name, aside, src_dir_fd=held.folder, dst_dir_fd=held.folder)
        os.replace(fresh, name, src_dir_fd=held.folder, dst_dir_fd=held.folder)


def _restore_owner(descriptor: int, held: _CommandFile) -> None:
    if os.geteuid() == 0:
        os.fchown(descriptor, held.before.st_uid, held.before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(held.before.st_mode))


def _read_file(path: str) -> bytes | None:
    try:
        descriptor = open_regular(path, os.O_RDONLY)
    except (OSError, ValueError):
        return None
    try:
        return _read_all(descriptor, _LARGEST_EVENT)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _read_all(descriptor: int, most: int) -> bytes:
    """Return the content of an open file, from its beginning.

    Raises:
        OSError: the file cannot be read, or is larger than `most` bytes.
    """
    parts: list[bytes] = []
    size = 0
    while part := os.pread(descriptor, 1 << 20, size):
        parts.append(part)
        size += len(part)
        if size > most:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return b"".join(parts)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
