"""The tool calls of one conversation, held against a journey's goals."""

from collections.abc import Iterator, Sequence

from evalgate.frozen import frozen
from evalgate.journey.arguments import mismatch
from evalgate.model import Goal, Journey, JsonObject, ToolCall


@frozen
class CallBook:
    """What became of every call, and of every goal that asks for one."""

    expected: int
    """Goals that ask for a tool call."""
    total: int
    """Calls that were made."""
    relevant: int
    """Calls of a tool that some goal asks for."""
    reached: tuple[str, ...]
    """Names of the goals that a call fulfilled, in the order of the calls."""
    missed: tuple[str, ...]
    """Tools that a goal asks for and nobody called."""
    wrong: tuple[str, ...]
    """Why a relevant call fulfilled no goal, for each such call."""

    @property
    def recall(self) -> float | None:
        """Goals that were reached by those expected, in hundredths as the original rounds; None without."""
        return round(len(self.reached) / self.expected, 2) if self.expected else None

    @property
    def precision(self) -> float | None:
        """Calls that fulfilled a goal by all calls, in hundredths; None where no goal asks for a call."""
        if not self.expected:
            return None
        return round(len(self.reached) / self.total, 2) if self.total else 0.0

    @property
    def details(self) -> JsonObject:
        """The counts, by the names that the original gives them."""
        return {
            "expected_tool_calls": self.expected,
            "total_tool_calls": self.total,
            "correct_tool_calls": len(self.reached),
            "relevant_tool_calls": self.relevant,
            "extra_tool_calls": self.total - len(self.reached),
            "missed_tool_calls": len(self.missed),
            "tool_calls_with_incorrect_parameter": len(self.wrong),
        }

    @property
    def reason(self) -> str:
        """The first thing that is not as it should be; "" when every call was right and none is lacking."""
        if self.missed:
            return f"`{self.missed[0]}` was not called"
        if self.wrong:
            return self.wrong[0]
        lacking = self.expected - len(self.reached)
        if lacking:
            return f"{lacking} of {self.expected} expected calls were not made"
        extra = self.total - len(self.reached)
        return f"{extra} of {self.total} calls were not asked for" if extra else ""


def goals_of(journey: Journey, *types: str) -> tuple[Goal, ...]:
    """The goals of these types. A name that stands twice keeps its first place and takes its last meaning."""
    named = {goal.name: goal for goal in journey.goals if goal.type in types}
    return tuple(named.values())


def keep_book(journey: Journey, calls: Sequence[ToolCall]) -> CallBook:
    """Go through the calls in order; each fulfils the first goal that is still open and fits it."""
    goals = goals_of(journey, "tool_call")
    names = {goal.tool_name.strip() for goal in goals}
    left = list(goals)
    reached, wrong, relevant = list[str](), list[str](), 0
    for call in calls:
        if call.name.strip() not in names:
            continue
        relevant += 1
        goal = next(_fulfilled(left, call), None)
        if goal is None:
            wrong.append(_why(left, call))
        else:
            left.remove(goal)
            reached.append(goal.name)
    called = {call.name for call in calls}
    missed = dict.fromkeys(goal.tool_name for goal in goals if goal.tool_name not in called)
    return CallBook(len(goals), len(calls), relevant, tuple(reached), tuple(missed), tuple(wrong))


def _fulfilled(goals: Sequence[Goal], call: ToolCall) -> Iterator[Goal]:
    return (goal for goal in goals if goal.tool_name == call.name and not mismatch(goal, call.args or {}))


def _why(left: Sequence[Goal], call: ToolCall) -> str:
    goal = next((goal for goal in left if goal.tool_name == call.name), None)
    if goal is None:
        return f"`{call.name}` was called more often than asked for"
    return f"`{call.name}` for the goal `{goal.name}`: {mismatch(goal, call.args or {})}"
