"""Keep the agent away from the gate's process and from the sockets of container engines. Linux only.

The process is isolated: the agent's processes, which may run as the same user, can no longer read its
environment, memory and open files.

A process that can open an engine's socket can become root on the engine's machine. GitHub mounts Docker's
socket into every container action, and the socket keeps the group that it has on the runner. If the workspace
belongs to this group, an agent with the user and group of the workspace could open the socket. So
`choose_agent_user` chooses another group for the agent. `find_reachable_sockets` lists the sockets that the
agent can open even so.
"""

import os
import stat
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

UserIds: TypeAlias = tuple[int, int]
"""User id and group id."""

_NOBODY = 65534
_HIGHEST_TRIED = 65_600
_KNOWN = (
    "docker.sock",
    "podman/podman.sock",
    "containerd/containerd.sock",
    "containerd/containerd.sock.ttrpc",
    "crio/crio.sock",
    "buildkit/buildkitd.sock",
    "k3s/containerd/containerd.sock",
    "user/{uid}/docker.sock",
    "user/{uid}/podman/podman.sock",
)
"""Usual paths of container engines' sockets, relative to `/run` and `/var/run`."""
_NAMING = ("DOCKER_HOST", "CONTAINER_HOST", "PODMAN_HOST", "CONTAINERD_ADDRESS", "BUILDKIT_HOST")
"""Environment variables that may contain the path of a container engine's socket."""
_REMOTE = ("nfs", "cifs", "smb", "fuse", "autofs", "ceph")
_MOUNTS = Path("/proc/self/mountinfo")


def choose_agent_user(owner: UserIds, environ: Mapping[str, str]) -> UserIds:
    """Return the user and group as which the agent runs in a workspace that belongs to `owner`.

    The user is the owner. The group is the owner's, unless a container engine's socket belongs to this group.
    Then it is the first of these group ids that no socket has: the owner's user id, 65534, 65536 and so on.
    """
    uid, gid = owner
    taken = {status.st_gid for _, status in _stat_sockets(uid, environ)}
    if gid not in taken:
        return owner
    candidates = (uid, _NOBODY, *range(_NOBODY + 2, _HIGHEST_TRIED))
    return uid, next(candidate for candidate in candidates if candidate and candidate not in taken)


def find_reachable_sockets(user: UserIds, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of container engines' sockets that `user` may open by owner, group and mode."""
    return tuple(path for path, status in _stat_sockets(user[0], environ) if _may_write(user, status))


def _may_write(user: UserIds, status: os.stat_result) -> bool:
    if status.st_uid == user[0]:
        return True  # the owner can change the mode
    if status.st_gid == user[1]:
        return bool(status.st_mode & stat.S_IWGRP)
    return bool(status.st_mode & stat.S_IWOTH)


def _stat_sockets(uid: int, environ: Mapping[str, str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and status of each socket that a container engine may have created.

    A socket with several paths is yielded once. `uid` is the user as which an engine without root may run.
    """
    seen = set()
    for path in _iter_candidate_paths(uid, environ):
        try:
            status = Path(path).stat()
        except (OSError, ValueError):
            continue
        if stat.S_ISSOCK(status.st_mode) and (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            yield path, status


def _iter_candidate_paths(uid: int, environ: Mapping[str, str]) -> Iterator[str]:
    for name in _NAMING:
        scheme, separator, path = environ.get(name, "").rpartition("://")
        if path.startswith("/") and (scheme == "unix" or not separator):
            yield path
    for folder in ("/var/run", "/run"):
        yield from (f"{folder}/{name.format(uid=uid)}" for name in _KNOWN)
    try:
        mounts = _MOUNTS.read_text("utf-8", errors="surrogateescape")
    except OSError:
        return
    # CI runners mount a single socket at any path. In a line of mountinfo, the 5th field is the mount point,
    # and the type of file system follows ` - `. Network file systems are skipped: `stat` could hang there.
    for line in mounts.splitlines():
        mount, _, kind = line.partition(" - ")
        if not kind.startswith(_REMOTE):
            yield from (point.replace("\\040", " ") for point in mount.split(" ")[4:5])


_SET_DUMPABLE = 4
_SET_CHILD_SUBREAPER = 36
# <linux/prctl.h>


class _Isolation:
    """State of the isolation of this process: requested or not, and started or not."""

    def __init__(self) -> None:
        self.is_wanted = False
        self.children_before: Collection[int] | None = None


_ISOLATION = _Isolation()


def request_isolation() -> None:
    """Request isolation: from now on, a call of `isolate_process` isolates this process (only on Linux).

    The command calls this, because its process runs nothing but the gate. A program that uses the library
    does not.
    """
    _ISOLATION.is_wanted = sys.platform == "linux"


def is_isolation_requested() -> bool:
    """Return True if isolation was requested, on a system that supports it."""
    return _ISOLATION.is_wanted


def isolate_process() -> None:
    """Isolate this process from other processes of its user. Call this before an agent's process starts.

    Processes without the capability CAP_SYS_PTRACE can no longer see the environment, memory and open files
    of this process (`/proc`, ptrace). A descendant that loses its parent becomes a child of this process.
    A refusal by the kernel is ignored. Do nothing if isolation was not requested, or on a second call.
    """
    if not _ISOLATION.is_wanted or _ISOLATION.children_before is not None:
        return
    import ctypes

    _ISOLATION.children_before = frozenset(list_children(os.getpid()))
    prctl = ctypes.CDLL(None).prctl
    # If the kernel refuses, as in some sandboxes, the process stays as it was.
    prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def find_reparented_children() -> list[int]:
    """Return the ids of processes that an agent left behind and that became children of this process.

    These are the children that did not exist before the isolation and run in another session. Call this only
    when no agent is alive. Return no id if this process is not isolated.
    """
    if _ISOLATION.children_before is None:
        return []
    # Only workers (with the agent or a custom metric) and the `setup` command have sessions of their own.
    own = os.getsid(0)
    return [
        pid
        for pid in list_children(os.getpid())
        if pid not in _ISOLATION.children_before and _read_session_id(pid) not in (0, own)
    ]


def list_children(pid: int) -> list[int]:
    """Return the ids of a process's children; none if the process is gone or `/proc` does not list them."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  ten times a second
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:  # noqa: PTH123
                found += map(int, file.read().split())
    except OSError:
        return found
    return found


def _read_session_id(pid: int) -> int:
    """Return the id of the session of a process; 0 if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            # The name, in parentheses, may contain any character; the 4th field after it is the session.
            return int(file.read().rpartition(b")")[2].split()[3])
    except OSError:
        return 0
