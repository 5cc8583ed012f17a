"""`tool_trajectory_avg_score`: whether the agent called the tools that it should."""

import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import zip_longest
from typing import Annotated, Literal, Self, TypeAlias

from pydantic import AliasGenerator, BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

from evalgate.model import (
    CaseRun,
    Criterion,
    EvalCase,
    MetricFailed,
    MetricResult,
    Reply,
    ToolCall,
    Turn,
    TurnScore,
)
from evalgate.turnwise import mean_over_turns

_MATCH_TYPES = ("EXACT", "IN_ORDER", "ANY_ORDER")


def _named(value: object) -> object:
    if isinstance(value, str):
        return value.strip().upper().replace("-", "_").replace(" ", "_")
    # Google ADK's enumeration counts from 0, and takes 1.0 and true for 1.
    numbers: dict[object, str] = dict(enumerate(_MATCH_TYPES))
    return numbers.get(value, value) if isinstance(value, (int, float)) else value


MatchType: TypeAlias = Annotated[Literal["EXACT", "IN_ORDER", "ANY_ORDER"], BeforeValidator(_named)]
"""EXACT: the same calls, no more. IN_ORDER: the expected ones in this order, others between. ANY_ORDER: all
expected ones, whatever else there is. Written in any case, with `-` or blank for `_`, or as 0, 1, 2."""


class ToolTrajectory(BaseModel):
    """1.0 for each turn whose tool calls match, else 0.0, averaged over the turns, as Google ADK computes it.

    Calls match when name and arguments are equal as in Python: 1 == 1.0 == true, keys in any order, lists in
    theirs, text to the letter, no arguments at all different from an empty object. Ids do not count.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=AliasGenerator(validation_alias=to_camel),
        populate_by_name=True,
    )

    match_type: MatchType = "EXACT"
    ignore_args: bool = False
    """Compare names only."""

    @classmethod
    def build(cls, criterion: Criterion, adk_release: tuple[int, int]) -> Self:
        """The metric as this release of Google ADK computes it: those before 2.9 overlook `ignore_args`.

        Raises:
            ValidationError: an option is wrong.
        """
        metric = cls.model_validate(criterion.options)
        return metric if adk_release >= (2, 9) else metric.model_copy(update={"ignore_args": False})

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]. A turn that is missing or unasked scores 0.0."""
        try:
            return mean_over_turns(case, run, self._turn)
        except RecursionError:
            return MetricFailed("the arguments of a tool call are nested too deep to be compared")

    def _turn(self, turn: Turn, reply: Reply) -> TurnScore:
        divergence = self._divergence(turn.expected.tool_calls, reply.tool_calls)
        return TurnScore(0.0, divergence) if divergence else TurnScore(1.0)

    def _divergence(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> str:
        """Where the two part for the first time; "" when they match."""
        match self.match_type:
            case "EXACT":
                return self._exact(expected, actual)
            case "IN_ORDER":
                return self._in_order(expected, actual)
            case "ANY_ORDER":
                return self._any_order(expected, actual)

    def _same(self, one: ToolCall, other: ToolCall) -> bool:
        return one.name == other.name and (self.ignore_args or one.args == other.args)

    def _exact(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> str:
        for number, (wanted, given) in enumerate(zip_longest(expected, actual), start=1):
            if wanted is None:
                return f"call {number}: expected no further call, got {_text(given)}"
            if given is None:
                return f"call {number}: expected {_text(wanted)}, got no further call"
            if not self._same(wanted, given):
                return f"call {number}: expected {_text(wanted)}, got {_text(given)}"
        return ""

    def _in_order(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> str:
        rest = iter(actual)
        for number, wanted in enumerate(expected, start=1):
            if not any(self._same(wanted, given) for given in rest):
                after = f" after {_text(expected[number - 2])}" if number > 1 else ""
                return f"call {number}: expected {_text(wanted)}{after}, which the agent did not call"
        return ""

    def _any_order(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> str:
        lacking = self._first_lacking(expected, actual)
        if lacking is None:
            return ""
        wanted = expected[lacking]
        times = sum(self._same(wanted, other) for other in expected[: lacking + 1])
        often = f" {times} times" if times > 1 else ""
        return f"call {lacking + 1}: expected {_text(wanted)}{often} in any order, got {times - 1 or 'none'}"

    def _first_lacking(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> int | None:
        """Index of the first expected call for which no actual one is left."""
        if len(expected) * len(actual) <= _PAIRS_COMPARED_ONE_BY_ONE:
            return self._first_lacking_by_pairs(expected, actual)
        try:
            return self._first_lacking_by_count(expected, actual)
        except TypeError:  # an argument that JSON does not know
            return self._first_lacking_by_pairs(expected, actual)

    def _first_lacking_by_count(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> int | None:
        left = Counter(map(self._key, actual))
        for index, key in enumerate(map(self._key, expected)):
            if not left[key]:
                return index
            left[key] -= 1
        return None

    def _first_lacking_by_pairs(self, expected: Sequence[ToolCall], actual: Sequence[ToolCall]) -> int | None:
        left = list(actual)
        for index, wanted in enumerate(expected):
            found = next((i for i, given in enumerate(left) if self._same(wanted, given)), None)
            if found is None:
                return index
            del left[found]
        return None

    def _key(self, call: ToolCall) -> Hashable:
        return call.name if self.ignore_args else (call.name, _frozen(call.args))


_PAIRS_COMPARED_ONE_BY_ONE = 10_000
"""Below, comparing each with each is faster than hashing all."""


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


def _text(call: ToolCall) -> str:
    """`name(key=value, …)`, cut to a length that fits a line."""
    pairs = ", ".join(f"{key}={_value(value)}" for key, value in (call.args or {}).items())
    return f"`{_cut(f'{call.name}({pairs})', _LONGEST_CALL)}`"


def _value(value: object) -> str:
    return _cut(json.dumps(value, ensure_ascii=False, default=str), _LONGEST_VALUE)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
