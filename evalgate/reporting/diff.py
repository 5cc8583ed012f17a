"""Where a turn went another way than it should: what is compared with what, in the words of every report."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

from evalgate.core.frozen import frozen
from evalgate.core.sanitize import shortened, spelled_out
from evalgate.core.types import Reply, TurnResult
from evalgate.metrics.trajectory import Sign, trajectory_diff
from evalgate.reporting.findings import Finding


@frozen
class Line:
    """A line of a difference, all of its characters visible."""

    sign: Sign
    text: str
    diverges: bool = False
    """Whether the two sides part here."""


@frozen
class Difference:
    """Two sides of one thing."""

    what: Literal["Tool calls", "Response"]
    is_since: bool
    """Whether beside the baseline, else beside what the case expects."""
    lines: tuple[Line, ...]

    @property
    def sides(self) -> str:
        """What `-` and `+` stand for."""
        return "baseline (−) and now (+)" if self.is_since else "expected (−) and actual (+)"


@frozen
class Extent:
    """How much of a difference is shown."""

    calls: int
    """Lines of tool calls, about."""
    lines: int
    """Of a response."""
    width: int
    """Characters of a line of a response."""
    call_width: int = 120


def then(finding: Finding, number: int) -> Reply | None:
    """What the agent did in that turn (1-based) in the baseline, where that is known."""
    return finding.then[number - 1] if 0 < number <= len(finding.then) else None


def differences(turn: TurnResult, before: Reply | None, extent: Extent) -> Iterator[Difference]:
    """Tool calls and response, beside the baseline's where that has other ones, else beside the expected."""
    if turn.actual is None:
        return
    if calls := _sided(
        tuple(_calls(before, turn.actual, extent)) if before else (),
        tuple(_calls(turn.expected, turn.actual, extent)),
        "Tool calls",
    ):
        yield calls
    if response := _sided(
        tuple(_response(before, turn.actual, extent)) if before else (),
        tuple(_response(turn.expected, turn.actual, extent)),
        "Response",
    ):
        yield response


def _sided(
    since: tuple[Line, ...], beside: tuple[Line, ...], what: Literal["Tool calls", "Response"]
) -> Difference | None:
    if since:
        return Difference(what, True, since)
    return Difference(what, False, beside) if beside else None


def odd_turn(turns: Sequence[TurnResult], number: int) -> Iterator[str]:
    """What is wrong with a turn (1-based; 0 is none) that only one side has.

    Where no turn at all was expected, a simulated user spoke: none is one too many.
    """
    if not number:
        return
    turn, is_played = turns[number - 1], all(each.expected is None for each in turns)
    if turn.actual is None:
        yield f"turn {number} has no answer"
    elif turn.expected is None and not is_played:
        yield f"turn {number} was not asked for: the case ends before it"


def _calls(before: Reply | None, after: Reply | None, extent: Extent) -> Iterator[Line]:
    one, other = before.tool_calls if before else (), after.tool_calls if after else ()
    for line in trajectory_diff(one, other, lines=extent.calls, width=extent.call_width):
        yield Line(line.sign, line.text, line.diverges)


def _response(one: Reply | None, other: Reply | None, extent: Extent) -> Iterator[Line]:
    """Line by line; nothing when both are equal or neither says anything."""
    before, after = _lines(one, extent), _lines(other, extent)
    if before == after:
        return
    for tag, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (Line(" ", line) for line in before[i:j])
        else:
            yield from (Line("-", line) for line in before[i:j])
            yield from (Line("+", line) for line in after[k:m])


def _lines(reply: Reply | None, extent: Extent) -> list[str]:
    if reply is None or reply.response is None:
        return []
    lines = reply.response.split("\n", extent.lines)
    shown = [shortened(spelled_out(line), extent.width) for line in lines[: extent.lines]]
    return [*shown, "…"] if len(lines) > extent.lines else shown
