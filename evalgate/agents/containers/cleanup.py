"""Removal of Docker containers, networks and volumes that killed gates (evalgate processes) left behind."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from evalgate.agents.containers.ownership import LABEL, identify_machine, read_process_start

if TYPE_CHECKING:
    from docker import DockerClient

_FOREIGN_AGE_S = 24 * 3600
"""Age in seconds above which the objects of a gate are removed if it cannot be checked whether it runs."""


def remove_orphans(client: "DockerClient") -> int:
    """Remove the containers, networks and volumes of ended gates (evalgate processes).

    Return the number of removed objects. A gate on this machine has ended if its process does not run any
    more. A gate in a container has ended if the container does not run any more. For a gate on another
    machine, its objects are removed once they are older than a day. Objects that cannot be inspected or
    removed stay until a later call.
    """
    import docker.errors

    removed = 0
    # A container may vanish between being listed and being inspected: it ends, or another gate removes it.
    with suppress(docker.errors.APIError, OSError):
        here = identify_machine(client)
        for found, remove in _iter_labeled(client):
            with suppress(docker.errors.APIError):
                if _is_orphan(client, found.attrs, here):
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


def _is_orphan(client: "DockerClient", attrs: Mapping[str, Any], here: str) -> bool:
    """Return True if the gate that created a Docker object has ended.

    If it cannot be checked whether the gate runs, return True if the object is older than a day. `attrs`
    describes the object, as Docker returns it. `here` is the id of this machine.
    """
    import docker.errors

    labels = attrs.get("Labels") or (attrs.get("Config") or {}).get("Labels") or {}
    machine, _, process = str(labels.get(LABEL, "")).partition("/")
    number, _, began = process.partition("/")
    if machine == here:
        return not number.isdecimal() or read_process_start(int(number)) != began
    if re.fullmatch(r"[0-9a-f]{64}", machine):
        try:
            return str(client.containers.get(machine).status) not in {"running", "paused", "restarting"}
        except docker.errors.NotFound:
            return True
    return _compute_age(attrs) > _FOREIGN_AGE_S


def _compute_age(attrs: Mapping[str, Any]) -> float:
    """Return the age of a Docker object in seconds; 0.0 if its time of creation cannot be read."""
    created = str(attrs.get("Created") or attrs.get("CreatedAt") or "")[:19]
    try:
        return time.time() - datetime.fromisoformat(f"{created}+00:00").timestamp()
    except ValueError:
        return 0.0
