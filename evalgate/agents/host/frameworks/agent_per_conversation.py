"""Creation of an agent for each conversation, so that no conversation sees messages of another one.

A class or a function without parameters is called once per conversation. A ready-made object is copied once
per conversation. Two kinds of objects are shared instead: functions, and objects of frameworks that store
conversations outside of the object. An object that can neither be shared nor copied is refused: it would
answer one user's question with another user's data.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import re
import sys
from typing import Any, Callable, List, Optional

from ..errors import AgentCreationError, UnusableEntryError, summarize_error
from . import HostedAgent

_FACTORY_NAME = re.compile(r"(make|create|build|get|new)_(\w+_)?(agent|graph|crew|team|workflow)(_async)?$")
_Adapt = Callable[[object], HostedAgent]


def find_factory(named: object) -> Optional[Callable[[], object]]:
    """Return `named` if it is a class or a function that creates agents; None for any other object.

    Each function without parameters counts as one that creates agents. A function with parameters counts only
    if all parameters have defaults, and if it has a name such as `make_agent` or `build_support_graph`.

    Raises:
        UnusableEntryError: `named` is a class that needs arguments, or a method of a class without an object.
    """
    if inspect.isclass(named):
        _check_class(named)
        return named
    if not inspect.isroutine(named):
        return None
    try:
        parameters = list(inspect.signature(named).parameters.values())
    except ValueError:  # a function in C without a signature
        return None
    _check_method(named, parameters)
    return named if _is_factory(named, parameters) else None


def _is_factory(function: object, parameters: List[inspect.Parameter]) -> bool:
    if not parameters:
        return True
    # `def make_agent(model="large")` is a factory too, although it could be called with a text.
    optional = all(each.default is not each.empty for each in parameters)
    return optional and _FACTORY_NAME.match(getattr(function, "__name__", "")) is not None


def _check_class(named: Callable[..., object]) -> None:
    try:
        parameters = inspect.signature(named).parameters.values()
    except ValueError:  # a class in C without a signature
        return
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [each for each in parameters if each.default is each.empty and each.kind not in variable]
    if needed:
        name = getattr(named, "__name__", "the class")
        raise UnusableEntryError(
            f"class `{name}` cannot be made without `{needed[0].name}`; name a function without parameters "
            "that makes one"
        )


def _check_method(function: object, parameters: List[inspect.Parameter]) -> None:
    if not parameters or parameters[0].name != "self" or not inspect.isfunction(function):
        return
    owner, _, name = function.__qualname__.rpartition(".")
    if owner:
        raise UnusableEntryError(
            f"`{name}` is a method of class `{owner}`: name the class, or a function that asks it"
        )


def adapt_factory(
    create: Callable[[], object], adapt: _Adapt, where: str, loop: asyncio.AbstractEventLoop
) -> HostedAgent:
    """Adapt a factory: `create` is called to create an agent for each conversation.

    Two agents are created now and compared. Usually they are two objects, and serve the first two
    conversations. If they are the same object, for example because `create` is a cached function, all
    conversations share this object. If it is not shareable, each conversation gets a copy of it.

    Args:
        create: Function that returns an agent or an awaitable of one.
        adapt: Function that adapts an agent for the host.
        where: Module or file of the entry, for messages.
        loop: Event loop that awaits the first two agents.

    Raises:
        AgentCreationError: `create` raised.
        UnusableEntryError: `create` returns an object that is not an agent. Or it always returns the same
            agent, which can be neither shared nor copied.
    """
    agents = [_create_agent(create, loop) for _ in range(2)]
    adapted = [_require_agent(each, create, adapt) for each in agents]
    if agents[0] is agents[1]:
        return adapted[0] if adapted[0].shareable else adapt_copies(agents[0], adapt, where)

    async def adapt_awaited_agent(agent: Any) -> HostedAgent:
        return adapt(await agent)

    def create_next_agent() -> Any:
        # The agents that were created for the comparison serve the first two conversations.
        if adapted:
            return adapted.pop(0)
        agent = create()
        return adapt_awaited_agent(agent) if inspect.isawaitable(agent) else adapt(agent)

    return adapted[0]._replace(create_next_agent=create_next_agent)


def _create_agent(create: Callable[[], object], loop: asyncio.AbstractEventLoop) -> object:
    async def await_agent(awaitable: Any) -> object:
        return await awaitable

    try:
        agent = create()
        return loop.run_until_complete(await_agent(agent)) if inspect.isawaitable(agent) else agent
    except UnusableEntryError:
        raise
    except BaseException as error:
        raise AgentCreationError(f"making it raised {summarize_error(error)}") from error


def _require_agent(agent: object, create: Callable[[], object], adapt: _Adapt) -> HostedAgent:
    try:
        return adapt(agent)
    except UnusableEntryError as error:
        if inspect.isclass(create):
            raise
        name = getattr(create, "__name__", "it")
        raise UnusableEntryError(
            f"`{name}()` takes no text, so it was called to make the agent; {error}"
        ) from None


def adapt_copies(agent: object, adapt: _Adapt, where: str) -> HostedAgent:
    """Adapt a ready-made agent. Each conversation uses a copy, and none uses the agent itself.

    Args:
        agent: The agent.
        adapt: Function that adapts an agent for the host.
        where: Module or file of the entry, for messages.

    Raises:
        UnusableEntryError: the agent cannot be copied.
    """
    shared_parts = adapt(agent).shared_parts
    # At once, so that an agent that cannot be copied is refused before any case runs.
    first = [adapt(_copy_agent(agent, shared_parts, where))]

    def create_next_agent() -> HostedAgent:
        return first.pop() if first else adapt(copy.deepcopy(agent, _build_copy_memo(shared_parts)))

    return first[0]._replace(create_next_agent=create_next_agent)


def _build_copy_memo(shared_parts: tuple[object, ...]) -> dict[int, Any]:
    """Return a memo with which `copy.deepcopy` keeps the shared parts instead of copying them."""
    return {id(each): each for each in shared_parts}


def _copy_agent(agent: object, shared_parts: tuple[object, ...], where: str) -> object:
    try:
        copied = copy.deepcopy(agent, _build_copy_memo(shared_parts))
    except Exception as error:  # noqa: BLE001  copying runs the agent's code
        raise UnusableEntryError(
            _explain_shared_agent(agent, f"cannot be copied ({summarize_error(error)})", where)
        ) from None
    if copied is agent:
        raise UnusableEntryError(_explain_shared_agent(agent, "is its own copy", where))
    return copied


def _explain_shared_agent(agent: object, why: str, where: str) -> str:
    owner = type(getattr(agent, "__self__", agent))
    class_advice = "its class, or " if _is_users_class(owner) else ""
    article = "an" if owner.__name__[:1].upper() in "AEIOU" else "a"
    # The advice comes early, because some reports cut a long sentence.
    return (
        f"each conversation needs {article} `{owner.__name__}` of its own, and this one {why}: name "
        f"{class_advice}a function without parameters that makes one (`agent.entry: {where}:make_agent`); "
        "else one user would be answered with what another one said"
    )


def _is_users_class(owner: type) -> bool:
    """Return True if the class is in the user's code, not in the standard library or an installed package.

    Used for the error message about an agent that cannot be copied: for a class of the user, the message
    advises to name the class as the entry, so that evalgate creates an agent for each conversation.
    """
    import sysconfig  # only needed for this sentence

    file = getattr(sys.modules.get(owner.__module__), "__file__", None) or ""
    folders = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    return bool(file) and not any(folder and file.startswith(folder) for folder in folders)
