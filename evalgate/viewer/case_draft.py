"""A case as the texts of a form: read from a case, changed by buttons, and turned back into a case.

The form holds everything that was typed, so that the server keeps nothing between two requests, and a page
with a mistake or a conflict loses nothing. Each part names its number in the file (`source`), so that what
no field shows stays.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Goal,
    JsonObject,
    Reply,
    Rubric,
    Scenario,
    ToolCall,
    UserMessage,
)
from evalgate.datasets import case_edits
from evalgate.datasets.raw_edits import get_call_arguments, is_same_call
from evalgate.documents.json_edits import is_same_json
from evalgate.documents.strict_json import parse_json

Form = Mapping[str, Sequence[str]]
GOAL_KINDS = ("tool_call", "text", "check", "interaction", "conversational_search", "tool_response")
_NUMBER = re.compile(r"\d{1,6}")


@dataclass(slots=True)
class DraftCall:
    """An expected call."""

    source: int | None = None
    name: str = ""
    args: str = ""
    """JSON; "" for none."""


@dataclass(slots=True)
class DraftRubric:
    """A statement that a judge must affirm."""

    source: int | None = None
    rubric_id: str = ""
    text: str = ""
    metric: str = ""


@dataclass(slots=True)
class DraftTurn:
    """A turn. `kept` holds the numbers of the events other than calls that stay."""

    source: int | None = None
    user: str = ""
    response: str = ""
    calls: list[DraftCall] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    rubrics: list[DraftRubric] = field(default_factory=list)


@dataclass(slots=True)
class DraftGoal:
    """A goal of the whole conversation."""

    source: int | None = None
    type: str = "tool_call"
    name: str = ""
    tool: str = ""
    args: str = ""
    response: str = ""
    keywords: str = ""
    """One a line."""
    check: str = ""


@dataclass(slots=True)
class CaseDraft:
    """A case in a form."""

    eval_id: str = ""
    turns: list[DraftTurn] = field(default_factory=list)
    rubrics: list[DraftRubric] = field(default_factory=list)
    start: str = ""
    plan: str = ""
    final_state: str = ""
    """JSON; "" for none."""
    story: str = ""
    goals: list[DraftGoal] = field(default_factory=list)


# --- from a case --------------------------------------------------------------------------------------------


def draft_case(case: EvalCase) -> CaseDraft:
    """Return the form of a case."""
    return CaseDraft(
        case.eval_id,
        [_draft_turn(at, turn) for at, turn in enumerate(case.turns)],
        _draft_rubrics(case.rubrics),
        case.scenario.starting_prompt if case.scenario else "",
        case.scenario.conversation_plan if case.scenario else "",
        format_json(case.final_state),
        case.journey.story if case.journey else "",
        [_draft_goal(at, goal) for at, goal in enumerate(case.journey.goals if case.journey else ())],
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
    """Return the fields of a call."""
    return DraftCall(source, call.name, format_json(get_call_arguments(call)))


def _draft_rubrics(rubrics: Sequence[Rubric]) -> list[DraftRubric]:
    return [
        DraftRubric(at, rubric.rubric_id, rubric.text, rubric.metric) for at, rubric in enumerate(rubrics)
    ]


def _draft_goal(at: int, goal: Goal) -> DraftGoal:
    keywords = "\n".join(goal.keywords)
    args, response = format_json(goal.args), goal.response or ""
    return DraftGoal(at, goal.type, goal.name, goal.tool_name, args, response, keywords, goal.check)


def format_json(value: object) -> str:
    """Return a value as JSON for a text field; "" for None."""
    return "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)


# --- changes by buttons -------------------------------------------------------------------------------------


def change_draft(draft: CaseDraft, action: str, actual: Sequence[Reply | None] = ()) -> None:
    """Apply a button to a draft: `KIND-PART` with the numbers of parts, such as `delete-call.0.2`.

    `actual` are the agent's replies, by the turns in the file, for the buttons that take them over.

    Raises:
        InvalidInputError: there is no such button or part.
    """
    kind, *parts = action.split(".")
    try:
        numbers = [int(part) for part in parts]
        verb, _, what = kind.partition("-")
        if verb == "take":
            _take(draft, what, numbers, actual)
        else:
            _change_list(verb, *_find_list(draft, what, numbers))
    except (ValueError, IndexError, KeyError):
        raise InvalidInputError(f"there is no button {action!r} on this page") from None


def _find_list(draft: CaseDraft, what: str, numbers: list[int]) -> tuple[list[Any], int, Any]:
    """Return the list that a button changes, the number of its item, and an empty item."""
    at = numbers[-1]
    if what == "turn":
        return draft.turns, at, DraftTurn()
    if what == "call":
        return draft.turns[numbers[0]].calls, at, DraftCall()
    if what == "event":
        kept = draft.turns[numbers[0]].kept
        return kept, kept.index(at), 0
    if what == "rubric":
        owner = draft if len(numbers) == 1 else draft.turns[numbers[0]]
        return owner.rubrics, at, DraftRubric()
    if what == "goal":
        return draft.goals, at, DraftGoal()
    raise KeyError(what)


def _change_list(verb: str, items: list[Any], at: int, empty: Any) -> None:
    if verb == "add":
        items.insert(at, empty)
        return
    item = items.pop(at)
    if verb in {"up", "down"}:
        items.insert(max(at - 1, 0) if verb == "up" else at + 1, item)
    elif verb != "delete":
        raise KeyError(verb)


def _take(draft: CaseDraft, what: str, numbers: list[int], actual: Sequence[Reply | None]) -> None:
    turn = draft.turns[numbers[0]]
    reply = actual[turn.source] if turn.source is not None else None
    if reply is None:
        raise KeyError(what)
    if what in {"turn", "response"}:
        turn.response = reply.response or ""
    if what == "turn":
        turn.calls = _take_calls(turn.calls, reply.tool_calls)
    elif what == "call":
        number = numbers[1]
        taken = draft_call(None, reply.tool_calls[number])
        if number < len(turn.calls):
            taken.source = turn.calls[number].source
            turn.calls[number] = taken
        else:
            turn.calls.append(taken)
    elif what == "argument":
        _take_argument(turn.calls[numbers[1]], reply.tool_calls[numbers[1]], numbers[2])
    elif what != "response":
        raise KeyError(what)


def _take_calls(old: Sequence[DraftCall], calls: Sequence[ToolCall]) -> list[DraftCall]:
    """Return the agent's calls; expected calls that happened keep their numbers in the file."""
    free = list(old)
    taken = [draft_call(None, call) for call in calls]
    for each in taken:
        same = next((call for call in free if (call.name, call.args) == (each.name, each.args)), None)
        if same is not None:
            each.source = same.source
            free.remove(same)
    return taken


def _take_argument(draft: DraftCall, call: ToolCall, number: int) -> None:
    held, actual = parse_arguments(draft.args), call.args or {}
    name = list_argument_differences(draft, call)[number]
    changed = {**held, name: actual[name]} if name in actual else {**held}
    if name not in actual:
        del changed[name]
    draft.args = format_json(changed)


def parse_arguments(text: str) -> Mapping[str, object]:
    """Return the arguments in a field; none if it holds no object."""
    try:
        found = parse_json(text.encode(), "").value
    except InvalidInputError:
        return {}
    return found if isinstance(found, Mapping) else {}


def list_argument_differences(draft: DraftCall, call: ToolCall) -> list[str]:
    """Return the names of arguments in which the agent's call differs, if both are calls of one tool."""
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
    """Return the draft in a form. Fields that are missing are empty, numbers that are wrong are ignored."""

    def get(name: str) -> str:
        return _normalize_lines(next(iter(form.get(name, ())), ""))

    def get_source(name: str) -> int | None:
        text = get(f"{name}.source")
        return int(text) if _NUMBER.fullmatch(text) else None

    def list_names(prefix: str) -> list[str]:
        found = {
            name.removeprefix(prefix).partition(".")[0]
            for name in form
            if name.startswith(prefix) and _NUMBER.fullmatch(name.removeprefix(prefix).partition(".")[0])
        }
        return [f"{prefix}{number}" for number in sorted(found, key=int)]

    def read_rubrics(prefix: str) -> list[DraftRubric]:
        return [
            DraftRubric(get_source(name), get(f"{name}.id"), get(f"{name}.text"), get(f"{name}.metric"))
            for name in list_names(f"{prefix}r")
        ]

    turns = [
        DraftTurn(
            get_source(name),
            get(f"{name}.user"),
            get(f"{name}.response"),
            [
                DraftCall(get_source(call), get(f"{call}.name"), get(f"{call}.args"))
                for call in list_names(f"{name}.c")
            ],
            [int(text) for text in form.get(f"{name}.kept", ()) if _NUMBER.fullmatch(text)],
            read_rubrics(f"{name}."),
        )
        for name in list_names("t")
    ]
    goals = [
        DraftGoal(
            get_source(name),
            *[
                get(f"{name}.{key}")
                for key in ("type", "name", "tool", "args", "response", "keywords", "check")
            ],
        )
        for name in list_names("g")
    ]
    return CaseDraft(
        get("eval_id"),
        turns,
        read_rubrics(""),
        get("start"),
        get("plan"),
        get("final_state"),
        get("story"),
        goals,
    )


def _normalize_lines(text: str) -> str:
    # Browsers send every line end of a text area as CR LF.
    return text.replace("\r\n", "\n").replace("\r", "\n")


def restore_text(typed: str, before: str) -> str:
    """Return a text that was typed; `before` itself if a form cannot tell the two apart.

    A text area has no CR and no NUL. Changed text keeps the line ends that the old text had.
    """
    if typed == _normalize_lines(before).replace("\0", "\ufffd"):
        return before
    has_windows_lines = "\r\n" in before and "\n" not in before.replace("\r\n", "")
    return typed.replace("\n", "\r\n") if has_windows_lines else typed


def restore_line(typed: str, before: str) -> str:
    """Return a text of one line that was typed; `before` if it differs only in what a field cannot hold."""
    shown = re.sub(r"[\r\n]", "", before).replace("\0", "\ufffd")
    return before if typed == shown else typed


# --- to a case ----------------------------------------------------------------------------------------------


def build_case(draft: CaseDraft, base: EvalCase) -> tuple[EvalCase, dict[str, str]]:
    """Return the case of a draft, and the problems by the names of their fields.

    `base` is the case in the file. Parts that were not changed are its own objects.
    """
    errors: dict[str, str] = {}
    turns = [_build_turn(f"t{at}", turn, base, errors) for at, turn in enumerate(draft.turns)]
    case = _arrange_turns(base, draft, turns)
    if base.journey is not None:
        case = _build_goals(draft, base, case, errors)
    if base.scenario is not None:
        case = replace(case, scenario=_build_scenario(draft, base.scenario))
    rubrics = tuple(_build_rubrics("", draft.rubrics, base.rubrics))
    state = _parse_json("final_state", draft.final_state, base.final_state, errors)
    if state is not None and not isinstance(state, Mapping):
        errors["final_state"] = "must be an object"
    elif state != base.final_state:
        case = replace(case, final_state=cast("JsonObject | None", state or None))
    if rubrics != base.rubrics:
        case = replace(case, rubrics=rubrics)
    eval_id = restore_line(draft.eval_id, base.eval_id)
    return (case if eval_id == case.eval_id else replace(case, eval_id=eval_id)), errors


def _arrange_turns(base: EvalCase, draft: CaseDraft, turns: Sequence[CaseTurn]) -> EvalCase:
    """Return the case with other turns; recordings and mocks of tools move with them."""
    order: list[int | None] = []
    for turn in draft.turns:
        is_known = turn.source is not None and turn.source < len(base.turns) and turn.source not in order
        order.append(turn.source if is_known else None)
    if order == list(range(len(base.turns))):
        return base if tuple(turns) == base.turns else replace(base, turns=tuple(turns))
    case = case_edits.arrange_turns(base, order)
    return replace(case, turns=tuple(turns))


def _build_turn(name: str, draft: DraftTurn, base: EvalCase, errors: dict[str, str]) -> CaseTurn:
    at = draft.source
    turn = base.turns[at] if at is not None and at < len(base.turns) else CaseTurn(UserMessage(""))
    user = restore_text(draft.user, turn.user.text)
    response = restore_text(draft.response, turn.expected.response or "")
    # An empty field keeps the difference between an empty response and none.
    expected_response = response if response or turn.expected.response is not None else None
    if not response and turn.expected.response:
        expected_response = None
    reply = _build_reply(name, draft, replace(turn.expected, response=expected_response), errors)
    rubrics = tuple(_build_rubrics(f"{name}.", draft.rubrics, turn.rubrics))
    if (user, reply, rubrics) == (turn.user.text, turn.expected, turn.rubrics):
        return turn
    return replace(turn, user=replace(turn.user, text=user), expected=reply, rubrics=rubrics)


def _build_reply(name: str, draft: DraftTurn, reply: Reply, errors: dict[str, str]) -> Reply:
    old = reply.tool_calls
    calls = []
    for number, each in enumerate(draft.calls):
        known = old[each.source] if each.source is not None and each.source < len(old) else None
        calls.append(_build_call(f"{name}.c{number}", each, known, errors))
    gone = [
        event
        for number, event in enumerate(reply.events)
        if not isinstance(event, ToolCall) and number not in draft.kept
    ]
    if gone:
        events = [event for event in reply.events if not any(event is each for each in gone)]
        reply = replace(reply, events=tuple(events))
    is_same = len(calls) == len(old) and all(map(lambda one, other: one is other, calls, old))
    return reply if is_same else case_edits.set_calls(reply, calls)


def _build_call(name: str, draft: DraftCall, known: ToolCall | None, errors: dict[str, str]) -> ToolCall:
    base = known or ToolCall("")
    call_name = restore_line(draft.name, base.name)
    args = _parse_json(f"{name}.args", draft.args, get_call_arguments(base), errors)
    if not call_name:
        errors[f"{name}.name"] = "must name a tool"
    is_object = args is None or isinstance(args, Mapping)
    call = ToolCall(
        call_name,
        cast("JsonObject | None", args) if is_object else None,
        base.id,
        base.author,
        other_args=None if is_object else args,
    )
    return base if known is not None and is_same_call(call, base) else call


def _parse_json(name: str, text: str, before: object, errors: dict[str, str]) -> object:
    if text == _normalize_lines(format_json(before)).replace("\0", "\ufffd"):
        return before
    if not text.strip():
        return None
    try:
        return parse_json(text.encode(), "").value
    except InvalidInputError as error:
        problem = error.problems[0]
        errors[name] = f"line {problem.line}, column {problem.column}: {problem.message}"
        return before


def _build_rubrics(prefix: str, drafts: Sequence[DraftRubric], old: Sequence[Rubric]) -> list[Rubric]:
    found = []
    ids = {draft.rubric_id for draft in drafts}
    for number, draft in enumerate(drafts, start=1):
        known = old[draft.source] if draft.source is not None and draft.source < len(old) else None
        stem = "turn_rubric" if prefix else "rubric"
        free = next(f"{stem}_{at}" for at in range(number, number + 10**6) if f"{stem}_{at}" not in ids)
        base = known or Rubric(free, "")
        text, metric = restore_text(draft.text, base.text), restore_line(draft.metric, base.metric)
        rubric_id = restore_line(draft.rubric_id, base.rubric_id) or base.rubric_id
        changed = replace(base, rubric_id=rubric_id, text=text, metric=metric)
        found.append(known if known == changed else changed)
    return found


def _build_scenario(draft: CaseDraft, old: Scenario) -> Scenario:
    start = restore_text(draft.start, old.starting_prompt)
    plan = restore_text(draft.plan, old.conversation_plan)
    changed = replace(old, starting_prompt=start, conversation_plan=plan)
    return old if changed == old else changed


def _build_goals(draft: CaseDraft, base: EvalCase, case: EvalCase, errors: dict[str, str]) -> EvalCase:
    journey = base.journey
    if journey is None:
        return case
    story = restore_text(draft.story, journey.story)
    if story != journey.story:
        case = replace(case, journey=replace(journey, story=story))
        if case.scenario is not None:
            case = replace(case, scenario=replace(case.scenario, conversation_plan=story))
    kept = {goal.source for goal in draft.goals}
    places = [at for at in range(len(journey.goals)) if at in kept]
    for at in reversed(range(len(journey.goals))):
        if at not in kept:
            case = case_edits.delete_goal(case, at)
    for number, each in enumerate(draft.goals):
        known = journey.goals[each.source] if each.source is not None and each.source in places else None
        goal = _build_goal(f"g{number}", each, known, errors)
        if known is None:
            case = case_edits.add_goal(case, goal)
        elif goal != known and each.source is not None:
            case = case_edits.set_goal(case, places.index(each.source), goal)
    return case


def _build_goal(name: str, draft: DraftGoal, known: Goal | None, errors: dict[str, str]) -> Goal:
    kind = draft.type if draft.type in GOAL_KINDS else "tool_call"
    base = known or Goal("", cast("Literal['tool_call']", kind))
    args: Any = _parse_json(f"{name}.args", draft.args, base.args, errors)
    if args is not None and not isinstance(args, Mapping):
        errors[f"{name}.args"] = "must be an object"
        args = base.args
    changed = replace(
        base,
        name=restore_line(draft.name, base.name),
        tool_name=restore_line(draft.tool, base.tool_name),
        args=args,
        response=restore_text(draft.response, base.response or "") or None,
        keywords=tuple(filter(None, draft.keywords.split("\n")))
        if draft.keywords != "\n".join(base.keywords)
        else base.keywords,
        check=restore_text(draft.check, base.check),
    )
    if args != base.args:
        changed = replace(changed, arg_matching={})
    return base if changed == base else changed
