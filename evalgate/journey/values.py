"""When two arguments of tool calls are the same, as watsonx Orchestrate's evaluation (1.6.9) sees them."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping

from evalgate.journey.dates import parse_moment, same_moment

IGNORED = "<IGNORE>"
"""An expected value that any other equals."""

_TOLERANCE = 0.001
_LIKE = 0.8
_WORD = re.compile(r"\w+")


def normalised(value: object) -> object:
    """`value` without what does not count: case, how a number is written, the order of a list.

    Whole numbers stay exact however long they are, where the original sends digits in a text through a float
    and so takes ids for equal that differ in their 17th digit.
    """
    if isinstance(value, Mapping):
        return {str(key): normalised(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return sorted(map(normalised, value), key=_json)
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, (int, float)):
        return _number_text(value)
    return _normalised_text(value) if isinstance(value, str) else str(value).lower()


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _number_text(value: float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _normalised_text(text: str) -> str:
    if text == IGNORED:
        return text
    for read in (int, float):
        try:
            number = read(text)
        except ValueError:
            continue
        if not (isinstance(number, float) and math.isinf(number) and _WORD_OF_DIGITS.search(text)):
            return _number_text(number)
    return text.lower()


_WORD_OF_DIGITS = re.compile(r"\d")
"""Beyond a double's range, a number stays the text that it is."""


def compared_as_date_or_number(actual: object, expected: object) -> bool | None:
    """Whether two numbers are at most 0.001 apart, or two dates the same; None when they are neither."""
    numbers = _float(actual), _float(expected)
    if numbers[0] is not None and numbers[1] is not None:
        return abs(numbers[0] - numbers[1]) <= _TOLERANCE
    if isinstance(actual, (str, int)) and isinstance(expected, (str, int)):
        moments = parse_moment(str(actual)), parse_moment(str(expected))
        if moments[0] is not None and moments[1] is not None:
            return same_moment(moments[0], moments[1])
    return None


def _float(value: object) -> float | None:
    if not isinstance(value, (str, int, float)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def like(actual: object, expected: object) -> bool:
    """Whether the texts of two values share at least 0.8 of their words (Dice's coefficient)."""
    if (found := compared_as_date_or_number(actual, expected)) is not None:
        return found
    one, other = _words(actual), _words(expected)
    if not one or not other:
        return normalised(actual) == normalised(expected)
    shared = (one & other).total()
    return 2 * shared / (one.total() + other.total()) >= _LIKE


def _words(value: object) -> Counter[str]:
    text = value if isinstance(value, str) else _json(normalised(value))
    return Counter(_WORD.findall(text.casefold()))
