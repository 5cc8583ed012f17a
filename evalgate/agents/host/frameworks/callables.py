"""Adapter for agents without a framework: functions, callables, objects with a method such as `ainvoke`."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Optional

from ..errors import UnusableEntryError
from ..mocked_tools import FEATURES
from ..session import Session
from ..tools import decorated, require_decorated
from . import HostedAgent, adapt_framework_agent

_METHODS = ("ainvoke", "invoke", "arun", "run")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def adapt_agent(agent: object) -> Optional[HostedAgent]:
    """Adapt a function, a callable object, or an object with a method `ainvoke`, `invoke`, `arun` or `run`.

    Return None for any other object, and for a class.

    Raises:
        UnusableEntryError: the function or method does not accept (text) or (text, session).
    """
    function = None if inspect.isclass(agent) else _find_function(agent)
    if function is None:
        return None
    ask = _adapt_signature(function)

    def run_turn(text: str, session: Session) -> object:
        if session.mocks:
            require_decorated(session)
        return ask(text, session)

    return HostedAgent(
        run_turn,
        _is_asynchronous(function),
        FEATURES if decorated else (),  # the module of the agent is loaded, and its tools are decorated
        shareable=_is_stateless(agent),
        capture=True,
    )


def _is_stateless(agent: object) -> bool:
    """Return True if `agent` is assumed to store no conversation, so that conversations may share it.

    Functions, class methods and wrappers of functions are assumed to store none. A method of an object is
    assumed to store none if the object is an agent of a known framework that conversations may share.
    """
    owner = getattr(agent, "__self__", None)
    if inspect.ismethod(agent) and not inspect.isclass(owner):
        known = adapt_framework_agent(owner)
        return known is not None and known.shareable
    return inspect.isroutine(agent) or inspect.isfunction(getattr(agent, "__wrapped__", None))


def _find_function(agent: object) -> Optional[Callable[..., object]]:
    if inspect.isroutine(agent) or isinstance(agent, functools.partial):
        return agent
    for name in _METHODS:
        method = getattr(agent, name, None)
        if callable(method):
            found: Callable[..., object] = method
            return found
    return agent if callable(agent) else None


def _is_asynchronous(function: Callable[..., object]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    candidates = (function, getattr(function, "__call__", None))  # noqa: B004  an object's own, to look into it
    return any(inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in candidates)


def _adapt_signature(function: Callable[..., object]) -> Callable[[str, Session], object]:
    """Return a function of (text, session) that calls `function` with the arguments that it takes.

    `function` may take (text), (text, session) or (text, *, session), and any parameters with defaults.

    Raises:
        UnusableEntryError: `function` cannot be called in one of these ways.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # a function in C without a signature
        return lambda text, _session: function(text)
    positional = [each for each in parameters if each.kind in _POSITIONAL]
    _check_signature(function, parameters, positional)
    # A second parameter with a default and another name is an option of the agent, not the session.
    if len(positional) > 1 and (positional[1].name == "session" or _is_required(positional[1])):
        return function
    if any(each.name == "session" and each.kind is each.KEYWORD_ONLY for each in parameters):
        return lambda text, session: function(text, session=session)
    return lambda text, _session: function(text)


def _check_signature(
    function: Callable[..., object], parameters: list[inspect.Parameter], positional: list[inspect.Parameter]
) -> None:
    name = getattr(function, "__name__", type(function).__name__)
    needed = [each for each in parameters if _is_required(each) and each.name != "session"]
    takes_text = bool(positional) or any(each.kind is each.VAR_POSITIONAL for each in parameters)
    required = [each for each in positional if _is_required(each)]
    keywords = [each for each in needed if each.kind is each.KEYWORD_ONLY]
    if not takes_text or len(required) > 2 or keywords:
        signature = ", ".join(str(each).partition(":")[0].partition("=")[0] for each in parameters)
        raise UnusableEntryError(
            f"`{name}({signature})` cannot be asked; it must accept (text) or (text, session)"
        )


def _is_required(parameter: inspect.Parameter) -> bool:
    variable: tuple[Any, ...] = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in variable
