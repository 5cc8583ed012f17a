"""Writer of eval sets for adk-rs, with only the keys of Google ADK that adk-rs reads.

No nulls are written, since adk-rs refuses most of them.
"""

from collections.abc import Iterator
from dataclasses import replace

from evalgate.core.protocols import WriteResult
from evalgate.core.types import CaseTurn, EvalCase, EvalSet, JsonObject, Message
from evalgate.datasets.adk_turns import normalize_keys
from evalgate.datasets.conversion_losses import (
    build_write_result,
    check_cases_remain,
    describe_case_losses,
    omit_empty,
    to_adk_part,
)

_NAME = "adk-rs"
_HOLDS = frozenset(
    {"user_id", "creation_timestamp", "invocation_id", "messages", "message_authors", "other_args"}
)
_KINDS = (
    *("redacted_thought", "inline_data", "file_data", "function_call", "function_response"),
    *("executable_code", "code_execution_result"),
)
"""The kinds of content of a part other than text; adk-rs refuses all others."""
_ROLES = ("user", "model", "system", "tool")


class AdkRsWriter:
    """Writer of files for adk-rs; Google ADK can read them too, unless the key of the set's id is `id`."""

    def write_eval_set(self, eval_set: EvalSet) -> WriteResult:
        """Return the file's text, and a list of the data that the format cannot hold.

        A case with a scenario is left out, since adk-rs cannot simulate a user.

        Raises:
            InvalidInputError: the set has cases, and none of them can be written.
        """
        cases = [_build_case(case) for case in eval_set.cases if case.scenario is None]
        value = {
            _choose_id_key(eval_set): eval_set.eval_set_id,
            **omit_empty(name=eval_set.name, description=eval_set.description),
            "eval_cases": cases,
            **omit_empty(creation_timestamp=eval_set.creation_timestamp),
        }
        lost = tuple(f"{case.eval_id}: {what}" for case in eval_set.cases for what in _describe_losses(case))
        check_cases_remain(eval_set, cases, lost)
        return build_write_result(value, lost)


def _choose_id_key(eval_set: EvalSet) -> str:
    """Return the key of the set's id: `eval_set_id`, which Google ADK reads too, or `id`.

    The key `id` marks a file of adk-rs' own format. A set gets this key if it was read from this format, or
    if the arguments of a call are not an object, which Google ADK does not allow.
    """
    if eval_set.format_name == _NAME:
        return "id"
    turns = (turn for case in eval_set.cases for turn in case.turns)
    calls = (call for turn in turns for call in turn.expected.tool_calls)
    return "id" if any(call.other_args is not None for call in calls) else "eval_set_id"


def _describe_losses(case: EvalCase) -> Iterator[str]:
    if case.scenario is not None:
        yield "the whole case: adk-rs has nobody who plays a user"
        return
    case = replace(case, turns=tuple(_drop_written_contents(turn) for turn in case.turns))
    yield from describe_case_losses(case, format_name=_NAME, holds=_HOLDS, attachment=_convert_attachment)


def _drop_written_contents(turn: CaseTurn) -> CaseTurn:
    """Return the turn without the `native` data that the writer writes: the rest is reported as lost."""
    kept = {
        key: value
        for key, value in turn.native.get("adk", {}).items()
        if key not in _get_readable_contents(turn)
    }
    return replace(turn, native={**turn.native, "adk": kept})


def _get_readable_contents(turn: CaseTurn) -> JsonObject:
    """Return the `user_content` and `final_response` in the turn's `native` data, if adk-rs can read them."""
    kept = turn.native.get("adk", {})
    return {key: kept[key] for key in ("user_content", "final_response") if _is_readable(kept.get(key))}


def _is_readable(content: object) -> bool:
    if not isinstance(content, dict) or content.get("role") not in _ROLES:
        return False
    parts = content.get("parts", [])
    return isinstance(parts, list) and all(any(kind in part for kind in ("text", *_KINDS)) for part in parts)


def _convert_attachment(part: JsonObject) -> JsonObject | None:
    # Only adk-rs knows this kind of content.
    found = part if part.get("redacted_thought") is not None else to_adk_part(part)
    spelled: JsonObject = normalize_keys(found) if found is not None else {}
    return spelled if any(kind in spelled for kind in _KINDS) else None


def _build_case(case: EvalCase) -> JsonObject:
    session = omit_empty(
        app_name=case.session.app_name, user_id=case.session.user_id, state=case.session.state
    )
    return {
        "eval_id": case.eval_id,
        **omit_empty(name=case.native.get(_NAME, {}).get("name")),
        "conversation": [build_invocation(turn) for turn in case.turns],
        **omit_empty(session_input=session, creation_timestamp=case.creation_timestamp),
    }


def build_invocation(turn: CaseTurn) -> JsonObject:
    """Return the JSON of a turn with its expected reply, as adk-rs reads it."""
    attached = [found for part in turn.user.attachments if (found := _convert_attachment(part)) is not None]
    text = [{"text": turn.user.text}] if turn.user.text or not attached else []
    response = turn.expected.response
    final = None if response is None else {"role": "model", "parts": [{"text": response}]}
    return {
        **omit_empty(invocation_id=turn.invocation_id),
        "user_content": {"role": "user", "parts": [*text, *attached]},
        **omit_empty(
            final_response=final,
            intermediate_data=_build_intermediate_data(turn),
            creation_timestamp=turn.creation_timestamp,
        ),
        **_get_readable_contents(turn),
    }


def _build_intermediate_data(turn: CaseTurn) -> JsonObject:
    messages = [event for event in turn.expected.events if isinstance(event, Message)]
    return omit_empty(
        tool_uses=[
            {"name": call.name, **({} if call.arguments is None else {"args": call.arguments})}
            for call in turn.expected.tool_calls
        ],
        intermediate_responses=[[message.author or "", [{"text": message.text}]] for message in messages],
    )
