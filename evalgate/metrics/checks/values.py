"""Check arguments of tool calls and values of the session's final state, and find values by their paths."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

from evalgate.config.schema.checks import ValueRule
from evalgate.documents.json_schemas import build_schema_check
from evalgate.documents.re2_patterns import has_regex_match
from evalgate.metrics.checks.transcript import StatementQuestion, Transcript

NO_STATE = "the agent reported no session state"
_LONGEST_VALUE = 80
_PATH = re.compile(r"(?:\[(?:\*|-?\d+)\]|[^.\[\]]+)(?:\.[^.\[\]]+|\.?\[(?:\*|-?\d+)\])*")
_PART = re.compile(r"\[(\*|-?\d+)\]|([^.\[\]]+)")
_ROUNDING = 1e-12
_SCALARS = frozenset({str, int, float, bool})


class _Missing:
    """Type of `MISSING`, which stands for the value at a path that does not exist."""


MISSING: Final = _Missing()


def format_value(value: object) -> str:
    """Return the value as JSON, with at most 80 characters; "nothing" for `MISSING`."""
    if value is MISSING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def find_values(root: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield (path, value) for each value that a path selects.

    If the whole path is a key of `root`, only the value at this key is selected. So a key such as `ids[]`,
    which is not a path, can be selected, too. Otherwise `order.items[0].sku` selects one value by keys and
    indices, and `items[*].sku` a value in every item. If there is no such value or item, the value is
    `MISSING`.
    """
    if isinstance(root, Mapping) and path in root:
        yield path, root[path]
    elif parts := _split_path(path):
        yield from _walk(root, parts, "", path)
    else:
        yield path, MISSING


@lru_cache(maxsize=1024)
def _split_path(path: str) -> tuple[str, ...]:
    """Return the keys and indices of a path; () if the text is not a path."""
    return tuple(match[1] or match[2] for match in _PART.finditer(path)) if _PATH.fullmatch(path) else ()


def _walk(value: object, parts: tuple[str, ...], shown: str, path: str) -> Iterator[tuple[str, object]]:
    if not parts:
        yield shown, value
        return
    part, rest = parts[0], parts[1:]
    if part == "*":
        items = value if isinstance(value, list) else ()
        if not items:
            yield path, MISSING
        for index, item in enumerate(items):
            yield from _walk(item, rest, f"{shown}[{index}]", path)
    elif isinstance(value, Mapping):
        name = f"{shown}.{part}" if shown else part
        yield from _walk(value[part], rest, name, path) if part in value else [(path, MISSING)]
    elif isinstance(value, list) and re.fullmatch(r"-?\d+", part) and -len(value) <= int(part) < len(value):
        yield from _walk(value[int(part)], rest, f"{shown}[{part}]", path)
    else:
        yield path, MISSING


def is_equal(one: object, other: object, *, ignore_case: bool = False) -> bool:
    """Return True if two JSON values are equal: 1 equals 1.0, but not true or "1".

    `ignore_case` ignores the case of texts in the values, but not of the keys of objects.
    """
    if type(one) is type(other) and type(one) in _SCALARS and not ignore_case:
        return one == other  # fast path: most values are scalars
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            is_equal(each, other[key], ignore_case=ignore_case) for key, each in one.items()
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(
            is_equal(a, b, ignore_case=ignore_case) for a, b in zip(one, other, strict=True)
        )
    if ignore_case and isinstance(one, str) and isinstance(other, str):
        return one.casefold() == other.casefold()
    return one == other


def contains_value(whole: object, part: object, *, ignore_case: bool = False) -> bool:
    """Return True if `whole` contains `part`: as a text in a text, an item in a list, or keys in an object.

    An object contains `part` if it has each key of `part` with an equal value. Where the value in `part` is
    an object, it is enough that the value in `whole` contains this object by the same rule.
    """
    if isinstance(whole, str):
        return isinstance(part, str) and (
            part.casefold() in whole.casefold() if ignore_case else part in whole
        )
    if isinstance(whole, list):
        return any(is_equal(each, part, ignore_case=ignore_case) for each in whole)
    if isinstance(whole, Mapping) and isinstance(part, Mapping):
        return all(
            key in whole
            and (
                is_equal(whole[key], each, ignore_case=ignore_case)
                or (isinstance(each, Mapping) and contains_value(whole[key], each, ignore_case=ignore_case))
            )
            for key, each in part.items()
        )
    return False


def is_near(one: float, other: float, within: float | str | None) -> bool:
    """Return True if two numbers differ by at most `within`.

    `within` is a number, None for 0, or a share such as "5%", which means 5% of the larger absolute value.
    Rounding errors of floats are tolerated, so that 0.3 and 0.2 differ by at most 0.1. But two whole numbers
    are compared exactly, unless `within` is a share. Numbers too large for a float must be equal.
    """
    try:
        if not isinstance(within, str) and float(one).is_integer() and float(other).is_integer():
            return abs(one - other) <= (within or 0)
        larger = max(abs(one), abs(other))
        is_share = isinstance(within, str)
        allowed = float(str(within).removesuffix("%")) / 100 * larger if is_share else float(within or 0)
        return abs(one - other) <= allowed + _ROUNDING * larger
    except OverflowError:  # an integer that no float can hold
        return one == other


class ValueCondition:
    """The conditions of a `ValueRule` on one value: an argument of a tool call, or a value of the state."""

    def __init__(self, rule: ValueRule) -> None:
        self._rule = rule
        self._tests = list(_build_tests(rule))
        self._wants_absence = rule.any is False
        self._semantic = rule.semantic

    def find_fault(self, value: object, transcript: Transcript) -> str:
        """Return "should be …, found …" for the first condition that does not hold; "" if all hold.

        The caller puts the name of the value before this text.

        Raises:
            QuestionPendingError: the judge has to be asked about the value first.
        """
        if self._wants_absence:
            return "" if value is MISSING else f"should be absent, found {format_value(value)}"
        if value is MISSING:
            return f"should be {self.describe()}, found nothing"
        for holds, describe in self._tests:
            if not holds(value):
                return f"should {describe(value)}, found {format_value(value)}"
        if self._semantic is not None:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            answer = transcript.ask(StatementQuestion(self._semantic, text))
            if not answer.value:
                why = f" ({answer.reason})" if answer.reason else ""
                return f"should fit “{self._semantic}”, found {format_value(value)}{why}"
        return ""

    def describe(self) -> str:
        """Return the text after "should be" in messages on a missing value: the wanted value or "present"."""
        rule = self._rule
        if "equals" in rule.model_fields_set:
            return format_value(rule.equals)
        return f"about {_format_number(rule.approx)}" if rule.approx is not None else "present"


class StateCondition:
    """The conditions of a check on the session's final state, from the key `state` of the check."""

    def __init__(self, rules: Mapping[str, ValueRule]) -> None:
        self._conditions = [(path, ValueCondition(rule)) for path, rule in rules.items()]

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield a sentence for each wrong value; if the run has no final state, yield only `NO_STATE`.

        Raises:
            QuestionPendingError: the judge has to be asked about a value first.
        """
        state = transcript.run.final_state
        if state is None:
            yield NO_STATE
            return
        for path, condition in self._conditions:
            for shown, value in find_values(state, path):
                if fault := condition.find_fault(value, transcript):
                    yield f"state `{shown}` {fault}"


_Test = tuple[Callable[[object], bool], Callable[[object], str]]


def _build_tests(rule: ValueRule) -> Iterator[_Test]:
    """Yield a pair of functions, (test, describe), for each condition of a rule that needs no judge.

    Both functions take the checked value. `test` returns True if the condition holds. `describe` returns the
    text after "should" in the message about a value for which the condition does not hold.
    """
    fold = rule.ignore_case
    if "equals" in rule.model_fields_set:
        yield (
            lambda value: is_equal(value, rule.equals, ignore_case=fold),
            lambda _: f"be {format_value(rule.equals)}",
        )
    if rule.matches is not None:
        yield _build_pattern_test(rule.matches)
    if "contains" in rule.model_fields_set:
        yield (
            lambda value: contains_value(value, rule.contains, ignore_case=fold),
            lambda _: f"contain {format_value(rule.contains)}",
        )
    if rule.approx is not None:
        yield _build_number_test(rule.approx, rule.within)
    if rule.one_of is not None:
        values = rule.one_of
        yield (
            lambda value: any(is_equal(value, each, ignore_case=fold) for each in values),
            lambda _: f"be one of {', '.join(map(format_value, values))}",
        )
    if rule.json_schema is not None:
        complain = build_schema_check(rule.json_schema)
        yield lambda value: not complain(value), lambda value: f"fit its JSON Schema: {complain(value)}"


def _build_pattern_test(pattern: str) -> _Test:
    return (
        lambda value: isinstance(value, str) and has_regex_match(pattern, value),
        lambda value: f"{'' if isinstance(value, str) else 'be a text and '}match `{pattern}`",
    )


def _build_number_test(number: float, within: float | str | None) -> _Test:
    def is_number_near(value: object) -> bool:
        return (
            isinstance(value, (int, float)) and not isinstance(value, bool) and is_near(value, number, within)
        )

    away = "" if within is None else f" ± {within}"
    return is_number_near, lambda _: f"be {_format_number(number)}{away}"


def _format_number(number: float | None) -> str:
    return "" if number is None else f"{number:.12g}"
