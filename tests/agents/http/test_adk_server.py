"""Google ADK's `api_server`: sessions, runs and events."""

import time
from typing import Any

import pytest
from aiohttp import web

from evalgate.agents.http.adk_server import read_adk_reply
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
    Usage,
    UserMessage,
)
from tests.agents.http.server import Handler, ReceivedRequest, run_case, run_cases_over_http, serving, sse
from tests.agents.play import a_talk


def event(*parts: dict[str, Any], author: str = "weather", **more: Any) -> dict[str, Any]:
    """Return an event in the camel case of the server."""
    return {"author": author, "content": {"role": "model", "parts": [*parts]}, "actions": {}, **more}


CALL = {"functionCall": {"id": "1", "name": "forecast", "args": {"city": "Paris"}}}
ANSWER = {"functionResponse": {"id": "1", "name": "forecast", "response": {"sky": "clear"}}}
EVENTS = [
    event({"text": "Let me see."}, CALL, usageMetadata={"promptTokenCount": 9, "candidatesTokenCount": 2}),
    event(ANSWER),
    event({"text": "It is"}, partial=True),
    event({"text": "It is clear."}, usageMetadata={"promptTokenCount": 12, "thoughtsTokenCount": 3}),
]
REPLY = Reply(
    "It is clear.",
    (
        Message("Let me see.", "weather"),
        ToolCall("forecast", {"city": "Paris"}, "1", "weather"),
        ToolResult("forecast", {"sky": "clear"}, "1", "weather"),
    ),
)


def an_adk_server(*turns: list[dict[str, Any]], apps: tuple[str, ...] = ("weather",)) -> Handler:
    """Server with sessions as in ADK; each run returns the next of `turns`."""
    sessions: dict[str, dict[str, Any]] = {}
    rest = iter(turns)

    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        if received.path == "/list-apps":
            return web.json_response(list(apps))
        if received.path in ("/run", "/run_sse"):
            session = sessions[received.body["sessionId"]]
            session["state"]["turns"] = session["state"].get("turns", 0) + 1
            events = next(rest)
            return await sse(*events)(received) if received.path == "/run_sse" else web.json_response(events)
        if received.method == "POST":
            made = {"id": f"s/{len(sessions)}", "state": received.body["state"]}
            sessions[made["id"]] = made
            return web.json_response(made)
        key = received.path.rpartition("/sessions/")[2]
        return web.json_response(sessions[key] if received.method == "GET" else sessions.pop(key))

    return answer


@pytest.mark.parametrize("stream", [False, True])
async def test_a_conversation(stream: bool) -> None:
    case = EvalCase(
        "case",
        (CaseTurn(UserMessage("Rain?", ({"inline_data": {}},))), CaseTurn(UserMessage("Sure?"))),
        session=SessionInput("weather", "ada", {"unit": "C"}),
    )
    async with serving(an_adk_server(EVENTS, [event({"text": "Yes."})], apps=("weather", "b"))) as server:
        run = await run_case({"url": server.url, "dialect": "adk", "stream": stream}, case)
        requests = [(each.method, each.path) for each in server.received]
    assert run.failure is None
    assert (run.replies, run.usage) == ((REPLY, Reply("Yes.")), Usage(21, 5, None))
    assert run.final_state == {"unit": "C", "turns": 2}
    assert (run.session_id, run.user_id) == ("s/0", "ada")
    path, session = "/run_sse" if stream else "/run", "/apps/weather/users/ada/sessions/s/0"
    assert requests == [
        ("GET", "/list-apps"),
        ("GET", "/list-apps"),
        ("POST", "/apps/weather/users/ada/sessions"),
        ("POST", path),
        ("GET", session),
        ("POST", path),
        ("GET", session),
        ("DELETE", session),
    ]
    assert server.posts[1] == {
        "appName": "weather",
        "userId": "ada",
        "sessionId": "s/0",
        "newMessage": {"role": "user", "parts": [{"text": "Rain?"}, {"inline_data": {}}]},
        "streaming": stream,
    }


async def test_a_trace_has_the_spans_that_the_development_server_keeps() -> None:
    kept: list[dict[str, Any]] = []

    def a_span(id_: int, parent: int | None, **attributes: Any) -> dict[str, Any]:
        now = time.time_ns()
        times = {"start_time": now, "end_time": now + 1000, "parent_span_id": parent}
        return {"name": "span", "span_id": id_, "attributes": attributes, **times}

    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        if "/debug/trace/" in received.path:
            assert received.path == "/dev/apps/weather/debug/trace/session/s/0"
            return web.json_response(kept)
        if received.path == "/run":
            number = len(kept)
            model = a_span(number + 2, number + 1, **{"gen_ai.operation.name": "chat"})
            details = {"gen_ai.input.messages": ["Rain?"], "gen_ai.output.messages": ["No."]}
            model["logs"] = [
                {"event_name": "gen_ai.client.inference.operation.details", "attributes": details}
            ]
            kept.extend([a_span(number + 1, None, **{"http.route": "/run"}), model])
        return await server_without(received)

    server_without = an_adk_server([event({"text": "No."})], [event({"text": "Yes."})])
    async with serving(answer) as server:
        options = {"url": server.url, "dialect": "adk"}
        run = await run_case(options, a_talk("case", "hi", "again"), trace=True)

    assert [(step.turn, step.kind, step.name) for step in run.trace] == [
        *((0, "agent", "turn 1"), (0, "model", "span")),
        *((1, "agent", "turn 2"), (1, "model", "span")),
    ]
    assert (run.trace[1].request, run.trace[1].response) == (["Rain?"], ["No."])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_without_spans_has_a_step_for_each_turn(stream: bool) -> None:
    async with serving(an_adk_server([event({"text": "No."})], [event({"text": "Yes."})])) as server:
        options = {"url": server.url, "dialect": "adk", "stream": stream}
        run = await run_case(options, a_talk("case", "hi", "again"), trace=True)
    assert run.failure is None
    assert [(step.name, step.request, step.response) for step in run.trace] == [
        ("turn 1", "hi", "No."),
        ("turn 2", "again", "Yes."),
    ]


@pytest.mark.parametrize(
    ("apps", "app", "outcome"),
    [
        (("a", "b"), None, "faulted"),
        ((), None, "faulted"),
        (("a", "b"), "b", "answered"),
        (("a",), None, "answered"),
    ],
)
async def test_app_is_chosen_from_the_servers_list(
    apps: tuple[str, ...], app: str | None, outcome: str
) -> None:
    options = {"dialect": "adk", **({"app": app} if app else {})}
    async with serving(an_adk_server([event({"text": "ok"})], apps=apps)) as server:
        run = await run_case({"url": server.url, **options}, a_talk("case", "hi"))
    assert run.outcome == outcome
    if outcome == "faulted":
        known = ", ".join(apps) or "none"
        sentence = f"the server has several apps or none ({known}): name one as `app` (turn 1)"
        assert run.failure == Failure("no_app", sentence)


@pytest.mark.parametrize(
    ("events", "reply"),
    [
        ([], Reply()),
        ([event(author="user")], Reply()),
        ([event({"text": "a"}, {"text": ""}, {"text": "b"})], Reply("a\nb")),
        ([event({"text": "a"}, author="first"), event({"text": "b"})], Reply("b", (Message("a", "first"),))),
        (
            [event(ANSWER, actions={"skipSummarization": True})],
            Reply("", (ToolResult("forecast", {"sky": "clear"}, "1", "weather"),)),
        ),
        (
            [event(CALL, longRunningToolIds=["1"])],
            Reply("", (ToolCall("forecast", {"city": "Paris"}, "1", "weather"),)),
        ),
        (
            [event({"text": "a"}, {"codeExecutionResult": {"output": "1"}})],
            Reply(None, (Message("a", "weather"),)),
        ),
        (
            [{"author": "a", "content": {"parts": [{"function_call": {"name": "f"}}]}}],
            Reply(None, (ToolCall("f", {}, None, "a"),)),
        ),
        ([event({"text": "a"}), {"author": "weather", "errorCode": "STOP"}], Reply("a")),
        (
            [event({"text": "a"}), event(CALL, longRunningToolIds=["1"])],
            Reply("a", (ToolCall("forecast", {"city": "Paris"}, "1", "weather"),)),
        ),
        (
            [event({"text": "ReceivedRequest."}, CALL, longRunningToolIds=["1"])],
            Reply(
                "ReceivedRequest.",
                (
                    Message("ReceivedRequest.", "weather"),
                    ToolCall("forecast", {"city": "Paris"}, "1", "weather"),
                ),
            ),
        ),
    ],
)
def test_events(events: list[object], reply: Reply) -> None:
    assert read_adk_reply(events)[0] == reply


def test_usage_includes_thoughts_and_tool_prompts() -> None:
    counts = {"promptTokenCount": 10, "toolUsePromptTokenCount": 4}
    made = {"candidatesTokenCount": 3, "thoughtsTokenCount": 2}
    assert read_adk_reply([event({"text": "a"}, usageMetadata=counts | made)])[1] == Usage(14, 5, None)


async def test_case_without_a_user_gets_its_own_user() -> None:
    turns = [[event({"text": "ok"})] for _ in range(3)]
    cases = [a_talk("a", "hi"), a_talk("b", "hi"), a_talk("c", "hi", session=SessionInput(user_id="ada"))]
    async with serving(an_adk_server(*turns)) as server:
        await run_cases_over_http({"url": server.url, "dialect": "adk"}, cases)
        users = {body["userId"] for body in server.posts if "userId" in body}
    assert len(users) == 3
    assert "ada" in users


@pytest.mark.parametrize(
    ("events", "failure"),
    [
        ([3], Failure("protocol", "the agent sent an event that is not a JSON object")),
        ([{"error": "boom"}], Failure("exception", "the agent's server reports an error: boom")),
        (
            [{"author": "a", "errorCode": "SAFETY", "errorMessage": "blocked"}],
            Failure("model", "the model of `a` gave the error SAFETY: blocked"),
        ),
        (
            [event({"functionCall": {}})],
            Failure("protocol", "the agent sent a function call or response without a name"),
        ),
    ],
)
def test_refuses(events: list[object], failure: Failure) -> None:
    with pytest.raises(AgentError) as caught:
        read_adk_reply(events)
    assert caught.value.failure == failure
