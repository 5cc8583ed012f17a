"""Agents that OpenTelemetry's own SDK traces, run by the gate."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalgate.agents.adapters.command import CommandAgentOptions
from evalgate.agents.tracing.traced_agent import merge_replies
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import Agent
from evalgate.core.types import CaseRun, Event, Message, Reply, ToolCall, ToolResult, Usage
from tests.agents.http.server import build_context, run_cases_over_http
from tests.agents.play import PATIENT_S, a_talk, outcomes
from tests.ports import free_port

SCRIPT = Path(__file__).with_name("otel_agent.py")


def build_reply(text: str, id_: str = "1") -> Reply:
    call, result = (
        ToolCall("look", {"at": text}, id_, "planner"),
        ToolResult("look", {"seen": True}, id_, "planner"),
    )
    return Reply(f"saw {text}", (call, result))


def check_runs(runs: dict[str, CaseRun]) -> None:
    assert {run.failure for run in runs.values()} == {None}
    assert runs["a"].replies == (build_reply("Paris"), build_reply("Oslo"))
    assert runs["b"].replies == (build_reply("Rome"),)
    assert (runs["a"].usage, runs["b"].usage) == (Usage(14, 4, None), Usage(7, 2, None))


CASES = [a_talk("a", "Paris", "Oslo"), a_talk("b", "Rome")]


async def test_per_turn_command_sends_spans() -> None:
    def agent(env: dict[str, str]) -> Agent:
        command = (sys.executable, str(SCRIPT), "TURN")
        options = {"command": command, "mode": "per_turn", "otel": True}
        return CommandAgentOptions.model_validate(options).build(build_context(env=env, timeout=PATIENT_S))

    check_runs(await outcomes(agent, CASES))


async def test_spans_become_the_steps_of_a_trace() -> None:
    def agent(env: dict[str, str]) -> Agent:
        command = (sys.executable, str(SCRIPT), "TURN")
        options = {"command": command, "mode": "per_turn", "otel": True}
        return CommandAgentOptions.model_validate(options).build(build_context(env=env, timeout=PATIENT_S))

    run = (await outcomes(agent, CASES[:1], trace=True))["a"]

    assert [(step.turn, step.kind, step.name) for step in run.trace] == [
        *((0, "agent", "planner"), (0, "model", "chat m"), (0, "tool", "look")),
        *((1, "agent", "planner"), (1, "model", "chat m"), (1, "tool", "look")),
    ]
    root, model, tool = run.trace[:3]
    assert (root.parent_id, model.parent_id, tool.parent_id) == ("", root.id, root.id)
    assert (root.request, root.response) == ("Paris", "saw Paris")
    assert (tool.request, tool.response) == ({"at": "Paris"}, {"seen": True})
    assert model.usage == Usage(7, 2, None)
    assert 0 < root.start_s <= model.start_s <= tool.start_s <= run.duration_s


@pytest.fixture
def otlp_port() -> int:
    return free_port()


@pytest.fixture
def traced_server(otlp_port: int) -> Iterator[str]:
    environ = {
        "PATH": os.environ["PATH"],
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{otlp_port}",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
    }
    command = [sys.executable, str(SCRIPT), "SERVE"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        server.kill()


async def test_http_server_sends_spans(traced_server: str, otlp_port: int) -> None:
    check_runs(await run_cases_over_http({"url": traced_server, "otel": {"port": otlp_port}}, CASES))


async def test_missing_spans_fail_the_turn() -> None:
    def agent(env: dict[str, str]) -> Agent:
        options = {"command": ("cat",), "mode": "per_turn", "otel": {"wait": 0.1}}
        return CommandAgentOptions.model_validate(options).build(build_context(env=env))

    run = (await outcomes(agent, [a_talk("a", "hi")]))["a"]
    assert run.failure is not None
    assert (run.outcome, run.failure.kind) == ("crashed", "telemetry")
    assert "no span of turn 1 arrived at" in run.failure.message


async def test_taken_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        def agent(env: dict[str, str]) -> Agent:
            options = {"command": ("cat",), "mode": "per_turn", "otel": {"port": port}}
            return CommandAgentOptions.model_validate(options).build(build_context(env=env))

        with pytest.raises(InvalidInputError) as caught:
            await outcomes(agent, [a_talk("a", "hi")])
    sentence = f"cannot listen for spans at http://127.0.0.1:{port}: Address already in use; give another `agent.otel.port`"
    assert str(caught.value) == sentence


def test_reported_calls_take_precedence_over_spans() -> None:
    own, traced = ToolCall("own"), ToolCall("told")
    events: tuple[Event, ...] = (Message("hm"), own)
    assert merge_replies(Reply("a", events), Reply("b", (traced,))) == Reply("a", events)
    assert merge_replies(Reply(None, (Message("hm"),)), Reply("b", (Message("hm"), traced))) == Reply(
        "b", (traced, Message("hm"))
    )
