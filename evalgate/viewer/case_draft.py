"""Represent a case as a draft: the texts of the form in which the user edits the case.

A draft is read from a case or from the sent form. Buttons of the form change it. Every request sends all that
the user typed, so the server keeps nothing between requests, and a mistake or a conflict loses nothing.

In each part of a draft, `source` is the position of the part in the file, from 0; None for a new part. Data
of a part that the form does not show is kept when the draft is saved.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Journey,
    Reply,
    Rubric,
    ToolCall,
)
from evalgate.documents.json_edits import is_same_json
from evalgate.documents.strict_json import parse_json
from evalgate.viewer.check_draft import DraftCheck, DraftValue, forbid_tool, read_checks, require_call
from evalgate.viewer.forms import Form, FormFields

GOAL_KINDS = ("tool_call", "text", "check", "interaction", "conversational_search", "tool_response")
_NUMBER = re.compile(r"\d{1,6}")


@dataclass(slots=True)
class DraftCall:
    """Expected tool call, as texts of a form."""

    source: int | None = None
    name: str = ""
    args: str = ""
    """Arguments as JSON; "" for no arguments."""


@dataclass(slots=True)
class DraftRubric:
    """Rubric (a statement that a judge must affirm), as texts of a form."""

    source: int | None = None
    rubric_id: str = ""
    text: str = ""
    metric: str = ""


@dataclass(slots=True)
class DraftTurn:
    """Turn of a case with its message and expected reply, as texts of a form.

    `calls` are the expected tool calls. `kept` are the positions, from 0, of other expected events that
    saving keeps, such as tool results.
    """

    source: int | None = None
    user: str = ""
    response: str = ""
    calls: list[DraftCall] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    rubrics: list[DraftRubric] = field(default_factory=list)


@dataclass(slots=True)
class DraftGoal:
    """Goal of a whole conversation (watsonx Orchestrate), as texts of a form."""

    source: int | None = None
    type: str = "tool_call"
    name: str = ""
    tool: str = ""
    args: str = ""
    response: str = ""
    keywords: str = ""
    """Keywords, one per line."""
    check: str = ""
    later: str = ""
    """Names of the goals that come after this goal, one per line."""


@dataclass(slots=True)
class CaseDraft:
    """Case with its checks, as texts of a form."""

    eval_id: str = ""
    turns: list[DraftTurn] = field(default_factory=list)
    rubrics: list[DraftRubric] = field(default_factory=list)
    start: str = ""
    plan: str = ""
    final_state: str = ""
    """Expected final state as JSON; "" if none is expected."""
    story: str = ""
    goals: list[DraftGoal] = field(default_factory=list)
    checks: list[DraftCheck] = field(default_factory=list)
    """Checks of the case, which are stored in the case notes, a file next to the eval set."""


# --- from a case --------------------------------------------------------------------------------------------


def draft_case(case: EvalCase) -> CaseDraft:
    """Return the form texts of a case, without its checks, which are in another file (the case notes)."""
    return CaseDraft(
        case.eval_id,
        [_draft_turn(at, turn) for at, turn in enumerate(case.turns)],
        _draft_rubrics(case.rubrics),
        case.scenario.starting_prompt if case.scenario else "",
        case.scenario.conversation_plan if case.scenario else "",
        format_json(case.final_state),
        case.journey.story if case.journey else "",
        [_draft_goal(at, case.journey) for at in range(len(case.journey.goals))] if case.journey else [],
    )


def _draft_turn(at: int, turn: CaseTurn) -> DraftTurn:
    events = turn.expected.events
    return DraftTurn(
        at,
        turn.user.text,
        turn.expected.response or "",
        [draft_call(number, call) for number, call in enumerate(turn.expected.tool_calls)],
        [number for number, event in enumerate(events) if not isinstance(event, ToolCall)],
        _draft_rubrics(turn.rubrics),
    )


def draft_call(source: int | None, call: ToolCall) -> DraftCall:
    """Return the form texts of a tool call.

    `source` is the index, from 0, of the call among the turn's expected calls; None for a new call.
    """
    return DraftCall(source, call.name, format_json(call.arguments))


def _draft_rubrics(rubrics: Sequence[Rubric]) -> list[DraftRubric]:
    return [
        DraftRubric(at, rubric.rubric_id, rubric.text, rubric.metric) for at, rubric in enumerate(rubrics)
    ]


def _draft_goal(at: int, journey: Journey) -> DraftGoal:
    goal = journey.goals[at]
    keywords = "\n".join(goal.keywords)
    args, response, later = (
        format_json(goal.args),
        goal.response or "",
        format_later_goals(journey, goal.name),
    )
    return DraftGoal(at, goal.type, goal.name, goal.tool_name, args, response, keywords, goal.check, later)


def format_later_goals(journey: Journey, name: str) -> str:
    """Return the names of the goals that must come after the goal `name`, one per line; "" for none."""
    return "\n".join(journey.order.get(name, ()))


def format_json(value: object) -> str:
    """Return a value as JSON for a text field; "" for None."""
    return "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)


# --- changes by buttons -------------------------------------------------------------------------------------


def change_draft(draft: CaseDraft, action: str, actual: Sequence[Reply | None] = ()) -> None:
    """Apply the pressed button `action` of the form to `draft`, in place.

    `action` is `VERB-PART` with positions from 0: `delete-call.0.2` deletes the third call of the first turn.
    `actual` has the agent's reply to each turn of the case in the file, for buttons that copy parts of a
    reply.

    Raises:
        InvalidInputError: there is no such button or part.
    """
    kind, *parts = action.split(".")
    try:
        numbers = [int(part) for part in parts]
        verb, _, what = kind.partition("-")
        if verb == "take":
            _copy_part(draft, what, numbers, actual)
        elif kind in {"forbid-call", "require-call"}:
            _add_check(draft, verb, numbers, actual)
        else:
            _change_list(verb, *_find_list(draft, what, numbers))
    except (ValueError, IndexError, KeyError):
        raise InvalidInputError(f"there is no button {action!r} on this page") from None


def _find_list(draft: CaseDraft, part: str, numbers: list[int]) -> tuple[list[Any], int, Any]:
    """Return (list that a button changes, position of the item in this list, empty item to add).

    For the button `delete-call.0.2`, `part` is `call`, and `numbers` are the positions 0 and 2.

    Raises:
        ValueError, IndexError, KeyError: there is no such part.
    """
    at = numbers[-1]
    whole: dict[str, tuple[list[Any], type]] = {
        "turn": (draft.turns, DraftTurn),
        "goal": (draft.goals, DraftGoal),
        "check": (draft.checks, DraftCheck),
    }
    if part in whole:
        items, empty = whole[part]
        return items, at, empty()
    if part == "call":
        return draft.turns[numbers[0]].calls, at, DraftCall()
    if part == "event":
        kept = draft.turns[numbers[0]].kept
        return kept, kept.index(at), 0
    if part == "rubric":
        owner = draft if len(numbers) == 1 else draft.turns[numbers[0]]
        return owner.rubrics, at, DraftRubric()
    if part == "value":
        return draft.checks[numbers[0]].values, at, DraftValue()
    raise KeyError(part)


def _change_list(verb: str, items: list[Any], at: int, empty: Any) -> None:
    if verb == "add":
        items.insert(at, empty)
        return
    item = items.pop(at)
    if verb in {"up", "down"}:
        items.insert(max(at - 1, 0) if verb == "up" else at + 1, item)
    elif verb != "delete":
        raise KeyError(verb)


def _add_check(draft: CaseDraft, verb: str, numbers: list[int], actual: Sequence[Reply | None]) -> None:
    """Add a check that forbids (`verb` is `forbid`) or requires one of the agent's tool calls.

    `numbers` has the index of the turn in the file and the index of the call in the turn, both from 0.
    `actual` has the agent's reply to each turn.

    Raises:
        ValueError, IndexError, KeyError: there is no such call.
    """
    turn, number = numbers
    reply = actual[turn]
    if reply is None:
        raise KeyError(verb)
    build = forbid_tool if verb == "forbid" else require_call
    draft.checks.append(build(reply.tool_calls[number], draft.checks))


def _copy_part(draft: CaseDraft, part: str, numbers: list[int], actual: Sequence[Reply | None]) -> None:
    turn = draft.turns[numbers[0]]
    reply = actual[turn.source] if turn.source is not None else None
    if reply is None:
        raise KeyError(part)
    if part in {"turn", "response"}:
        turn.response = reply.response or ""
    if part == "turn":
        turn.calls = _copy_calls(turn.calls, reply.tool_calls)
    elif part == "call":
        number = numbers[1]
        taken = draft_call(None, reply.tool_calls[number])
        if number < len(turn.calls):
            taken.source = turn.calls[number].source
            turn.calls[number] = taken
        else:
            turn.calls.append(taken)
    elif part == "argument":
        _copy_argument(turn.calls[numbers[1]], reply.tool_calls[numbers[1]], numbers[2])
    elif part != "response":
        raise KeyError(part)


def _copy_calls(old: Sequence[DraftCall], calls: Sequence[ToolCall]) -> list[DraftCall]:
    """Return the agent's calls as drafts. A draft that equals one in `old` gets the same `source`."""
    free = list(old)
    taken = [draft_call(None, call) for call in calls]
    for each in taken:
        same = next((call for call in free if (call.name, call.args) == (each.name, each.args)), None)
        if same is not None:
            each.source = same.source
            free.remove(same)
    return taken


def _copy_argument(draft: DraftCall, call: ToolCall, number: int) -> None:
    held, actual = parse_arguments(draft.args), call.args or {}
    name = list_argument_differences(draft, call)[number]
    changed = {**held, name: actual[name]} if name in actual else {**held}
    if name not in actual:
        del changed[name]
    draft.args = format_json(changed)


def parse_arguments(text: str) -> Mapping[str, object]:
    """Return the arguments in the text of a field; an empty mapping if the text is not a JSON object."""
    try:
        found = parse_json(text.encode(), "").value
    except InvalidInputError:
        return {}
    return found if isinstance(found, Mapping) else {}


def list_argument_differences(draft: DraftCall, call: ToolCall) -> list[str]:
    """Return the names of the arguments that differ between the expected call `draft` and the agent's `call`.

    Return [] if the two calls are of different tools, or if the arguments of `call` are not an object.
    """
    if draft.name != call.name or call.other_args is not None:
        return []
    held, actual = parse_arguments(draft.args), call.args or {}
    missing = object()
    return [
        name
        for name in dict.fromkeys([*held, *actual])
        if not is_same_json(held.get(name, missing), actual.get(name, missing))
    ]


# --- from a form --------------------------------------------------------------------------------------------


def read_draft(form: Form) -> CaseDraft:
    """Return the draft in a form. A missing field counts as empty, and an invalid position as None."""
    fields = _CaseFields(form)
    return CaseDraft(
        fields.get("eval_id"),
        [fields.read_turn(name) for name in fields.list_names("t")],
        fields.read_rubrics(""),
        fields.get("start"),
        fields.get("plan"),
        fields.get("final_state"),
        fields.get("story"),
        [fields.read_goal(name) for name in fields.list_names("g")],
        read_checks(form),
    )


class _CaseFields(FormFields):
    def read_turn(self, name: str) -> DraftTurn:
        return DraftTurn(
            self._get_source(name),
            self.get(f"{name}.user"),
            self.get(f"{name}.response"),
            [
                DraftCall(self._get_source(call), self.get(f"{call}.name"), self.get(f"{call}.args"))
                for call in self.list_names(f"{name}.c")
            ],
            [int(text) for text in self._form.get(f"{name}.kept", ()) if _NUMBER.fullmatch(text)],
            self.read_rubrics(f"{name}."),
        )

    def read_rubrics(self, prefix: str) -> list[DraftRubric]:
        return [
            DraftRubric(
                self._get_source(name), *[self.get(f"{name}.{key}") for key in ("id", "text", "metric")]
            )
            for name in self.list_names(f"{prefix}r")
        ]

    def read_goal(self, name: str) -> DraftGoal:
        keys = ("type", "name", "tool", "args", "response", "keywords", "check", "later")
        return DraftGoal(self._get_source(name), *[self.get(f"{name}.{key}") for key in keys])

    def _get_source(self, name: str) -> int | None:
        text = self.get(f"{name}.source")
        return int(text) if _NUMBER.fullmatch(text) else None
