"""Docker labels of containers, networks and volumes that identify the evalgate process that created them."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docker import DockerClient

LABEL = "dev.evalgate.gate"
"""Label of every container, network and volume that a gate creates. The value is `machine/process/start`.

`machine` is the result of `identify_machine`, `process` is the gate's process id, and `start` is the time at
which this process started.
"""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_OWN_CONTAINER = re.compile(r"/containers/([0-9a-f]{64})/\S+ /etc/(?:hosts|hostname|resolv\.conf) ")
# Only mounts on these three files count: the host itself may have mounts with paths of all containers.


def find_own_container(client: "DockerClient") -> str:
    """Return the id of the container in which this process runs; "" if the daemon does not know it.

    The daemon of `client` may run on another machine (`DOCKER_HOST`) or in another container (Docker in
    Docker). It then does not know the container of this process.

    Raises:
        docker.errors.APIError: the daemon refuses.
    """
    import docker.errors

    own = read_container_id()
    try:
        return own and str(client.containers.get(own).id)
    except docker.errors.NotFound:
        return ""


def read_container_id() -> str:
    """Return the id of the Docker container that this process runs in; "" if none is found.

    The id is read from the paths of Docker's mounts, because the container's host name may be anything.
    """
    with suppress(OSError):
        found = _OWN_CONTAINER.search(Path("/proc/self/mountinfo").read_text("utf-8", errors="replace"))
        if found is not None:
            return found[1]
    return ""


def build_labels(client: "DockerClient") -> dict[str, str]:
    """Return the labels of every container, network and volume that this gate creates in the daemon.

    Raises:
        docker.errors.APIError: the daemon refuses.
    """
    return {LABEL: f"{identify_machine(client)}/{os.getpid()}/{read_process_start(os.getpid())}"}


def identify_machine(client: "DockerClient") -> str:
    """Return an id of the machine or the container in which this process runs.

    Two gates with the same id see the same processes under the same process ids. If this process runs in a
    container of the daemon, return the container's id. Otherwise, return the machine's boot id with the PID
    namespace, or "unknown" if these two cannot be read, for example because the system is not Linux.

    Raises:
        docker.errors.APIError: the daemon refuses.
    """
    if container := find_own_container(client):
        return container
    with suppress(OSError):
        boot = _BOOT_ID.read_text().strip()
        # In another PID namespace, as in a pod of the same machine, the same id means another process.
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    return "unknown"


def read_process_start(process: int) -> str:
    """Return the start time of a process in clock ticks since boot; "" if there is no such process."""
    with suppress(OSError):
        # The name, in parentheses, may hold anything; the 20th field after it is the start.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return ""
