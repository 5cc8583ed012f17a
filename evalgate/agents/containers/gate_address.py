"""Search for the network address at which the agent's container can send OpenTelemetry spans to the gate."""

import fcntl
import platform
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evalgate.agents.containers import docker_client
from evalgate.agents.containers.container_settings import find_gate_container, find_shared_network
from evalgate.agents.containers.spec import ContainerSpec
from evalgate.agents.tracing.collector import CollectorEndpoint
from evalgate.core.protocols import AgentUnreachableError
from evalgate.core.types import Failure

if TYPE_CHECKING:
    from docker import DockerClient

HOST_GATEWAY_NAME = "host.docker.internal"
"""Host name by which a container reaches this machine; in Docker Engine, the name must be configured."""
_UNREACHABLE_HOSTS = frozenset({"0.0.0.0", "::", "127.0.0.1", "::1", "localhost"})  # noqa: S104  they are refused
"""Hosts at which a container reaches only itself, or nothing, but never the gate."""
_SIOCGIFADDR = 0x8915
"""The ioctl request of Linux for an interface's address, from <linux/sockios.h>."""
_LONGEST_INTERFACE = 15


def find_reachable_endpoint(
    spec: ContainerSpec, wanted: CollectorEndpoint, *, host_is_given: bool
) -> CollectorEndpoint:
    """Return the endpoint at which the container can send spans to the gate. This call blocks.

    The container reaches the endpoint at one of these addresses:

    - If the gate runs in a container, too: the address of the gate's container in the network that both
      share.
    - If the daemon runs in a virtual machine: `host.docker.internal`.
    - In all other cases: the gateway of the container's network, which is an address of this machine.

    If possible, the gate listens only at this address, so that few other machines can reach it. `wanted` is
    returned unchanged if the container uses the machine's own network, or if no daemon answers.

    Args:
        spec: Specification of the container.
        wanted: Endpoint in the configuration.
        host_is_given: True if the configuration names the host of `wanted`; this host is kept.

    Raises:
        InvalidInputError: the package `docker` is missing.
        AgentUnreachableError: the machine has no address in the container's network, and the configuration
            names no other host that the container can reach.
    """
    try:
        client = docker_client.connect_to_daemon()
    except AgentUnreachableError:
        return wanted  # creating the container will report this
    try:
        address = _find_gate_address(client, spec)
        if address == "" and _is_local_daemon(client):
            return _resolve_without_gateway(spec.limits.network, wanted, host_is_given=host_is_given)
    finally:
        client.close()
    if not address or not (host_is_given or _is_local_address(address)):
        # The daemon is in a virtual machine, as Docker Desktop's is: this name leads to this machine.
        return replace(wanted, known_as=HOST_GATEWAY_NAME)
    return replace(wanted, host=wanted.host if host_is_given else address, known_as=address)


def _find_gate_address(client: "DockerClient", spec: ContainerSpec) -> str | None:
    """Return the IPv4 address at which the container reaches the gate; "" if no address is known.

    Return None if the container's network does not exist; creating the container will report that.
    """
    import docker.errors

    with suppress(docker.errors.APIError, LookupError):
        if own := find_gate_container(client):
            networks = client.containers.get(own).attrs["NetworkSettings"]["Networks"]
            return str(networks[find_shared_network(client, own, spec)]["IPAddress"])
        return find_network_gateway(client.networks.get(spec.limits.network).attrs)
    return None


def _is_local_daemon(client: "DockerClient") -> bool:
    """Return True if the daemon runs containers on this machine and not in a virtual machine.

    Docker Desktop always counts as a virtual machine: in WSL, it has the kernel of this machine, but another
    network.
    """
    import docker.errors

    with suppress(docker.errors.APIError, OSError):
        about = client.info()
        is_same_kernel = about.get("KernelVersion") == platform.release()
        return is_same_kernel and about.get("OperatingSystem") != "Docker Desktop"
    return False


def _resolve_without_gateway(
    network: str, wanted: CollectorEndpoint, *, host_is_given: bool
) -> CollectorEndpoint:
    """Return the endpoint for a container in a network in which the machine has no address.

    There are two cases with an endpoint:

    - `network` is `host`, the machine's own network: return `wanted` unchanged.
    - `host_is_given` is True: the container uses the host of `wanted`.

    Raises:
        AgentUnreachableError: there is no such endpoint. This is also the case if the given host is one such
            as `localhost`, at which a container does not reach the gate.
    """
    if network == "host":
        return wanted
    if host_is_given and wanted.host not in _UNREACHABLE_HOSTS:
        return replace(wanted, known_as=wanted.host)
    sentence = (
        "the agent's container cannot send its spans: this machine has no IPv4 address in Docker's network "
        f"`{network}`. Name another network as `agent.network` (`docker network create agents`), give "
        'Docker\'s bridge an address (`"bip": "172.17.0.1/16"` in /etc/docker/daemon.json), or name an '
        "address of this machine as `agent.otel.host`"
    )
    raise AgentUnreachableError(Failure("start", sentence))


def find_network_gateway(network: Mapping[str, Any]) -> str:
    """Return the machine's IPv4 address in a Docker network; "" if it is unknown.

    The address is usually the gateway that Docker reports in `network`, the attributes of the network. For a
    default bridge that the administrator created, Docker reports no gateway. The address is then read from
    the bridge's interface. If the daemon runs in a virtual machine, this machine has no such interface, and
    the address is unknown.
    """
    settings = network["IPAM"]["Config"] or ()
    reported = next((str(each["Gateway"]) for each in settings if "." in each.get("Gateway", "")), "")
    name = (network.get("Options") or {}).get("com.docker.network.bridge.name", "")
    return reported or _read_interface_address(name)


def _read_interface_address(name: str) -> str:
    """Return the IPv4 address of a network interface; "" if it has no address, or outside of Linux."""
    if not name or sys.platform != "linux":
        return ""
    request = struct.pack("256s", name.encode()[:_LONGEST_INTERFACE])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, suppress(OSError):
        found = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)
        return socket.inet_ntoa(found[20:24])
    return ""


def _is_local_address(address: str) -> bool:
    """Return True if this machine has the address."""
    with socket.socket() as found, suppress(OSError):
        found.bind((address, 0))
        return True
    return False
