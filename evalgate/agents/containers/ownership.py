"""Docker labels of containers, networks and volumes that identify the evalgate process that created them."""

import os
import re
from contextlib import suppress
from pathlib import Path

LABEL = "dev.evalgate.gate"
"""Label of every container, network and volume that a gate creates. The value is `machine/process/start`:
the container that the gate runs in (else the machine's boot and PID namespace), the gate's process id, and
its start time."""
_OWN_CONTAINER = re.compile(r"/containers/([0-9a-f]{64})/\S+ /etc/(?:hosts|hostname|resolv\.conf) ")
# Only mounts on these three files count: the host itself may have mounts with paths of all containers.


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
    return {LABEL: f"{identify_machine()}/{os.getpid()}/{read_process_start(os.getpid())}"}


def identify_machine() -> str:
    """Return an id of this machine: the id of the container that this process runs in, if any.

    Outside of containers, return the machine's boot id and the PID namespace. Return "unknown" if they cannot
    be read, for example because the system is not Linux.
    """
    container = find_own_container()
    if container:
        return container
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # In another PID namespace, as in a pod of the same machine, the same id means another process.
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    return "unknown"


def read_process_start(process: int) -> str:
    """Return the start time of a process in clock ticks since boot; "" if there is no such process."""
    with suppress(OSError):
        # The name, in parentheses, may hold anything; the 20th field after it is the start.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    return ""
