"""Build a case from the texts of a form. Unchanged parts stay the same objects as in the case of the file."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Literal, cast

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Goal,
    Journey,
    JsonObject,
    Reply,
    Rubric,
    Scenario,
    ToolCall,
    UserMessage,
)
from evalgate.datasets import case_edits
from evalgate.datasets.raw_edits import is_same_call, is_same_data
from evalgate.documents.strict_json import parse_json
from evalgate.viewer.case_draft import (
    GOAL_KINDS,
    CaseDraft,
    DraftCall,
    DraftGoal,
    DraftRubric,
    DraftTurn,
    format_json,
    format_later_goals,
)
from evalgate.viewer.forms import normalize_lines


def restore_text(typed: str, before: str) -> str:
    """Return the typed text of a text area, or `before` itself if the user did not change it.

    A text area cannot show CR and NUL, so these do not count as changes. If all line ends of `before` are
    CR LF, a changed text gets these line ends, too.
    """
    if typed == normalize_lines(before).replace("\0", "\ufffd"):
        return before
    has_windows_lines = "\r\n" in before and "\n" not in before.replace("\r\n", "")
    return typed.replace("\n", "\r\n") if has_windows_lines else typed


def restore_line(typed: str, before: str) -> str:
    """Return the typed text of a one-line field, or `before` itself if the user did not change it.

    Such a field cannot show line ends and NUL, so these do not count as changes.
    """
    shown = re.sub(r"[\r\n]", "", before).replace("\0", "\ufffd")
    return before if typed == shown else typed


def build_drafted_case(draft: CaseDraft, base: EvalCase) -> tuple[EvalCase, dict[str, str]]:
    """Return the case of a draft, and a message for each wrong field, by the name of the field.

    `base` is the case in the file. Unchanged parts of the result are the same objects as in `base`.
    """
    errors: dict[str, str] = {}
    turns = [_build_turn(f"t{at}", turn, base, errors) for at, turn in enumerate(draft.turns)]
    case = _arrange_turns(base, draft, turns)
    if base.journey is not None:
        case = _update_goals(base, _build_goals(draft, base, case, errors), errors)
    if base.scenario is not None:
        case = replace(case, scenario=_build_scenario(draft, base.scenario))
    rubrics = tuple(_build_rubrics("", draft.rubrics, base.rubrics))
    state = _parse_json("final_state", draft.final_state, base.final_state, errors)
    if state is not None and not isinstance(state, Mapping):
        errors["final_state"] = "must be an object"
    elif not is_same_data(state, base.final_state):
        case = replace(case, final_state=cast("JsonObject | None", state or None))
    if rubrics != base.rubrics:
        case = replace(case, rubrics=rubrics)
    eval_id = restore_line(draft.eval_id, base.eval_id)
    return (case if eval_id == case.eval_id else replace(case, eval_id=eval_id)), errors


def _arrange_turns(base: EvalCase, draft: CaseDraft, turns: Sequence[CaseTurn]) -> EvalCase:
    """Return `base` with `turns`, the turns of the draft, in place of its own turns.

    The user may have moved, added or deleted turns. A tool mock for a turn moves with the turn. Recorded
    replies move with their turns only if every turn in `base` had a recorded reply, and no turn was added.
    Otherwise, they stay in their old order.
    """
    order: list[int | None] = []
    for turn in draft.turns:
        is_known = turn.source is not None and turn.source < len(base.turns) and turn.source not in order
        order.append(turn.source if is_known else None)
    if order == list(range(len(base.turns))):
        return base if is_same_data(tuple(turns), base.turns) else replace(base, turns=tuple(turns))
    case = case_edits.arrange_turns(base, order)
    return replace(case, turns=tuple(turns))


def _build_turn(name: str, draft: DraftTurn, base: EvalCase, errors: dict[str, str]) -> CaseTurn:
    at = draft.source
    turn = base.turns[at] if at is not None and at < len(base.turns) else CaseTurn(UserMessage(""))
    user = restore_text(draft.user, turn.user.text)
    response = restore_text(draft.response, turn.expected.response or "")
    # An empty field is shown for "" and for None. An untouched one keeps the value that the case has.
    expected_response = response if response or turn.expected.response is not None else None
    if not response and turn.expected.response:
        expected_response = None
    reply = _build_reply(name, draft, replace(turn.expected, response=expected_response), errors)
    rubrics = tuple(_build_rubrics(f"{name}.", draft.rubrics, turn.rubrics))
    if is_same_data((user, reply, rubrics), (turn.user.text, turn.expected, turn.rubrics)):
        return turn
    return replace(turn, user=replace(turn.user, text=user), expected=reply, rubrics=rubrics)


def _build_reply(name: str, draft: DraftTurn, reply: Reply, errors: dict[str, str]) -> Reply:
    old = reply.tool_calls
    # The file may have fewer calls than the page that was edited.
    sources = [each.source if each.source in range(len(old)) else None for each in draft.calls]
    calls = [
        _build_call(f"{name}.c{number}", each, None if source is None else old[source], errors)
        for number, (each, source) in enumerate(zip(draft.calls, sources, strict=True))
    ]
    gone = [
        event
        for number, event in enumerate(reply.events)
        if not isinstance(event, ToolCall) and number not in draft.kept
    ]
    if gone:
        events = [event for event in reply.events if not any(event is each for each in gone)]
        reply = replace(reply, events=tuple(events))
    is_same = len(calls) == len(old) and all(map(lambda one, other: one is other, calls, old))
    return reply if is_same else case_edits.set_calls(reply, calls, sources)


def _build_call(name: str, draft: DraftCall, known: ToolCall | None, errors: dict[str, str]) -> ToolCall:
    base = known or ToolCall("")
    call_name = restore_line(draft.name, base.name)
    args = _parse_json(f"{name}.args", draft.args, base.arguments, errors)
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
    if text == normalize_lines(format_json(before)).replace("\0", "\ufffd"):
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
        base = known or Rubric("", "")
        text, metric = restore_text(draft.text, base.text), restore_line(draft.metric, base.metric)
        typed = restore_line(draft.rubric_id, base.rubric_id)
        rubric_id = typed if typed.strip() else base.rubric_id
        if not rubric_id:
            stem = "turn_rubric" if prefix else "rubric"
            rubric_id = next(name for at in count(number) if (name := f"{stem}_{at}") not in ids)
            ids.add(rubric_id)
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
        elif goal is not known and each.source is not None:
            case = case_edits.set_goal(case, places.index(each.source), goal)
    return _order_goals(draft, journey, case, errors)


def _order_goals(draft: CaseDraft, old: Journey, case: EvalCase, errors: dict[str, str]) -> EvalCase:
    """Return `case` with the order of its goals from the form; `old` has the goals in the file.

    In the form, each goal has a list of later goals. If a goal in a list does not exist, `errors` gets a
    message.
    """
    journey = case.journey
    if journey is None:
        return case
    named = [goal.name for goal in journey.goals if goal.type != "check"]
    order = dict(journey.order)
    for number, each in enumerate(draft.goals):
        known = old.goals[each.source] if each.source is not None and each.source < len(old.goals) else None
        if each.type == "check" or each.later == (format_later_goals(old, known.name) if known else ""):
            continue
        later = tuple(dict.fromkeys(filter(None, each.later.split("\n"))))
        if unknown := [name for name in later if name not in named]:
            errors[f"g{number}.later"] = f"there is no goal {unknown[0]!r}"
        order[restore_line(each.name, known.name if known else "")] = later
    if order == journey.order:
        return case
    # The order must name every goal, also a goal that only the old order named.
    mentioned = {*order, *(name for later in order.values() for name in later)}
    lost: dict[str, tuple[str, ...]] = {name: () for name in named if name not in mentioned}
    return replace(case, journey=replace(journey, order={**order, **lost}))


def _update_goals(base: EvalCase, case: EvalCase, errors: dict[str, str]) -> EvalCase:
    """Change the goals of `case` to fit its expected reply if the user changed the reply. Return the case.

    `base` is the case before the edit, `case` after it. A case without goals or with several turns is
    returned unchanged. If the user changed both the reply and the goals, `case` is returned unchanged, too,
    and `errors` gets a message.
    """
    if len(base.turns) != 1 or len(case.turns) != 1 or base.journey is None or case.journey is None:
        return case
    expected = case.turns[0].expected
    if expected == base.turns[0].expected:
        return case
    if (case.journey.goals, case.journey.order) != (base.journey.goals, base.journey.order):
        errors["t0.response"] = "goals follow from calls and response: save the changes of one of them first"
        return case
    return case_edits.set_expected_reply(case, 0, expected)


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
        response=restore_text(draft.response, base.response or "") or None,
        keywords=tuple(filter(None, draft.keywords.split("\n")))
        if draft.keywords != "\n".join(base.keywords)
        else base.keywords,
        check=restore_text(draft.check, base.check),
    )
    if not is_same_data(args, base.args):
        changed = changed.replace_args(args)
    return base if is_same_data(changed, base) else changed
