"""Google ADK's eval sets: an object with `eval_cases`, in snake_case or camelCase, even mixed.

Every field of releases 2.3 to 2.13 is read, unknown fields are tolerated, and null counts as absent.
Contents for which evalgate's model has no field are kept as `native`, so that a writer can restore them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from evalgate.core.protocols import Document
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Event,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.datasets.eval_set_reader import EvalSetReader
from evalgate.datasets.ignored_keys import collect_ignored_keys
from evalgate.documents.key_case import find_snake_or_camel_key
from evalgate.documents.strict_json import (
    Location,
    UnexpectedShapeError,
    require_list,
    require_members,
    require_object,
    require_text,
)
from evalgate.documents.validation_errors import Id, validate_id


class AdkModel(BaseModel):
    """An object with keys in snake_case or camelCase; unknown keys are ignored."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(validation_alias=to_camel),
        populate_by_name=True,
        loc_by_alias=False,
        extra="ignore",
        frozen=True,
        defer_build=True,
    )


class AdkEvalSetFile(AdkModel):
    """An eval set. Its cases are not validated here, because they are read one by one."""

    eval_set_id: Id
    name: str | None = None
    description: str | None = None
    eval_cases: list[Any]
    creation_timestamp: float | None = Field(default=None, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _reject_double_spelling(cls, value: object) -> object:
        # Google ADK's documentation shows camelCase here, which its releases refuse. If a file has both
        # spellings, pydantic would drop one without notice.
        keys = value if isinstance(value, dict) else {}
        for snake, camel in (("eval_cases", "evalCases"), ("eval_set_id", "evalSetId")):
            if snake in keys and camel in keys:
                raise ValueError(f"holds both `{snake}` and `{camel}`: keep one")
        return value


class AdkFormat:
    """Google ADK's `.evalset.json` files, and `.test.json` files of the same shape."""

    def matches_document(self, document: Document) -> bool:
        """Return True for an object with eval cases, or with an eval set's id and without results."""
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

        # Cases are validated one at a time, so that a big file is never in memory as pydantic models, too.
        def make_case(index: int, raw: object) -> EvalCase | None:
            line = reader.find_line(index)
            if (case := parse_common_case(raw, line, reader.eval_set_id)) is not None:
                return case
            # Imported here, because most eval sets have common cases only.
            from evalgate.integrations.adk.case_models import AdkCase
            from evalgate.integrations.adk.cases import build_adk_case

            wire = reader.validate_case(AdkCase, index, raw)
            case = None if wire is None else build_adk_case(wire, line, raw)
            if reader.keys.is_open and not _has_plain_keys(raw, case):
                reader.check_keys(AdkCase, index, raw)
            return case

        return reader.read_eval_set(AdkEvalSetFile, make_case)

    def find_ignored_keys(self, document: Document) -> Iterator[Location]:
        """Yield the paths of keys that are ignored when the eval set is read.

        Keys within messages and steps are left out, because evalgate keeps such contents whole.
        """
        from evalgate.datasets.adk_turns import CONTENTS
        from evalgate.integrations.adk.case_models import AdkCase

        reader = _create_reader(document)
        contents = {*CONTENTS, *map(to_camel, CONTENTS)}
        for found in collect_ignored_keys(AdkEvalSetFile, reader.header):
            yield found.location
        for index, case in enumerate(reader.raw_cases):
            for found in collect_ignored_keys(AdkCase, case, reader.get_case_location(index)):
                if not contents.intersection(found.location[:-1]):
                    yield found.location


_OF_OLD_LISTS = {
    "query": "user_content",
    "reference": "final_response",
    "expected_tool_use": "intermediate_data",
    "tool_name": "name",
    "tool_input": "args",
}
"""Keys of Google ADK's older list formats, and the keys with the same meaning in eval sets."""


def _create_reader(document: Document) -> EvalSetReader:
    return EvalSetReader(
        document,
        find_snake_or_camel_key,
        cases_key="eval_cases",
        id_key="eval_id",
        elsewhere=_OF_OLD_LISTS,
    )


def _has_plain_keys(raw: Any, case: EvalCase | None) -> bool:
    """Return True if the case has only the most common keys, none of which is ignored.

    This is true of nearly every case, and saves the slower search for ignored keys.
    """
    return (
        case is not None
        and raw.keys() <= _CASE_KEYS
        and (raw.get("session_input") or {}).keys() <= _SESSION_KEYS
        and all(each.keys() <= _TURN_KEYS for each in raw.get("conversation") or ())
        # Keys within messages are not compared with a list: data that a `CaseTurn` cannot hold would be in
        # `native`, and parts without text would be attachments.
        and not any(turn.native or turn.user.attachments for turn in case.turns)
    )


# --- common cases, without pydantic -------------------------------------------------------------------------

_NO_SESSION = SessionInput()
"""The session of every case without a `session_input`; one shared object saves memory in large sets."""

_CASE_KEYS = frozenset({"eval_id", "conversation", "session_input", "creation_timestamp"})
_SESSION_KEYS = frozenset({"app_name", "user_id", "state"})
_TURN_KEYS = frozenset(
    {"user_content", "final_response", "intermediate_data", "invocation_id", "creation_timestamp"}
)
_CONTENT_KEYS = frozenset({"parts", "role"})
_TEXT_KEYS = frozenset({"text"})
_DATA_KEYS = frozenset({"tool_uses", "tool_responses", "intermediate_responses"})
_CALL_KEYS = frozenset({"id", "name", "args"})
_RESULT_KEYS = frozenset({"id", "name", "response"})


def parse_common_case(raw: object, line: int, eval_set_id: str = "") -> EvalCase | None:
    """Build a common case without pydantic, in a third of the time. Return None for any other case.

    A common case is in snake_case and has no `invocation_events`. It holds only messages of a single text,
    tool calls, tool results and a session. For all other cases, the pydantic models read the case or report
    errors.
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
