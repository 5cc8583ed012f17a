"""Sockets of container engines, and a group for the agent that opens none of them.

An engine's socket is as good as root on its machine. GitHub mounts Docker's into every container action, with
the group that it has on the runner: a workspace of that group would hand it to the agent.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

User: TypeAlias = tuple[int, int]
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
"""Where engines listen, below `/run` and `/var/run`."""
_NAMING = ("DOCKER_HOST", "CONTAINER_HOST", "PODMAN_HOST", "CONTAINERD_ADDRESS", "BUILDKIT_HOST")
"""Variables that may name a socket."""
_REMOTE = ("nfs", "cifs", "smb", "fuse", "autofs", "ceph")
_MOUNTS = Path("/proc/self/mountinfo")


def choose_agent_user(owner: User, environ: Mapping[str, str]) -> User:
    """Return the user and group that the agent of a workspace of `owner` runs as.

    The group is the owner's, unless a container engine's socket belongs to that group. Then it is one that no
    socket has: of the same number as the user, else nobody's, else the next free one.
    """
    uid, gid = owner
    taken = {status.st_gid for _, status in _stat_sockets(uid, environ)}
    if gid not in taken:
        return owner
    candidates = (uid, _NOBODY, *range(_NOBODY + 2, _HIGHEST_TRIED))
    return uid, next(candidate for candidate in candidates if candidate and candidate not in taken)


def find_reachable_sockets(user: User, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of engine sockets that the permissions of the file let `user` open."""
    return tuple(path for path, status in _stat_sockets(user[0], environ) if _may_write(user, status))


def _may_write(user: User, status: os.stat_result) -> bool:
    if status.st_uid == user[0]:
        return True  # the owner can change the mode
    if status.st_gid == user[1]:
        return bool(status.st_mode & stat.S_IWGRP)
    return bool(status.st_mode & stat.S_IWOTH)


def _stat_sockets(uid: int, environ: Mapping[str, str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield each socket once, however many paths lead to it."""
    seen = set()
    for path in _candidate_paths(uid, environ):
        try:
            status = Path(path).stat()
        except (OSError, ValueError):
            continue
        if stat.S_ISSOCK(status.st_mode) and (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            yield path, status


def _candidate_paths(uid: int, environ: Mapping[str, str]) -> Iterator[str]:
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
    # A socket that is mounted by itself, as runners do, may lie anywhere. The 5th field is the mount point;
    # the type of file system follows a lone dash. A look at one of a network's could take for ever.
    for line in mounts.splitlines():
        mount, _, kind = line.partition(" - ")
        if not kind.startswith(_REMOTE):
            yield from (point.replace("\\040", " ") for point in mount.split(" ")[4:5])
