"""Compare tool arguments, dates included, as watsonx Orchestrate's evaluation does.

Recognised dates are `January 5, 2025`, `5 Jan 2025`, `01/05/2025` (the day first if it is above 12),
`2025-01-05T10:30Z`, `20250105T1030` and `10:30 pm`. Missing parts stay unknown: `May` has no day. A result
therefore never depends on today's date.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

from evalgate.core.frozen import frozen
from evalgate.core.types import ArgMatching, Goal, JsonObject

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_NAMES = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKDAY_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_FILLERS = frozenset({"at", "on", "of", "and", "t"})
_FILLED = re.compile(r"\s+(?:at|on|and|t)$")
_COMPACT_TIME = re.compile(r"(?<=\d)t(\d{2})(\d{2})(\d{2})?(?!\d)")

_TIME = re.compile(
    r"(?<!\d)(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?)"
    r"\s*(?P<half>[ap]\.?m\b\.?)?\s*(?P<zone>z\b|utc\b|gmt\b|[+-]\d{2}:?(?:\d{2})?)?"
)
_HOUR = re.compile(r"(?<!\d)(?P<hour>\d{1,2})\s*(?P<half>[ap]\.?m\b\.?)")
_YEAR_FIRST = re.compile(r"^(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2}))?$")
_ALL_DIGITS = re.compile(r"^(\d{4})(\d{2})(\d{2})$")
_YEAR_LAST = re.compile(r"^(\d{1,2})[-/.](\d{1,2})[-/.](\d{4}|\d{2})$")
_NO_YEAR = re.compile(r"^(\d{1,2})[-/](\d{1,2})$")
_TOKEN = re.compile(r"[a-z]+|\d+|\S")
_NUMBER = re.compile(r"\d+")


@frozen
class Moment:
    """The parts of a date and time in a text; None for a part that the text lacks."""

    year: int | None = None
    month: int | None = None
    day: int | None = None
    weekday: str | None = None
    time: timedelta | None = None
    """Time since midnight."""
    offset: timedelta | None = None
    """Offset from UTC."""


def is_same_moment(one: Moment, other: Moment) -> bool:
    """Return True if two dates or times are equal.

    A missing time equals midnight, and the weekday of a full date is ignored. Full dates with an offset are
    compared in UTC.
    """
    return _normalize_moment(one) == _normalize_moment(other)


def _normalize_moment(moment: Moment) -> Moment:
    year, month, day, offset = moment.year, moment.month, moment.day, moment.offset
    moment = replace(moment, time=moment.time or timedelta())
    if year is None or month is None or day is None:
        return moment
    if offset is None:
        return replace(moment, weekday=None)
    try:
        local = datetime(year, month, day, tzinfo=timezone(offset)) + (moment.time or timedelta())

        utc = local.astimezone(UTC)
    except OverflowError:
        return moment
    midnight = utc.replace(hour=0, minute=0, second=0, microsecond=0)
    return Moment(utc.year, utc.month, utc.day, None, utc - midnight, timedelta())


def parse_moment(text: str) -> Moment | None:
    """Parse the date or time in `text`.

    Return None if `text` holds no date or time, a date that does not exist, or words that belong to no date.
    """
    rest = text.strip().lower()
    rest = re.sub(r"(?<=\d)t(?=\d{1,2}:)", " ", rest)
    rest = _COMPACT_TIME.sub(lambda found: f" {found[1]}:{found[2]}:{found[3] or '00'}", rest)
    found = _TIME.search(rest) or _HOUR.search(rest)
    clock = _parse_time(found) if found else Moment()
    if found:
        rest = f"{rest[: found.start()]} {rest[found.end() :]}"
    date = _parse_date(_FILLED.sub("", rest.strip(" ,")))
    if date is None or clock is None:
        return None
    moment = replace(date, time=clock.time, offset=clock.offset)
    return moment if moment != Moment() and _is_real_date(moment) else None


def _parse_time(found: re.Match[str]) -> Moment | None:
    """Return the time of day, or None if the numbers are out of range."""
    parts = found.groupdict()
    hour, minute, second = (int(parts.get(name) or 0) for name in ("hour", "minute", "second"))
    if half := parts.get("half"):
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half.startswith("p") else 0)
    if hour > 23 or minute > 59 or second > 59:
        return None
    micro = int((parts.get("fraction") or "").ljust(6, "0")[:6])
    time = timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micro)
    return Moment(time=time, offset=_parse_offset(parts.get("zone")))


def _parse_offset(zone: str | None) -> timedelta | None:
    if not zone:
        return None
    if zone[0] not in "+-":
        return timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=min(int(digits[:2]), 23), minutes=int(digits[2:]) % 60)
    return -offset if zone[0] == "-" else offset


def _parse_date(text: str) -> Moment | None:
    if found := _YEAR_FIRST.match(text):
        return Moment(int(found[1]), int(found[2]), int(found[3]) if found[3] else None)
    if found := _ALL_DIGITS.match(text):
        return Moment(int(found[1]), int(found[2]), int(found[3]))
    if found := _YEAR_LAST.match(text):
        first, second = int(found[1]), int(found[2])
        month, day = (second, first) if first > 12 else (first, second)
        return Moment(_expand_year(found[3]), month, day)
    if found := _NO_YEAR.match(text):
        return Moment(None, int(found[1]), int(found[2]))
    return _parse_worded_date(text)


def _parse_worded_date(text: str) -> Moment | None:
    moment, numbers = Moment(), list[str]()
    previous = ""
    for token in _TOKEN.findall(text):
        if token.isdecimal() and token.isascii():
            numbers.append(token)
        elif token in {"st", "nd", "rd", "th"} and _NUMBER.fullmatch(previous):
            pass
        elif (month := _find_name_index(token, _MONTHS, _MONTH_NAMES)) and moment.month is None:
            moment = replace(moment, month=month)
        elif weekday := _find_name_index(token, _WEEKDAYS, _WEEKDAY_NAMES):
            moment = replace(moment, weekday=_WEEKDAYS[weekday - 1])
        elif token not in _FILLERS and token not in {",", ".", "-", "/", "'"}:
            return None
        previous = token
    return _add_numbers(moment, numbers)


def _find_name_index(word: str, short: tuple[str, ...], full: tuple[str, ...] | list[str]) -> int:
    """Return the 1-based index of `word` in `short` (three-letter names) or `full`; 0 if neither has it."""
    if word == "sept":
        word = "sep"
    names = short if len(word) == 3 else full
    return names.index(word) + 1 if word in names else 0


def _add_numbers(moment: Moment, numbers: list[str]) -> Moment | None:
    """Return `moment` with `numbers` as its day and year; None if a number can be neither.

    The first number that is at most 31 and has at most two digits is the day. The other number is the year,
    and must have two or four digits.
    """
    for number in numbers:
        is_day = len(number) <= 2 and int(number) <= 31
        if is_day and moment.day is None:
            moment = replace(moment, day=int(number))
        elif moment.year is None and len(number) in {2, 4}:
            moment = replace(moment, year=_expand_year(number))
        else:
            return None
    return moment


def _expand_year(digits: str) -> int:
    """Return the year as a number. Two digits mean a year from 1969 to 2068, as in POSIX."""
    year = int(digits)
    return year if len(digits) > 2 else year + (2000 if year <= 68 else 1900)


def _get_or_default(part: int | None, otherwise: int) -> int:
    return otherwise if part is None else part


def _is_real_date(moment: Moment) -> bool:
    try:
        datetime(
            _get_or_default(moment.year, 2000),
            _get_or_default(moment.month, 1),
            _get_or_default(moment.day, 1),
            tzinfo=UTC,
        )
    except ValueError:
        return False
    return True


IGNORED = "<IGNORE>"
"""Expected value that matches any actual value, even a missing one."""

_TOLERANCE = 0.001
_LEAST_SIMILARITY = 0.8
_WORD = re.compile(r"\w+")


def normalize_value(value: object) -> object:
    """Return a value in a form for comparisons: texts in lower case, numbers as texts, lists sorted.

    Keys keep their case. Whole numbers stay exact, even with 17 digits. watsonx Orchestrate converts them to
    floats, so that long ids are equal there even if their last digits differ.
    """
    if isinstance(value, Mapping):
        return {str(key): normalize_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return sorted(map(normalize_value, value), key=_dump_json)
    # `True`, not in lower case like texts: in watsonx Orchestrate true differs from "true".
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, (int, float)):
        return _format_number(value)
    return _normalize_text(value) if isinstance(value, str) else str(value).lower()


def _dump_json(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _format_number(value: float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _normalize_text(text: str) -> str:
    if text == IGNORED:
        return text
    for read in (int, float):
        try:
            number = read(text)
        except ValueError:
            continue
        if not (isinstance(number, float) and math.isinf(number) and _DIGIT.search(text)):
            return _format_number(number)
    return text.lower()


_DIGIT = re.compile(r"\d")
"""Distinguishes a number beyond a double's range, which has digits and stays a text, from the word `inf`."""


def compare_as_date_or_number(actual: object, expected: object) -> bool | None:
    """Return True if two numbers or two dates are equal, and False if they differ.

    Return None for values that are neither two numbers nor two dates. Numbers count as equal if they differ
    by at most 0.001. Numbers and dates may be written as texts.
    """
    numbers = _to_float(actual), _to_float(expected)
    if numbers[0] is not None and numbers[1] is not None:
        return abs(numbers[0] - numbers[1]) <= _TOLERANCE
    if isinstance(actual, (str, int)) and isinstance(expected, (str, int)):
        moments = parse_moment(str(actual)), parse_moment(str(expected))
        if moments[0] is not None and moments[1] is not None:
            return is_same_moment(moments[0], moments[1])
    return None


def _to_float(value: object) -> float | None:
    if not isinstance(value, (str, int, float)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def is_similar(actual: object, expected: object) -> bool:
    """Return True if two numbers or dates are equal, or two texts share at least 0.8 of their words.

    The share is Dice's coefficient. Numbers may differ by 0.001. Values that are no texts are compared as
    JSON texts. If one of the texts has no word, the values must be equal after `normalize_value`.
    """
    if (found := compare_as_date_or_number(actual, expected)) is not None:
        return found
    # watsonx Orchestrate compares embeddings. Without a model it takes a score of 0 to 100 for a share, so
    # that nearly every text passes.
    one, other = _count_words(actual), _count_words(expected)
    if not one or not other:
        return normalize_value(actual) == normalize_value(expected)
    shared = (one & other).total()
    return 2 * shared / (one.total() + other.total()) >= _LEAST_SIMILARITY


def _count_words(value: object) -> Counter[str]:
    text = value if isinstance(value, str) else _dump_json(normalize_value(value))
    return Counter(_WORD.findall(text.casefold()))


_ANYTHING: JsonObject = {"IGNORE": None}
_ABSENT = object()
_LONGEST_VALUE = 60


def find_argument_mismatch(goal: Goal, actual: JsonObject) -> str:
    """Describe the first argument that differs from the goal; return "" if the call matches.

    Arguments that the goal does not name may have any value. If `args` of the goal is None, the call must not
    have any argument. If `args` is `{"IGNORE": null}`, every call matches.

    Raises:
        RecursionError: arguments are nested too deep.
    """
    # No `args`, or null, allows no argument; `{}` allows any.
    if goal.args is None:
        return f"no arguments are expected, got {_format_value(dict(actual))}" if actual else ""
    if goal.args == _ANYTHING:
        return ""
    given = dict(iter_leaves(actual))
    # A dotted key and a nested one may have the same path; the later one counts.
    for path, expected in dict(iter_leaves(goal.args)).items():
        found = given.get(path, _ABSENT)
        if not _matches_argument(find_strategy(path, goal.arg_matching), expected, found):
            return f"`{path}`: expected {_format_value(expected)}, got {_format_value(found)}"
    return ""


def iter_leaves(args: JsonObject, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the dotted path and value of each value that is not an object.

    An empty object yields nothing. `prefix` is the path of `args` itself; "" if it is the outermost object.
    """
    for key, value in args.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping):
            yield from iter_leaves(value, path)
        else:
            yield path, value


def find_strategy(path: str, matching: Mapping[str, ArgMatching]) -> ArgMatching:
    """Return the strategy for comparing the argument at the dotted `path`.

    If `matching` lacks the path, the strategy of the nearest parent object counts. If `matching` has no
    parent either, the strategy is `strict`.
    """
    while path not in matching:
        path, dot, _ = path.rpartition(".")
        if not dot:
            return "strict"
    return matching[path]


def _matches_argument(how: ArgMatching, expected: object, found: object) -> bool:
    if how == "ignore" or normalize_value(expected) == IGNORED:
        return True
    if found is _ABSENT:
        return how == "optional"
    # Without normalisation: watsonx Orchestrate compares optional arguments more strictly.
    if how == "optional":
        return bool(found == expected)
    if how == "fuzzy":
        return is_similar(found, expected)
    return bool(normalize_value(found) == normalize_value(expected))


def _format_value(value: object) -> str:
    if value is _ABSENT:
        return "none"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
