"""Agents with memory, in every form that an entry can name. Runs on Python 3.9."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from typing import Any


class Desk:
    """Agent that answers with all texts that it has received."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def invoke(self, text: str) -> str:
        self.heard.append(text)
        time.sleep(0.01)
        return " ".join(self.heard)


class AsyncDesk(Desk):
    async def ainvoke(self, text: str) -> str:
        self.heard.append(text)
        await asyncio.sleep(0.01)
        return " ".join(self.heard)


class Locked(Desk):
    """Agent that cannot be copied, because it holds a lock."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


class Single(Desk):
    """Singleton: every instance and every copy is the same object."""

    _one: Any = None

    def __new__(cls) -> Any:
        cls._one = cls._one or super().__new__(cls)
        return cls._one

    def __init__(self) -> None:
        if not hasattr(self, "heard"):
            super().__init__()


class OwnCopy(Desk):
    def __deepcopy__(self, memo: object) -> OwnCopy:
        return self


class Broken:
    def __init__(self) -> None:
        raise KeyError("API_KEY")


desk = Desk()
async_desk = AsyncDesk()
locked = Locked()
own_copy = OwnCopy()
partial = functools.partial(lambda heard, text: heard.append(text) or " ".join(heard), [])


def make_desk() -> Desk:
    return Desk()


def make_agent(model: str = "large") -> Any:
    """Return a function that keeps the conversation in its closure."""
    assert model == "large"
    heard: list[str] = []

    def answer(text: str) -> str:
        heard.append(text)
        return " ".join(heard)

    return answer


async def get_agent() -> AsyncDesk:
    await asyncio.sleep(0)
    return AsyncDesk()


async def get_desk() -> Desk:
    await asyncio.sleep(0)
    return Desk()


@functools.lru_cache
def cached() -> Desk:
    return Desk()


@functools.lru_cache
def cached_and_locked() -> Locked:
    return Locked()


def makes_nothing() -> None:
    return None


def fails() -> Desk:
    raise RuntimeError("no database")
