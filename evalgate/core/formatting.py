"""Format numbers and short texts; a formatted number never contradicts a decision made on the exact one."""

import functools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Sequence

_MOST_DIGITS = 7
"""Most decimals that are added to show a difference; then the number is cut and ends in "…"."""

_LAST_BITS = 12
"""Decimals to which two sums of the same numbers agree, in any order of the numbers."""

_NOISE = 1e-9
"""Largest rounding error in a difference of two means; a smaller difference decides nothing."""


def compute_mean(values: Collection[float]) -> float:
    """Return the arithmetic mean of at least one finite value.

    The sum is exactly rounded and the result never leaves the range of the values, so that three times 0.7
    is 0.7 and does not fall below a threshold of 0.7.
    """
    if len(values) == 1:
        return next(iter(values)) + 0.0  # as a sum gives it: no integer, and no negative zero
    try:
        average = math.fsum(values) / len(values)
    except OverflowError:
        average = math.fsum(value / len(values) for value in values)
    return min(max(average, min(values)), max(values))


def compute_sequential_mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value, summed from left to right.

    Some engines sum like this, and the last bit of the result can decide at a threshold. The built-in `sum`
    rounds differently from Python 3.12 on.
    """
    return functools.reduce(operator.add, values, 0.0) / len(values)


def compute_exact_mean(values: Iterable[float]) -> float:
    """Return the mean of at least one finite value, summed exactly and rounded once.

    It is that of `statistics.mean`, which some engines use. Another function may differ in the last bit, and
    the last bit can decide at a threshold.
    """
    import statistics

    return float(statistics.mean(values))


def to_sentence(text: str) -> str:
    """Return `text` with a capital letter, and with a full stop unless it ends with "." or "…" already."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "…")) else ".")


def compute_weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the mean of finite values by weights above 0; `compute_mean` if the weights are equal."""
    if len(set(weights)) == 1:
        return compute_mean(values)
    average = math.fsum(map(operator.mul, values, weights)) / math.fsum(weights)
    return min(max(average, min(values)), max(values))


def format_score(value: float | None, *, beside: float | None = None, digits: int = 2) -> str:
    """Return `value` with at least `digits` decimals, and enough to differ visibly from `beside`.

    Compared with 0.8, 0.7999999 is "0.7999999", never "0.80". If seven decimals do not show the difference,
    the number is cut instead of rounded: 0.7999999999999999 is "0.7999999…". None is "–".
    """
    if value is None:
        return "–"
    text = _rounded(value, digits)
    if beside is not None and value != beside and text == _rounded(beside, digits):
        needed = digits
        while needed < _MOST_DIGITS and _rounded(value, needed) == _rounded(beside, needed):
            needed += 1
        if _rounded(value, needed) != _rounded(beside, needed):
            text = _rounded(value, needed)
        elif round(value, _MOST_DIGITS) != value and math.isfinite(value):
            whole, _, decimals = f"{value:.20f}".partition(".")
            return f"{whole}.{decimals[:_MOST_DIGITS]}…"
    return text[1:] if text.startswith("-") and float(text) == 0 else text  # no "-0.00"


def _rounded(value: float, digits: int) -> str:
    """Return `value` with `digits` decimals, ignoring the last bits of a mean.

    0.975 and 0.9750000000000001 are the same sum, added in another order: both are shown as 0.98.
    """
    return f"{round(value, _LAST_BITS):.{digits}f}"


def format_delta(delta: float | None, *, beside: float | None = None, digits: int = 2) -> str:
    """Return a difference with its sign: "+0.05", "−0.10" (a true minus), "±0.00" for rounding errors.

    `beside` is the limit that the difference is compared with, as in `format_score`. A difference that
    would be shown as 0 gets more decimals. None is "–".
    """
    if delta is None:
        return "–"
    if abs(delta) < _NOISE:
        return f"±{0:.{digits}f}"
    while float(f"{delta:.{digits}f}") == 0:
        digits += 1
    return f"{'+' if delta > 0 else '−'}{format_score(abs(delta), beside=beside, digits=digits)}"


LARGEST_FIGURE = 1e15
"""Figures from here on stand for no limit."""


def format_figure(value: float | None, *, beside: float | None = None) -> str:
    """Return a figure such as a number of tokens as text: "5,432", "5", "12.5", "0.00420".

    Whole numbers, and numbers from 100 on, have no decimals; others have three significant digits. More
    digits are shown if needed to differ from `beside`. None, and `LARGEST_FIGURE` or more, are "–".
    """
    if value is None or value >= LARGEST_FIGURE:
        return "–"
    value = round(value, _LAST_BITS)
    digits = 0 if value >= 100 or value == int(value) else 2 - math.floor(math.log10(abs(value)))
    digits = min(max(digits, 0), _LAST_BITS)
    text = f"{value:,.{digits}f}"
    while beside is not None and value != beside and digits < _LAST_BITS and text == f"{beside:,.{digits}f}":
        digits += 1
        text = f"{value:,.{digits}f}"
    return text


_BARS = "▁▂▃▄▅▆▇█"
_SMALLEST_SPAN = 0.1


def format_sparkline(values: Sequence[float]) -> str:
    """Return one bar for each of at least one value.

    The scale ends at the largest value and spans at least 0.1.
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
    """Return the first `most` names and the number of the others: `a, b, c and 4 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def join_quoted(names: Sequence[str]) -> str:
    """Return the names in backticks, joined as `a`, `b` and `c`; "none" if there are none."""
    quoted = [f"`{name}`" for name in names]
    return " and ".join(filter(None, (", ".join(quoted[:-1]), *quoted[-1:]))) or "none"


def build_case_quote(keys: Iterable[tuple[str, str]]) -> Callable[[tuple[str, str]], str]:
    """Return a function that turns the key of a case into the name of the case in sentences.

    A key has the ids of eval set and case. The name is `case`, or `eval set/case` if the eval sets of
    `keys` differ.
    """
    several = len({eval_set_id for eval_set_id, _ in keys}) > 1

    def quote_case(key: tuple[str, str]) -> str:
        return "/".join(key) if several else key[1]

    return quote_case
