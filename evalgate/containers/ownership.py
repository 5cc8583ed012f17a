"""Whose a container is: labels that name the gate which made it, and a sweep of those whose gate is gone."""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docker import DockerClient

LABEL = "dev.evalgate.gate"
"""`machine/process/start`: the boot or container that the gate runs in, its process id, and when it began."""
_FOREIGN_AGE_S = 24 * 3600
"""A container of a gate on another machine, which cannot be asked, is removed when it is older."""
_OWN_CONTAINER = re.compile(r"/containers/([0-9a-f]{64})/\S+ /etc/(?:hosts|hostname|resolv\.conf) ")
# As the source of one of these files: the machine itself has mounts with such paths of all its containers.


def own_container() -> str:
    """Id of the container that this process runs in; empty when it runs in none.

    Docker mounts a container's own files from a folder of its id; its host name may be anything.
    """
    with suppress(OSError):
        found = _OWN_CONTAINER.search(Path("/proc/self/mountinfo").read_text("utf-8", errors="replace"))
        if found is not None:
            return found[1]
    return ""


def labels() -> dict[str, str]:
    """What every container, network and volume of this gate is labelled with."""
    return {LABEL: f"{_machine()}/{os.getpid()}/{_began(os.getpid())}"}


def sweep(client: "DockerClient") -> int:
    """Remove what gates that are gone left: containers, then networks and volumes; how many.

    What cannot be removed, or looked at, is left to the next sweep.
    """
    import docker.errors

    removed = 0
    # A container may vanish between being listed and being looked at: others end, or sweep as well.
    with suppress(docker.errors.APIError, OSError):
        for found, remove in _labelled(client):
            with suppress(docker.errors.APIError):
                if _is_orphan(client, found.attrs):
                    remove()
                    removed += 1
    return removed


def _labelled(client: "DockerClient") -> "Iterator[tuple[Any, Callable[[], None]]]":
    with_label: dict[str, str | list[str] | bool] = {"label": LABEL}
    for container in client.containers.list(all=True, filters=with_label, ignore_removed=True):
        yield container, partial(container.remove, force=True, v=True)
    for network in client.networks.list(filters=with_label):
        yield network, network.remove
    for volume in client.volumes.list(filters=with_label):
        yield volume, partial(volume.remove, force=True)


def _is_orphan(client: "DockerClient", attrs: Mapping[str, Any]) -> bool:
    import docker.errors

    labels = attrs.get("Labels") or (attrs.get("Config") or {}).get("Labels") or {}
    machine, _, process = str(labels.get(LABEL, "")).partition("/")
    number, _, began = process.partition("/")
    if machine == _machine():
        return not number.isdecimal() or _began(int(number)) != began
    if re.fullmatch(r"[0-9a-f]{64}", machine):
        try:
            return str(client.containers.get(machine).status) not in {"running", "paused", "restarting"}
        except docker.errors.NotFound:
            return True
    return _age(attrs) > _FOREIGN_AGE_S


def _machine() -> str:
    container = own_container()
    if container:
        return container
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # The same process id means another process elsewhere, as in a pod of the same machine.
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    return "unknown"


def _began(process: int) -> str:
    """When a process began, in clock ticks since the machine did; empty when there is none."""
    with suppress(OSError):
        # The name, in parentheses, may hold anything; the 20th field behind it is the start.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _age(attrs: Mapping[str, Any]) -> float:
    created = str(attrs.get("Created") or attrs.get("CreatedAt") or "")[:19]
    try:
        return time.time() - datetime.fromisoformat(f"{created}+00:00").timestamp()
    except ValueError:
        return 0.0
