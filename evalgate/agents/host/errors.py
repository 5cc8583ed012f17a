"""Exceptions of the agent host, and texts that describe exceptions of the agent."""

from __future__ import annotations

import os
import sys
import traceback
from types import TracebackType
from typing import Any

from .busy_services import RATE_LIMITED, classify_transient_error

_HOST_FOLDER = os.path.dirname(__file__)
_MAX_SENTENCE = 500
_MAX_TRACEBACK = 16 * 1024


class UnusableEntryError(Exception):
    """Error for an object that cannot be used as an agent; the message states the reason."""


class EntryNotFoundError(UnusableEntryError):
    """Error for an entry that names no existing module, file or attribute; the message says which."""


class AgentCreationError(Exception):
    """Error for a class or factory that raised an exception instead of creating the agent.

    `__cause__` is this exception, and the message summarises it.
    """


class InvalidAnswerError(Exception):
    """Error for a value from the agent that is not a valid answer; the message names the expected values."""


class UnsupportedCaseError(Exception):
    """Error for a case with a part that this kind of agent does not support. The agent is not at fault."""


class NoMatchingMockError(Exception):
    """Error for a call of a mocked tool that no mock or recording answers. The agent is not at fault."""


class MessageTooLargeError(ValueError):
    """Error for a message of the agent that is larger than `MAX_ANSWER_BYTES`, 16 MiB."""

    def __init__(self) -> None:
        super().__init__("the agent sent more than 16 MiB in one turn; let it send large data as a reference")


class ModelError(Exception):
    """Error for a model that returned an error instead of an answer, while the agent raised no exception."""


def build_error_fields(error: BaseException) -> dict[str, Any]:
    """Return the fields of an `error` message for a turn in which `error` was raised."""
    if isinstance(error, SystemExit):
        code = "" if error.code is None else repr(error.code)
        kind, message = "exited", f"the agent called sys.exit({code})"
    elif isinstance(error, InvalidAnswerError):
        kind, message = "protocol", str(error)
    elif isinstance(error, MessageTooLargeError):
        kind, message = "flood", str(error)
    elif isinstance(error, ModelError):
        kind, message = "model", str(error)
    elif isinstance(error, NoMatchingMockError):
        kind, message = "no_mock", str(error)
    elif isinstance(error, UnsupportedCaseError):
        kind, message = "unsupported", str(error)
    elif isinstance(error, Exception) and (fault := classify_transient_error(error)) is not None:
        return {**_describe_busy(error, *fault), "traceback": format_traceback(error)}
    else:
        kind, message = "exception", f"the agent raised {summarize_error(error)}"
    return {"kind": kind, "message": message, "traceback": format_traceback(error)}


def _describe_busy(error: BaseException, kind: str, wanted_s: float | None) -> dict[str, Any]:
    what = "limits how often the agent may ask" if kind == RATE_LIMITED else "is not available"
    message = f"a service {what}: {summarize_error(error)}"
    fields = {"kind": kind, "message": message}
    return fields if wanted_s is None else {**fields, "retry_after_s": wanted_s}


def describe_fatal(error: BaseException, entry: str) -> dict[str, Any]:
    """Return the fields of a `fatal` message for an agent that could not be loaded."""
    message = f"cannot load the agent `{entry}`: {_describe_load_error(error)}"
    cause = error.__cause__ if isinstance(error, AgentCreationError) else None
    is_wrong = isinstance(error, EntryNotFoundError) or _find_encoding_fault(error) is not None
    kind = "entry" if is_wrong else "import"
    return {"kind": kind, "message": message, "traceback": format_traceback(cause or error)}


def _describe_load_error(error: BaseException) -> str:
    if isinstance(error, (UnusableEntryError, AgentCreationError)):
        return str(error)
    if isinstance(error, SystemExit):
        return f"importing it called sys.exit({'' if error.code is None else repr(error.code)})"
    if isinstance(error, ModuleNotFoundError):
        return f"{summarize_error(error)} (is it installed for {sys.executable}?)"
    if fault := _find_encoding_fault(error):
        return fault
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    return f"importing it raised {summarize_error(error)}"


def _find_encoding_fault(error: BaseException) -> str | None:
    """Return a message about a source file with a wrong encoding; None for any other error."""
    if not isinstance(error, (SyntaxError, ValueError)):
        return None
    if isinstance(error, SyntaxError) and error.msg.startswith("(unicode error) 'utf-8' codec"):
        where = _format_location(error.filename or "the file", error.lineno)
        return f"{where}: this is not UTF-8: save the file as UTF-8"
    if "source code string cannot contain null bytes" not in str(error):  # ValueError before Python 3.12
        return None
    path, importer = _find_refused_source(error.__traceback__)
    if path is None:
        return f"{importer} imports a file that is no text in UTF-8, as one in UTF-16: save it as UTF-8"
    encoding = _guess_encoding(path)
    if encoding is None:
        return f"{_format_location(path)}: this is no text: it holds null bytes"
    command = f"iconv -f {encoding} -t UTF-8"
    return (
        f"{_format_location(path)}: this is {encoding}: save the file as UTF-8, in the editor or with "
        f"`{command}`"
    )


def _find_refused_source(frames: TracebackType | None) -> tuple[str | None, str]:
    """Return (path, importer): a source file that Python could not compile, and the place that imports it.

    `path` is None if no file was being compiled. `importer` is `file:line`, or "the agent" if the traceback
    has no frame of the agent's code.
    """
    path, importer = None, "the agent"
    while frames is not None:
        code = frames.tb_frame.f_code
        if code.co_name == "source_to_code" and code.co_filename.startswith("<frozen importlib"):
            path = frames.tb_frame.f_locals.get("path")
        elif not _is_host_frame(code.co_filename):
            importer = _format_location(code.co_filename, frames.tb_lineno)
        frames = frames.tb_next
    return path, importer


def _guess_encoding(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError:
        return None
    if start.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    return "UTF-16LE" if start[1:2] == b"\0" else "UTF-16BE" if start[:1] == b"\0" else None


def _format_location(path: str, line: int | None = None) -> str:
    """Return `path` or `path:line`, relative to the working folder if the file is in that folder."""
    folder = os.path.join(os.getcwd(), "")
    relative = path.removeprefix(folder)
    return relative if line is None else f"{relative}:{line}"


def summarize_error(error: BaseException) -> str:
    """Return `Type: first line of the message`, with this line cut after 500 characters.

    Return only the type if there is no message.
    """
    name = type(error).__name__
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001  a broken __str__ of the agent's
        lines = []
    if not lines:
        return name
    return f"{name}: {lines[0][:_MAX_SENTENCE]}{'…' if len(lines[0]) > _MAX_SENTENCE else ''}"


def format_traceback(error: BaseException) -> str:
    """Return the traceback of an error, beginning with the agent's first frame.

    Of a traceback with more than 16,384 characters, only the end is returned. Return "" for the host's own
    errors, because their message is enough: `UnusableEntryError`, `InvalidAnswerError`, `ModelError`,
    `NoMatchingMockError` and `UnsupportedCaseError`.
    """
    if isinstance(
        error, (UnusableEntryError, InvalidAnswerError, ModelError, NoMatchingMockError, UnsupportedCaseError)
    ):
        return ""
    # Users cannot change the host's code, so the traceback begins with the first frame of other code.
    frames = _skip_host_frames(error.__traceback__)
    text = "".join(traceback.format_exception(type(error), error, frames))
    return text if len(text) <= _MAX_TRACEBACK else text[-_MAX_TRACEBACK:].partition("\n")[2]


def _skip_host_frames(frames: TracebackType | None) -> TracebackType | None:
    current = frames
    while current is not None and _is_host_frame(current.tb_frame.f_code.co_filename):
        current = current.tb_next
    return current or frames


def _is_host_frame(filename: str) -> bool:
    is_import = filename.startswith("<frozen importlib") or filename.endswith("/importlib/__init__.py")
    return is_import or filename.startswith(_HOST_FOLDER)
