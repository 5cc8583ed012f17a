"""An exception of the agent, told to the gate: a sentence, and a traceback without the host's frames."""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType
from typing import Any

from .busy import RATE_LIMITED, passing_fault

_HERE = os.path.dirname(__file__)  # noqa: PTH120  pathlib is not loaded for one call
_MAX_SENTENCE = 500
_MAX_TRACEBACK = 16 * 1024


class Refused(Exception):
    """The agent cannot be used as it is; the message says why."""


class NotFoundError(Refused):
    """The entry names nothing; the message says what is missing."""


class AgentCreationError(Exception):
    """The agent's class or factory raised, which is the cause; the message says what."""


class WrongAnswer(Exception):
    """The agent gave something that is no answer; the message says what was expected."""


class Unsupported(Exception):
    """The case asks for something that this kind of agent cannot be given; says nothing about the agent."""


class NoMock(Exception):
    """A mocked tool was called in a way that no mock answers; says nothing about the agent."""


class TooLarge(ValueError):
    """One message of the agent's is larger than the gate takes."""

    def __init__(self) -> None:
        super().__init__("the agent sent more than 16 MiB in one turn; let it send large data as a reference")


class ModelFailed(Exception):
    """The agent's model gave an error in the place of an answer, and the agent raised nothing."""


def describe_error(error: BaseException) -> dict[str, Any]:
    """The fields of an `error` message for a turn that raised."""
    if isinstance(error, SystemExit):
        code = "" if error.code is None else repr(error.code)
        kind, message = "exited", f"the agent called sys.exit({code})"
    elif isinstance(error, WrongAnswer):
        kind, message = "protocol", str(error)
    elif isinstance(error, TooLarge):
        kind, message = "flood", str(error)
    elif isinstance(error, ModelFailed):
        kind, message = "model", str(error)
    elif isinstance(error, NoMock):
        kind, message = "no_mock", str(error)
    elif isinstance(error, Unsupported):
        kind, message = "unsupported", str(error)
    elif isinstance(error, Exception) and (fault := passing_fault(error)) is not None:
        return {**_busy(error, *fault), "traceback": trace(error)}
    else:
        kind, message = "exception", f"the agent raised {summary(error)}"
    return {"kind": kind, "message": message, "traceback": trace(error)}


def _busy(error: BaseException, kind: str, wanted_s: float | None) -> dict[str, Any]:
    what = "limits how often the agent may ask" if kind == RATE_LIMITED else "is not available"
    message = f"a service {what}: {summary(error)}"
    fields = {"kind": kind, "message": message}
    return fields if wanted_s is None else {**fields, "retry_after_s": wanted_s}


def describe_fatal(error: BaseException, entry: str) -> dict[str, Any]:
    """The fields of a `fatal` message for an agent that could not be loaded."""
    message = f"cannot load the agent `{entry}`: {_why(error)}"
    cause = error.__cause__ if isinstance(error, AgentCreationError) else None
    kind = "entry" if isinstance(error, NotFoundError) else "import"
    return {"kind": kind, "message": message, "traceback": trace(cause or error)}


def _why(error: BaseException) -> str:
    if isinstance(error, (Refused, AgentCreationError)):
        return str(error)
    if isinstance(error, SystemExit):
        return f"importing it called sys.exit({'' if error.code is None else repr(error.code)})"
    if isinstance(error, ModuleNotFoundError):
        return f"{summary(error)} (is it installed for {sys.executable}?)"
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    return f"importing it raised {summary(error)}"


def summary(error: BaseException) -> str:
    """`Type: first line of the message`, bounded."""
    name = type(error).__name__
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001  a broken __str__ of the agent's
        lines = []
    return f"{name}: {_shorten(lines[0])}" if lines else name


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SENTENCE else text[:_MAX_SENTENCE] + "…"


def trace(error: BaseException) -> str:
    """The traceback from the agent's first frame on; the end of it when it is long."""
    if isinstance(error, (Refused, WrongAnswer, ModelFailed, NoMock, Unsupported)):
        return ""
    frames = _agent_frames(error.__traceback__)
    text = "".join(traceback.format_exception(type(error), error, frames))
    return text if len(text) <= _MAX_TRACEBACK else text[-_MAX_TRACEBACK:].partition("\n")[2]


def _agent_frames(frames: TracebackType | None) -> TracebackType | None:
    current = frames
    while current is not None and _is_ours(current.tb_frame.f_code.co_filename):
        current = current.tb_next
    return current or frames


def _is_ours(filename: str) -> bool:
    return filename.startswith((_HERE, "<frozen importlib")) or filename.endswith("/importlib/__init__.py")
