"""A2A in both releases: conversations with the server of the official SDK, and answers of other servers."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from evalgate.agents.http.a2a_messages import A2aEndpoint, build_send_params, parse_agent_card
from evalgate.core.protocols import AgentError
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
    UserMessage,
)
from tests.agents.http.server import ReceivedRequest, run_case, run_cases_over_http, serving
from tests.agents.play import a_talk

RELEASES = [("1.0", True), ("1.0", False), ("0.3", True), ("0.3", False)]


@pytest.fixture(
    scope="module", params=RELEASES, ids=lambda param: f"{param[0]}-{'stream' if param[1] else 'send'}"
)
def sdk_server(request: pytest.FixtureRequest) -> Iterator[str]:
    release, streaming = request.param
    command = [sys.executable, str(Path(__file__).with_name("a2a_server.py")), release, str(streaming)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        yield f"http://127.0.0.1:{port}"
        process.kill()


ACTS = (ToolCall("look", {"at": "Paris"}, "1"), ToolResult("look", {"seen": True}, "1"))


async def test_conversations(sdk_server: str) -> None:
    cases = [
        a_talk("work", "Paris"),
        a_talk("message", "message", "Paris"),
        a_talk("book", "book", "Paris"),
        a_talk("draft", "draft", "yes"),
        a_talk("fail", "fail"),
    ]
    runs = await run_cases_over_http({"url": sdk_server, "dialect": "a2a"}, cases)
    assert {run.failure for name, run in runs.items() if name != "fail"} == {None}
    worked = Reply("All about Paris.", (Message("Looking."), *ACTS))
    assert runs["work"].replies == (worked,)
    assert runs["message"].replies == (Reply("Just this."), worked)
    assert runs["book"].replies == (Reply("Which day?"), worked)
    drafted = Reply("Send it?", (ToolCall("draft", {}), Message("Dear all")))
    assert runs["draft"].replies == (drafted, Reply("Sent."))
    failed = Failure("exception", "the agent's task ended as `failed`: No seats. (turn 1)")
    assert (runs["fail"].outcome, runs["fail"].failure) == ("crashed", failed)


async def test_session_state_is_refused() -> None:
    case = EvalCase("case", (CaseTurn(UserMessage("hi")),), session=SessionInput(state={"a": 1}))
    async with serving(served({})) as server:
        run = await run_case({"url": server.url, "dialect": "a2a"}, case)
    sentence = "A2A has no place for a session's state or for the messages before it (turn 1)"
    assert (run.outcome, run.failure) == ("faulted", Failure("unsupported", sentence))


def a_card(**more: Any) -> dict[str, Any]:
    return {"name": "x", "capabilities": {}, **more}


def served(*results: Any) -> Any:
    """Serve an agent of release 0.3 with its card at the older address; return each result once."""
    rest = iter(results)

    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        if received.path == "/.well-known/agent.json":
            return web.json_response(a_card(url=str(received.request.url.with_path("/"))))
        if received.method == "GET":
            return web.Response(status=404)
        found = next(rest)
        body = found if "jsonrpc" in found else {"jsonrpc": "2.0", "id": received.body["id"], "result": found}
        return web.json_response(body)

    return answer


def a_task(state: str, **more: Any) -> dict[str, Any]:
    return {"kind": "task", "id": "t", "contextId": "c", "status": {"state": state}, **more}


TEXT = {"kind": "text", "text": "done"}


async def test_unfinished_task_is_polled_until_it_ends() -> None:
    over = a_task("completed", artifacts=[{"artifactId": "a", "parts": [TEXT]}])
    async with serving(served(a_task("submitted"), a_task("working"), over)) as server:
        run = await run_case({"url": server.url, "dialect": "a2a"}, a_talk("case", "hi"))
        assert [post["method"] for post in server.posts] == ["message/send", "tasks/get", "tasks/get"]
        assert server.posts[1]["params"] == {"id": "t"}
    assert run.replies == (Reply("done"),)


async def test_next_turn_keeps_the_context_and_drops_the_finished_task() -> None:
    over = a_task("completed", status={"state": "completed", "message": {"role": "agent", "parts": [TEXT]}})
    async with serving(served(over, over)) as server:
        run = await run_case({"url": server.url, "dialect": "a2a"}, a_talk("case", "one", "two"))
        sent = [post["params"]["message"] for post in server.posts]
    assert run.replies == (Reply("done"), Reply("done"))
    assert [(each.get("contextId"), each.get("taskId")) for each in sent] == [(None, None), ("c", None)]


def an_artifact(id_: str, *texts: str) -> dict[str, Any]:
    return {"artifactId": id_, "parts": [{"kind": "text", "text": text} for text in texts]}


@pytest.mark.parametrize(
    ("artifacts", "response"),
    [
        ([an_artifact("a", "draft")], None),
        ([an_artifact("a", "draft"), an_artifact("b", "sent")], "sent"),
        ([an_artifact("a", "draft", " and sent")], " and sent"),
        ([an_artifact("a", "final")], "final"),
    ],
    ids=["unchanged", "another", "continued", "replaced"],
)
async def test_artifacts_of_earlier_turns_are_no_answer(artifacts: list[Any], response: str | None) -> None:
    asks = a_task("input-required", artifacts=[an_artifact("a", "draft")])
    async with serving(served(asks, a_task("completed", artifacts=artifacts))) as server:
        run = await run_case({"url": server.url, "dialect": "a2a"}, a_talk("case", "one", "two"))
    assert run.replies == (Reply(None, (Message("draft"),)), Reply(response))


async def test_artifacts_without_ids_are_all_part_of_the_answer() -> None:
    over = a_task("completed", artifacts=[an_artifact("", "first"), an_artifact("", "second")])
    async with serving(served(over)) as server:
        run = await run_case({"url": server.url, "dialect": "a2a"}, a_talk("case", "one"))
    assert run.replies == (Reply("first\nsecond"),)


async def test_an_artifact_that_is_streamed_again_is_an_answer() -> None:
    asks = a_task("input-required", artifacts=[an_artifact("a", "draft")])
    again = {
        "kind": "artifact-update",
        "taskId": "t",
        "contextId": "c",
        "artifact": an_artifact("a", "draft"),
    }
    rest = iter([[asks], [asks, again, a_task("completed", artifacts=[an_artifact("a", "draft")])]])

    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        if received.method == "GET":
            return web.json_response(a_card(url=str(received.request.url.with_path("/"))))
        lines = [f"data: {json.dumps({'jsonrpc': '2.0', 'result': each})}\n\n" for each in next(rest)]
        return web.Response(text="".join(lines), content_type="text/event-stream")

    async with serving(answer) as server:
        options = {"url": server.url, "dialect": "a2a", "stream": True}
        run = await run_case(options, a_talk("case", "one", "two"))
    assert run.replies == (Reply(None, (Message("draft"),)), Reply("draft"))


@pytest.mark.parametrize(
    ("result", "kind", "sentence"),
    [
        (
            {"jsonrpc": "2.0", "error": {"code": -32001, "message": "no"}},
            "exception",
            "the agent answered with error -32001: no",
        ),
        ({"jsonrpc": "2.0"}, "protocol", "the agent's answer is JSON-RPC without a result"),
        ({"jsonrpc": "2.0", "result": 3}, "protocol", "the agent's result is not a JSON object"),
        ({"kind": "other"}, "protocol", "the agent's result is neither a task nor a message"),
        (a_task("dreaming"), "protocol", "the agent's task is in a state that A2A does not have: 'dreaming'"),
        (a_task("auth-required"), "exception", "the agent's task ended as `auth-required`"),
        (a_task("canceled"), "exception", "the agent's task ended as `canceled`"),
    ],
)
async def test_refuses(result: Any, kind: str, sentence: str) -> None:
    async with serving(served(result)) as server:
        run = await run_case({"url": server.url, "dialect": "a2a"}, a_talk("case", "hi"))
    assert (run.outcome, run.failure) == ("crashed", Failure(kind, f"{sentence} (turn 1)"))


NEW = {"url": "http://new", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
OLD = {"url": "http://old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3.0"}
REST = {"url": "http://rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}


@pytest.mark.parametrize(
    ("card", "endpoint"),
    [
        (a_card(supportedInterfaces=[REST, OLD, NEW]), A2aEndpoint("http://new", "1.0", streaming=False)),
        (a_card(supportedInterfaces=[REST, OLD]), A2aEndpoint("http://old", "0.3", streaming=False)),
        (
            {"url": "http://u", "preferredTransport": "JSONRPC", "capabilities": {"streaming": True}},
            A2aEndpoint("http://u", "0.3", streaming=True),
        ),
        (
            a_card(
                url="http://g",
                preferredTransport="GRPC",
                additionalInterfaces=[{"url": "http://j", "transport": "JSONRPC"}],
            ),
            A2aEndpoint("http://j", "0.3", streaming=False),
        ),
    ],
)
def test_cards(card: JsonObject, endpoint: A2aEndpoint) -> None:
    assert parse_agent_card(card, "http://base") == endpoint


@pytest.mark.parametrize("card", [None, a_card(supportedInterfaces=[REST])])
def test_agent_card_without_an_interface_is_refused(card: object) -> None:
    with pytest.raises(AgentError, match="agent card"):
        parse_agent_card(card, "http://base")


def test_attachments() -> None:
    message = UserMessage(
        "See", ({"inline_data": {"mime_type": "a/b", "data": "AA=="}}, {"file_data": {"file_uri": "u"}})
    )
    old = build_send_params("0.3", message, id_="1", context=None, task=None)
    new = build_send_params("1.0", message, id_="1", context=None, task=None)
    assert (old["message"], new["message"]) == (
        {
            "messageId": "1",
            "role": "user",
            "kind": "message",
            "parts": [
                {"kind": "text", "text": "See"},
                {"kind": "file", "file": {"bytes": "AA==", "mimeType": "a/b"}},
                {"kind": "file", "file": {"uri": "u", "mimeType": "application/octet-stream"}},
            ],
        },
        {
            "messageId": "1",
            "role": "ROLE_USER",
            "parts": [
                {"text": "See"},
                {"raw": "AA==", "mediaType": "a/b"},
                {"url": "u", "mediaType": "application/octet-stream"},
            ],
        },
    )
