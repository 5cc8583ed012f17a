"""Readers of response bodies: pieces of any size, streams that do not end, and large answers."""

import asyncio
import json
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.agents.http import response_body
from evalgate.agents.http.response_body import SseReader, parse_json_body, run_off_loop
from evalgate.agents.workers.protocol import THREAD_PARSE_SIZE, parse_untrusted_json
from evalgate.core.types import JsonObject, Message, Reply
from tests.agents.http.server import Handler, run_case, scripted, serving, sse, streamed
from tests.agents.play import a_talk


def read(*pieces: bytes) -> list[str]:
    reader = SseReader()
    return [*(data for piece in pieces for data in reader.parse_bytes(piece)), *reader.finish_stream()]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"", []),
        (b"data: a\n\n", ["a"]),
        (b"data:a\r\n\r\ndata:  b\r\rdata: c\n\n", ["a", " b", "c"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b": comment\nevent: x\nid: 3\nretry: 9\n\ndata\n\n", [""]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: a", ["a"]),
        (b"data: a\r\n", ["a"]),
        (b"data: \xff\n\n", ["\ufffd"]),
    ],
)
def test_server_sent_events(stream: bytes, events: list[str]) -> None:
    assert read(stream) == events


@given(
    st.lists(
        st.sampled_from([b"data: a", b"data: b:c", b":x", b"\n", b"\r\n", b"\r", b"\xc3\xa9"]), max_size=12
    ),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_events_do_not_depend_on_the_pieces(words: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(words)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert read(*(stream[start:end] for start, end in pairwise(places))) == read(stream)


def test_line_in_many_pieces_is_searched_once() -> None:
    reader, pieces, size = SseReader(), 2_000, 10_000
    assert list(reader.parse_bytes(b"data: ")) == []
    # 20 MB: to look at all of it for each piece would take a minute.
    assert [data for _ in range(pieces) for data in reader.parse_bytes(b"a" * size)] == []
    assert [len(data) for data in reader.parse_bytes(b"\n\n")] == [pieces * size]


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
async def test_finished_stream_need_not_end(options: dict[str, object], answer: Handler) -> None:
    async with serving(scripted(answer)) as server:
        run = await run_case({"url": server.url, **options}, a_talk("case", "hi"))
    assert (run.failure, run.replies) == (None, (Reply("ok"),))


async def test_a2a_stream_of_a_finished_task_need_not_end() -> None:
    stream = sse(rpc(_UPDATE), rpc(_STATUS), ends=False)
    async with serving(scripted(lambda each: _card(each.request.url.origin()), stream)) as server:
        run = await run_case({"url": server.url, "dialect": "a2a"}, a_talk("case", "hi"))
    assert (run.failure, run.replies) == (None, (Reply("ok"),))


async def _card(origin: object) -> dict[str, object]:
    return card(str(origin).rstrip("/"))


async def test_event_right_after_the_end_is_still_read() -> None:
    async with serving(scripted(sse(DONE, DONE, ends=False))) as server:
        run = await run_case({"url": server.url}, a_talk("case", "hi"))
    assert run.failure is not None
    assert run.failure.message == "the agent sent an event after `done` (turn 1)"


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_lines_may_arrive_in_pieces_of_any_size(size: int) -> None:
    message = {"type": "message", "text": "é 😀"}
    text = f"\r\n{json.dumps(message, ensure_ascii=False)}\r\n\n{json.dumps(DONE)}"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    async with serving(scripted(streamed("application/x-ndjson", *pieces))) as server:
        run = await run_case({"url": server.url}, a_talk("case", "hi"))
    assert run.replies == (Reply("ok", (Message("é 😀"),)),)


CALL: JsonObject = {"name": "look", "args": {"city": "Paris", "n": 3, "x": 1.5}}


def build_calls(bytes_: int) -> list[JsonObject]:
    return [CALL] * (bytes_ // len(json.dumps(CALL)) + 1)


class Ticks:
    """Counter of the iterations of the event loop."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


async def test_event_loop_continues_while_a_large_answer_is_parsed() -> None:
    seen = threading.Event()
    asyncio.get_running_loop().call_later(0, seen.set)
    assert await run_off_loop(THREAD_PARSE_SIZE + 1, lambda: seen.wait(10))


async def test_small_answer_is_parsed_in_the_event_loop() -> None:
    assert await run_off_loop(THREAD_PARSE_SIZE, threading.current_thread) is threading.main_thread()


async def test_parsing_tool_calls_lets_other_threads_run() -> None:
    """The decoder in C would block all other threads until its end."""
    body = json.dumps(build_calls(4 << 20)).encode()
    async with Ticks() as ticks:
        before = ticks.count
        await run_off_loop(len(body), lambda: parse_json_body(body))
        assert ticks.count - before >= 3


LARGE_ANSWERS: dict[str, tuple[JsonObject, Callable[[], object]]] = {
    "turns": ({}, lambda: {"response": "x", "tool_calls": build_calls(1 << 20)}),
    "turns, streamed": (
        {},
        lambda: sse(
            {"type": "tool_call", "name": "a", "args": {"all": build_calls(1 << 20)}},
            {"type": "done", "response": "x"},
        ),
    ),
    "chat": (
        {"dialect": "openai", "model": "m"},
        lambda: {"choices": [{"message": {"content": "x", "extra": build_calls(1 << 20)}}]},
    ),
}


@pytest.mark.parametrize("name", LARGE_ANSWERS)
async def test_large_answers_of_each_dialect_are_parsed_in_a_thread(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, answer = LARGE_ANSWERS[name]
    threads: list[bool] = []

    def parse_watched(text: str) -> object:
        if len(text) > THREAD_PARSE_SIZE:
            threads.append(threading.current_thread() is threading.main_thread())
        return parse_untrusted_json(text)

    monkeypatch.setattr(response_body, "parse_untrusted_json", parse_watched)
    async with serving(scripted(answer())) as server:
        run = await run_case({"url": server.url, **options}, a_talk("c", "hi"))
    assert run.failure is None
    assert threads == [False]


async def test_large_and_small_answers_have_the_same_errors() -> None:
    async with serving(
        scripted({"response": "x", "tool_calls": [*build_calls(THREAD_PARSE_SIZE), 1]})
    ) as server:
        run = await run_case({"url": server.url}, a_talk("c", "hi"))
    assert run.failure is not None
    assert run.failure.message == "the agent's answer has a tool call that is not a JSON object (turn 1)"


@pytest.mark.parametrize(
    "text",
    ['[1, -2, 1.5, 1e400, -1e400, NaN, "\\ud800", {"a": {}, "a": [1]}, true, null]', "9" * 5000, "[" * 300],
)
def test_large_and_small_texts_parse_alike(text: str) -> None:
    def outcome(given: str) -> object:
        try:
            return parse_untrusted_json(given)
        except Exception as error:  # noqa: BLE001  compared
            return type(error), getattr(error, "msg", str(error))

    assert outcome(text + " " * THREAD_PARSE_SIZE) == outcome(text)
