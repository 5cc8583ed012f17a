"""Where a turn went another way than it should: what is compared with what, in the words of every report."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

from evalgate.core.frozen import frozen
from evalgate.core.sanitize import escape_invisible, shorten_text
from evalgate.core.types import Reply, TurnResult
from evalgate.metrics.trajectory import Sign, diff_trajectories
from evalgate.reporting.findings import Finding


@frozen
class DifferenceLine:
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
    lines: tuple[DifferenceLine, ...]

    @property
    def sides(self) -> str:
        """What `-` and `+` stand for."""
        return "baseline (−) and now (+)" if self.is_since else "expected (−) and actual (+)"


@frozen
class DiffLimits:
    """How much of a difference is shown."""

    calls: int
    """Lines of tool calls, about."""
    lines: int
    """Of a response."""
    width: int
    """Characters of a line of a response."""
    call_width: int = 120


def get_baseline_reply(finding: Finding, number: int) -> Reply | None:
    """What the agent did in that turn (1-based) in the baseline, where that is known."""
    return finding.baseline_replies[number - 1] if 0 < number <= len(finding.baseline_replies) else None


def find_differences(turn: TurnResult, before: Reply | None, extent: DiffLimits) -> Iterator[Difference]:
    """Tool calls and response, beside the baseline's where that has other ones, else beside the expected."""
    if turn.actual is None:
        return
    if calls := _build_difference(
        tuple(_diff_tool_calls(before, turn.actual, extent)) if before else (),
        tuple(_diff_tool_calls(turn.expected, turn.actual, extent)),
        "Tool calls",
    ):
        yield calls
    if response := _build_difference(
        tuple(_diff_response(before, turn.actual, extent)) if before else (),
        tuple(_diff_response(turn.expected, turn.actual, extent)),
        "Response",
    ):
        yield response


def _build_difference(
    since: tuple[DifferenceLine, ...],
    beside: tuple[DifferenceLine, ...],
    what: Literal["Tool calls", "Response"],
) -> Difference | None:
    if since:
        return Difference(what, True, since)
    return Difference(what, False, beside) if beside else None


def describe_odd_turn(turns: Sequence[TurnResult], number: int) -> Iterator[str]:
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


def _diff_tool_calls(
    before: Reply | None, after: Reply | None, extent: DiffLimits
) -> Iterator[DifferenceLine]:
    one, other = before.tool_calls if before else (), after.tool_calls if after else ()
    for line in diff_trajectories(one, other, lines=extent.calls, width=extent.call_width):
        yield DifferenceLine(line.sign, line.text, line.diverges)


def _diff_response(one: Reply | None, other: Reply | None, extent: DiffLimits) -> Iterator[DifferenceLine]:
    """Line by line; nothing when both are equal or neither says anything."""
    before, after = _split_response(one, extent), _split_response(other, extent)
    if before == after:
        return
    for tag, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (DifferenceLine(" ", line) for line in before[i:j])
        else:
            yield from (DifferenceLine("-", line) for line in before[i:j])
            yield from (DifferenceLine("+", line) for line in after[k:m])


def _split_response(reply: Reply | None, extent: DiffLimits) -> list[str]:
    if reply is None or reply.response is None:
        return []
    lines = reply.response.split("\n", extent.lines)
    shown = [shorten_text(escape_invisible(line), extent.width) for line in lines[: extent.lines]]
    return [*shown, "…"] if len(lines) > extent.lines else shown
