"""The kinds of agents that can be hosted: one file each, tried in order."""

from __future__ import annotations

from typing import Callable, NamedTuple

from ..failures import Refused  # noqa: TID252  the package has two names; an absolute import would fix one
from ..session import Session  # noqa: TID252


class Host(NamedTuple):
    """An agent, ready to be asked."""

    answer: Callable[[str, Session], object]
    """May return a text, a dict, an awaitable of those, or a generator, synchronous or not."""
    asynchronous: bool
    """Whether `answer` may be called in the event loop; a thread calls it otherwise."""
    features: tuple[str, ...] = ()
    """What of the protocol it can do that not every host can."""


def is_a(agent: object, package: str, name: str) -> bool:
    """Whether `agent` is of a class of that name in that package, which is not imported for it."""
    return any(
        each.__name__ == name and (each.__module__ + ".").startswith(package + ".")
        for each in type(agent).__mro__
    )


def host_for(agent: object) -> Host:
    """The host of what the entry names.

    Raises:
        Refused: it is nothing that can be asked.
    """
    from . import adk, callables, langchain, openai_agents, pydantic_ai

    for kind in (adk, langchain, openai_agents, pydantic_ai, callables):
        found: Host | None = kind.host(agent)
        if found is not None:
            return found
    raise Refused(
        f"it is a value of type {type(agent).__name__}; expected a function (text) or (text, session), "
        "or an object with a method ainvoke, invoke, arun or run"
    )
