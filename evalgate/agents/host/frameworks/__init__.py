"""The kinds of agents that can be hosted: one file each, tried in order."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any, Callable, NamedTuple

from ..failures import UnusableEntryError  # noqa: TID252  the package has two names; an absolute import would fix one
from ..session import Session  # noqa: TID252

_FRAMEWORKS = (
    "adk",
    "langchain",
    "openai_agents",
    "pydantic_ai",
    "strands",
    "smolagents",
    "agent_framework",
    "llama_index",
    "autogen",
    "unsupported",
)


class AgentHost(NamedTuple):
    """An agent, ready to be asked."""

    answer: Callable[[str, Session], object]
    """May return a text, a dict, an awaitable of those, or a generator, synchronous or not."""
    asynchronous: bool
    """Whether `answer` may be called in the event loop; a thread calls it otherwise."""
    features: tuple[str, ...] = ()
    """What of the protocol it can do that not every host can."""
    shareable: bool = True
    """Whether one agent may serve many conversations: it keeps nothing of what is said."""
    common: tuple[object, ...] = ()
    """Parts of an agent that is not shareable that its copies may share, such as the client of its model."""
    renew: Callable[[], Any] | None = None
    """Return the host of the next conversation, or an awaitable of it; None: this one serves all of them.

    May be called where `answer` may be called.
    """
    capture: bool = False
    """Whether to add what requests to models and spans tell: for agents that report nothing themselves."""


def is_a(agent: object, package: str, name: str) -> bool:
    """Whether `agent` is of a class of that name in that package, which is not imported for it."""
    return any(
        each.__name__ == name and (each.__module__ + ".").startswith(package + ".")
        for each in type(agent).__mro__
    )


def find_entry_host(named: object, where: str, loop: asyncio.AbstractEventLoop) -> AgentHost:
    """Return the host of what the entry names; its `renew` separates conversations that must be.

    Args:
        named: An agent, or a class or function without parameters that makes one.
        where: Module or file of the entry, for messages.
        loop: Where a factory that is a coroutine function runs.

    Raises:
        UnusableEntryError: it is nothing that can be asked, or all conversations would share what is said.
        AgentCreationError: the class or the factory raised.
    """
    from .agent_copies import create_copied_host, create_factory_host, find_factory

    make = find_factory(named)
    if make is not None:
        return create_factory_host(make, find_host, where, loop)
    host = find_host(named)
    return host if host.shareable else create_copied_host(named, find_host, where)


def find_host(agent: object) -> AgentHost:
    """Return the host of one agent.

    Raises:
        UnusableEntryError: it is nothing that can be asked.
    """
    from . import callables

    found = find_framework(agent) or callables.create_host(agent)
    if found is None:
        raise UnusableEntryError(
            f"it is a value of type {type(agent).__name__}; expected a function (text) or (text, session), "
            "or an object with a method ainvoke, invoke, arun or run"
        )
    return found


def find_framework(agent: object) -> AgentHost | None:
    """Return the host of an agent of a framework, or None if no framework is known that it is of."""
    for name in _FRAMEWORKS:
        found: AgentHost | None = importlib.import_module("." + name, __name__).create_host(agent)
        if found is not None:
            return found
    return None
