"""The decorator for tools that are plain Python functions, and the search for the session of a tool call.

Agents import the decorator with `from evalgate_host import tool`: the module `evalgate_host` exists while
evalgate runs the agent, and nowhere else.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import json
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Optional

from .errors import NoMatchingMockError, UnsupportedCaseError
from .recorded_tools import RecordedToolError

if TYPE_CHECKING:
    from .session import Session

MODULE = "evalgate_host"
"""Name under which agents import this module's decorator."""

current_session: ContextVar[Optional[Session]] = ContextVar("evalgate_session", default=None)
"""Conversation of the turn that the running code belongs to; None outside of turns."""
mocked_sessions: set[Session] = set()
"""Open conversations with mocks or a recording."""
decorated: set[str] = set()
"""Names of the tools that were decorated."""


def publish_module() -> None:
    """Make `from evalgate_host import tool` possible in this process."""
    module = ModuleType(MODULE, "Decorator of tools, for agents that evalgate runs.")
    module.tool = tool  # type: ignore[attr-defined]
    sys.modules.setdefault(MODULE, module)


def find_session(name: str) -> Session | None:
    """Return the conversation in which the calling code runs the tool `name`; None outside of conversations.

    Raises:
        NoMatchingMockError: the calling thread belongs to no conversation, although open conversations have
            mocks or a recording. The error is also stored in `mocks.missing` of these conversations, so that
            their turns fail.
    """
    session = current_session.get()
    if session is None and mocked_sessions:
        # If the tool were called for real, it could have effects that a mock must prevent.
        error = NoMatchingMockError(
            f"`{name}` was called in a thread that does not know its conversation, so that no mock could be "
            "found: start the thread's function with `contextvars.copy_context().run`"
        )
        for each in mocked_sessions.copy():  # the event loop changes the set at the same time
            each.mocks.missing = error
        raise error
    return session


def require_decorated(session: Session) -> None:
    """Raise an error if the case mocks tools that are not decorated, because they would be called for real.

    Raises:
        UnsupportedCaseError: a mocked or recorded tool has no decorator `tool`; the message names it.
    """
    missing = [name for name in session.mocks.list_tools() if name not in decorated]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        raise UnsupportedCaseError(
            f"the case mocks {names}, and no function with that name has the decorator `tool` of "
            f"`{MODULE}`, so that it would be called for real"
        )


def refuse_undecorated_call(session: Session, name: str) -> None:
    """Raise an error for a call of the tool `name` if the tool is mocked in this turn but not decorated.

    Raises:
        NoMatchingMockError: the call is refused. The error is also stored in `session.mocks.missing`.
    """
    if session.mocks.is_mocked(name) and name not in decorated:
        session.mocks.missing = NoMatchingMockError(
            f"the agent itself calls `{name}`, which is mocked, and has no decorator `tool` of `{MODULE}`"
        )
        raise session.mocks.missing


def tool(function: Any = None, *, name: Optional[str] = None) -> Any:
    """Mark a function as a tool: evalgate reports its calls, and mocks can answer them.

    Args:
        function: The function, which may be asynchronous. Its results must be JSON: a call in a turn raises
            TypeError for any other result. Without `function`, a decorator is returned.
        name: Name of the tool; None: the name of the function.

    Raises:
        TypeError: the function is a generator function.
    """
    if function is None:
        return functools.partial(tool, name=name)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"`{function.__name__}` is a generator, and the result of a tool must be one value")
    tool_name: str = name or function.__name__
    decorated.add(tool_name)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async_tool(*values: Any, **named: Any) -> Any:
            with _watch_call(tool_name, function, values, named) as call:
                if not call.is_answered:
                    call.result = await function(*values, **named)
            return call.result

        return call_async_tool

    @functools.wraps(function)
    def call_tool(*values: Any, **named: Any) -> Any:
        with _watch_call(tool_name, function, values, named) as call:
            if not call.is_answered:
                call.result = function(*values, **named)
        return call.result

    return call_tool


class _WatchedCall:
    def __init__(self) -> None:
        self.result: Any = None
        self.is_answered = False
        """True if `result` is from a mock or the recording, so that the tool must not be called."""


@contextlib.contextmanager
def _watch_call(
    name: str, function: Callable[..., Any], values: tuple[Any, ...], named: dict[str, Any]
) -> Iterator[_WatchedCall]:
    """Report a call of a tool before the `with` block, and the call's result or error after the block.

    If the tool is mocked, the yielded call has its `result`, and `is_answered` is True. Otherwise, the block
    must call the tool and set `result`. Outside of turns, nothing is reported.

    Raises:
        NoMatchingMockError: the tool is mocked, and no mock or recorded call answers this call.
        TypeError: the result is not JSON.
        Exception: any exception that the block, or the tool in the recorded call, raises.
    """
    call, session = _WatchedCall(), find_session(name)
    if session is None:
        yield call
        return
    args = _name_arguments(function, values, named)
    if session.recorder.open:
        session.tool_call(name, args)
    try:
        if session.mocks.is_mocked(name):
            call.result, call.is_answered = _require_result(session, name, args, function), True
        yield call
    except NoMatchingMockError:
        raise
    except Exception as error:
        if session.recorder.open:
            session.tool_result(name, {"error": str(error), "raised": type(error).__name__})
        raise
    if session.recorder.open:
        session.tool_result(name, _require_json(name, call.result))


def _name_arguments(
    function: Callable[..., Any], values: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of a call by name, without `self` and `cls`.

    An object that JSON cannot hold becomes the name of its class, such as `<Order>`. Arguments that were not
    passed are left out. If the function does not accept the arguments, only the keyword arguments, `named`,
    are returned.
    """
    found: dict[str, Any] = {}
    try:
        bound = inspect.signature(function).bind(*values, **named)
    except TypeError:  # the call itself fails with the same error
        found = named
    else:
        for key, value in bound.arguments.items():
            if bound.signature.parameters[key].kind is inspect.Parameter.VAR_KEYWORD:
                found.update(value)
            elif key not in ("self", "cls"):
                found[key] = value
    return {key: _convert_argument(value) for key, value in found.items()}


def _convert_argument(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, default=_describe_class))
    except (TypeError, ValueError, RecursionError):  # keys of other types, or a value that contains itself
        return _describe_class(value)


def _describe_class(value: Any) -> str:
    return f"<{type(value).__name__}>"


def _require_json(name: str, result: Any) -> Any:
    try:
        return json.loads(json.dumps(result))
    except (TypeError, ValueError):
        raise TypeError(
            f"the tool `{name}` returned a value of type {type(result).__name__} that JSON cannot hold, so "
            "that its result cannot be recorded: let it return texts, numbers, lists and dicts"
        ) from None


def _require_result(session: Session, name: str, args: dict[str, Any], function: Callable[..., Any]) -> Any:
    try:
        return session.mocks.require_result(name, args)
    except RecordedToolError as error:
        raise _restore_error(error, function) from None


def _restore_error(error: RecordedToolError, function: Callable[..., Any]) -> Exception:
    """Return an error of the recorded class with the same message, or `error` if that is not possible.

    The class is searched in the tool's module, then in Python's builtins. Its constructor must accept the
    message as the only argument.
    """
    module_names = getattr(inspect.unwrap(function), "__globals__", {})
    kind = module_names.get(error.type_name, getattr(builtins, error.type_name or " ", None))
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(str(error))
        except Exception:  # noqa: BLE001  a class of the user's, with other parameters
            return error
    return error
