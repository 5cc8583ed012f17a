"""The goals of a conversation and the turns of a script: what each says of the other.

A script of one turn expects what its goals say. In a longer one nothing says which turn a goal belongs to.
"""

from collections.abc import Iterator

from evalgate.model import EvalCase, Goal
from evalgate.reading.goallines import line_of_goals


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
    if line_of_goals(journey) is None:
        yield "the order of the goals, which is no line"


def _lost_of(goal: Goal, response: str | None) -> Iterator[str]:
    if goal.type == "tool_call":
        if any(way != "strict" for way in goal.arg_matching.values()):
            yield f"how the arguments of the goal `{goal.name}` are compared"
        return
    if goal.type == "text":
        if goal.response != response:
            yield f"the response of the goal `{goal.name}`"
        if goal.keywords:
            yield f"the keywords of the goal `{goal.name}`"
        return
    yield f"the check `{goal.check}`" if goal.type == "check" else f"the goal `{goal.name}`"
