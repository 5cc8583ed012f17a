"""Adapters for agents. The modules of the frameworks are tried first, then the one for plain functions."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any, Callable, NamedTuple

from ..errors import UnusableEntryError
from ..session import Session

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
    "unsupported",  # last: it refuses objects that none of the others accepted
)


class HostedAgent(NamedTuple):
    """An adapted agent: the function that runs its turns, and the properties that the host must know."""

    run_turn: Callable[[str, Session], object]
    """Function that runs a turn. It returns a text or a dict, an awaitable of a text or dict, or a generator
    of texts and dicts, which may be asynchronous."""
    asynchronous: bool
    """True if `run_turn` may be called in the event loop; otherwise it is called in a thread."""
    features: tuple[str, ...] = ()
    """Optional features of the worker protocol that the agent supports, such as `tool_mocks`."""
    shareable: bool = True
    """True if one agent object may serve many conversations, because it does not store their messages."""
    shared_parts: tuple[object, ...] = ()
    """Objects that copies of an agent may share, such as its model client; used only if not `shareable`."""
    create_next_agent: Callable[[], Any] | None = None
    """Function that returns, perhaps as an awaitable, the `HostedAgent` of the next conversation.

    None if one agent serves all conversations. Like `run_turn`, the function is called in the event loop if
    `asynchronous` is True, else in a thread.
    """
    capture: bool = False
    """True to capture model requests and spans, for agents that report no events themselves."""


def is_a(agent: object, package: str, name: str) -> bool:
    """Return True if `agent` is an instance of class `name` of `package`, without importing the package."""
    # `isinstance` would need an import of each framework, which takes seconds where it is installed.
    return any(
        each.__name__ == name and (each.__module__ + ".").startswith(package + ".")
        for each in type(agent).__mro__
    )


def load_hosted_agent(named: object, where: str, loop: asyncio.AbstractEventLoop) -> HostedAgent:
    """Adapt `named`, the object that the entry names: an agent, or a factory of agents.

    `create_next_agent` of the result returns a new agent or a copy of `named` for each conversation. It is
    None if all conversations share one agent: `named` itself, or the agent that the factory always returns.

    Args:
        named: An agent, or a class or function that creates one without arguments.
        where: Module or file of the entry, for messages.
        loop: Event loop that awaits the result of an asynchronous factory.

    Raises:
        UnusableEntryError: the object is no agent and creates none. Or the agent stores conversations, cannot
            be copied, and is not created anew for each conversation.
        AgentCreationError: the class or the factory raised.
    """
    from .agent_per_conversation import adapt_copies, adapt_factory, find_factory

    create = find_factory(named)
    if create is not None:
        return adapt_factory(create, adapt_agent, where, loop)
    hosted = adapt_agent(named)
    return hosted if hosted.shareable else adapt_copies(named, adapt_agent, where)


def adapt_agent(agent: object) -> HostedAgent:
    """Adapt an agent for the host.

    An agent is an object of a known framework, a function, an object with a method `ainvoke`, `invoke`,
    `arun` or `run`, or any other object that can be called. A class is not an agent.

    Raises:
        UnusableEntryError: the object is not an agent, or is an agent that evalgate cannot run.
    """
    from . import callables

    found = adapt_framework_agent(agent) or callables.adapt_agent(agent)
    if found is None:
        raise UnusableEntryError(
            f"it is a value of type {type(agent).__name__}; expected a function (text) or (text, session), "
            "or an object with a method ainvoke, invoke, arun or run"
        )
    return found


def adapt_framework_agent(agent: object) -> HostedAgent | None:
    """Adapt an agent of a known framework; return None for any other object.

    Raises:
        UnusableEntryError: the object belongs to a known framework and cannot be used as an agent.
    """
    if type(agent).__module__ == "builtins":
        return None  # a function: without the modules of all frameworks, the host starts 3 ms earlier
    for name in _FRAMEWORKS:
        found: HostedAgent | None = importlib.import_module("." + name, __name__).adapt_agent(agent)
        if found is not None:
            return found
    return None
