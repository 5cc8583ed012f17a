"""Google ADK's eval sets: an object with `eval_cases`, in snake_case or camelCase, even mixed.

Every field of releases 2.3 to 2.13 is read, unknown fields are tolerated, and null counts as absent.
Contents for which evalgate's model has no field are kept as `native`, so that a writer can restore them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic.alias_generators import to_camel

from evalgate.core.protocols import Document
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Event,
    JsonObject,
    Message,
    Reply,
    Rubric,
    Scenario,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.datasets.adk_turns import CONTENTS, extract_native_data, normalize_keys
from evalgate.datasets.eval_set_reader import EvalSetReader
from evalgate.datasets.ignored_keys import collect_ignored_keys
from evalgate.documents.key_spelling import find_snake_or_camel_key, get_member
from evalgate.documents.strict_json import (
    UnexpectedShapeError,
    require_list,
    require_members,
    require_object,
    require_text,
)
from evalgate.documents.validation_errors import Location, validate_id
from evalgate.integrations.adk.file_models import (
    AdkCase,
    AdkEvalSetHeader,
    AdkFunctionCall,
    AdkFunctionResponse,
    AdkIntermediateData,
    AdkInvocation,
    AdkInvocationEvent,
    AdkPart,
    AdkRubric,
    AdkUserContent,
)

_IN_CONTENTS = frozenset({*CONTENTS, *map(to_camel, CONTENTS)})
"""Keys of contents that are kept whole if they hold more than is read."""


class AdkFormat:
    """Google ADK's `.evalset.json` files, and `.test.json` files of the same shape."""

    def matches_document(self, document: Document) -> bool:
        """Return True for an object with eval cases, or with an eval set's id and no results."""
        keys = document.value.keys() if isinstance(document.value, dict) else set()
        has_id = bool(keys & {"eval_set_id", "evalSetId"})
        # Google ADK's result files hold the set's id too.
        is_result = bool(keys & {"eval_case_results", "evalCaseResults"})
        return bool(keys & {"eval_cases", "evalCases"}) or (has_id and not is_result)

    def read_eval_set(self, document: Document) -> EvalSet:
        """Build the eval set, with the line number of each case.

        Raises:
            InvalidInputError: with every problem of the file, each at its line and column.
        """
        reader = _create_reader(document)

        # One at a time, so that a big file is never in memory as pydantic models too.
        def make_case(index: int, raw: object) -> EvalCase | None:
            line = reader.find_line(index)
            if (case := parse_common_case(raw, line, reader.eval_set_id)) is not None:
                return case
            wire = reader.validate_case(AdkCase, index, raw)
            case = None if wire is None else _build_case(wire, line, raw)
            if reader.keys.is_open and not _has_plain_keys(raw, case):
                reader.check_keys(AdkCase, index, raw)
            return case

        return reader.read_eval_set(AdkEvalSetHeader, make_case)

    def find_ignored_keys(self, document: Document) -> Iterator[Location]:
        """Yield the paths of keys that are ignored when the eval set is read."""
        reader = _create_reader(document)
        for found in collect_ignored_keys(AdkEvalSetHeader, reader.header):
            yield found.location
        for index, case in enumerate(reader.raw_cases):
            for found in collect_ignored_keys(AdkCase, case, reader.get_case_location(index)):
                if not _IN_CONTENTS.intersection(found.location[:-1]):
                    yield found.location


_OF_OLD_LISTS = {
    "query": "user_content",
    "reference": "final_response",
    "expected_tool_use": "intermediate_data",
    "tool_name": "name",
    "tool_input": "args",
}
"""Keys of the list formats that Google ADK read before, and the eval set's key for the same thing."""


def _create_reader(document: Document) -> EvalSetReader:
    return EvalSetReader(
        document,
        find_snake_or_camel_key,
        cases_key="eval_cases",
        id_key="eval_id",
        elsewhere=_OF_OLD_LISTS,
    )


def _has_plain_keys(raw: Any, case: EvalCase | None) -> bool:
    """Return True if the case surely has only the most common keys, so that none needs to be reported.

    Nearly every case does. Its contents need no second search: `extract_native_data` put all data that a
    `CaseTurn` cannot hold into `native`, and parts without text are attachments.
    """
    return (
        case is not None
        and raw.keys() <= _CASE_KEYS
        and (raw.get("session_input") or {}).keys() <= _SESSION_KEYS
        and all(each.keys() <= _TURN_KEYS for each in raw.get("conversation") or ())
        and not any(turn.native or turn.user.attachments for turn in case.turns)
    )


# --- conversion to evalgate's types -------------------------------------------------------------------------


def _build_case(wire: AdkCase, line: int, raw: object) -> EvalCase:
    conversation, plan, own = (
        get_member(raw, "conversation", find_snake_or_camel_key),
        wire.conversation_scenario,
        wire.session_input,
    )
    invocations = zip(
        wire.conversation or (), conversation if isinstance(conversation, list) else (), strict=True
    )
    return EvalCase(
        eval_id=wire.eval_id,
        turns=tuple([_build_turn(*invocation) for invocation in invocations]),
        scenario=None
        if plan is None
        else Scenario(plan.starting_prompt, plan.conversation_plan, plan.user_persona),
        session=_NO_SESSION
        if own is None
        else SessionInput(own.app_name or "", own.user_id or "", own.state or {}, own.session_id or ""),
        # An empty state is Google ADK's way of expecting none.
        final_state=wire.final_session_state or None,
        line=line,
        rubrics=_build_rubrics(wire.rubrics, "rubric") if wire.rubrics else (),
        creation_timestamp=wire.creation_timestamp or 0.0,
        native={"adk-rs": {"name": wire.name}} if wire.name else {},
    )


def _build_rubrics(wires: Sequence[AdkRubric], prefix: str) -> tuple[Rubric, ...]:
    rubrics = []
    for number, wire in enumerate(wires, start=1):
        text = wire.rubric_content.text_property if wire.rubric_content else wire.criterion
        name = wire.rubric_id or f"{prefix}_{number}"
        points = 1.0 if wire.points is None and wire.criterion is not None else wire.points
        rubrics.append(Rubric(name, text or "", wire.type, wire.description, points=points))
    return tuple(rubrics)


# Shared, because most cases of a large set have none.
_NO_SESSION = SessionInput()


def _build_turn(wire: AdkInvocation, raw: Mapping[str, Any]) -> CaseTurn:
    response = wire.final_response
    text = None if response is None else _join_text(response.parts or ())
    beyond = extract_native_data(raw)
    app_details = get_member(raw, "app_details", find_snake_or_camel_key) if wire.app_details else None
    return CaseTurn(
        _build_user_message(wire.user_content),
        Reply(text, _build_events(wire.intermediate_data)),
        rubrics=_build_rubrics(wire.rubrics, "turn_rubric") if wire.rubrics else (),
        app_details=normalize_keys(app_details),
        invocation_id=wire.invocation_id or "",
        creation_timestamp=wire.creation_timestamp or 0.0,
        native={"adk": beyond} if beyond else {},
    )


def _join_text(parts: Sequence[AdkPart]) -> str:
    """Join the texts of all parts, thoughts included, as Google ADK does."""
    return "\n".join([part.text for part in parts if part.text])


def _build_user_message(content: AdkUserContent) -> UserMessage:
    parts = content.parts or ()
    texts = [part["text"] for part in parts if part.get("text")]
    attachments: tuple[JsonObject, ...] = ()
    if len(texts) < len(parts):
        attachments = tuple([part for part in parts if not part.get("text") and part.keys() != {"text"}])
    return UserMessage("\n".join(texts), attachments)


def _build_events(data: AdkIntermediateData | None) -> tuple[Event, ...]:
    if data is None:
        return ()
    if data.invocation_events:
        return tuple(_iter_ordered_events(data.invocation_events))
    return (
        *[_build_tool_call(call) for call in data.tool_uses or ()],
        *[_build_tool_result(response) for response in data.tool_responses or ()],
        *[Message(_join_text(parts), author or None) for author, parts in data.intermediate_responses or ()],
    )


def _iter_ordered_events(events: Sequence[AdkInvocationEvent]) -> Iterator[Event]:
    for event in events:
        author = event.author or None
        for part in (event.content and event.content.parts) or ():
            if part.text:
                yield Message(part.text, author)
            if part.function_call:
                yield _build_tool_call(part.function_call, author)
            if part.function_response:
                yield _build_tool_result(part.function_response, author)


def _build_tool_call(wire: AdkFunctionCall, author: str | None = None) -> ToolCall:
    return ToolCall(wire.name or "", wire.args, wire.id, author)


def _build_tool_result(wire: AdkFunctionResponse, author: str | None = None) -> ToolResult:
    return ToolResult(wire.name or "", wire.response, wire.id, author)


# --- conversion of common cases without pydantic ------------------------------------------------------------

_CASE_KEYS = frozenset({"eval_id", "conversation", "session_input", "creation_timestamp"})
_SESSION_KEYS = frozenset({"app_name", "user_id", "state"})
_TURN_KEYS = frozenset({*CONTENTS, "invocation_id", "creation_timestamp"})
_CONTENT_KEYS = frozenset({"parts", "role"})
_TEXT_KEYS = frozenset({"text"})
_DATA_KEYS = frozenset({"tool_uses", "tool_responses", "intermediate_responses"})
_CALL_KEYS = frozenset({"id", "name", "args"})
_RESULT_KEYS = frozenset({"id", "name", "response"})


def parse_common_case(raw: object, line: int, eval_set_id: str = "") -> EvalCase | None:
    """Build a common case without pydantic in a third of the time; return None for any other case.

    Common cases are in snake_case, without `invocation_events`, and hold only contents of one text, calls
    with their answers, and a session. The models read all others, and report errors.
    """
    try:
        case = require_members(raw, _CASE_KEYS)
        return EvalCase(
            validate_id(require_text(case.get("eval_id"))),
            tuple([_parse_common_turn(each) for each in require_list(case.get("conversation"))]),
            session=_parse_common_session(case.get("session_input")),
            line=line,
            eval_set_id=eval_set_id,
            creation_timestamp=_parse_common_time(case.get("creation_timestamp")),
        )
    except (UnexpectedShapeError, ValueError):
        return None


def _parse_common_session(raw: object) -> SessionInput:
    if raw is None:
        return _NO_SESSION
    session = require_members(raw, _SESSION_KEYS)
    state = require_object(session.get("state", {}))
    return SessionInput(
        require_text(session.get("app_name", "")), require_text(session.get("user_id", "")), state
    )


def _parse_common_turn(raw: object) -> CaseTurn:
    turn = require_members(raw, _TURN_KEYS)
    data, response, invocation_id = map(turn.get, ("intermediate_data", "final_response", "invocation_id"))
    return CaseTurn(
        UserMessage(_parse_common_content(turn.get("user_content"), "user")),
        Reply(
            None if response is None else _parse_common_content(response, "model"),
            () if data is None else _parse_common_events(require_members(data, _DATA_KEYS)),
        ),
        invocation_id="" if invocation_id is None else require_text(invocation_id),
        creation_timestamp=_parse_common_time(turn.get("creation_timestamp")),
    )


def _parse_common_content(raw: object, role: str) -> str:
    content = require_members(raw, _CONTENT_KEYS)
    parts = content.get("parts")
    if not isinstance(parts, list) or len(parts) != 1 or content.get("role", role) != role:
        raise UnexpectedShapeError
    return require_text(require_members(parts[0], _TEXT_KEYS).get("text"))


def _parse_common_events(data: Mapping[str, object]) -> tuple[Event, ...]:
    events: list[Event] = []
    for each in require_list(data.get("tool_uses", [])):
        call = require_members(each, _CALL_KEYS)
        args, id_ = call.get("args"), call.get("id")
        events.append(
            ToolCall(
                require_text(call.get("name", "")),
                None if args is None else require_object(args),
                None if id_ is None else require_text(id_),
            )
        )
    for each in require_list(data.get("tool_responses", [])):
        result = require_members(each, _RESULT_KEYS)
        name, id_ = require_text(result.get("name", "")), result.get("id")
        events.append(ToolResult(name, result.get("response"), None if id_ is None else require_text(id_)))
    if require_list(data.get("intermediate_responses", [])):
        raise UnexpectedShapeError
    return tuple(events)


def _parse_common_time(raw: object) -> float:
    if raw is not None and not isinstance(raw, float):
        raise UnexpectedShapeError
    return raw or 0.0
