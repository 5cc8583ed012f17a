"""The goals of a conversation and the turns of a script: what each says of the other.

A script of one turn expects what its goals say. In a longer one nothing says which turn a goal belongs to.
"""

from collections.abc import Iterator, Mapping, Sequence

from evalgate.model import EvalCase, Goal, Journey


def lost_goals(case: EvalCase) -> Iterator[str]:
    """What the goals of a case say that its turns do not."""
    journey = case.journey
    if journey is None:
        return
    if journey.story and case.scenario is None:
        yield "the story"
    if len(case.turns) != 1:
        yield "the goals and their order"
        return
    said = case.turns[0].expected.response
    for goal in journey.goals:
        yield from _lost_of(goal, said)
    if not is_line(journey):
        yield "the order of the goals, which is no line"


def _lost_of(goal: Goal, response: str | None) -> Iterator[str]:
    if goal.type == "tool_call":
        if goal.arg_matching:
            yield f"how the arguments of the goal `{goal.name}` are compared"
        return
    if goal.type == "text":
        if goal.response != response:
            yield f"the response of the goal `{goal.name}`"
        if goal.keywords:
            yield f"the keywords of the goal `{goal.name}`"
        return
    yield f"the check `{goal.check}`" if goal.type == "check" else f"the goal `{goal.name}`"


def is_line(journey: Journey) -> bool:
    """Whether each goal comes right after one other, all of them: the order that a list has, too."""
    names = [goal.name for goal in journey.goals if goal.type != "check"]
    return line_of(journey.order, names) is not None


def line_of(order: Mapping[str, Sequence[str]], names: Sequence[str]) -> tuple[str, ...] | None:
    """The names in the one order that they may have; None when there are more, or none."""
    before = {later: name for name, others in order.items() for later in others}
    first = [name for name in dict.fromkeys(names) if name not in before]
    if len(first) > 1 or any(len(set(later)) > 1 for later in order.values()):
        return None
    line: list[str] = []
    name = first[0] if first else None
    while name is not None and name not in line:
        line.append(name)
        name = next(iter(order.get(name, ())), None)
    return tuple(line) if len(line) == len(set(names)) else None
