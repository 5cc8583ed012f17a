"""Writes eval sets for adk-rs: Google ADK's words, without what adk-rs does not know or stops at (nulls)."""

import json
from collections.abc import Iterator
from dataclasses import replace

from evalgate.core.protocols import Written
from evalgate.core.types import EvalCase, EvalSet, JsonObject, Message, ToolCall, Turn
from evalgate.datasets.conversion_losses import as_adk, case_losses, check_something_is_left
from evalgate.datasets.turn_shapes import respelled

_NAME = "adk-rs"
_HOLDS = frozenset(
    {"user_id", "creation_timestamp", "invocation_id", "messages", "message_authors", "other_args"}
)
_KINDS = (
    *("redacted_thought", "inline_data", "file_data", "function_call", "function_response"),
    *("executable_code", "code_execution_result"),
)
"""What a part can be beside a text: adk-rs refuses all others."""
_ROLES = ("user", "model", "system", "tool")


class AdkRsWriter:
    """The file that adk-rs reads, newer than its `id`: Google ADK reads it too."""

    def write(self, eval_set: EvalSet) -> Written:
        """The file's text, and what it has no place for. A scenario is a case that adk-rs cannot play.

        Raises:
            InvalidInput: no case can be said at all.
        """
        cases = [_case(case) for case in eval_set.cases if case.scenario is None]
        value = {
            _key(eval_set): eval_set.eval_set_id,
            **_given(name=eval_set.name, description=eval_set.description),
            "eval_cases": cases,
            **_given(creation_timestamp=eval_set.creation_timestamp),
        }
        lost = tuple(f"{case.eval_id}: {what}" for case in eval_set.cases for what in _lost(case))
        check_something_is_left(eval_set, cases, lost)
        return Written(json.dumps(value, indent=2, ensure_ascii=False) + "\n", lost)


def _key(eval_set: EvalSet) -> str:
    """The older name of the id where arguments are no object: then nobody takes the file for Google ADK's."""
    turns = (turn for case in eval_set.cases for turn in case.turns)
    calls = (call for turn in turns for call in turn.expected.tool_calls)
    return "id" if any(call.other_args is not None for call in calls) else "eval_set_id"


def _lost(case: EvalCase) -> Iterator[str]:
    if case.scenario is not None:
        yield "the whole case: adk-rs has nobody who plays a user"
        return
    case = replace(case, turns=tuple(_without_contents(turn) for turn in case.turns))
    yield from case_losses(case, format_name=_NAME, holds=_HOLDS, attachment=_attachment)


def _without_contents(turn: Turn) -> Turn:
    """The turn without what is written as Google ADK has it."""
    kept = {key: value for key, value in turn.native.get("adk", {}).items() if key not in _contents(turn)}
    return replace(turn, native={**turn.native, "adk": kept})


def _contents(turn: Turn) -> JsonObject:
    """Contents in Google ADK's words that adk-rs reads too."""
    kept = turn.native.get("adk", {})
    return {key: kept[key] for key in ("user_content", "final_response") if _is_readable(kept.get(key))}


def _is_readable(content: object) -> bool:
    if not isinstance(content, dict) or content.get("role") not in _ROLES:
        return False
    parts = content.get("parts", [])
    return isinstance(parts, list) and all(any(kind in part for kind in ("text", *_KINDS)) for part in parts)


def _attachment(part: JsonObject) -> JsonObject | None:
    found = as_adk(part)
    spelled: JsonObject = respelled(found) if found is not None else {}
    return spelled if any(kind in spelled for kind in _KINDS) else None


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, 0.0)}


def _case(case: EvalCase) -> JsonObject:
    session = _given(app_name=case.session.app_name, user_id=case.session.user_id, state=case.session.state)
    return {
        "eval_id": case.eval_id,
        **_given(name=case.native.get(_NAME, {}).get("name")),
        "conversation": [_invocation(turn) for turn in case.turns],
        **_given(session_input=session, creation_timestamp=case.creation_timestamp),
    }


def _invocation(turn: Turn) -> JsonObject:
    attached = [found for part in turn.user.attachments if (found := _attachment(part)) is not None]
    text = [{"text": turn.user.text}] if turn.user.text or not attached else []
    response = turn.expected.response
    final = None if response is None else {"role": "model", "parts": [{"text": response}]}
    return {
        **_given(invocation_id=turn.invocation_id),
        "user_content": {"role": "user", "parts": [*text, *attached]},
        **_given(
            final_response=final,
            intermediate_data=_intermediate_data(turn),
            creation_timestamp=turn.creation_timestamp,
        ),
        **_contents(turn),
    }


def _intermediate_data(turn: Turn) -> JsonObject:
    said = [event for event in turn.expected.events if isinstance(event, Message)]
    return _given(
        tool_uses=[_call(call) for call in turn.expected.tool_calls],
        intermediate_responses=[[message.author or "", [{"text": message.text}]] for message in said],
    )


def _call(call: ToolCall) -> JsonObject:
    args = call.args if call.other_args is None else call.other_args
    return {"name": call.name, **({} if args is None else {"args": args})}
