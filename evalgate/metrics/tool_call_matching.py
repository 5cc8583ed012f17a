"""Compare and align expected and actual tool calls, and show their differences line by line.

Names and arguments are compared with Python's `==`, as in Google ADK: 1 == 1.0 == true, and the order of keys
does not matter. Missing arguments equal an empty object, except in `ToolCallComparator`. Ids are ignored.
Comparing arguments that are nested too deep raises RecursionError.
"""

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen, mutable
from evalgate.core.sanitize import escape_invisible, shorten_text
from evalgate.core.types import Reply, ToolCall, ToolResult


@mutable
class ToolRecord:
    """One call of a tool, with its result."""

    name: str
    arguments: object = None
    """None if the call has no arguments, not even an empty object."""
    result: object = None
    """None if the result is null, or if there is no result (`is_answered` is False)."""
    id: str = ""
    is_answered: bool = False
    """True if the reply has a result of this call."""


def collect_tool_records(reply: Reply) -> list[ToolRecord]:
    """Return the tool calls of a reply in their order, each with its result.

    A result belongs to the first earlier call that has the same id and no result yet. A result without an id
    belongs to the first earlier call of the same tool that has no result yet. Other results are left out.
    """
    records: list[ToolRecord] = []
    for event in reply.events:
        if isinstance(event, ToolCall):
            records.append(ToolRecord(event.name, event.arguments, id=event.id or ""))
        elif isinstance(event, ToolResult) and (record := _find_unanswered_call(records, event)) is not None:
            record.result, record.is_answered = event.result, True
    return records


def _find_unanswered_call(records: list[ToolRecord], result: ToolResult) -> ToolRecord | None:
    for record in records:
        if not record.is_answered and (record.id == result.id if result.id else record.name == result.name):
            return record
    return None


TOO_DEEP = "the arguments of a tool call are nested too deep to be compared"

_PAIRS_COMPARED_ONE_BY_ONE = 10_000
"""Up to this number of pairs, comparing each pair is faster than hashing all calls."""


@frozen
class ToolCallComparator:
    """Comparison of lists of tool calls, with or without their arguments.

    `compare_exact`, `compare_in_order` and `compare_any_order` return a sentence about the first difference,
    or "" if the lists match.
    """

    ignore_args: bool = False
    """True to compare names only."""

    def is_same_call(self, one: ToolCall, other: ToolCall) -> bool:
        """Return True if both calls have the same name and, without `ignore_args`, equal arguments."""
        return one.name == other.name and (self.ignore_args or _has_same_args(one, other))

    def compare_exact(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> str:
        """Return "" if both lists have the same calls in the same order.

        Otherwise return a sentence about the first difference.
        """
        for number, (wanted, given) in enumerate(zip_longest(expected, actual), start=1):
            if wanted is None:
                return f"call {number}: expected no further call, got {format_call(given)}"
            if given is None:
                return f"call {number}: expected {format_call(wanted)}, got no further call"
            # `is_same_call` inlined, because the call would take as long as the comparison itself.
            if wanted.name != given.name or not (self.ignore_args or _has_same_args(wanted, given)):
                return f"call {number}: expected {format_call(wanted)}, got {format_call(given)}"
        return ""

    def compare_in_order(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> str:
        """Return "" if all expected calls were made in their order; other calls may come in between.

        Otherwise return a sentence about the first missing call.
        """
        rest = iter(actual)
        for number, wanted in enumerate(expected, start=1):
            if not any(self.is_same_call(wanted, given) for given in rest):
                after = f" after {format_call(expected[number - 2])}" if number > 1 else ""
                return f"call {number}: expected {format_call(wanted)}{after}, which the agent did not call"
        return ""

    def compare_any_order(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> str:
        """Return "" if each expected call was made, in any order; other calls do not matter.

        A call that is expected twice must be made twice. Otherwise return a sentence about the first missing
        call.
        """
        missing = next(iter(self.find_unmatched_calls(expected, actual)), None)
        if missing is None:
            return ""
        wanted = expected[missing]
        times = sum(self.is_same_call(wanted, other) for other in expected[: missing + 1])
        often = f" {times} times" if times > 1 else ""
        got = times - 1 or "none"
        return f"call {missing + 1}: expected {format_call(wanted)}{often} in any order, got {got}"

    def find_unmatched_calls(self, calls: Sequence[ToolCall], others: Sequence[ToolCall]) -> list[int]:
        """Return the 0-based indices of `calls` that have no equal call in `others`.

        Each call in `others` matches only one call in `calls`.
        """
        if len(calls) * len(others) <= _PAIRS_COMPARED_ONE_BY_ONE:
            return self._match_by_pairs(calls, others)
        try:
            return self._match_by_count(calls, others)
        except TypeError:  # an argument that is no JSON value cannot be hashed
            return self._match_by_pairs(calls, others)

    def _match_by_count(self, calls: Sequence[ToolCall], others: Sequence[ToolCall]) -> list[int]:
        left = Counter(map(self._get_comparison_key, others))
        unmatched = []
        for index, key in enumerate(map(self._get_comparison_key, calls)):
            if left[key]:
                left[key] -= 1
            else:
                unmatched.append(index)
        return unmatched

    def _match_by_pairs(self, calls: Sequence[ToolCall], others: Sequence[ToolCall]) -> list[int]:
        left, unmatched = list(others), []
        for index, wanted in enumerate(calls):
            found = next((i for i, given in enumerate(left) if self.is_same_call(wanted, given)), None)
            if found is None:
                unmatched.append(index)
            else:
                del left[found]
        return unmatched

    def _get_comparison_key(self, call: ToolCall) -> Hashable:
        return call.name if self.ignore_args else (call.name, _to_hashable(call.arguments))


def _has_same_args(one: ToolCall, other: ToolCall) -> bool:
    return one.args == other.args and one.other_args == other.other_args


_PLAIN = frozenset({str, int, float, bool, type(None)})


def _to_hashable(value: object) -> Hashable:
    """Convert a JSON value to a hashable value, so that equal values, and only these, have equal results.

    Values are equal as in Python, where 1 == 1.0 == True.

    Raises:
        TypeError: the value, or a value in it, is no JSON value.
    """
    if isinstance(value, Mapping):
        # Most arguments are scalars: testing the type here saves a recursive call for each.
        return frozenset(
            [(key, item if type(item) in _PLAIN else _to_hashable(item)) for key, item in value.items()]
        )
    if isinstance(value, list):
        return tuple([item if type(item) in _PLAIN else _to_hashable(item) for item in value])
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{type(value).__name__} is no JSON value")


_LONGEST_VALUE = 60
_LONGEST_CALL = 160


def format_call(call: ToolCall) -> str:
    """Return `name(key=value, …)` in backticks, with at most 160 characters of a call and 60 of a value."""
    texts = {
        key: json.dumps(value, ensure_ascii=False, default=str) for key, value in (call.args or {}).items()
    }
    pairs = ", ".join(f"{key}={shorten_text(text, _LONGEST_VALUE)}" for key, text in texts.items())
    return f"`{shorten_text(f'{call.name}({pairs})', _LONGEST_CALL)}`"


Sign: TypeAlias = Literal[" ", "-", "+"]

_LONGEST_ALIGNED = 80  # most calls of each side that are aligned, without the common start and end
_SAME, _SAME_TOOL = 3, 1  # scores of an aligned pair: equal calls, and calls of the same tool


@frozen
class DiffLine:
    """One line of the difference of two lists of calls: a call, or a remark about calls not shown."""

    sign: Sign
    """"-": expected, but not made. "+": made, but not expected. " ": as expected, or a remark."""
    text: str
    """The call or remark on one line. Invisible characters are escaped, because a call is not trusted."""
    diverges: bool = False
    """True for the line of the first difference."""


def diff_trajectories(
    expected: Sequence[ToolCall], actual: Sequence[ToolCall], *, lines: int = 10, width: int = 120
) -> tuple[DiffLine, ...]:
    """Return the expected and actual calls around their first difference as lines; () if all are equal.

    The result has at most `lines` lines of at most `width` characters; `lines` must be 6 or more. Calls are
    equal if they have the same tool and equal arguments; missing arguments equal an empty object. Two calls
    of a tool with different arguments are on successive lines; long calls are cut around the difference.
    """
    pairs = align_calls(expected, actual)
    first = next(
        (
            at
            for at, (one, other) in enumerate(pairs)
            if not (one and other and is_same_tool_call(one, other))
        ),
        None,
    )
    if first is None:
        return ()
    start = max(0, first - 2)
    shown: list[DiffLine] = [_build_remark(start, "as expected")] if start else []
    for at, pair in enumerate(pairs[start:], start):
        more = list(_build_diff_lines(pair, width, diverges=at == first))
        if len(shown) + len(more) + (at + 1 < len(pairs)) > lines:
            shown.append(_build_remark(len(pairs) - at, "not shown"))
            break
        shown += more
    return tuple(shown)


CallPair: TypeAlias = tuple[ToolCall | None, ToolCall | None]
"""(expected call, actual call). One of the two is None if the other call has no counterpart."""


def align_calls(expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> list[CallPair]:
    """Pair expected with actual calls in order; a call without a counterpart is paired with None.

    Equal calls at the start and at the end are paired first. The calls in between are paired by the best
    alignment. If one list has more than 80 calls in between, none of these calls is paired.
    """
    shorter = min(len(expected), len(actual))
    head = next((at for at in range(shorter) if not is_same_tool_call(expected[at], actual[at])), shorter)
    room = shorter - head
    tail = next((at for at in range(room) if not is_same_tool_call(expected[-1 - at], actual[-1 - at])), room)
    left, right = expected[head : len(expected) - tail], actual[head : len(actual) - tail]
    if max(len(left), len(right)) > _LONGEST_ALIGNED:
        middle: list[CallPair] = [*((call, None) for call in left), *((None, call) for call in right)]
    else:
        middle = list(_find_best_alignment(left, right))
    start: list[CallPair] = list(zip(expected[:head], actual[:head], strict=True))
    end: list[CallPair] = list(
        zip(expected[len(expected) - tail :], actual[len(actual) - tail :], strict=True)
    )
    return start + middle + end


def _find_best_alignment(left: Sequence[ToolCall], right: Sequence[ToolCall]) -> Iterator[CallPair]:
    """Yield the pairs of the best global alignment, by dynamic programming (Needleman and Wunsch, 1970).

    A pair of equal calls scores 3, another pair of the same tool 1, and a call without a counterpart 0.
    """
    best = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            similarity = _score_similarity(left[i], right[j])
            paired = best[i + 1][j + 1] + similarity if similarity else 0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(left) and j < len(right):
        similarity = _score_similarity(left[i], right[j])
        if similarity and best[i][j] == best[i + 1][j + 1] + similarity:
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


def _score_similarity(one: ToolCall, other: ToolCall) -> int:
    if one.name != other.name:
        return 0
    return _SAME if is_same_tool_call(one, other) else _SAME_TOOL


def is_same_tool_call(one: ToolCall, other: ToolCall) -> bool:
    """Return True if two calls have the same tool and equal arguments; missing arguments equal {}."""
    if one.name != other.name:
        return False
    first, second = one.arguments, other.arguments
    return ({} if first is None else first) == ({} if second is None else second)


# --- text ---------------------------------------------------------------------------------------------------

_encode = json.JSONEncoder(ensure_ascii=False, default=repr).encode


def render_call(call: ToolCall) -> str:
    """Return `tool(key="value", …)` on one line, in full length, with invisible characters escaped.

    Arguments that are not an object are shown as JSON within the parentheses.
    """
    if call.other_args is not None:
        arguments = _encode(call.other_args)
    else:
        arguments = ", ".join([f"{name}={_encode(value)}" for name, value in (call.args or {}).items()])
    return escape_invisible(f"{call.name}({arguments})")


def _build_diff_lines(pair: CallPair, width: int, *, diverges: bool) -> Iterator[DiffLine]:
    expected, actual = pair
    if expected is not None and actual is not None:
        if is_same_tool_call(expected, actual):
            yield DiffLine(" ", shorten_text(render_call(actual), width))
            return
        before, after = _shorten_pair(render_call(expected), render_call(actual), width)
        yield DiffLine("-", before, diverges)
        yield DiffLine("+", after)
    elif expected is not None:
        yield DiffLine("-", shorten_text(render_call(expected), width), diverges)
    elif actual is not None:
        yield DiffLine("+", shorten_text(render_call(actual), width), diverges)


def _shorten_pair(one: str, other: str, width: int) -> tuple[str, str]:
    """Cut two calls of a tool to at most `width` characters each, so that their first difference is shown.

    A start that is cut off is replaced by the tool's name and "…". If both fit, return them unchanged.
    """
    if max(len(one), len(other)) <= width:
        return one, other
    shorter = min(len(one), len(other))
    differs = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    name_ends = one.find("(") + 1
    start = max(0, differs - width // 3)
    if start <= name_ends + 1:
        return shorten_text(one, width), shorten_text(other, width)
    lead = shorten_text(one[:name_ends] + "…", width // 4)
    room = width - len(lead)
    return lead + shorten_text(one[start:], room), lead + shorten_text(other[start:], room)


def _build_remark(calls: int, remark: str) -> DiffLine:
    return DiffLine(" ", f"… {calls:,} more {'call' if calls == 1 else 'calls'} {remark}")
