"""Numbers as people read them must agree with the decision made on the exact ones."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.formatting import (
    build_case_quote,
    format_delta,
    format_drop_pair,
    format_figure,
    format_figure_pair,
    format_money,
    format_score,
    format_score_pair,
    format_usd,
    join_first,
    pluralize,
)

scores = st.floats(0, 1)


@pytest.mark.parametrize(
    ("value", "beside", "text"),
    [
        (None, None, "–"),
        (1.0, 1.0, "1.00"),
        (0.8, 0.8, "0.80"),
        (0.7999999, 0.8, "0.7999999"),
        (0.8000001, 0.8, "0.8000001"),
        (0.795, 0.8, "0.795"),
        (0.5, 0.8, "0.50"),
        (math.nextafter(0.8, 0), 0.8, "0.7999999…"),
        (math.nextafter(0.8, 1), 0.8, "0.8000000…"),
        (0.8, math.nextafter(0.8, 0), "0.80"),
        (0.9999999999999998, 1.0, "0.9999999…"),
        (0.9999999999999998, None, "1.00"),
        (0.1 + 0.2, 0.3, "0.3000000…"),
        (1e-12, 0.0, "0.0000000…"),
        (-0.0, None, "0.00"),
        (-0.004, 0.0, "-0.004"),
        (0.0, -0.004, "0.000"),
        (1 / 3, math.nextafter(1 / 3, 1), "0.3333333333333333"),
        (math.nextafter(1 / 3, 1), 1 / 3, "0.33333333333333337"),
        (0.1254568, math.nextafter(0.1254568, 1), "0.1254568"),
    ],
)
def test_a_score_never_looks_equal_to_a_threshold_that_it_misses(
    value: float | None, beside: float | None, text: str
) -> None:
    assert format_score(value, beside=beside) == text


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        (None, "–"),
        (0.0, "±0.00"),
        (-0.0, "±0.00"),
        (0.05, "+0.05"),
        (-0.1, "−0.10"),
        (-0.0004, "−0.0004"),
        (2.2e-16, "±0.00"),
        (-1.1e-16, "±0.00"),
        (3e-9, "+0.000000003"),
    ],
)
def test_a_difference_carries_its_sign(delta: float | None, text: str) -> None:
    assert format_delta(delta) == text


@given(scores, scores)
def test_different_numbers_look_different_and_never_like_noise(value: float, threshold: float) -> None:
    text, other = format_score(value, beside=threshold), format_score(threshold, beside=value)
    if abs(value - threshold) > 1e-7:
        assert text != other
    if value < threshold:
        assert float(text.rstrip("…")) <= float(other.rstrip("…"))
    assert len(text.rstrip("…").partition(".")[2]) <= 7 or abs(value - threshold) < 2e-7


# Numbers with few decimals, and their neighbours: only there do texts of different numbers look alike.
rounded = st.builds(round, st.floats(-5, 5), st.integers(0, 8))
near = st.one_of(st.sampled_from([0.0, 1e-16, 1e-13, 1e-9, 1e-7, 0.0004, 0.005]), st.floats(-0.02, 0.02))


def read_number(text: str) -> float:
    """Return the number that a text says; digits behind "…" make it a bit larger, apart from its sign."""
    value = float(text.rstrip("…").replace(",", ""))
    return value + (math.copysign(1e-8, -1 if text[0] == "-" else 1) if text.endswith("…") else 0)


def compare(one: float, other: float) -> int:
    return (one > other) - (one < other)


@given(st.one_of(rounded, st.floats(-5, 5)), near)
def test_a_score_and_its_limit_compare_as_the_numbers_do(limit: float, distance: float) -> None:
    value = limit + distance
    text, other = format_score_pair(value, limit)
    assert compare(read_number(text), read_number(other)) == compare(value, limit)


@given(st.one_of(rounded, st.floats(0, 1e6), st.floats(0, 1e-6)).map(abs), near.map(abs), st.booleans())
def test_a_figure_and_its_limit_compare_as_the_numbers_do(
    limit: float, distance: float, is_relative: bool
) -> None:
    value = limit * (1 + distance) if is_relative else limit + distance
    for one, two in ((value, limit), (limit, value)):
        text, other = format_figure_pair(one, two)
        assert compare(read_number(text), read_number(other)) == compare(one, two)


@given(rounded, near, near)
def test_numbers_that_are_printed_together_compare_as_they_are(one: float, two: float, three: float) -> None:
    values = (one, one + two, one + three)
    texts = [read_number(format_score(value, beside=values)) for value in values]
    figures = [read_number(format_figure(abs(value), beside=map(abs, values))) for value in values]
    for at, to in ((0, 1), (0, 2), (1, 2)):
        assert compare(texts[at], texts[to]) == compare(values[at], values[to])
        assert compare(figures[at], figures[to]) == compare(abs(values[at]), abs(values[to]))


@pytest.mark.parametrize(
    ("value", "limit", "texts"),
    [
        (0.332, 0.333, ("0.332", "0.333")),
        (0.333, 0.333, ("0.333", "0.333")),
        (0.5, 0.333, ("0.50", "0.333")),
        (-0.004, 0.0, ("-0.004", "0.00")),
        (0.3, 0.1 * 3, ("0.30", "0.3000000…")),
    ],
)
def test_a_limit_is_shown_with_all_its_decimals(value: float, limit: float, texts: tuple[str, str]) -> None:
    assert format_score_pair(value, limit) == texts


def test_a_figure_has_the_digits_that_tell_it_from_its_limit() -> None:
    assert format_figure_pair(0.01258, 0.01256) == ("0.01258", "0.01256")
    assert format_figure_pair(5432, 6000) == ("5,432", "6,000")


def test_a_drop_that_rounding_errors_tell_from_its_limit_is_shown_as_the_limit() -> None:
    assert format_drop_pair(0.95 - 0.9, 0.05) == ("0.05", "0.05")
    assert format_drop_pair(0.0496, 0.05) == ("0.0496", "0.05")


@pytest.mark.parametrize(
    ("one", "other"), [(0.975, 0.9750000000000001), (0.005, 0.005 - 1e-17), (0.145, 0.14500000000000002)]
)
def test_one_number_has_one_spelling_however_it_was_added(one: float, other: float) -> None:
    assert format_score(one) == format_score(other)


@pytest.mark.parametrize(("number", "text"), [(0, "0 cases"), (1, "1 case"), (1000, "1,000 cases")])
def test_counts_agree_with_their_noun(number: int, text: str) -> None:
    assert pluralize(number, "case") == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a, b"),
        (["a", "b", "c"], "a, b and 1 more"),
        (["x"] * 1002, "x, x and 1,000 more"),
    ],
)
def test_the_first_names_are_listed_and_the_others_counted(names: list[str], text: str) -> None:
    assert join_first(names, 2) == text


@pytest.mark.parametrize(
    ("keys", "names"),
    [([("s", "a"), ("s", "b")], ["a", "b"]), ([("s", "a"), ("t", "a")], ["s/a", "t/a"])],
)
def test_a_case_is_named_with_its_eval_set_if_there_are_several(
    keys: list[tuple[str, str]], names: list[str]
) -> None:
    assert [*map(build_case_quote(keys), keys)] == names


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        (0, "$0.00"),
        (1234.5, "$1,234.50"),
        (0.01, "$0.01"),
        (0.0099999, "$0.01"),
        (0.0034, "$0.0034"),
        (0.00005, "$0.00005"),
        (1.234e-7, "$0.00000012"),
    ],
)
def test_an_amount_is_written_without_an_exponent(usd: float, shown: str) -> None:
    assert format_money(usd) == shown


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        (0, "0.0000 USD"),
        (1234.5, "1,234.5000 USD"),
        (0.00123456, "0.0012 USD"),
        (0.00005, "0.0001 USD"),
        (0.0000341, "0.000034 USD"),
        (1.234e-7, "0.00000012 USD"),
    ],
)
def test_a_small_cost_is_more_than_nothing(usd: float, shown: str) -> None:
    assert format_usd(usd) == shown
