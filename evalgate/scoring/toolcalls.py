"""When two tool calls are the same, and where two lists of them part.

Names and arguments are compared as Python does, which is Google ADK's rule: 1 == 1.0 == true, keys in any
order, lists in theirs, text to the letter, no arguments at all different from an empty object. Ids do not
count. Comparing arguments that are nested too deep raises RecursionError.
"""

import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import zip_longest

from evalgate.frozen import frozen
from evalgate.model import ToolCall

TOO_DEEP = "the arguments of a tool call are nested too deep to be compared"

_PAIRS_COMPARED_ONE_BY_ONE = 10_000
"""Below, comparing each with each is faster than hashing all."""


@frozen
class CallComparison:
    """Compares lists of calls.

    `exact`, `in_order` and `any_order` say where the lists part for the first time; "" when they match.
    """

    ignore_args: bool = False
    """Compare names only."""

    def same(self, one: ToolCall, other: ToolCall) -> bool:
        """Whether the two are the same call."""
        return one.name == other.name and (self.ignore_args or one.args == other.args)

    def exact(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> str:
        """The same calls in the same order, no more."""
        for number, (wanted, given) in enumerate(zip_longest(expected, actual), start=1):
            if wanted is None:
                return f"call {number}: expected no further call, got {shown_call(given)}"
            if given is None:
                return f"call {number}: expected {shown_call(wanted)}, got no further call"
            if not self.same(wanted, given):
                return f"call {number}: expected {shown_call(wanted)}, got {shown_call(given)}"
        return ""

    def in_order(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> str:
        """All expected calls in their order, others between."""
        rest = iter(actual)
        for number, wanted in enumerate(expected, start=1):
            if not any(self.same(wanted, given) for given in rest):
                after = f" after {shown_call(expected[number - 2])}" if number > 1 else ""
                return f"call {number}: expected {shown_call(wanted)}{after}, which the agent did not call"
        return ""

    def any_order(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> str:
        """All expected calls, each with an actual one of its own, whatever else there is."""
        lacking = next(iter(self.unmatched(expected, actual)), None)
        if lacking is None:
            return ""
        wanted = expected[lacking]
        times = sum(self.same(wanted, other) for other in expected[: lacking + 1])
        often = f" {times} times" if times > 1 else ""
        got = times - 1 or "none"
        return f"call {lacking + 1}: expected {shown_call(wanted)}{often} in any order, got {got}"

    def unmatched(self, calls: Sequence[ToolCall], others: Sequence[ToolCall]) -> list[int]:
        """Indices of the `calls` for which no one of the `others` is left: each of those serves once."""
        if len(calls) * len(others) <= _PAIRS_COMPARED_ONE_BY_ONE:
            return self._unmatched_by_pairs(calls, others)
        try:
            return self._unmatched_by_count(calls, others)
        except TypeError:  # an argument that JSON does not know
            return self._unmatched_by_pairs(calls, others)

    def _unmatched_by_count(self, calls: Sequence[ToolCall], others: Sequence[ToolCall]) -> list[int]:
        left = Counter(map(self._key, others))
        unmatched = []
        for index, key in enumerate(map(self._key, calls)):
            if left[key]:
                left[key] -= 1
            else:
                unmatched.append(index)
        return unmatched

    def _unmatched_by_pairs(self, calls: Sequence[ToolCall], others: Sequence[ToolCall]) -> list[int]:
        left, unmatched = list(others), []
        for index, wanted in enumerate(calls):
            found = next((i for i, given in enumerate(left) if self.same(wanted, given)), None)
            if found is None:
                unmatched.append(index)
            else:
                del left[found]
        return unmatched

    def _key(self, call: ToolCall) -> Hashable:
        return call.name if self.ignore_args else (call.name, _frozen(call.args))


_PLAIN = frozenset({str, int, float, bool, type(None)})


def _frozen(value: object) -> Hashable:
    """A hashable value that is equal to another's exactly when the JSON values are equal in Python."""
    if isinstance(value, Mapping):
        # Most arguments are plain: asking here saves a call each.
        return frozenset(
            [(key, item if type(item) in _PLAIN else _frozen(item)) for key, item in value.items()]
        )
    if isinstance(value, list):
        return tuple([item if type(item) in _PLAIN else _frozen(item) for item in value])
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise TypeError(f"{type(value).__name__} is no JSON value")


_LONGEST_VALUE = 60
_LONGEST_CALL = 160


def shown_call(call: ToolCall) -> str:
    """`name(key=value, …)`, cut to a length that fits a line."""
    pairs = ", ".join(f"{key}={_value(value)}" for key, value in (call.args or {}).items())
    return f"`{_cut(f'{call.name}({pairs})', _LONGEST_CALL)}`"


def _value(value: object) -> str:
    return _cut(json.dumps(value, ensure_ascii=False, default=str), _LONGEST_VALUE)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
