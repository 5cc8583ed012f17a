"""Tiny agents, one behaviour each. Runs on Python 3.9."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any


def sync_function(text: str) -> str:
    return text.upper()


async def async_function(text: str) -> str:
    await asyncio.sleep(0)
    return text.upper()


class TooManyRequests(Exception):
    """Rate-limit error in the form of a provider's SDK."""

    status_code = 429
    retry_after = 2


async def is_rate_limited(text: str, session: Any) -> str:
    session.usage(7)
    raise TooManyRequests("slow down")


def sync_generator(text: str) -> Iterator[object]:
    yield text
    yield {"type": "tool_call", "name": "look", "args": {"at": text}}
    yield {"type": "message", "text": "thinking", "author": "me"}
    yield "!"


async def async_generator(text: str) -> AsyncIterator[object]:
    yield {"type": "tool_call", "name": "look", "args": {"at": text}}
    yield {"response": text.upper(), "usage": {"input_tokens": 2, "output_tokens": 1}}


def rich_answer(text: str) -> dict[str, object]:
    calls = [{"name": "look", "args": {"at": text}, "id": "7", "result": [1, None]}]
    return {"response": "seen", "tool_calls": calls, "state": {"seen": text}, "usage": {"input_tokens": 3}}


async def counts(text: str, session: Any) -> str:
    """Count the turns in the session's state, and answer with the case, the user and the length of the history."""
    session.state["count"] = session.state.get("count", 0) + 1
    session.tool_call("count", {"to": session.state["count"]})
    session.tool_result("count", session.state["count"])
    return f"{session.case} {session.user_id} {len(session.history)} {text}"


async def reports_everything(text: str, session: Any) -> None:
    session.message("one moment")
    session.tool_call("look", {"nan": float("nan"), "odd": {3}, "surrogate": "\ud800"})
    session.usage(5, 6, 0.25)
    session.usage(1)
    session.message("there", final=True)


class WithInvoke:
    def invoke(self, text: str) -> str:
        return f"invoked {text}"


class WithAsyncInvoke:
    async def ainvoke(self, text: str, config: object = None) -> str:
        return f"ainvoked {text} {config}"

    def invoke(self, text: str) -> str:
        raise NotImplementedError


class WithRun:
    def run(self, text: str, *, session: Any) -> str:
        return f"ran {session.case} {text}"


class Callable:
    async def __call__(self, text: str) -> str:
        return f"called {text}"


class NeedsArguments:
    def __init__(self, model: str) -> None:
        self.model = model


instance = WithInvoke()
partial = functools.partial(lambda prefix, text: prefix + text, "partly ")


def sync_returning_awaitable(text: str) -> Any:
    return async_function(text)


number = 3


def no_argument() -> str:
    return ""


def three_arguments(a: str, b: str, c: str) -> str:
    return a + b + c


def prints(text: str) -> str:
    sys.stdout.write("from Python\n")
    subprocess.run(["echo", "from a child"], check=True)
    ctypes.CDLL(None).puts(b"from C")
    ctypes.CDLL(None).fflush(None)
    return f"{text} {sys.stdin.read()!r}"


def raises(text: str) -> str:
    raise ValueError("no such order\nsecond line")


def answers_then_raises(text: str) -> str:
    if text == "two":
        raise ValueError(text)
    return text


def exits(text: str) -> str:
    sys.exit(3)


async def exits_in_task(text: str) -> str:
    async def leave() -> None:
        sys.exit(4)

    await asyncio.create_task(leave())
    return text


async def exits_in_a_lost_task(text: str) -> str:
    """Start a task that calls `sys.exit`, do not await the task, and wait for ever."""

    async def leave() -> None:
        sys.exit(5)

    leaving = asyncio.create_task(leave())
    await asyncio.Event().wait()
    return str(leaving)


async def outlives_a_lost_task(text: str) -> str:
    async def leave() -> None:
        sys.exit(6)

    leaving = asyncio.create_task(leave())
    await asyncio.sleep(0.05)
    return f"{text} {leaving.done()}"


def dies(text: str) -> str:
    sys.stderr.write("last words\n")
    os._exit(0)


def segfaults(text: str) -> str:
    ctypes.string_at(0)
    return text


async def hangs(text: str, session: Any) -> str:
    session.message("hanging")
    await asyncio.sleep(600)
    return text


async def hangs_stubbornly(text: str, session: Any) -> str:
    session.message("hanging")
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            continue


def hangs_in_thread(text: str, session: Any) -> str:
    session.message("hanging")
    time.sleep(600)
    return text


async def blocks_loop(text: str) -> str:
    time.sleep(600)  # noqa: ASYNC251
    return text


def starts_children(text: str) -> str:
    subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 600"])
    return text


async def poisoned(text: str) -> str:
    """Return the text, except for texts that end, block or hang the agent."""
    await asyncio.sleep(0.05)
    if text == "die":
        os._exit(5)
    if text == "block":
        time.sleep(600)  # noqa: ASYNC251
    if text == "stand still":
        stand_still()
    if text == "hang":
        await asyncio.sleep(600)
    return text


def stand_still() -> None:
    """Block the thread until the file named by GO_ON exists. Delete the file then."""
    file = pathlib.Path(os.environ["GO_ON"])
    while not file.exists():
        time.sleep(0.01)
    file.unlink()


def poisoned_thread(text: str) -> str:
    """Hang in a thread, which cannot be cancelled, if the text is `hang`; else answer after a second."""
    time.sleep(600 if text == "hang" else 1)
    return text


def hangs_or_tells_process(text: str) -> str:
    if text == "hang":
        time.sleep(600)
    return str(os.getpid())


def floods_stderr(text: str) -> str:
    for _ in range(200):
        sys.stderr.write("x" * 65536)
    return text


def returns_number(text: str) -> Any:
    return 3


def returns_nothing(text: str) -> None:
    return None


def unknown_key(text: str) -> dict[str, object]:
    return {"respnse": text}


def wrong_arguments(text: str) -> dict[str, object]:
    return {"response": text, "tool_calls": [{"name": "look", "args": "at"}]}


def state_of_keys(text: str) -> dict[str, object]:
    return {"response": text, "state": {(1, 2): 3}}


def nests(text: str, session: Any) -> str:
    value: list[object] = []
    for _ in range(150):
        value = [value]
    session.tool_call("deep", {"value": value})
    return text
