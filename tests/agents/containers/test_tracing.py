"""Agents in containers whose tool calls are read from their spans."""

import ipaddress
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from evalgate.agents.adapters.docker import DockerAgentOptions
from evalgate.agents.containers import container_settings
from evalgate.agents.containers.gate_address import (
    HOST_GATEWAY_NAME,
    find_network_gateway,
    find_reachable_endpoint,
)
from evalgate.agents.containers.spec import ContainerLimits, ContainerSpec
from evalgate.agents.tracing.collector import CollectorEndpoint
from evalgate.core.types import CaseRun, Reply, ToolCall, ToolResult
from tests.agents.containers.test_docker import IMAGE, build_container_agent, connect_client
from tests.agents.play import a_talk, outcomes

pytestmark = [pytest.mark.docker, pytest.mark.slow]

TRACED = """
import http.server, json, os, sys, urllib.request

def send(traceparent):
    _, trace, parent, _ = traceparent.split("-")
    span = {
        "traceId": trace, "spanId": "1" * 16, "parentSpanId": parent, "name": "execute_tool look",
        "startTimeUnixNano": "1", "endTimeUnixNano": "2",
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in (
            ("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "look"), ("gen_ai.tool.call.id", "1"),
            ("gen_ai.tool.call.arguments", '{"at": "Paris"}'), ("gen_ai.tool.call.result", '{"seen": true}'))],
    }
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    url = os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces"
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=20).read()

class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.say({})
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        send(self.headers["traceparent"])
        self.say({"response": "done"})
    def say(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass

if sys.argv[1:] == ["serve"]:
    http.server.ThreadingHTTPServer(("0.0.0.0", 8000), H).serve_forever()
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "hello":
        print('{"type": "ready", "protocol": 1}', flush=True)
    if message["type"] == "turn":
        send(message["traceparent"])
        print(json.dumps({"type": "done", "session": message["session"], "response": "done"}), flush=True)
"""
COMPOSE = f"""
services:
  traced: {{image: "{IMAGE}", volumes: ["./code:/code"], depends_on: [other]}}
  other: {{image: "{IMAGE}", command: sleep 600}}
"""


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    found = connect_client()
    yield found
    found.close()


@pytest.fixture
def project(tmp_path: Path, client: docker.DockerClient) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "traced.py").write_text(TRACED)
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    return tmp_path


async def run_case(project: Path, **options: Any) -> CaseRun:
    given = {"network": None, "otel": {"wait": 30.0}, "workspace": "/src", **options}
    make = build_container_agent(project, context={"timeout": 60.0}, **given)
    return (await outcomes(make, [a_talk("case", "hi")]))["case"]


@pytest.mark.parametrize(
    "options",
    [
        {"command": "python3 /src/code/traced.py serve", "port": 8000},
        {"command": "python3 /src/code/traced.py"},
        {"image": None, "service": "traced", "command": "python3 /code/traced.py serve", "port": 8000},
    ],
    ids=["port", "streams", "compose"],
)
async def test_spans_reach_the_gate(project: Path, options: dict[str, Any]) -> None:
    run = await run_case(project, **options)
    looked = (ToolCall("look", {"at": "Paris"}, "1"), ToolResult("look", {"seen": True}, "1"))
    assert run.failure is None
    assert (run.replies, run.usage) == ((Reply("done", looked),), None)


@pytest.mark.parametrize(
    ("config", "options", "address"),
    [
        ([{"Subnet": "10.1.0.0/16", "Gateway": "10.1.0.1"}], {}, "10.1.0.1"),
        ([{"Subnet": "fd00::/64", "Gateway": "fd00::1"}, {"Gateway": "10.1.0.1"}], None, "10.1.0.1"),
        ([{"Subnet": "127.0.0.0/8"}], {"com.docker.network.bridge.name": "lo"}, "127.0.0.1"),
        ([{"Subnet": "10.1.0.0/16"}], {"com.docker.network.bridge.name": "no-such-bridge"}, ""),
        ([{"Subnet": "10.1.0.0/16"}], {}, ""),
        (None, None, ""),
    ],
)
def test_gateway_falls_back_to_the_interface_address(
    config: list[dict[str, str]] | None, options: dict[str, str] | None, address: str
) -> None:
    assert find_network_gateway({"IPAM": {"Config": config}, "Options": options}) == address


def test_collector_listens_only_at_the_gateway(client: docker.DockerClient) -> None:
    bridge = find_network_gateway(client.networks.get("bridge").attrs)
    assert ipaddress.ip_address(bridge).version == 4
    spec = ContainerSpec(image=IMAGE)
    assert find_reachable_endpoint(spec, CollectorEndpoint(port=1), host_is_given=False) == CollectorEndpoint(
        bridge, 1, bridge
    )
    given = find_reachable_endpoint(spec, CollectorEndpoint("0.0.0.0", 1), host_is_given=True)
    assert given == CollectorEndpoint("0.0.0.0", 1, bridge)


def test_virtual_machine_uses_the_host_gateway_name(client: docker.DockerClient) -> None:
    name, net = f"evalgate-test-{os.getpid()}", f"10.231.{os.getpid() % 250}"
    away = client.networks.create(
        name,
        ipam=docker.types.IPAMConfig(
            pool_configs=[docker.types.IPAMPool(subnet=f"{net}.0/24", gateway=f"{net}.1")]
        ),
        internal=True,
        options={"com.docker.network.bridge.inhibit_ipv4": "true"},
    )
    try:
        spec = ContainerSpec(image=IMAGE, limits=ContainerLimits(network=name))
        found = find_reachable_endpoint(spec, CollectorEndpoint(port=1), host_is_given=False)
    finally:
        away.remove()
    assert found == CollectorEndpoint("127.0.0.1", 1, HOST_GATEWAY_NAME)


def test_gate_in_a_container_uses_its_own_address(
    client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = client.containers.run(IMAGE, "sleep 600", detach=True, init=True)
    try:
        gate.reload()
        monkeypatch.setattr(container_settings, "find_own_container", lambda _: gate.id)
        found = find_reachable_endpoint(
            ContainerSpec(image=IMAGE), CollectorEndpoint(port=1), host_is_given=True
        )
        address = gate.attrs["NetworkSettings"]["Networks"]["bridge"]["IPAddress"]
    finally:
        gate.remove(force=True, v=True)
    assert address
    assert found == CollectorEndpoint("127.0.0.1", 1, address)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"entry": "a:b", "otel": True}, "has `otel`, which needs a `command` or a `port`"),
        ({"command": "a", "otel": True, "network": "none"}, "has `otel`, which needs a network"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DockerAgentOptions.model_validate({"image": "x", **options})
