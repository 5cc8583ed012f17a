"""The gate's address for a container's spans, by the networks that a fake daemon reports."""

import platform
from types import SimpleNamespace
from typing import Any

import pytest

from evalgate.agents.containers import container_settings, docker_client
from evalgate.agents.containers.gate_address import HOST_GATEWAY_NAME, find_reachable_endpoint
from evalgate.agents.containers.spec import ContainerLimits, ContainerSpec
from evalgate.agents.tracing.collector import CollectorEndpoint
from evalgate.core.protocols import AgentUnreachableError

HERE = {"KernelVersion": platform.release(), "OperatingSystem": "Debian GNU/Linux 12 (bookworm)"}
DESKTOP = {"KernelVersion": platform.release(), "OperatingSystem": "Docker Desktop"}
ELSEWHERE = {"KernelVersion": "5.15.49-linuxkit", "OperatingSystem": "Alpine Linux"}
NO_ADDRESS = {"IPAM": {"Config": [{"Subnet": "172.17.0.0/16"}]}, "Options": {}}
OURS = {"IPAM": {"Config": [{"Gateway": "127.0.0.1"}]}}
NOT_OURS = {"IPAM": {"Config": [{"Gateway": "203.0.113.1"}]}}


@pytest.fixture(autouse=True)
def outside_of_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("docker")
    monkeypatch.setattr(container_settings, "find_own_container", lambda _: "")


def report_network(monkeypatch: pytest.MonkeyPatch, network: dict[str, Any], info: dict[str, str]) -> None:
    """Make the fake daemon report a network, and its own kernel and system."""
    networks = SimpleNamespace(get=lambda _: SimpleNamespace(attrs=network))
    client = SimpleNamespace(networks=networks, info=lambda: info, close=lambda: None)
    monkeypatch.setattr(docker_client, "connect_to_daemon", lambda: client)


@pytest.mark.parametrize(
    ("network", "info", "name", "host", "expected"),
    [
        (OURS, HERE, "bridge", None, CollectorEndpoint("127.0.0.1", 1, "127.0.0.1")),
        (NOT_OURS, DESKTOP, "bridge", None, CollectorEndpoint("127.0.0.1", 1, HOST_GATEWAY_NAME)),
        (NO_ADDRESS, DESKTOP, "bridge", None, CollectorEndpoint("127.0.0.1", 1, HOST_GATEWAY_NAME)),
        (NO_ADDRESS, ELSEWHERE, "bridge", None, CollectorEndpoint("127.0.0.1", 1, HOST_GATEWAY_NAME)),
        (NO_ADDRESS, HERE, "bridge", "192.0.2.7", CollectorEndpoint("192.0.2.7", 1, "192.0.2.7")),
        ({"IPAM": {"Config": None}}, HERE, "host", None, CollectorEndpoint("127.0.0.1", 1)),
    ],
)
def test_endpoint_is_reachable_from_the_container(
    network: dict[str, Any],
    info: dict[str, str],
    name: str,
    host: str | None,
    expected: CollectorEndpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report_network(monkeypatch, network, info)
    wanted = CollectorEndpoint(port=1) if host is None else CollectorEndpoint(host, 1)
    spec = ContainerSpec(image="x", limits=ContainerLimits(network=name))
    assert find_reachable_endpoint(spec, wanted, host_is_given=host is not None) == expected


@pytest.mark.parametrize("host", [None, "127.0.0.1", "0.0.0.0"])
def test_network_without_an_address_is_reported(host: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    report_network(monkeypatch, NO_ADDRESS, HERE)
    wanted = CollectorEndpoint(port=1) if host is None else CollectorEndpoint(host, 1)

    with pytest.raises(AgentUnreachableError) as caught:
        find_reachable_endpoint(ContainerSpec(image="x"), wanted, host_is_given=host is not None)

    message = caught.value.failure.message
    assert "this machine has no IPv4 address in Docker's network `bridge`" in message
    assert "`agent.network`" in message
    assert "`agent.otel.host`" in message
