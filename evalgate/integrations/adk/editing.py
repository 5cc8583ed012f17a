"""Editor that writes changed cases back into Google ADK's eval sets, in snake_case or camelCase."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from pydantic.alias_generators import to_camel

from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Event,
    JsonObject,
    Message,
    Rubric,
    Scenario,
    ToolCall,
    ToolResult,
)
from evalgate.datasets.raw_edits import (
    SAME_TURN,
    edit_google_text,
    edit_items,
    is_same_call,
    is_same_data,
    set_key,
)
from evalgate.documents.key_spelling import find_snake_or_camel_key
from evalgate.documents.strict_json import get_items
from evalgate.integrations.adk.writer import (
    build_intermediate_data,
    build_invocation,
    build_invocation_event,
    build_rubric,
)

_Event = TypeVar("_Event", ToolCall, ToolResult, Message)
_Slot: TypeAlias = tuple[int, int, str]
"""Place of a text, call or result in `invocation_events`: index of the decoded event, index of its part, and
the key of the content in the part."""


_KINDS = (ToolCall, ToolResult, Message)


class AdkEditor:
    """Editor of the files that `AdkFormat` reads. It keeps all data that an edit does not change."""

    cases_key = "eval_cases"
    id_key = "eval_id"

    def get_cases(self, value: object) -> Sequence[JsonObject]:
        """Return the decoded cases of a decoded file; () if it has no list of cases."""
        return get_items(value, self.spell(value, self.cases_key))

    def replace_cases(self, value: object, cases: Sequence[JsonObject]) -> object:
        """Return the decoded file with `cases` in place of the old cases."""
        file: dict[str, Any] = dict(value) if isinstance(value, dict) else {}
        return set_key(file, self.spell(value, self.cases_key), list(cases))

    def edit_case(self, raw: JsonObject, old: EvalCase, new: EvalCase) -> JsonObject:
        """Return the decoded case `raw`, which was read as `old`, with the changes that make it `new`.

        Only changes of the id, turns, scenario, session state, rubrics and final state are written. If `new`
        has no scenario, the scenario of `old` stays: no edit in evalgate removes one.
        """
        edited = dict(raw)
        if new.eval_id != old.eval_id:
            edited[self.spell(raw, self.id_key)] = new.eval_id
        if not is_same_data(new.turns, old.turns):
            key = self.spell(raw, "conversation")
            edited[key] = edit_items(
                get_items(raw, key),
                old.turns,
                new.turns,
                edit=self._edit_turn,
                build=self.build_turn,
                is_same=SAME_TURN,
            )
        if new.scenario != old.scenario and new.scenario is not None:
            key = self.spell(raw, "conversation_scenario")
            edited[key] = self._edit_scenario(edited.get(key), new.scenario)
        if not is_same_data(new.session.state, old.session.state):
            key = self.spell(raw, "session_input")
            held: Any = edited.get(key) or {"app_name": old.session.app_name, "user_id": old.session.user_id}
            edited[key] = set_key(held, "state", new.session.state)
        edited = self._edit_rubrics(edited, old.rubrics, new.rubrics)
        if not is_same_data(new.final_state, old.final_state):
            edited = set_key(edited, self.spell(raw, "final_session_state"), new.final_state or None)
        return edited

    def build_turn(self, turn: CaseTurn) -> JsonObject:
        """Return the JSON of a new turn, as Google ADK writes it."""
        return build_invocation(turn)

    def spell(self, raw: object, name: str) -> str:
        """Return the spelling of the key `name` in `raw`: snake_case or camelCase.

        If `raw` lacks the key, the spelling follows the other keys of `raw`. If these show no style, the
        result is in snake_case.
        """
        found = find_snake_or_camel_key(raw, name)
        if isinstance(raw, dict) and found not in raw:
            is_camel = any(key != key.lower() for key in raw) and not any("_" in key for key in raw)
            return to_camel(name) if is_camel else name
        return found

    def _edit_turn(self, raw: JsonObject, old: CaseTurn, new: CaseTurn) -> JsonObject:
        edited: dict[str, Any] = dict(raw)
        if new.user.text != old.user.text:
            key = self.spell(raw, "user_content")
            edited[key] = edit_google_text(edited.get(key), new.user.text, "user")
        if new.expected.response != old.expected.response:
            key = self.spell(raw, "final_response")
            content = edit_google_text(edited.get(key), new.expected.response, "model")
            edited = set_key(edited, key, content)
        if not is_same_data(new.expected.events, old.expected.events):
            key = self.spell(raw, "intermediate_data")
            data = self._edit_data(edited.get(key) or {}, old.expected.events, new.expected.events)
            edited = set_key(edited, key, data or None)
        if new.invocation_id != old.invocation_id:
            edited = set_key(edited, self.spell(raw, "invocation_id"), new.invocation_id or None)
        if new.creation_timestamp != old.creation_timestamp:
            edited = set_key(edited, self.spell(raw, "creation_timestamp"), new.creation_timestamp or None)
        return self._edit_rubrics(edited, old.rubrics, new.rubrics)

    def _edit_rubrics(
        self, raw: dict[str, Any], old: Sequence[Rubric], new: Sequence[Rubric]
    ) -> dict[str, Any]:
        if new == old:
            return raw
        held = get_items(raw, "rubrics")
        rubrics = edit_items(held, old, new, edit=self._edit_rubric, build=build_rubric)
        return set_key(raw, "rubrics", rubrics or None)

    def _edit_rubric(self, raw: JsonObject, old: Rubric, new: Rubric) -> JsonObject:
        edited = dict(raw)
        if new.text != old.text and "criterion" in raw:
            edited["criterion"] = new.text
        elif new.text != old.text:
            key = self.spell(raw, "rubric_content")
            content: Any = edited.get(key) or {}
            edited[key] = set_key(content, self.spell(content, "text_property"), new.text)
        if new.rubric_id != old.rubric_id:
            edited[self.spell(raw, "rubric_id")] = new.rubric_id
        if new.type != old.type:
            edited = set_key(edited, "type", new.type)
        return edited

    def _edit_scenario(self, raw: Any, new: Scenario) -> JsonObject:
        edited = dict(raw or {})
        edited[self.spell(raw, "starting_prompt")] = new.starting_prompt
        edited[self.spell(raw, "conversation_plan")] = new.conversation_plan
        return edited

    # --- calls, results and messages before the final response ----------------------------------------------

    def _edit_data(self, raw: JsonObject, old: Sequence[Event], new: Sequence[Event]) -> JsonObject:
        key = self.spell(raw, "invocation_events")
        if raw.get(key):
            slots = self._list_slots(get_items(raw, key))
            if len(slots) == len(old):
                return set_key(raw, key, self._edit_events(get_items(raw, key), slots, old, new) or None)
        # The older shape has one list for each kind of event, so the order between kinds is lost, as in all
        # other turns of such a file.
        built = build_intermediate_data(sorted(new, key=lambda event: _KINDS.index(type(event))))
        if "invocation_events" in built or raw.get(key):
            return built
        edited = self._edit_list(raw, "tool_uses", ToolCall, (old, new), self._edit_call)
        edited = self._edit_list(edited, "tool_responses", ToolResult, (old, new), self._edit_result)
        return self._edit_list(edited, "intermediate_responses", Message, (old, new), _edit_message)

    def _edit_list(
        self,
        raw: JsonObject,
        name: str,
        kind: type[_Event],
        events: tuple[Sequence[Event], Sequence[Event]],
        edit: Callable[[Any, _Event, _Event], Any],
    ) -> JsonObject:
        old, new = ([event for event in each if isinstance(event, kind)] for each in events)
        if is_same_data(old, new):
            return raw
        key = self.spell(raw, name)

        def build(event: _Event) -> object:
            (item,) = build_intermediate_data((event,))[name]
            return item

        is_same: Any = (is_same_call,) if kind is ToolCall else ()
        items = edit_items(get_items(raw, key), old, new, edit=edit, build=build, is_same=is_same)
        return set_key(raw, key, items or None)

    def _list_slots(self, events: Sequence[Any]) -> list[_Slot]:
        """Return the slot (place) of each text, call and result in decoded events, in the events' order.

        A slot is (index of the event, index of its part, key of the content in the part).
        """
        found = []
        for at, event in enumerate(events):
            for number, part in enumerate(get_items(event.get("content"), "parts")):
                kinds = ("text", *(self.spell(part, name) for name in ("function_call", "function_response")))
                found += [(at, number, kind) for kind in kinds if part.get(kind)]
        return found

    def _edit_events(
        self, raw: Sequence[Any], slots: Sequence[_Slot], old: Sequence[Event], new: Sequence[Event]
    ) -> list[Any]:
        """Return the decoded events `raw` with the changes from `old` to `new`.

        `old` has the parsed texts, calls and results of `raw`, and `slots` the place of each in `raw`. `new`
        has the texts, calls and results after the edit.
        """
        edited: list[Any] = []
        numbers = edit_items(
            list(range(len(slots))),
            old,
            new,
            edit=lambda index, _, event: (index, event),
            build=lambda event: (None, event),
            is_same=(_is_same_event,),
        )
        kept: dict[int, dict[_Slot, Event]] = {}
        order: list[int | Event] = []
        last = -1
        for found in numbers:
            index, event = found if isinstance(found, tuple) else (found, old[found])
            if index is None or index <= last:
                order.append(event)
                continue
            last, slot = index, slots[index]
            if slot[0] not in kept:
                order.append(slot[0])
            kept.setdefault(slot[0], {})[slot] = event
        before = dict(zip(slots, old, strict=True))
        for item in order:
            if isinstance(item, int):
                edited.append(self._edit_event(item, raw[item], before, kept[item]))
            else:
                edited.append(build_invocation_event(item))
        return edited

    def _edit_event(
        self, at: int, raw: Any, before: dict[_Slot, Event], kept: dict[_Slot, Event]
    ) -> JsonObject:
        """Return the decoded event `raw`, the item `at` of `invocation_events`, with the changes of an edit.

        `before` has the parsed texts, calls and results before the edit, by their place (`_Slot`), and `kept`
        has those after the edit. If `kept` lacks a place, the text, call or result in this place is removed.
        """
        parts: list[Any] = []
        for number, part in enumerate(get_items(raw["content"], "parts")):
            edited = part
            slots = [slot for slot in before if slot[:2] == (at, number)]
            for slot in slots:
                if slot not in kept:
                    edited = set_key(edited, slot[2], None)
                elif kept[slot] is not before[slot]:
                    edited = {
                        **edited,
                        slot[2]: self._edit_content(edited[slot[2]], before[slot], kept[slot]),
                    }
            # A part without a slot holds nothing that evalgate edits, so it stays.
            if not slots or any(slot in kept for slot in slots):
                parts.append(edited)
        return {**raw, "content": {**raw["content"], "parts": parts}}

    def _edit_content(self, raw: Any, old: Event, new: Event) -> object:
        if isinstance(old, ToolCall) and isinstance(new, ToolCall):
            return self._edit_call(raw, old, new)
        if isinstance(old, ToolResult) and isinstance(new, ToolResult):
            return self._edit_result(raw, old, new)
        return new.text if isinstance(new, Message) else raw

    def _edit_call(self, raw: JsonObject, old: ToolCall, new: ToolCall) -> JsonObject:
        edited = set_key(raw, "name", new.name) if new.name != old.name else dict(raw)
        if is_same_call(replace(old, name=new.name), new):
            return edited
        return set_key(edited, "args", new.arguments)

    def _edit_result(self, raw: JsonObject, old: ToolResult, new: ToolResult) -> JsonObject:
        edited = set_key(raw, "name", new.name) if new.name != old.name else dict(raw)
        return edited if is_same_data(new.result, old.result) else set_key(edited, "response", new.result)


def _edit_message(raw: Any, _: Message, new: Message) -> object:
    author, parts = raw
    content = edit_google_text({"parts": parts}, new.text, "model") or {}
    return [author, content["parts"]]


def _is_same_event(one: Event, other: Event) -> bool:
    if isinstance(one, ToolCall) and isinstance(other, ToolCall):
        return is_same_call(one, other)
    return is_same_data(one, other)
