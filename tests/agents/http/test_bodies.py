"""Streams that say that they are over and do not end, and lines in pieces of any size."""

import json

import pytest

from evalgate.core.types import Message, Reply
from tests.agents.http.server import Handler, one, scripted, serving, sse, streamed
from tests.agents.play import a_talk

DONE = {"type": "done", "response": "ok"}
_STATUS = {"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": "completed"}}
_ARTIFACT = {"artifactId": "a", "parts": [{"kind": "text", "text": "ok"}]}
_UPDATE = {"kind": "artifact-update", "taskId": "t", "contextId": "c", "artifact": _ARTIFACT}
_CHUNK = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}
_USED = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}


def card(url: str) -> dict[str, object]:
    return {"url": f"{url}/a2a", "preferredTransport": "JSONRPC", "capabilities": {"streaming": True}}


def rpc(result: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": "1", "result": result}


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({}, sse(DONE, ends=False)),
        ({}, streamed("application/x-ndjson", json.dumps(DONE) + "\n", ends=False)),
        (
            {"dialect": "openai", "model": "m", "stream": True},
            sse(_CHUNK, _USED, "[DONE]", ends=False),
        ),
    ],
    ids=["evalgate", "lines", "openai"],
)
async def test_a_stream_that_is_done_need_not_end(options: dict[str, object], answer: Handler) -> None:
    async with serving(scripted(answer)) as server:
        run = await one({"url": server.url, **options}, a_talk("case", "hi"))
    assert (run.failure, run.replies) == (None, (Reply("ok"),))


async def test_an_a2a_stream_whose_task_is_over_need_not_end() -> None:
    asked = sse(rpc(_UPDATE), rpc(_STATUS), ends=False)
    async with serving(scripted(lambda each: _card(each.request.url.origin()), asked)) as server:
        run = await one({"url": server.url, "dialect": "a2a"}, a_talk("case", "hi"))
    assert (run.failure, run.replies) == (None, (Reply("ok"),))


async def _card(origin: object) -> dict[str, object]:
    return card(str(origin).rstrip("/"))


async def test_what_follows_the_end_at_once_is_still_heard() -> None:
    async with serving(scripted(sse(DONE, DONE, ends=False))) as server:
        run = await one({"url": server.url}, a_talk("case", "hi"))
    assert run.failure is not None
    assert run.failure.message == "the agent sent an event after `done` (turn 1)"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_lines_come_in_pieces_of_any_size(size: int) -> None:
    said = {"type": "message", "text": "é 😀"}
    text = f"\r\n{json.dumps(said, ensure_ascii=False)}\r\n\n{json.dumps(DONE)}"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    async with serving(scripted(streamed("application/x-ndjson", *pieces))) as server:
        run = await one({"url": server.url}, a_talk("case", "hi"))
    assert run.replies == (Reply("ok", (Message("é 😀"),)),)
