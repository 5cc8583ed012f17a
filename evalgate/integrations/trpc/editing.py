"""Editor that writes changed cases back into tRPC-Agent-Go's eval sets, of every release."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from operator import eq
from typing import Any, TypeAlias

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    JsonObject,
    Message,
    Reply,
    Rubric,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.datasets.raw_edits import (
    SAME_TURN,
    edit_google_text,
    edit_items,
    is_same_call,
    is_same_data,
    set_key,
)
from evalgate.datasets.tool_call_pairs import match_tool_results
from evalgate.documents.json_edits import align_items
from evalgate.documents.key_spelling import find_key_in_any_case, get_member
from evalgate.documents.strict_json import as_sequence, get_items
from evalgate.integrations.trpc.writer import build_invocation, build_rubric


class TrpcEditor:
    """Editor of the files that `TrpcFormat` reads. It keeps all data that an edit does not change."""

    def get_cases(self, value: object) -> Sequence[JsonObject]:
        """Return the decoded cases of a decoded file; () if it has no list of cases."""
        return as_sequence(get_member(value, "evalCases")) or ()

    def replace_cases(self, value: object, cases: Sequence[JsonObject]) -> object:
        """Return the decoded file with `cases` in place of the old cases."""
        file: dict[str, Any] = dict(value) if isinstance(value, dict) else {}
        return set_key(file, find_key_in_any_case(value, "evalCases"), list(cases))

    def edit_case(self, raw: JsonObject, old: EvalCase, new: EvalCase) -> JsonObject:
        """Return the decoded case `raw`, which was read as `old`, with the changes that make it `new`.

        Only changes of the id, turns, scenario, session state and rubrics are written. If `new` has no
        scenario, the scenario of `old` stays: no edit in evalgate removes one.

        Raises:
            InvalidInputError: the case is a trace (it has recorded replies), and `new` has a changed message
                of the user, an additional turn, or expectations although the trace has none.
        """
        edited: dict[str, Any] = dict(raw)
        if new.eval_id != old.eval_id:
            edited[find_key_in_any_case(raw, "evalId")] = new.eval_id
        if not is_same_data(new.turns, old.turns):
            edited = _edit_turns(edited, old, new)
        if new.scenario != old.scenario and new.scenario is not None:
            key = find_key_in_any_case(raw, "conversationScenario")
            plan: Any = edited.get(key) or {}
            plan = set_key(plan, find_key_in_any_case(plan, "startingPrompt"), new.scenario.starting_prompt)
            edited[key] = set_key(
                plan, find_key_in_any_case(plan, "conversationPlan"), new.scenario.conversation_plan
            )
        if not is_same_data(new.session.state, old.session.state):
            key = find_key_in_any_case(raw, "sessionInput")
            held: Any = edited.get(key) or {}
            edited[key] = set_key(held, find_key_in_any_case(held, "state"), new.session.state)
        if new.rubrics != old.rubrics:
            key = find_key_in_any_case(raw, "rubrics")
            rubrics = edit_items(
                get_items(raw, key),
                old.rubrics,
                new.rubrics,
                edit=_edit_rubric,
                build=partial(build_rubric, 1),
            )
            edited = set_key(edited, key, rubrics or None)
        return edited


def _edit_turns(raw: dict[str, Any], old: EvalCase, new: EvalCase) -> dict[str, Any]:
    keys = [find_key_in_any_case(raw, name) for name in ("conversation", "actualConversation")]
    if old.recorded is None:
        items = edit_items(
            get_items(raw, keys[0]),
            old.turns,
            new.turns,
            edit=_edit_turn,
            build=lambda turn: build_invocation(turn, turn.expected),
            is_same=SAME_TURN,
        )
        return set_key(raw, keys[0], items)
    found = align_items(old.turns, new.turns, eq, *SAME_TURN)
    changed = [(old.turns[at], turn) for at, turn in zip(found, new.turns, strict=True) if at is not None]
    if None in found or any(one.user != other.user for one, other in changed):
        raise InvalidInputError(
            f"the case {old.eval_id!r} is a trace: what its user said is recorded and cannot be changed"
        )
    edited = dict(raw)
    for key in keys:
        if held := get_items(raw, key):
            edited[key] = [held[at] for at in found if at is not None]
    if not all(is_same_data(one.expected, other.expected) for one, other in changed):
        if not all(get_items(raw, key) for key in keys):
            raise InvalidInputError(
                f"the case {old.eval_id!r} is a trace that expects nothing: it holds the recording alone"
            )
        edited[keys[0]] = [
            item if one is other else _edit_turn(item, one, other)
            for item, (one, other) in zip(edited[keys[0]], changed, strict=True)
        ]
    return edited


def _edit_turn(raw: JsonObject, old: CaseTurn, new: CaseTurn) -> JsonObject:
    edited: dict[str, Any] = dict(raw)
    if new.user.text != old.user.text:
        key = find_key_in_any_case(raw, "userContent")
        edited = set_key(edited, key, _edit_message(edited.get(key), new.user.text, "user"))
    if new.expected.response != old.expected.response:
        key = find_key_in_any_case(raw, "finalResponse")
        message = _edit_message(edited.get(key), new.expected.response, "assistant")
        edited = set_key(edited, key, message)
    if not is_same_data(new.expected.events, old.expected.events):
        edited = _edit_events(edited, old.expected, new.expected)
    if new.invocation_id != old.invocation_id:
        edited = set_key(edited, find_key_in_any_case(raw, "invocationId"), new.invocation_id or None)
    if new.creation_timestamp != old.creation_timestamp:
        key = find_key_in_any_case(raw, "creationTimestamp")
        edited = set_key(edited, key, new.creation_timestamp or None)
    return edited


def _edit_message(raw: Any, text: str | None, role: str) -> JsonObject | None:
    if text is None:
        return None
    if raw is None:
        return {"role": role, "content": text}
    if get_member(raw, "content") is None and isinstance(get_member(raw, "parts"), list):
        return edit_google_text(raw, text, role)
    return set_key(raw, find_key_in_any_case(raw, "content"), text)


def _edit_events(raw: dict[str, Any], old: Reply, new: Reply) -> dict[str, Any]:
    older = find_key_in_any_case(raw, "intermediateData")
    if raw.get(older) is not None:
        # The older shape and `tools` exclude one another.
        built = build_invocation(CaseTurn(UserMessage("")), old)
        shared = {key: built[key] for key in ("tools", "intermediateResponses") if key in built}
        raw = {**{key: value for key, value in raw.items() if key != older}, **shared}
    pairs = [match_tool_results(reply).pairs for reply in (old, new)]
    edited = dict(raw)
    if not is_same_data(pairs[0], pairs[1]):
        key = find_key_in_any_case(raw, "tools")
        edited = set_key(edited, key, _edit_tools(get_items(raw, key), pairs[0], pairs[1]) or None)
    said = [[event for event in reply.events if isinstance(event, Message)] for reply in (old, new)]
    if said[0] != said[1]:
        key = find_key_in_any_case(raw, "intermediateResponses")
        messages = edit_items(
            get_items(raw, key),
            said[0],
            said[1],
            edit=lambda item, _, message: _edit_message(item, message.text, "assistant"),
            build=lambda message: {"role": message.author or "assistant", "content": message.text},
        )
        edited = set_key(edited, key, messages or None)
    return edited


_Pair: TypeAlias = tuple[ToolCall, ToolResult | None]


def _edit_tools(raw: Sequence[Any], old: Sequence[_Pair], new: Sequence[_Pair]) -> list[Any]:
    ids = {str(get_member(item, "id")) for item in raw if get_member(item, "id")}

    def build(pair: _Pair) -> JsonObject:
        call, result = pair
        built: dict[str, Any] = {"name": call.name}
        if ids or not raw:
            # Ids count only if all calls have one.
            number = next(number for number in range(len(ids) + 1, 10**9) if f"call_{number}" not in ids)
            name = call.id if call.id and call.id not in ids else f"call_{number}"
            ids.add(name)
            built = {"id": name, **built}
        arguments = call.arguments
        given = {"arguments": arguments, "result": None if result is None else result.result}
        return {**built, **{key: value for key, value in given.items() if value is not None}}

    return edit_items(
        raw,
        old,
        new,
        edit=_edit_tool,
        build=build,
        is_same=(lambda one, other: is_same_call(one[0], other[0]),),
    )


def _edit_tool(raw: JsonObject, old: _Pair, new: _Pair) -> JsonObject:
    edited = dict(raw)
    if new[0].name != old[0].name:
        edited[find_key_in_any_case(raw, "name")] = new[0].name
    if not is_same_call(replace(old[0], name=new[0].name), new[0]):
        edited = set_key(edited, find_key_in_any_case(raw, "arguments"), new[0].arguments)
    results = [None if pair[1] is None else pair[1].result for pair in (old, new)]
    if not is_same_data(results[0], results[1]):
        edited = set_key(edited, find_key_in_any_case(raw, "result"), results[1])
    return edited


def _edit_rubric(raw: JsonObject, old: Rubric, new: Rubric) -> JsonObject:
    edited: dict[str, Any] = dict(raw)
    if new.text != old.text:
        key = find_key_in_any_case(raw, "content")
        content: Any = edited.get(key) or {}
        edited[key] = set_key(content, find_key_in_any_case(content, "text"), new.text)
    if new.rubric_id != old.rubric_id:
        edited[find_key_in_any_case(raw, "id")] = new.rubric_id
    if new.metric != old.metric:
        edited[find_key_in_any_case(raw, "metricName")] = new.metric
    return edited
