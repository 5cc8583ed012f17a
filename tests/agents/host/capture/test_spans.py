"""Capture of OpenTelemetry spans in the agent's process, without an exporter."""

from pathlib import Path

import pytest

from evalgate.agents.adapters.python import build_python_agent
from evalgate.agents.workers.pool import WorkerPool
from evalgate.core.types import CaseRun, Message, Reply, ToolCall, ToolResult, Usage
from tests.agents.play import PATIENT_S, a_talk, environment, outcomes

HERE = Path(__file__).parent
USED = Usage(22, 14, None, models=("small",))


def agent(name: str, *, capture: bool = True) -> WorkerPool:
    return build_python_agent(
        entry=f"{HERE / 'otel_agents.py'}:{name}",
        cwd=HERE,
        env=environment(),
        timeout=PATIENT_S,
        start_timeout=PATIENT_S,
        threads=16,
        capture=capture,
    )


async def played(name: str, *texts: str, capture: bool = True) -> CaseRun:
    return (await outcomes(lambda _: agent(name, capture=capture), [a_talk("one", *texts)]))["one"]


def looked_up(city: str, id_: str, author: str | None = None) -> tuple[ToolCall, ToolResult]:
    result = {"city": city, "sky": "sunny"}
    return (
        ToolCall("get_forecast", {"city": city}, id_, author),
        ToolResult("get_forecast", result, id_, author),
    )


async def test_each_conversation_gets_its_own_spans() -> None:
    cases = [a_talk(f"c{number}", f"A{number}", f"B{number}") for number in range(32)]
    runs = await outcomes(lambda _: agent("traced"), cases, concurrency=16)
    for number in range(32):
        replies = runs[f"c{number}"].replies
        for reply, city in zip(replies, (f"A{number}", f"B{number}"), strict=True):
            assert reply is not None
            assert reply.events == (
                Message("Let me look."),
                *looked_up(city, f"call {city}", "weather"),
            )
        assert runs[f"c{number}"].usage == USED + USED


async def test_span_of_a_thread_without_a_context_is_assigned_by_its_parent() -> None:
    cases = [a_talk(f"c{number}", f"A{number}") for number in range(16)]
    runs = await outcomes(lambda _: agent("in_a_bare_thread"), cases, concurrency=16)
    for number in range(16):
        reply = runs[f"c{number}"].replies[0]
        assert reply is not None
        assert reply.events == looked_up(f"A{number}", "1")


@pytest.mark.parametrize(
    ("name", "capture", "reply", "usage"),
    [
        ("only_http_spans", True, Reply("hi"), None),
        ("traced", False, Reply('{"city": "hi", "sky": "sunny"}'), None),
        (
            "reports_as_well",
            True,
            Reply("sunny", (ToolCall("own", {}),)),
            Usage(11, 7, None, models=("small",)),
        ),
    ],
)
async def test_spans_that_are_not_captured(
    name: str, capture: bool, reply: Reply, usage: Usage | None
) -> None:
    run = await played(name, "hi", capture=capture)
    assert run.replies == (reply,)
    assert run.usage == usage


async def test_values_that_json_cannot_express_fail_no_turn() -> None:
    run = await played("deep", "hi")
    assert run.outcome == "answered", run.failure
    reply = run.replies[0]
    assert reply is not None
    assert [event.name for event in reply.tool_calls] == ["dig"]


@pytest.mark.parametrize(
    ("name", "text", "calls", "dropped"),
    [
        ("chatty", "x", 7, "3 OpenTelemetry spans"),
        ("chatty_of_a_framework", "x", 0, "3 OpenTelemetry spans"),
        # As JSON, "é" takes six bytes: the message is too large although its spans were not.
        ("chatty_of_a_framework", "é", 0, "10 OpenTelemetry spans"),
        ("traced", "x", 1, ""),
    ],
)
async def test_dropped_spans_are_counted(name: str, text: str, calls: int, dropped: str) -> None:
    pool = agent(name)
    run = (await outcomes(lambda _: pool, [a_talk("one", text)], trace=True))["one"]
    assert run.outcome == "answered", run.failure
    reply = run.replies[0]
    assert reply is not None
    assert len(reply.tool_calls) == calls
    sentence = (
        f"{dropped} of the agent could not be read, as those of a turn took more than 16 MiB: steps of traces "
        "may be missing, and tool calls unless the agent reports them itself. Record less in them."
    )
    assert pool.notices == ((sentence,) if dropped else ())
