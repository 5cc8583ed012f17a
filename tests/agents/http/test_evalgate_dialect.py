"""evalgate's own JSON over HTTP: requests, answers and failures."""

import pytest
from aiohttp import web

from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Failure,
    JsonObject,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from tests.agents.http.server import run_case, scripted, serving, sse
from tests.agents.play import a_talk

SUNNY: JsonObject = {
    "response": "Paris: sunny.",
    "tool_calls": [{"name": "get_forecast", "args": {"city": "Paris"}, "result": {"sky": "sunny"}}],
    "state": {"city": "Paris"},
    "usage": {"input_tokens": 20, "output_tokens": 4},
}
CALLED = (ToolCall("get_forecast", {"city": "Paris"}, "1"), ToolResult("get_forecast", {"sky": "sunny"}, "1"))


async def test_request_holds_all_a_stateless_server_needs() -> None:
    case = EvalCase(
        "twice",
        (CaseTurn(UserMessage("Rain in Paris?")), CaseTurn(UserMessage("And now?", ({"inline_data": {}},)))),
        session=SessionInput("weather", "ada", {"unit": "C"}),
        context_messages=({"role": "user", "content": "hello"},),
    )
    async with serving(scripted(SUNNY, {"response": "Still sunny."})) as server:
        run = await run_case({"url": server.url, "headers": {"X-Team": "blue"}}, case)
        posts = [dict(post) for post in server.posts]
    assert run.replies == (Reply("Paris: sunny.", CALLED), Reply("Still sunny."))
    assert (run.final_state, run.usage) == ({"city": "Paris"}, Usage(20, 4, None))
    assert server.received[-1].headers["X-Team"] == "blue"
    sessions = {post.pop("session") for post in posts}
    assert len(sessions) == 1
    common = {
        "protocol": 1,
        "case": "twice",
        "app_name": "weather",
        "user_id": "ada",
        "context_messages": [{"role": "user", "content": "hello"}],
    }
    history = [{"role": "user", "text": "Rain in Paris?"}, {"role": "agent", "text": "Paris: sunny."}]
    assert posts == [
        {**common, "turn": 1, "state": {"unit": "C"}, "history": [], "text": "Rain in Paris?"},
        {
            **common,
            "turn": 2,
            "state": {"city": "Paris"},
            "history": history,
            "text": "And now?",
            "attachments": [{"inline_data": {}}],
        },
    ]


LINES = (
    b'{"type":"tool_call","name":"f","args":{}}\n\n{"type":"message","text":"wait","author":"a"}\n'
    b'{"type":"usage","input_tokens":1}\n{"type":"usage","input_tokens":2}\n{"type":"done","response":"ok"}'
)
STREAMED = Reply("ok", (ToolCall("f", {}), Message("wait", "a")))


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        ({}, Reply()),
        ({"response": None}, Reply()),
        ({"response": "a", "tool_calls": None, "events": None}, Reply("a")),
        (
            {"events": [{"type": "tool_call", "name": "f", "args": {}}], "response": "a"},
            Reply("a", (ToolCall("f", {}),)),
        ),
        (
            {"tool_calls": [{"name": "f"}, {"name": "g", "id": "x"}]},
            Reply(None, (ToolCall("f", None, "1"), ToolCall("g", None, "x"))),
        ),
        (web.Response(body=LINES, content_type="application/x-ndjson"), STREAMED),
        (
            sse(
                {"type": "tool_call", "name": "f", "args": {}},
                {"type": "message", "text": "wait", "author": "a"},
                {"type": "done", "response": "ok"},
            ),
            STREAMED,
        ),
    ],
)
async def test_reads(answer: object, reply: Reply) -> None:
    async with serving(scripted(answer)) as server:
        run = await run_case({"url": server.url}, a_talk("case", "hi"))
    assert (run.failure, run.replies) == (None, (reply,))


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ([1], Failure("protocol", "the agent's answer is not a JSON object (turn 1)")),
        (
            web.Response(body=b"<html>"),
            Failure("protocol", "the agent's answer is not JSON: '<html>' (turn 1)", "<html>"),
        ),
        (
            {"response": 3},
            Failure("protocol", "the agent sent a done whose `response` is not a string (turn 1)"),
        ),
        (
            {"tool_calls": {}},
            Failure("protocol", "the agent's answer has `tool_calls` that is not a list (turn 1)"),
        ),
        (
            {"tool_calls": [3]},
            Failure("protocol", "the agent's answer has a tool call that is not a JSON object (turn 1)"),
        ),
        ({"error": "no luck"}, Failure("exception", "no luck (turn 1)")),
        ({"error": {"kind": "quota", "message": "used up"}}, Failure("quota", "used up (turn 1)")),
        (
            sse({"type": "message", "text": "a"}),
            Failure("protocol", "the agent's answer ended without `done` (turn 1)"),
        ),
        (
            sse({"type": "done"}, {"type": "done"}),
            Failure("protocol", "the agent sent an event after `done` (turn 1)"),
        ),
        (
            sse({"type": "bye"}),
            Failure("protocol", "the agent sent an event of type 'bye', which does not exist (turn 1)"),
        ),
        (
            web.Response(status=500, body=b"x" * 20_000),
            Failure(
                "http", "the agent answered with status 500 Internal Server Error (turn 1)", "x" * 8191 + "…"
            ),
        ),
        (
            web.Response(status=302, headers={"Location": "/there"}),
            Failure(
                "http",
                "the agent answered with status 302 Found; redirections are not followed: give the address that it leads to, /there (turn 1)",
                "",
            ),
        ),
    ],
)
async def test_refuses(answer: object, failure: Failure) -> None:
    async with serving(scripted(answer)) as server:
        run = await run_case({"url": server.url}, a_talk("case", "hi"))
    assert (run.outcome, run.failure) == ("crashed", failure)


async def test_replies_before_a_failed_turn_are_kept() -> None:
    async with serving(scripted(SUNNY, {"error": "down"})) as server:
        run = await run_case({"url": server.url}, a_talk("case", "one", "two"))
    assert (run.outcome, run.replies) == ("crashed", (Reply("Paris: sunny.", CALLED),))
    assert (run.failure, run.usage) == (Failure("exception", "down (turn 2)"), Usage(20, 4, None))
