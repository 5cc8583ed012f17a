"""Find the parts of a turn in Google ADK's JSON (an invocation) that a `CaseTurn` has no field for.

A `CaseTurn` holds the scored data of a turn: texts, calls, answers, authors. Everything else (thoughts and
their signatures, code, grounding, parallel calls in one event, …) is kept unchanged in `CaseTurn.native`.
"""

from collections.abc import Mapping
from typing import Any

from pydantic.alias_generators import to_camel

from evalgate.core.types import NO_JSON, JsonObject

CONTENTS = ("user_content", "final_response", "intermediate_data")
DURATIONS = ("duration", "model_duration", "tool_duration", "inference_call_count")
"""Keys of an invocation that only ADK releases after 2.3 write."""

_WORDS = (
    *CONTENTS,
    *DURATIONS,
    *("invocation_id", "creation_timestamp", "app_details", "agent_details", "tool_declarations"),
    *("tool_uses", "tool_responses", "intermediate_responses", "invocation_events"),
    *("grounding_metadata", "usage_metadata", "model_version"),
    *("thought_signature", "inline_data", "file_data", "function_call", "function_response"),
    *("executable_code", "code_execution_result", "video_metadata", "media_resolution", "part_metadata"),
    *("mime_type", "display_name", "file_uri", "partial_args", "will_continue"),
)
_SNAKE = {to_camel(word): word for word in _WORDS}
_OPAQUE = frozenset(
    {"args", "response", "state", "tool_declarations", "grounding_metadata", "usage_metadata"}
)
"""Keys with values that ADK does not define, such as arguments: keys and nulls within them are kept."""


def normalize_keys(value: Any) -> Any:
    """Return `value` with ADK's camelCase keys in snake_case, and without keys that have the value null.

    Keys that ADK does not know keep their spelling. Values that ADK does not define, such as the arguments in
    `args`, are unchanged (`_OPAQUE`).
    """
    if isinstance(value, list):
        return [normalize_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    spelled = ((_SNAKE.get(key, key), item) for key, item in value.items() if item is not None)
    return {key: item if key in _OPAQUE else normalize_keys(item) for key, item in spelled}


def extract_native_data(invocation: Mapping[str, Any]) -> JsonObject:
    """Return the data of an invocation that a `CaseTurn` can hold only in its field `native`; {} if none.

    The result has the durations, and each content (a key in `CONTENTS`) with such data. A content is returned
    as a whole. All keys are in snake_case. A quick check comes first, because nearly every invocation has no
    such data.
    """
    if _is_plain_invocation(invocation):
        return NO_JSON
    spelled = normalize_keys({key: invocation.get(key, invocation.get(to_camel(key))) for key in _KEPT})
    return {key: value for key, value in spelled.items() if key in DURATIONS or not _PLAIN_CHECKS[key](value)}


def differs_only_in_role(word: str, content: Any) -> bool:
    """Return True if a `CaseTurn` can hold everything in `content` except the role.

    `word` is the key of the content in its invocation, such as `user_content`.
    """
    return isinstance(content, dict) and _PLAIN_CHECKS[word]({**content, "role": _ROLES.get(word)})


_ROLES = {"user_content": "user", "final_response": "model"}

_KEPT = (*CONTENTS, *DURATIONS)


def _is_plain_invocation(invocation: Mapping[str, Any]) -> bool:
    """Return True if a quick check shows that a `CaseTurn` can hold all data of an invocation.

    Return False for keys in camelCase, because this check does not convert them.
    """
    return (
        invocation.keys() <= _PLAIN_KEYS
        and _is_plain_user_content(invocation.get("user_content"))
        and _is_plain_response(invocation.get("final_response"))
        and _is_plain_data(invocation.get("intermediate_data"))
    )


_PLAIN_KEYS = {*CONTENTS, "invocation_id", "creation_timestamp", "rubrics", "app_details"}
_TEXT = {"text"}
_CALL = {"id", "name", "args"}
_RESPONSE = {"id", "name", "response"}
_CONTENT = {"parts", "role"}
_EVENT = {"author", "content"}
_DATA = {"tool_uses", "tool_responses", "intermediate_responses", "invocation_events"}
_SHAPES = {"function_call": _CALL, "function_response": _RESPONSE}


def _is_plain_user_content(content: Any) -> bool:
    """Return True if a `CaseTurn` can hold a user's content, or the content is None.

    Only the first part may be a text; all other parts are attachments.
    """
    if not isinstance(content, dict):
        return content is None
    if not content.keys() <= _CONTENT or content.get("role", "user") != "user":
        return False
    parts = content.get("parts") or []
    texts = [at for at, part in enumerate(parts) if "text" in part]
    return not texts or (texts == [0] and parts[0].keys() == _TEXT)


def _is_plain_response(content: Any) -> bool:
    if not isinstance(content, dict):
        return content is None
    if not content.keys() <= _CONTENT or content.get("role", "model") != "model":
        return False
    parts = content.get("parts") or []
    return not parts or _is_text(parts)


def _is_text(parts: Any) -> bool:
    return len(parts) == 1 and parts[0].keys() <= _TEXT


def _is_plain_data(data: Any) -> bool:
    if not data:
        return True
    if data.keys() - _DATA:
        return False
    if events := data.get("invocation_events"):
        if not all(map(_is_plain_event, events)):
            return False
        # Events without authors that are sorted by kind would be written in the older notation with
        # `tool_uses`, so they are kept as native data.
        parts = [event["content"]["parts"][0] for event in events]
        kinds = [_KINDS.index(kind) for part in parts for kind in part]
        return kinds != sorted(kinds) or any(
            event.get("author") and "text" not in part for event, part in zip(events, parts, strict=True)
        )
    return (
        all(call.keys() <= _CALL for call in data.get("tool_uses") or ())
        and all(answer.keys() <= _RESPONSE for answer in data.get("tool_responses") or ())
        and all(_is_text(parts) for _, parts in data.get("intermediate_responses") or ())
    )


def _is_plain_event(event: Mapping[str, Any]) -> bool:
    """Return True for an event with exactly one part: a text, a call or an answer, without further data."""
    content = event.get("content")
    if not event.keys() <= _EVENT or not isinstance(content, dict) or not content.keys() <= _CONTENT:
        return False
    parts: list[Any] = content.get("parts") or []
    if len(parts) != 1 or len(parts[0]) != 1:
        return False
    ((kind, held),) = parts[0].items()
    if content.get("role", get_part_role(kind)) != get_part_role(kind):
        return False
    if kind == "text":
        return bool(held)
    return kind in _SHAPES and isinstance(held, dict) and held.keys() <= _SHAPES[kind]


def get_part_role(kind: str) -> str:
    """Return Google ADK's role for a kind of part: "user" for `function_response`, "model" for all others."""
    return "user" if kind == "function_response" else "model"


_KINDS = ("function_call", "function_response", "text")


_PLAIN_CHECKS = {
    "user_content": _is_plain_user_content,
    "final_response": _is_plain_response,
    "intermediate_data": _is_plain_data,
}


PART_KEYS = (
    *("thought", "thought_signature", "inline_data", "file_data", "executable_code"),
    *("code_execution_result", "video_metadata", "media_resolution", "media_processing", "part_metadata"),
    *("tool_call", "tool_response", "audio_transcription", "audio_metadata", "speech_metadata"),
    *("document_metadata", "spreadsheet_metadata"),
)
"""Keys of a part that evalgate keeps and does not interpret."""

_PART_SPELLINGS = frozenset(
    spelling
    for key in ("text", "function_call", "function_response", *PART_KEYS)
    for spelling in (key, to_camel(key))
)


def is_known_part(part: JsonObject) -> bool:
    """Return True if Google ADK accepts a part: the part is empty, or ADK knows at least one of its keys."""
    return not part or not _PART_SPELLINGS.isdisjoint(part)
