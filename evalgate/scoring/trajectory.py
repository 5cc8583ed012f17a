"""Two lists of tool calls side by side: what was expected, what the agent did, and where they part."""

import json
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from evalgate.frozen import frozen
from evalgate.hostile import shortened, spelled_out
from evalgate.model import ToolCall

Sign: TypeAlias = Literal[" ", "-", "+"]

_LONGEST_ALIGNED = 80  # calls a side; beyond the common start and end, longer middles are not aligned
_SAME, _SAME_TOOL = 3, 1


@frozen
class DiffLine:
    """One call, or a remark about calls that are not shown."""

    sign: Sign
    """"-" expected and not made, "+" made and not expected, " " as expected."""
    text: str
    """One visible line; may hold anything that an agent wrote."""
    diverges: bool = False
    """Whether the two lists part here."""


def trajectory_diff(
    expected: Sequence[ToolCall], actual: Sequence[ToolCall], *, lines: int = 10, width: int = 120
) -> tuple[DiffLine, ...]:
    """The aligned difference around the first divergence, in at most `lines` (6 or more); empty if none.

    Calls are the same when tool and arguments are; no arguments and none named count as the same. A call that
    differs in its arguments alone stands under the expected one, both shortened around what differs.
    """
    pairs = _aligned(expected, actual)
    first = next((at for at, pair in enumerate(pairs) if not _is_same(pair)), None)
    if first is None:
        return ()
    start = max(0, first - 2)
    shown: list[DiffLine] = [_remark(start, "as expected")] if start else []
    for at, pair in enumerate(pairs[start:], start):
        more = list(_lines_of(pair, width, diverges=at == first))
        if len(shown) + len(more) + (at + 1 < len(pairs)) > lines:
            shown.append(_remark(len(pairs) - at, "not shown"))
            break
        shown += more
    return tuple(shown)


_Pair: TypeAlias = tuple[ToolCall | None, ToolCall | None]


def _aligned(expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> list[_Pair]:
    """Pairs in order; None where one side has no counterpart."""
    shorter = min(len(expected), len(actual))
    head = next((at for at in range(shorter) if not _same(expected[at], actual[at])), shorter)
    room = shorter - head
    tail = next((at for at in range(room) if not _same(expected[-1 - at], actual[-1 - at])), room)
    left, right = expected[head : len(expected) - tail], actual[head : len(actual) - tail]
    if max(len(left), len(right)) > _LONGEST_ALIGNED:
        middle: list[_Pair] = [*((call, None) for call in left), *((None, call) for call in right)]
    else:
        middle = list(_best_alignment(left, right))
    start: list[_Pair] = list(zip(expected[:head], actual[:head], strict=True))
    end: list[_Pair] = list(zip(expected[len(expected) - tail :], actual[len(actual) - tail :], strict=True))
    return start + middle + end


def _best_alignment(left: Sequence[ToolCall], right: Sequence[ToolCall]) -> Iterator[_Pair]:
    """Global alignment by dynamic programming (Needleman and Wunsch, 1970) that rewards equal calls most."""
    best = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            likeness = _likeness(left[i], right[j])
            paired = best[i + 1][j + 1] + likeness if likeness else 0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(left) and j < len(right):
        likeness = _likeness(left[i], right[j])
        if likeness and best[i][j] == best[i + 1][j + 1] + likeness:
            yield left[i], right[j]
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            yield left[i], None
            i += 1
        else:
            yield None, right[j]
            j += 1
    yield from ((call, None) for call in left[i:])
    yield from ((None, call) for call in right[j:])


def _likeness(one: ToolCall, other: ToolCall) -> int:
    """0: different tools."""
    if one.name != other.name:
        return 0
    return _SAME if _same(one, other) else _SAME_TOOL


def _same(one: ToolCall, other: ToolCall) -> bool:
    return one.name == other.name and (one.args or {}) == (other.args or {})


def _is_same(pair: _Pair) -> bool:
    expected, actual = pair
    return expected is not None and actual is not None and _same(expected, actual)


# --- text ---------------------------------------------------------------------------------------------------


def call_text(call: ToolCall) -> str:
    """`tool(key="value", …)` on one line, invisible characters spelled out."""
    arguments = ", ".join(f"{name}={_json(value)}" for name, value in (call.args or {}).items())
    return spelled_out(f"{call.name}({arguments})")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _lines_of(pair: _Pair, width: int, *, diverges: bool) -> Iterator[DiffLine]:
    expected, actual = pair
    if expected is not None and actual is not None:
        if _same(expected, actual):
            yield DiffLine(" ", shortened(call_text(actual), width))
            return
        before, after = _shortened_pair(call_text(expected), call_text(actual), width)
        yield DiffLine("-", before, diverges)
        yield DiffLine("+", after)
    elif expected is not None:
        yield DiffLine("-", shortened(call_text(expected), width), diverges)
    elif actual is not None:
        yield DiffLine("+", shortened(call_text(actual), width), diverges)


def _shortened_pair(one: str, other: str, width: int) -> tuple[str, str]:
    """Both cut to `width`, to the same window, so that the first character that differs is in sight."""
    if max(len(one), len(other)) <= width:
        return one, other
    shorter = min(len(one), len(other))
    differs = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    name_ends = one.find("(") + 1
    start = max(0, differs - width // 3)
    if start <= name_ends + 1:
        return shortened(one, width), shortened(other, width)
    lead = shortened(one[:name_ends] + "…", width // 4)
    room = width - len(lead)
    return lead + shortened(one[start:], room), lead + shortened(other[start:], room)


def _remark(calls: int, what: str) -> DiffLine:
    return DiffLine(" ", f"… {calls:,} more {'call' if calls == 1 else 'calls'} {what}")
