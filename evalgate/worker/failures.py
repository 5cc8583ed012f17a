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
    is_wrong = isinstance(error, NotFoundError) or _find_encoding_fault(error) is not None
    kind = "entry" if is_wrong else "import"
    return {"kind": kind, "message": message, "traceback": trace(cause or error)}


def _why(error: BaseException) -> str:
    if isinstance(error, (Refused, AgentCreationError)):
        return str(error)
    if isinstance(error, SystemExit):
        return f"importing it called sys.exit({'' if error.code is None else repr(error.code)})"
    if isinstance(error, ModuleNotFoundError):
        return f"{summary(error)} (is it installed for {sys.executable}?)"
    if fault := _find_encoding_fault(error):
        return fault
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    return f"importing it raised {summary(error)}"


def _find_encoding_fault(error: BaseException) -> str | None:
    """Return what is wrong with the encoding of a source file that Python refused; None for another error."""
    if not isinstance(error, (SyntaxError, ValueError)):
        return None
    if isinstance(error, SyntaxError) and error.msg.startswith("(unicode error) 'utf-8' codec"):
        where = _place(error.filename or "the file", error.lineno)
        return f"{where}: this is not UTF-8: save the file as UTF-8"
    if "source code string cannot contain null bytes" not in str(error):  # ValueError before Python 3.12
        return None
    path, place = _find_refused_source(error.__traceback__)
    if path is None:
        return f"{place} imports a file that is no text in UTF-8, as one in UTF-16: save it as UTF-8"
    encoding = _guess_encoding(path)
    if encoding is None:
        return f"{_place(path)}: this is no text: it holds null bytes"
    command = f"iconv -f {encoding} -t UTF-8"
    return f"{_place(path)}: this is {encoding}: save the file as UTF-8, in the editor or with `{command}`"


def _find_refused_source(frames: TracebackType | None) -> tuple[str | None, str]:
    """Return the path that importlib was compiling, if its frames are kept, and the last place before it."""
    path, place = None, "the agent"
    while frames is not None:
        code = frames.tb_frame.f_code
        if code.co_name == "source_to_code" and code.co_filename.startswith("<frozen importlib"):
            path = frames.tb_frame.f_locals.get("path")
        elif not _is_ours(code.co_filename):
            place = _place(code.co_filename, frames.tb_lineno)
        frames = frames.tb_next
    return path, place


def _guess_encoding(path: str) -> str | None:
    try:
        with open(path, "rb") as file:  # noqa: PTH123  pathlib is not loaded for one call
            start = file.read(4)
    except OSError:
        return None
    if start.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    return "UTF-16LE" if start[1:2] == b"\0" else "UTF-16BE" if start[:1] == b"\0" else None


def _place(path: str, line: int | None = None) -> str:
    """Return a path below the working folder as a user there would type it, with the line if it is known."""
    here = os.path.join(os.getcwd(), "")  # noqa: PTH109, PTH118  pathlib is not loaded for one call
    shown = path.removeprefix(here)
    return shown if line is None else f"{shown}:{line}"


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
