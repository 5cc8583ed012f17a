"""Labels of a gate's objects in Docker, and the removal of objects that killed gates left behind."""

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
"""Label of every container, network and volume that a gate creates. The value is `machine/process/start`:
the container that the gate runs in (else the machine's boot and PID namespace), the gate's process id, and
its start time."""
_FOREIGN_AGE_S = 24 * 3600
"""Age in seconds above which leftovers of other machines are removed: their gates cannot be checked."""
_OWN_CONTAINER = re.compile(r"/containers/([0-9a-f]{64})/\S+ /etc/(?:hosts|hostname|resolv\.conf) ")
# Only mounts at these three files count: the machine itself has mounts with such paths for all containers.


def find_own_container() -> str:
    """Return the id of the Docker container that this process runs in; "" if none is found.

    The id is in the paths of Docker's mounts; the container's host name may be anything.
    """
    with suppress(OSError):
        found = _OWN_CONTAINER.search(Path("/proc/self/mountinfo").read_text("utf-8", errors="replace"))
        if found is not None:
            return found[1]
    return ""


def build_labels() -> dict[str, str]:
    """Return the labels of every container, network and volume of this gate."""
    return {LABEL: f"{_identify_machine()}/{os.getpid()}/{_read_process_start(os.getpid())}"}


def remove_orphans(client: "DockerClient") -> int:
    """Remove the containers, then the networks and volumes, of gates that ended; return their number.

    Objects of gates on other machines are removed if they are older than a day. Objects that cannot be
    inspected or removed are left to the next run.
    """
    import docker.errors

    removed = 0
    # A container may vanish between being listed and being inspected: it ends, or another gate removes it.
    with suppress(docker.errors.APIError, OSError):
        for found, remove in _iter_labeled(client):
            with suppress(docker.errors.APIError):
                if _is_orphan(client, found.attrs):
                    remove()
                    removed += 1
    return removed


def _iter_labeled(client: "DockerClient") -> "Iterator[tuple[Any, Callable[[], None]]]":
    with_label: dict[str, str | list[str] | bool] = {"label": LABEL}
    for container in client.containers.list(all=True, filters=with_label, ignore_removed=True):
        yield container, partial(container.remove, force=True, v=True)
    # After the containers: the daemon removes no network or volume that a container still uses.
    for network in client.networks.list(filters=with_label):
        yield network, network.remove
    for volume in client.volumes.list(filters=with_label):
        yield volume, partial(volume.remove, force=True)


def _is_orphan(client: "DockerClient", attrs: Mapping[str, Any]) -> bool:
    import docker.errors

    labels = attrs.get("Labels") or (attrs.get("Config") or {}).get("Labels") or {}
    machine, _, process = str(labels.get(LABEL, "")).partition("/")
    number, _, began = process.partition("/")
    if machine == _identify_machine():
        return not number.isdecimal() or _read_process_start(int(number)) != began
    if re.fullmatch(r"[0-9a-f]{64}", machine):
        try:
            return str(client.containers.get(machine).status) not in {"running", "paused", "restarting"}
        except docker.errors.NotFound:
            return True
    return _compute_age(attrs) > _FOREIGN_AGE_S


def _identify_machine() -> str:
    container = find_own_container()
    if container:
        return container
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # In another PID namespace, as in a pod of the same machine, the same id means another process.
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    return "unknown"


def _read_process_start(process: int) -> str:
    """Return the start time of a process in clock ticks since boot; "" if there is no such process."""
    with suppress(OSError):
        # The name, in parentheses, may hold anything; the 20th field after it is the start.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return ""


def _compute_age(attrs: Mapping[str, Any]) -> float:
    """Return the age of a Docker object in seconds; 0.0 if its time of creation cannot be read."""
    created = str(attrs.get("Created") or attrs.get("CreatedAt") or "")[:19]
    try:
        return time.time() - datetime.fromisoformat(f"{created}+00:00").timestamp()
    except ValueError:
        return 0.0
