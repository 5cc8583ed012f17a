"""Format numbers and short texts. Numbers that are compared in print look equal only if they are equal."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from evalgate.core.means import EPSILON

Neighbours: TypeAlias = float | Iterable[float | None] | None
"""Numbers that are printed next to a formatted number, and from which its text must differ."""

_MOST_DIGITS = 7
"""Most decimals of a score. If two numbers still look equal with them, the number is cut and ends in "…"."""

_RELIABLE_DECIMALS = 12
"""Number of decimals that do not depend on the order in which a mean's values are added."""


def to_sentence(text: str) -> str:
    """Return `text` with a capital first letter and a full stop. After "." or "…" no full stop is added."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) else ".")


def format_score(value: float | None, *, beside: Neighbours = None, digits: int = 2) -> str:
    """Return `value` as text with at least `digits` decimals; None is "–".

    `beside` are numbers that are printed next to it. Decimals are added until the texts of different numbers
    differ: beside 0.8, 0.7999999 is "0.7999999", never "0.80". If seven decimals show no difference, the
    number is cut instead of rounded: 0.7999999999999999 is "0.7999999…". If a number in `beside` would be cut
    to the same text, all digits are shown.
    """
    if value is None:
        return "–"
    others = _list_others(value, beside)
    for needed in range(digits, max(digits, _MOST_DIGITS) + 1):
        text = _format_rounded(value, needed)
        if all(text != _format_rounded(other, needed) for other in others):
            return text
    text = _cut_decimals(value, digits)
    return text if all(text != _cut_decimals(other, digits) for other in others) else repr(value)


def _list_others(value: float, beside: Neighbours) -> list[float]:
    """Return the numbers in `beside` that differ from `value`."""
    near = beside if isinstance(beside, Iterable) else (beside,)
    return [other for other in near if other is not None and other != value]


def format_scores(values: Sequence[float], limit: float) -> tuple[str, ...]:
    """Return the texts of `values`, then the text of `limit`; different numbers get different texts.

    `limit` keeps all its decimals: 0.333 is never "0.33". So does a value that equals `limit`.
    """
    numbers = (*values, limit)
    return tuple((format_limit if each == limit else format_score)(each, beside=numbers) for each in numbers)


def round_to_limit(value: float, limit: float) -> float:
    """Return `limit` if `value`, a mean or a difference of means, is within 1e-9 of it, else `value`.

    So a value that differs from its limit only by rounding errors is printed as equal to it.
    """
    return limit if abs(value - limit) < EPSILON else value


@lru_cache(maxsize=1024)  # each report formats the pairs of all cases, and most cases share a few pairs
def format_score_pair(value: float, limit: float) -> tuple[str, str]:
    """Return the texts of a score and its limit, which are equal only if the numbers are equal."""
    text, least = format_scores((value,), limit)
    return text, least


def format_drop_pair(drop: float, limit: float) -> tuple[str, str]:
    """Return the texts of the drop of a mean and of its limit, with enough digits to tell them apart.

    Numbers that differ by less than 1e-9, as by rounding errors, get equal texts.
    """
    return format_score_pair(round_to_limit(drop, limit), limit)


def format_limit(limit: float, *, beside: Neighbours = None) -> str:
    """Return the limit of a score with all its decimals, at least two.

    To remove rounding errors, the limit is rounded to 12 decimals. The exception is a different number in
    `beside` (the numbers that are printed next to the limit) that would be rounded to the same value: then
    `format_score` chooses the decimals, so that the two texts differ.
    """
    known, others = round(limit, _RELIABLE_DECIMALS), _list_others(limit, beside)
    if any(round(other, _RELIABLE_DECIMALS) == known for other in others):
        return format_score(limit, beside=others)
    return _trim_zeros(_format_rounded(known, _RELIABLE_DECIMALS), 2)


def _format_rounded(value: float, digits: int) -> str:
    """Return `value` with `digits` decimals. Zero has no minus sign.

    Rounding errors of a mean are removed first: 0.975 and 0.9750000000000001 are both "0.98", because both
    can be the mean of the same numbers, added in another order.
    """
    text = f"{round(value, _RELIABLE_DECIMALS):.{digits}f}"
    return text[1:] if text.startswith("-") and float(text) == 0 else text


def _cut_decimals(value: float, digits: int) -> str:
    """Return `value` with at least `digits` and at most seven decimals.

    If further decimals are cut off, the text ends with "…".
    """
    if round(value, _MOST_DIGITS) == value or not math.isfinite(value):
        return _trim_zeros(_format_rounded(value, _MOST_DIGITS), digits)
    whole, _, decimals = f"{value:.20f}".partition(".")
    return f"{whole}.{decimals[:_MOST_DIGITS]}…"


def _trim_zeros(text: str, digits: int) -> str:
    """Return a number without the zeros at its end, but with at least `digits` decimals."""
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals.rstrip('0').ljust(digits, '0')}" if decimals else text


def format_delta(delta: float | None, *, beside: Neighbours = None, digits: int = 2) -> str:
    """Return a difference with its sign: "+0.05", "−0.10" (with U+2212), or "±0.00" for rounding errors.

    `digits` is the least number of decimals. Decimals are added if the text would be a zero, or would be
    equal to the text of another number in `beside`, such as the limit of the difference. None is "–".
    """
    if delta is None:
        return "–"
    if abs(delta) < EPSILON:
        return f"±{0:.{digits}f}"
    while float(f"{delta:.{digits}f}") == 0:
        digits += 1
    return f"{'+' if delta > 0 else '−'}{format_score(abs(delta), beside=beside, digits=digits)}"


LARGEST_FIGURE = 1e15
"""Budget figures of this size or more stand for "no limit"."""


def format_figure(value: float | None, *, beside: Neighbours = None) -> str:
    """Return a measured figure, such as a number of tokens, as text: "5,432", "5", "12.5", "0.00420".

    Whole numbers, and numbers from 100 on, have no decimals. Other numbers have three significant digits.
    Decimals are added until the text differs from the texts of other numbers in `beside`. None, and
    `LARGEST_FIGURE` or more, are "–".
    """
    if value is None or value >= LARGEST_FIGURE:
        return "–"
    exact, value = value, round(value, _RELIABLE_DECIMALS)
    others = [round(other, _RELIABLE_DECIMALS) for other in _list_others(exact, beside)]
    digits = 0 if value >= 100 or value == int(value) else 2 - math.floor(math.log10(abs(value)))
    digits = min(max(digits, 0), _RELIABLE_DECIMALS)
    text = f"{value:,.{digits}f}"
    # Once all decimals of this number are shown, the others show the decimals in which they differ from it.
    while round(exact, digits) != exact and any(text == f"{other:,.{digits}f}" for other in others):
        if digits == _RELIABLE_DECIMALS:
            return f"{exact:,}"
        digits += 1
        text = f"{value:,.{digits}f}"
    return text


def format_figure_pair(value: float, limit: float) -> tuple[str, str]:
    """Return the texts of a figure and its limit, which are equal only if the numbers are equal."""
    return format_figure(value, beside=limit), format_figure(limit, beside=value)


def format_money(usd: float) -> str:
    """Return US dollars with two decimals (`$1.20`).

    Amounts below one cent, except 0, have two significant digits instead (`$0.0034`).
    """
    return f"${usd:,.2f}" if usd >= 0.01 or not usd else f"${_format_small_amount(usd)}"


def format_usd(usd: float) -> str:
    """Return US dollars with four decimals (`0.0123 USD`).

    Amounts below 0.00005, except 0, have two significant digits instead (`0.000034 USD`).
    """
    return f"{usd:,.4f} USD" if usd >= 0.00005 or not usd else f"{_format_small_amount(usd)} USD"


def _format_small_amount(usd: float) -> str:
    places = 1 - math.floor(math.log10(usd))
    return f"{usd:.{places}f}".rstrip("0")


_BARS = "▁▂▃▄▅▆▇█"
_SMALLEST_SPAN = 0.1


def format_sparkline(values: Sequence[float]) -> str:
    """Return one bar (`▁` to `█`) for each of `values`, which must not be empty.

    The largest value has the highest bar. The bars cover a range of at least 0.1, so that small differences
    look small.
    """
    low, high = min(values), max(values)
    span = max(high - low, _SMALLEST_SPAN)
    return "".join(
        _BARS[min(int((value - high + span) / span * len(_BARS)), len(_BARS) - 1)] for value in values
    )


def pluralize(number: int, noun: str, plural: str | None = None) -> str:
    """Return the number with its noun: `1 case`, `2 cases`, `1,000 cases`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def join_first(names: Sequence[str], most: int) -> str:
    """Return the first `most` names and the number of the remaining names: `a, b, c and 4 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def join_quoted(names: Sequence[str]) -> str:
    """Return the names in backticks, joined as `a`, `b` and `c`; "none" if `names` is empty."""
    quoted = [f"`{name}`" for name in names]
    return " and ".join(filter(None, (", ".join(quoted[:-1]), *quoted[-1:]))) or "none"


def build_case_quote(keys: Iterable[tuple[str, str]]) -> Callable[[tuple[str, str]], str]:
    """Return a function that turns a case key (eval set id, case id) into the case's name for sentences.

    If all `keys` have the same eval set id, the name is the case id. If not, it is `eval set/case`.
    """
    several = len({eval_set_id for eval_set_id, _ in keys}) > 1

    def quote_case(key: tuple[str, str]) -> str:
        return "/".join(key) if several else key[1]

    return quote_case
