"""Where a container reaches the gate, to send its spans."""

import socket
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from evalgate.containers import daemon
from evalgate.containers.spec import ContainerSpec
from evalgate.protocols import AgentUnreachable
from evalgate.telemetry.collector import Endpoint

if TYPE_CHECKING:
    from docker import DockerClient

FROM_ANY_CONTAINER = "host.docker.internal"
"""What Docker Desktop calls the machine, and Docker Engine where it is told to."""


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
        settings = client.networks.get(spec.limits.network).attrs["IPAM"]["Config"]
        return next((str(each["Gateway"]) for each in settings if "." in each.get("Gateway", "")), "")
    return ""


def _is_ours(address: str) -> bool:
    """Whether this machine has the address."""
    with socket.socket() as found, suppress(OSError):
        found.bind((address, 0))
        return True
    return False
