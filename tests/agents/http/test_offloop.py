"""Large answers: whoever reads them lets the event loop go on."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Self

import pytest

from evalgate.agents.http import response_body
from evalgate.agents.http.response_body import parse_json_body, run_off_loop
from evalgate.agents.workers.wire import LARGE, parse_untrusted_json
from evalgate.core.types import JsonObject
from tests.agents.http.server import one, scripted, serving, sse
from tests.agents.play import a_talk

CALL: JsonObject = {"name": "look", "args": {"city": "Paris", "n": 3, "x": 1.5}}


def many(bytes_: int) -> list[JsonObject]:
    return [CALL] * (bytes_ // len(json.dumps(CALL)) + 1)


class Ticks:
    """Counts how often the event loop comes round."""

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


async def test_the_loop_goes_on_while_a_large_answer_is_read() -> None:
    seen = threading.Event()
    asyncio.get_running_loop().call_later(0, seen.set)
    assert await run_off_loop(LARGE + 1, lambda: seen.wait(10))


async def test_a_small_answer_is_read_at_once() -> None:
    assert await run_off_loop(LARGE, threading.current_thread) is threading.main_thread()


async def test_reading_tool_calls_gives_way() -> None:
    """The decoder in C would keep every other thread waiting until the end."""
    body = json.dumps(many(4 << 20)).encode()
    async with Ticks() as ticks:
        before = ticks.count
        await run_off_loop(len(body), lambda: parse_json_body(body))
        assert ticks.count - before >= 3


ANSWERS: dict[str, tuple[JsonObject, Callable[[], object]]] = {
    "turns": ({}, lambda: {"response": "x", "tool_calls": many(1 << 20)}),
    "turns, streamed": (
        {},
        lambda: sse(
            {"type": "tool_call", "name": "a", "args": {"all": many(1 << 20)}},
            {"type": "done", "response": "x"},
        ),
    ),
    "chat": (
        {"dialect": "openai", "model": "m"},
        lambda: {"choices": [{"message": {"content": "x", "extra": many(1 << 20)}}]},
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_answers_of_each_kind_are_read_beside_the_loop(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, answer = ANSWERS[name]
    threads: list[bool] = []

    def watched(text: str) -> object:
        if len(text) > LARGE:
            threads.append(threading.current_thread() is threading.main_thread())
        return parse_untrusted_json(text)

    monkeypatch.setattr(response_body, "parse_untrusted_json", watched)
    async with serving(scripted(answer())) as server:
        run = await one({"url": server.url, **options}, a_talk("c", "hi"))
    assert run.failure is None
    assert threads == [False]


async def test_what_is_wrong_with_a_large_answer_is_said_as_of_a_small_one() -> None:
    async with serving(scripted({"response": "x", "tool_calls": [*many(LARGE), 1]})) as server:
        run = await one({"url": server.url}, a_talk("c", "hi"))
    assert run.failure is not None
    assert run.failure.message == "the agent's answer has a tool call that is not a JSON object (turn 1)"


@pytest.mark.parametrize(
    "text",
    ['[1, -2, 1.5, 1e400, -1e400, NaN, "\\ud800", {"a": {}, "a": [1]}, true, null]', "9" * 5000, "[" * 300],
)
def test_large_texts_read_as_small_ones(text: str) -> None:
    def outcome(given: str) -> object:
        try:
            return parse_untrusted_json(given)
        except Exception as error:  # noqa: BLE001  compared
            return type(error), getattr(error, "msg", str(error))

    assert outcome(text + " " * LARGE) == outcome(text)
