"""Pure functions that return a changed copy of a case, in which unchanged parts stay the same objects.

`evalgate.datasets.eval_set_file` compares the identity of objects (`is`), and writes only changed parts.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import count

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Event,
    Goal,
    Journey,
    Reply,
    ToolCall,
    ToolMock,
    ToolResult,
    UserMessage,
)
from evalgate.datasets.conversion_losses import find_linear_goal_order
from evalgate.datasets.raw_edits import is_same_call
from evalgate.datasets.tool_call_pairs import match_tool_results
from evalgate.documents.json_edits import align_items


def replace_turn(case: EvalCase, at: int, turn: CaseTurn) -> EvalCase:
    """Return the case with `turn` in place of its turn at the 0-based index `at`.

    Raises:
        InvalidInputError: the case has no turn at this index.
    """
    _get_turn(case, at)
    return replace(case, turns=(*case.turns[:at], turn, *case.turns[at + 1 :]))


def set_expected_reply(case: EvalCase, at: int, reply: Reply) -> EvalCase:
    """Return the case with `reply` as the expected reply of the turn at the 0-based index `at`.

    If the case has goals, the goals are changed to fit the reply. The turn then expects only the calls and
    the response of `reply`, because goals express nothing else.

    Raises:
        InvalidInputError: there is no such turn, or the case has goals and several turns.
    """
    turn = _get_turn(case, at)
    if case.journey is None:
        return replace_turn(case, at, replace(turn, expected=reply))
    if len(case.turns) > 1:
        raise InvalidInputError(
            f"the case {case.eval_id!r} has goals for the whole conversation: change these, not a turn"
        )
    # Goals express only calls and the response, so all other events are dropped.
    changed = replace_turn(case, at, replace(turn, expected=replace(reply, events=reply.tool_calls)))
    return replace(changed, journey=_set_expected_goals(case.journey, reply.tool_calls, reply.response))


def set_conversation_goals(case: EvalCase, replies: Sequence[Reply]) -> EvalCase:
    """Return the case with goals for all calls in `replies`, and for the last response in `replies`.

    `replies` are the agent's replies of a whole conversation. Goals of other kinds stay.

    Raises:
        InvalidInputError: the case has no goals.
    """
    calls = [call for reply in replies for call in reply.tool_calls]
    response = next((reply.response for reply in reversed(replies) if reply.response), None)
    return replace(case, journey=_set_expected_goals(_get_journey(case), calls, response))


def set_calls(reply: Reply, calls: Sequence[ToolCall], sources: Sequence[int | None]) -> Reply:
    """Return the reply with its tool calls replaced by `calls`; all other events keep their order.

    The new calls take the places of the old calls, in order. Surplus new calls follow the last call.
    `sources` has, for each new call, the index of the old call that it replaces, or None for an added call.

    The result of a replaced call stays, and gets the new name if the call was renamed. The result of an old
    call that no new call replaces is removed. Results that belong to no call stay unchanged.
    """
    new_calls = {source: call for call, source in zip(calls, sources, strict=True) if source is not None}
    results: dict[int, ToolResult | None] = {}
    for at, (old, result) in enumerate(match_tool_results(reply).pairs):
        new = new_calls.get(at)
        if result is not None and new is not None and new.name != old.name:
            results[id(result)] = replace(result, name=new.name)
        elif result is not None:
            results[id(result)] = None if new is None else result
    events: list[Event] = []
    left = list(calls)
    for event in reply.events:
        if isinstance(event, ToolCall):
            events += left[:1]
            del left[:1]
        else:
            kept = results.get(id(event), event)
            events += [] if kept is None else [kept]
    last = max((at for at, event in enumerate(events) if isinstance(event, ToolCall)), default=-1)
    return replace(reply, events=(*events[: last + 1], *left, *events[last + 1 :]))


# --- turns --------------------------------------------------------------------------------------------------


def arrange_turns(case: EvalCase, order: Sequence[int | None]) -> EvalCase:
    """Return the case with its turns arranged by `order`.

    `order` has an item for each turn of the result: the 0-based index of an old turn, or None for an added,
    empty turn. Old turns that are not in `order` are removed. A tool mock for a single turn moves with this
    turn, or is removed with it. Recorded replies are arranged in the same way, but stay unchanged if a turn
    is added or if there is not exactly one for each turn.
    """
    turns = [CaseTurn(UserMessage("")) if old is None else case.turns[old] for old in order]
    places = {old: new for new, old in enumerate(order) if old is not None}
    recorded = case.recorded
    if recorded is not None and len(recorded) == len(case.turns) and None not in order:
        recorded = tuple([recorded[old] for old in order if old is not None])
    return replace(
        case,
        turns=tuple(turns),
        recorded=recorded,
        tool_mocks=tuple(sorted(_arrange_mocks(case.tool_mocks, places), key=lambda mock: mock.turn or 0)),
    )


def _arrange_mocks(mocks: Sequence[ToolMock], places: Mapping[int, int]) -> list[ToolMock]:
    return [
        mock if mock.turn is None else replace(mock, turn=places[mock.turn])
        for mock in mocks
        if mock.turn is None or mock.turn in places
    ]


def _get_turn(case: EvalCase, at: int) -> CaseTurn:
    if not 0 <= at < len(case.turns):
        raise InvalidInputError(f"the case {case.eval_id!r} has no turn {at + 1}")
    return case.turns[at]


# --- goals --------------------------------------------------------------------------------------------------


def set_goal(case: EvalCase, at: int, goal: Goal) -> EvalCase:
    """Return the case with `goal` in place of its goal at the 0-based index `at`.

    In the order of goals, the name of `goal` replaces the name of the old goal.

    Raises:
        InvalidInputError: the case has no goals.
        IndexError: the case has goals, but none at this index.
    """
    journey = _get_journey(case)
    old = journey.goals[at].name
    order = {
        goal.name if name == old else name: tuple([goal.name if each == old else each for each in later])
        for name, later in journey.order.items()
    }
    goals = (*journey.goals[:at], goal, *journey.goals[at + 1 :])
    return replace(case, journey=replace(journey, goals=goals, order=order))


def add_goal(case: EvalCase, goal: Goal) -> EvalCase:
    """Return the case with a further goal, which may be reached at any time.

    Raises:
        InvalidInputError: the case has no goals.
    """
    journey = _get_journey(case)
    order = journey.order if goal.type == "check" else {**journey.order, goal.name: ()}
    return replace(case, journey=replace(journey, goals=(*journey.goals, goal), order=order))


def delete_goal(case: EvalCase, at: int) -> EvalCase:
    """Return the case without the goal at the 0-based index `at`.

    Goals that came after the deleted goal then come after the goals that preceded it.

    Raises:
        InvalidInputError: the case has no goals.
        IndexError: the case has goals, but none at this index.
    """
    journey = _get_journey(case)
    name = journey.goals[at].name
    after = journey.order.get(name, ())
    order = {
        other: tuple(
            dict.fromkeys([each for one in later for each in (after if name and one == name else (one,))])
        )
        for other, later in journey.order.items()
        if not name or other != name
    }
    goals = (*journey.goals[:at], *journey.goals[at + 1 :])
    # Goals that `order` named only as followers of the deleted goal must stay in `order`.
    named = {*order, *(each for later in order.values() for each in later)}
    lost: dict[str, tuple[str, ...]] = {each: () for each in after if each not in named}
    return replace(case, journey=replace(journey, goals=goals, order={**order, **lost}))


def _set_expected_goals(journey: Journey, calls: Sequence[ToolCall], response: str | None) -> Journey:
    """Return the journey with goals for these calls and this response; goals of other kinds stay.

    Goals of `journey` that are not removed keep their places in the list; new goals are added at the end.

    If the old goals must be reached one after the other (`find_linear_goal_order`), the new goals must, too.
    The old order is kept if no goal is added or removed, and the calls have the same order in `calls`.
    Otherwise, the goals of the calls come first, in the order of `calls`, and all other goals follow.
    """
    ranks = find_linear_goal_order(journey)
    rank = {name: at for at, name in enumerate(ranks or ())}
    by_rank = sorted(journey.goals, key=lambda goal: rank.get(goal.name, 0))
    known = [goal for goal in by_rank if goal.type == "tool_call"]
    old = [ToolCall(goal.tool_name, goal.args) for goal in known]
    names = {goal.name for goal in journey.goals}
    changes: dict[str, Goal | None] = dict.fromkeys([goal.name for goal in known])
    wanted: list[Goal] = []
    for call, source in zip(calls, align_items(old, list(calls), _is_same_goal_call), strict=True):
        if source is None:
            goal = Goal(_find_free_name(call.name, names), "tool_call", call.name, call.args or None)
            names.add(goal.name)
        else:
            goal = known[source]
            if not _is_same_goal_call(old[source], call):
                goal = replace(goal, tool_name=call.name).replace_args(call.args or None)
            changes[goal.name] = goal
        wanted.append(goal)
    added = [goal for goal in wanted if goal.name not in changes]
    answers = [goal for goal in by_rank if goal.type == "text" and goal.response]
    if answers:
        keeps_goal = response or answers[-1].keywords
        changes[answers[-1].name] = replace(answers[-1], response=response) if keeps_goal else None
    elif response:
        added.append(Goal(_find_free_name("answer", names), "text", response=response))
    kept = [changes.get(goal.name, goal) for goal in journey.goals]
    goals = (*[goal for goal in kept if goal is not None], *added)
    return replace(journey, goals=goals, order=_order_goals(journey, goals, wanted, ranks))


def _is_same_goal_call(one: ToolCall, other: ToolCall) -> bool:
    """Return True if two calls have equal names and arguments; empty arguments equal missing ones."""
    return is_same_call(ToolCall(one.name, one.args or None), ToolCall(other.name, other.args or None))


def _find_free_name(tool: str, names: Container[str]) -> str:
    return next(name for number in count(1) if (name := f"{tool or 'call'}-{number}") not in names)


def _order_goals(
    journey: Journey, goals: Sequence[Goal], calls: Sequence[Goal], ranks: Sequence[str] | None
) -> Mapping[str, tuple[str, ...]]:
    names = [goal.name for goal in goals if goal.type != "check"]
    before = [goal.name for goal in journey.goals if goal.type != "check"]
    first = [goal.name for goal in calls]
    if ranks is None:
        if names == before:
            return journey.order
        kept = {
            name: tuple([each for each in later if each in names])
            for name, later in journey.order.items()
            if name in names
        }
        named = {*kept, *(each for later in kept.values() for each in later)}
        return {**kept, **{name: () for name in names if name not in named}}
    rank = {name: at for at, name in enumerate(ranks)}
    if sorted(names) == sorted(before) and [name for name in ranks if name in first] == first:
        return journey.order
    rest = sorted([name for name in names if name not in first], key=lambda name: rank.get(name, len(rank)))
    line = [*first, *rest]
    return {name: tuple(line[at : at + 1]) for at, name in enumerate(line, start=1)}


def _get_journey(case: EvalCase) -> Journey:
    if case.journey is None:
        raise InvalidInputError(f"the case {case.eval_id!r} has no goals: it expects a reply for each turn")
    return case.journey
