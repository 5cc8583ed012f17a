"""Compare tool calls and responses with the baseline or with the expectation, for every report."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

from evalgate.core.frozen import frozen
from evalgate.core.sanitize import escape_invisible, shorten_text
from evalgate.core.types import Reply, TurnResult
from evalgate.metrics.tool_call_matching import Sign, diff_trajectories
from evalgate.reporting.findings import Finding


@frozen
class DifferenceLine:
    """One line of a difference, in which invisible characters are escaped.

    `sign` is "-" for the baseline or expectation, "+" for the current reply, " " for both or for a remark.
    """

    sign: Sign
    text: str
    diverges: bool = False
    """True for the first line in which the tool calls of the two sides differ."""


@frozen
class Difference:
    """Difference of a turn's tool calls or response from the baseline or from the expectation."""

    part: Literal["Tool calls", "Response"]
    is_since: bool
    """True if compared with the baseline, False if compared with the expected turn of the case."""
    lines: tuple[DifferenceLine, ...]

    @property
    def hunks(self) -> list[tuple[DifferenceLine, ...]]:
        """Return the lines in groups: a group has equal lines, or removed lines and then added lines.

        A line with `diverges` also begins a new group, so that the page can mark the group.
        """
        groups: list[list[DifferenceLine]] = []
        for line in self.lines:
            last = groups[-1][-1] if groups else None
            is_same = last is not None and (last.sign == " ") == (line.sign == " ")
            if not is_same or line.diverges or (last and (last.sign, line.sign) == ("+", "-")):
                groups.append([])
            groups[-1].append(line)
        return [tuple(group) for group in groups]

    @property
    def sides(self) -> str:
        """Return the meaning of the signs, such as `baseline (−) and now (+)`."""
        return "baseline (−) and now (+)" if self.is_since else "expected (−) and actual (+)"


@frozen
class DiffLimits:
    """Size limits of a shown difference."""

    calls: int
    """Maximum number of lines of tool calls; 6 or more."""
    lines: int
    """Maximum number of lines of a response."""
    width: int
    """Maximum number of characters in a line of a response."""
    call_width: int = 120
    """Maximum number of characters in a line with a tool call."""


def get_baseline_reply(finding: Finding, number: int) -> Reply | None:
    """Return the agent's reply in turn `number` (1-based) in the baseline; None if it is not known."""
    return finding.baseline_replies[number - 1] if 0 < number <= len(finding.baseline_replies) else None


def find_differences(turn: TurnResult, before: Reply | None, limits: DiffLimits) -> Iterator[Difference]:
    """Yield the difference in the tool calls, then the difference in the response, if they differ.

    `before` is the reply of the baseline. The tool calls are compared with the calls in `before`. If `before`
    is None or has the same calls, the tool calls are compared with the expected calls. The response is
    compared by the same rule. A turn without an answer has no differences.
    """
    if turn.actual is None:
        return
    if calls := _build_difference(
        tuple(_diff_tool_calls(before, turn.actual, limits)) if before else (),
        tuple(_diff_tool_calls(turn.expected, turn.actual, limits)),
        "Tool calls",
    ):
        yield calls
    if response := _build_difference(
        tuple(_diff_response(before, turn.actual, limits)) if before else (),
        tuple(_diff_response(turn.expected, turn.actual, limits)),
        "Response",
    ):
        yield response


def _build_difference(
    since_baseline: tuple[DifferenceLine, ...],
    from_expected: tuple[DifferenceLine, ...],
    part: Literal["Tool calls", "Response"],
) -> Difference | None:
    if since_baseline:
        return Difference(part, True, since_baseline)
    return Difference(part, False, from_expected) if from_expected else None


def describe_odd_turn(turns: Sequence[TurnResult], number: int) -> Iterator[str]:
    """Yield a sentence if turn `number` has no answer, or is not part of the case.

    `number` is 1-based; for 0, yield nothing. A turn is not part of the case if it has no expected reply
    although other turns have one. If no turn has one, a simulated user wrote the messages, and every turn is
    part of the case.
    """
    if not number:
        return
    turn, is_played = turns[number - 1], all(each.expected is None for each in turns)
    if turn.actual is None:
        yield f"turn {number} has no answer"
    elif turn.expected is None and not is_played:
        yield f"turn {number} was not asked for: the case ends before it"


def _diff_tool_calls(
    before: Reply | None, after: Reply | None, limits: DiffLimits
) -> Iterator[DifferenceLine]:
    one, other = before.tool_calls if before else (), after.tool_calls if after else ()
    for line in diff_trajectories(one, other, lines=limits.calls, width=limits.call_width):
        yield DifferenceLine(line.sign, line.text, line.diverges)


def _diff_response(one: Reply | None, other: Reply | None, limits: DiffLimits) -> Iterator[DifferenceLine]:
    """Yield the lines of two responses: "-" marks lines of `one`, "+" lines of `other`, " " equal lines.

    The responses are first cut to `limits`. If they are then equal, yield nothing.
    """
    before, after = _split_response(one, limits), _split_response(other, limits)
    if before == after:
        return
    # Without `autojunk=False`, difflib ignores lines that are frequent in texts of 200 lines and more.
    for tag, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            yield from (DifferenceLine(" ", line) for line in before[i:j])
        else:
            yield from (DifferenceLine("-", line) for line in before[i:j])
            yield from (DifferenceLine("+", line) for line in after[k:m])


def _split_response(reply: Reply | None, limits: DiffLimits) -> list[str]:
    if reply is None or reply.response is None:
        return []
    lines = reply.response.split("\n", limits.lines)
    shown = [shorten_text(escape_invisible(line), limits.width) for line in lines[: limits.lines]]
    return [*shown, "…"] if len(lines) > limits.lines else shown
