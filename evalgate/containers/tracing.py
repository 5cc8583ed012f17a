"""Where a container reaches the gate, to send its spans."""

import fcntl
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evalgate.containers import daemon
from evalgate.containers.spec import ContainerSpec
from evalgate.protocols import AgentUnreachable
from evalgate.telemetry.collector import Endpoint

if TYPE_CHECKING:
    from docker import DockerClient

FROM_ANY_CONTAINER = "host.docker.internal"
"""What Docker Desktop calls the machine, and Docker Engine where it is told to."""
_SIOCGIFADDR = 0x8915
# Of Linux, in <linux/sockios.h>: an interface's address.
_LONGEST_INTERFACE = 15


def endpoint_for(spec: ContainerSpec, wanted: Endpoint, *, host_is_given: bool) -> Endpoint:
    """An endpoint that the container can reach, and as few others as can be.

    That is the address of its network's gateway, which is the machine; where the gate is in a container too,
    the gate's own in the network that both are in. Blocks.
    """
    try:
        client = daemon.connect()
    except AgentUnreachable:
        return wanted  # whoever makes the container says so
    try:
        address = _address(client, spec)
    finally:
        client.close()
    if not address or not (host_is_given or _is_ours(address)):
        # The daemon is in a virtual machine, as Docker Desktop's is: it leads there to what listens here.
        return replace(wanted, known_as=FROM_ANY_CONTAINER)
    return replace(wanted, host=wanted.host if host_is_given else address, known_as=address)


def _address(client: "DockerClient", spec: ContainerSpec) -> str:
    import docker.errors

    with suppress(docker.errors.APIError, LookupError):
        if own := daemon.gates_container(client):
            networks = client.containers.get(own).attrs["NetworkSettings"]["Networks"]
            return str(networks[daemon.meeting_place(client, own, spec)]["IPAddress"])
        return gateway_of(client.networks.get(spec.limits.network).attrs)
    return ""


def gateway_of(network: Mapping[str, Any]) -> str:
    """Return the machine's IPv4 address in a network of Docker's; "" if that cannot be known.

    A daemon that found the default bridge already there reports its subnet without a gateway. Then it is the
    address of the bridge's own interface, if this machine has that interface and not one inside a virtual
    machine.
    """
    settings = network["IPAM"]["Config"] or ()
    told = next((str(each["Gateway"]) for each in settings if "." in each.get("Gateway", "")), "")
    name = (network.get("Options") or {}).get("com.docker.network.bridge.name", "")
    return told or _address_of_interface(name)


def _address_of_interface(name: str) -> str:
    """Return the IPv4 address of an interface of this machine; "" if it has none, or is not Linux."""
    if not name or sys.platform != "linux":
        return ""
    request = struct.pack("256s", name.encode()[:_LONGEST_INTERFACE])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, suppress(OSError):
        found = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)
        return socket.inet_ntoa(found[20:24])
    return ""


def _is_ours(address: str) -> bool:
    """Whether this machine has the address."""
    with socket.socket() as found, suppress(OSError):
        found.bind((address, 0))
        return True
    return False
