"""Read recorded conversations of watsonx Orchestrate, in every form that its releases have written.

A tool call is written as the message's `name` and `args`, as `tool_calls` (release 1.6), or as JSON in its
`content` (older releases and the recorder).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import Document
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Event,
    JsonObject,
    Message,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.documents.strict_json import read_json
from evalgate.documents.validation_errors import translate_validation_error

ENDING = ".messages.json"


class _RecordingModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class _Function(_RecordingModel):
    name: str
    arguments: Any = None


class _Call(_RecordingModel):
    id: str | None = None
    function: _Function


class _Interaction(_RecordingModel):
    payload: dict[str, Any] | None = None


class _RecordedMessage(_RecordingModel):
    role: str
    type: str = "text"
    content: Any = None
    name: str | None = None
    args: Any = None
    raw_arguments: str | None = None
    id: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[_Call] | None = None
    interaction: _Interaction | None = None


def read_conversation(document: Document) -> tuple[CaseTurn, ...]:
    """Read the turns of a recorded conversation; the agent's replies become the expected ones.

    Raises:
        InvalidInputError: the file is invalid. The error lists every problem with its line and column.
    """
    try:
        messages = TypeAdapter(list[_RecordedMessage]).validate_python(document.value)
    except ValidationError as error:
        raise InvalidInputError(
            translate_validation_error(error, file=document.path, position=document.find_position)
        ) from None
    return tuple(_iter_turns(messages))


def build_recorded_case(document: Document) -> EvalCase:
    """Build a case with the id `<case>` from `<case>.messages.json` or `<case>.run2.messages.json`.

    Raises:
        InvalidInputError: the file is no recorded conversation. The error lists every problem.
    """
    stem = PurePath(document.path).name.removesuffix(ENDING)
    name, dot, run = stem.rpartition(".run")
    return EvalCase(name if dot and run.isdecimal() else stem, read_conversation(document))


def _iter_turns(messages: Sequence[_RecordedMessage]) -> Iterator[CaseTurn]:
    asked: str | None = None
    events: list[Event] = []
    for message in messages:
        if message.role != "user":
            events += _iter_events(message)
            continue
        if asked is not None or events:
            yield _build_turn(asked or "", events)
        asked, events = _to_text(message.content), []
    if asked is not None or events:
        yield _build_turn(asked or "", events)


def _build_turn(asked: str, events: Sequence[Event]) -> CaseTurn:
    """Build a turn with the question `asked`. The last message that is no widget becomes the response."""
    messages = (event for event in reversed(events) if isinstance(event, Message))
    last = next((message for message in messages if message.payload is None), None)
    # By identity: an earlier message with the same text stays.
    others = tuple(event for event in events if event is not last)
    return CaseTurn(UserMessage(asked), Reply(None if last is None else last.text, others))


def _iter_events(message: _RecordedMessage) -> Iterator[Event]:
    match message.type:
        case "tool_call":
            yield from _iter_tool_calls(message)
        case "tool_response":
            yield _build_tool_result(message)
        case "interaction":
            payload = message.interaction.payload if message.interaction else None
            yield Message(_to_text(message.content), payload=payload or {})
        case _:
            if message.content is not None:
                yield Message(_to_text(message.content))


def _iter_tool_calls(message: _RecordedMessage) -> Iterator[ToolCall]:
    if message.tool_calls:
        for call in message.tool_calls:
            yield ToolCall(call.function.name, _parse_arguments(call.function.arguments), call.id)
    elif message.name is not None:
        args = message.args if message.raw_arguments is None else message.raw_arguments
        yield ToolCall(message.name, _parse_arguments(args), message.id)
    else:
        # The call itself as JSON text, as releases before 1.6 and the recorder write it.
        fields = _parse_object(message.content)
        identifier = fields.get("id") or fields.get("tool_call_id")
        yield ToolCall(
            str(fields.get("name") or ""), _parse_arguments(fields.get("args")), _to_optional_text(identifier)
        )


def _build_tool_result(message: _RecordedMessage) -> ToolResult:
    result = _parse_object(message.content) if message.name is None else {}
    if "name" in result:
        identifier = _to_optional_text(result.get("tool_call_id"))
        return ToolResult(str(result["name"]), result.get("content"), identifier)
    return ToolResult(message.name or "", message.content, message.tool_call_id or message.id)


def _parse_arguments(value: object) -> JsonObject:
    """Return a call's arguments, given as an object or as JSON text; {} for any other value."""
    return value if isinstance(value, Mapping) else _parse_object(value)


def _parse_object(value: object) -> JsonObject:
    if not isinstance(value, str):
        return {}
    try:
        decoded = json.loads(value)
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _to_text(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return json.dumps(content, ensure_ascii=False)


def _to_optional_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


_SUBFOLDER = "messages"


def may_hold_conversations(path: Path) -> bool:
    """Return True for a folder, or for a file with the name of a recorded conversation."""
    return path.is_dir() or path.name.endswith(ENDING)


def read_conversations(path: Path, shown_as: str) -> EvalSet:
    """Read the conversations in a file, or in all `*.messages.json` of a folder.

    If the folder has no such file, its subfolder `messages` is read. The eval set has a case for each file. A
    case with several recorded runs therefore occurs several times.

    Raises:
        InvalidInputError: there is no conversation, or a file is invalid. Lists the problems of all files.
    """
    files = sorted(_find_files(path), key=_get_sort_key)
    if not files:
        message = f"there is no *{ENDING} in this folder or its folder {_SUBFOLDER}, and no *.session.json"
        raise InvalidInputError([Problem(shown_as, 0, 0, message)])
    cases: list[EvalCase] = []
    problems: list[Problem] = []
    for file in files:
        shown = str(Path(shown_as) / file.relative_to(path)) if file != path else shown_as
        try:
            cases.append(build_recorded_case(read_json(file, shown)))
        except InvalidInputError as error:
            problems += error.problems
    if problems:
        raise InvalidInputError(problems)
    return EvalSet(shown_as, tuple(cases), shown_as)


def _find_files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = list(path.glob(f"*{ENDING}"))
    yield from found or (path / _SUBFOLDER).glob(f"*{ENDING}")


def _get_sort_key(path: Path) -> tuple[str, int, str]:
    """Return a key that sorts `x.run2` before `x.run10`."""
    stem, _, run = path.name.removesuffix(ENDING).rpartition(".run")
    return (stem, int(run), "") if run.isdecimal() else (path.name, 0, "")
