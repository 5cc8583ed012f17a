"""watsonx Orchestrate: agents by name, runs and their events."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from evalgate.agents.http.orchestrate_server import OrchestrateEvents
from evalgate.core.protocols import AgentError
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Failure,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from tests.agents.http.server import (
    Handler,
    ReceivedRequest,
    run_case,
    run_cases_over_http,
    serving,
    streamed,
)
from tests.agents.play import a_talk

AGENTS = [{"id": "1", "name": "hr_agent"}, {"id": "2", "name": "it_agent"}]


def step(*details: Mapping[str, Any]) -> dict[str, Any]:
    delta = {"role": "assistant", "step_details": list(details)}
    return {"event": "run.step.delta", "data": {"thread_id": "t", "delta": delta}}


def said(*content: object, role: str | None = "assistant") -> dict[str, Any]:
    message = {"role": role, "content": list(content)}
    return {"event": "message.created", "data": {"thread_id": "t", "message": message}}


def text(words: str) -> dict[str, Any]:
    return {"response_type": "text", "text": words}


CALL = {"name": "get_assignment_id", "args": {"username": "nwaters"}, "id": "call-1"}
RESULT = {
    "type": "tool_response",
    "name": "get_assignment_id",
    "tool_call_id": "call-1",
    "content": '{"id": 7}',
}
DONE = {"event": "done", "data": {}}
TURN = [
    {"id": "1", "event": "run.started", "data": {"run_id": "r", "thread_id": "t"}},
    {"id": "2", "event": "run.step.intermediate", "data": {"message": {"text": "The agent is working"}}},
    step({"type": "tool_calls", "tool_calls": [CALL]}),
    step(RESULT, {"type": "tool_call", **CALL}),
    {"event": "message.delta", "data": {"delta": {"role": "assistant", "content": [text("On January")]}}},
    said(text("On January 5."), role=None),
    said(text("On January 5.")),
    {"event": "message.completed", "data": {"message_id": "m"}},
    {"event": "run.completed", "data": {"run_id": "r"}},
    DONE,
]
REPLY = Reply(
    "On January 5.",
    (
        ToolCall("get_assignment_id", {"username": "nwaters"}, "call-1"),
        ToolResult("get_assignment_id", {"id": 7}, "call-1"),
    ),
)


def an_orchestrate_server(
    *turns: list[dict[str, Any]], agents: object = AGENTS, content_type: str = "application/x-ndjson"
) -> Handler:
    """Server with the paths of watsonx Orchestrate; each run returns the next of `turns`."""
    rest = iter(turns)

    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        if received.path == "/v1/orchestrate/agents":
            return web.json_response(agents)
        assert (received.method, received.path) == ("POST", "/v1/orchestrate/runs")
        assert received.request.query == {"stream": "true"}
        prefix = "data: " if content_type == "text/event-stream" else ""
        # The last event does not end the stream, as with servers behind a proxy.
        lines = [f"{prefix}{json.dumps(event)}\n" for event in next(rest)]
        return await streamed(content_type, *lines, ends=False)(received)

    return answer


@pytest.mark.parametrize("content_type", ["application/x-ndjson", "text/event-stream"])
async def test_a_conversation(content_type: str) -> None:
    session = SessionInput("hr_agent", "nwaters", {"wxo_user_name": "nwaters"})
    server = an_orchestrate_server(TURN, [said(text("Yes.")), DONE], content_type=content_type)
    async with serving(server) as running:
        run = await run_case(
            {"url": running.url, "dialect": "orchestrate", "headers": {"Authorization": "Bearer token"}},
            a_talk("case", "When am I off?", "Sure?", session=session),
        )

    assert (run.failure, run.replies, run.session_id) == (None, (REPLY, Reply("Yes.")), "t")
    first = {
        "message": {"role": "user", "content": "When am I off?"},
        "agent_id": "1",
        "context": {"wxo_user_name": "nwaters"},
    }
    second = {**first, "message": {"role": "user", "content": "Sure?"}, "thread_id": "t"}
    assert running.posts == [first, second]
    assert {each.headers["Authorization"] for each in running.received} == {"Bearer token"}


async def test_each_dataset_goes_to_its_agent() -> None:
    names = ("hr_agent", "it_agent", "hr_agnt", "")
    cases = [a_talk(name or "none", "Hi", session=SessionInput(name)) for name in names]
    answer = [said(text("Hello")), DONE]
    async with serving(an_orchestrate_server(answer, answer)) as running:
        runs = await run_cases_over_http({"url": running.url, "dialect": "orchestrate"}, cases)

    assert sorted(body["agent_id"] for body in running.posts) == ["1", "2"]
    assert {name: run.failure for name, run in runs.items()} == {
        "hr_agent": None,
        "it_agent": None,
        "hr_agnt": Failure(
            "no_agent",
            "the server has no agent `hr_agnt`. Did you mean `hr_agent`? It has: hr_agent, it_agent (turn 1)",
        ),
        "none": Failure(
            "no_agent",
            "the server has several agents or none (hr_agent, it_agent): name one as `app` (turn 1)",
        ),
    }
    assert runs["hr_agnt"].outcome == "faulted"


@pytest.mark.parametrize(("options", "agents"), [({"app": "it_agent"}, AGENTS), ({}, AGENTS[1:])])
async def test_one_agent_for_all_cases(options: dict[str, str], agents: object) -> None:
    server = an_orchestrate_server([said(text("Hello")), DONE], agents=agents)
    async with serving(server) as running:
        run = await run_case({"url": running.url, "dialect": "orchestrate", **options}, a_talk("case", "Hi"))
    assert (run.failure, running.posts[0]["agent_id"]) == (None, "2")


async def test_attachments_cannot_be_sent() -> None:
    case = EvalCase("case", (CaseTurn(UserMessage("Hi", ({"inline_data": {}},))),))
    async with serving(an_orchestrate_server()) as running:
        run = await run_case({"url": running.url, "dialect": "orchestrate"}, case)
    sentence = "Orchestrate takes no attachments and no earlier messages (turn 1)"
    assert (run.outcome, run.failure) == ("faulted", Failure("unsupported", sentence))


def read_reply(*events: Mapping[str, Any]) -> Reply:
    found = OrchestrateEvents()
    for event in events:
        found.read_event(event)
    return found.build_reply()


WIDGET = {
    "response_type": "option",
    "description": "Which one?",
    "options": [{"label": "A", "value": "a"}],
    "_meta": {"com.ibm.orchestrate/widget": {"type": "options", "title": "Leave"}},
}
SEARCH = {"response_type": "conversational_search", "text": "Found it.", "citations": []}


@pytest.mark.parametrize(
    ("events", "reply"),
    [
        ([said(text("a")), said(text("b"))], Reply("b", (Message("a"),))),
        ([said(SEARCH)], Reply("Found it.")),
        ([said(text("a"), role="user"), said(text("b"))], Reply("b")),
        (
            [said(WIDGET)],
            Reply(None, (Message("Which one?", payload={"title": "Leave", "description": "Which one?"}),)),
        ),
        # Calls without an id are kept each, those with one are read once.
        (
            [step({"type": "tool_call", "name": "f"}, {"type": "tool_call", "name": "f"}), DONE],
            Reply(None, (ToolCall("f", {}, None), ToolCall("f", {}, None))),
        ),
        (
            [step({"type": "tool_call", "name": "f", "args": '{"a": 1}', "tool_call_id": "1"}), DONE],
            Reply(None, (ToolCall("f", {"a": 1}, "1"),)),
        ),
        (
            [step({"type": "tool_response", "name": "f", "content": "1003"}), DONE],
            Reply(None, (ToolResult("f", "1003"),)),
        ),
    ],
)
def test_events(events: list[dict[str, Any]], reply: Reply) -> None:
    assert read_reply(*events) == reply


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (DONE, "the run ended without a message"),
        (
            step({"type": "tool_call", "name": "f"}),
            "the stream ended before the run did, and without a message",
        ),
        (
            {"event": "run.failed", "data": {"last_error": "no model"}},
            "the agent's server reports an error: no model",
        ),
        ({"event": "error", "data": {"code": 3}}, 'the agent\'s server reports an error: {"code": 3}'),
    ],
)
def test_refuses(event: dict[str, Any], message: str) -> None:
    with pytest.raises(AgentError) as caught:
        read_reply(event)
    assert caught.value.failure.message == message
