"""Warn of journeys that can never succeed, because of their goals or the order of their goals."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from evalgate.core.protocols import CaseChecker, Metric
from evalgate.core.types import EvalCase, EvalSet, Goal, Journey
from evalgate.integrations.orchestrate.journey.outcome import get_goals

_RANK = {"tool_call": 0, "interaction": 1, "text": 2}
"""Ranks of the types of goals. A goal always counts as reached before all goals of a higher rank."""


class JourneyLint:
    """Lint for journeys (goals of a whole conversation, and the order of the goals) that cannot succeed."""

    def build_checker(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> CaseChecker:
        """Return a function that yields the faults of a case's journey; both arguments are unused."""
        del eval_set, metrics
        return _describe_journey_faults


def _describe_journey_faults(case: EvalCase) -> Iterator[str]:
    if case.journey is None:
        return
    journey = case.journey
    yield from _find_repeated_goals(journey)
    yield from _find_unreachable_goals(journey)
    if circle := find_cycle(journey.order):
        yield f"`goals` run in a circle ({' → '.join(circle)}), so that the journey can never succeed"
    yield from _find_impossible_edges(journey)
    if len(case.turns) == 1 and any(goal.type == "interaction" for goal in journey.goals):
        yield "only the starting sentence is said; write `user_prompts` for what the user answers"


def find_cycle(order: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names along one cycle, with the first name again at the end; [] if there is no cycle.

    `order` maps the name of a goal to the names of the goals that come after it.
    """
    done: set[str] = set()
    for start in order:
        path: list[str] = []
        left = [iter((start,))]
        while left:
            name = next(left[-1], None)
            if name is None:
                left.pop()
                if path:
                    done.add(path.pop())
            elif name in path:
                return [*path[path.index(name) :], name]
            elif name not in done:
                path.append(name)
                left.append(iter(order.get(name, ())))
    return []


def _find_repeated_goals(journey: Journey) -> Iterator[str]:
    counts = Counter(goal.name for goal in journey.goals if goal.name)
    for name, times in counts.items():
        if times > 1:
            yield f"the goal `{name}` is described {times} times; only the last description counts"


def _find_unreachable_goals(journey: Journey) -> Iterator[str]:
    for goal in journey.goals:
        if goal.type in {"conversational_search", "tool_response"}:
            yield f"the goal `{goal.name}` is of type {goal.type}, which nothing ever reaches"
        elif goal.type == "text" and goal.response is None and not goal.keywords:
            yield f"the goal `{goal.name}` has neither `response` nor `keywords`, so that no text reaches it"
        elif goal.tool_name != goal.tool_name.strip():
            yield f"the goal `{goal.name}` names its tool with blanks around: {goal.tool_name!r}"


def _find_impossible_edges(journey: Journey) -> Iterator[str]:
    goals = {goal.name: goal for goal in get_goals(journey, *_RANK)}
    position = {name: at for at, name in enumerate(goals)}
    for name, later in journey.order.items():
        for child in later:
            if name in goals and child in goals:
                yield from _describe_edge(
                    goals[name], goals[child], is_as_written=position[name] < position[child]
                )


def _describe_edge(first: Goal, second: Goal, *, is_as_written: bool) -> Iterator[str]:
    names = f"`{first.name}` before `{second.name}`"
    if _RANK[first.type] > _RANK[second.type]:
        kinds = f"a goal of type {first.type} counts after every {second.type}"
        yield f"the order {names} can never hold: {kinds}"
    elif first.type == second.type != "tool_call" and not is_as_written:
        yield f"the order {names} can never hold: both count in the order of `goal_details`"
