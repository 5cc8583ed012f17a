"""Goals that stand in a line: each comes right after one other, so that a list has their order too."""

from evalgate.model import Journey


def line_of_goals(journey: Journey) -> tuple[str, ...] | None:
    """The names of the goals in the one order that they may have; None when there are more, or none.

    Checks have no name and belong to no order.
    """
    names = dict.fromkeys(goal.name for goal in journey.goals if goal.type != "check")
    followers = {name: set(journey.order.get(name, ())) for name in names}
    led = set[str]().union(*followers.values())
    firsts = [name for name in names if name not in led]
    line: list[str] = []
    while len(firsts) == 1 and firsts[0] not in line:
        line.append(firsts[0])
        firsts = sorted(followers.get(firsts[0], ()))
    return tuple(line) if not firsts and len(line) == len(names) else None
