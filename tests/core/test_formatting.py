"""Numbers as people read them must agree with the decision made on the exact ones."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.formatting import (
    build_case_quote,
    compute_mean,
    format_delta,
    format_score,
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
    assert len(text.rstrip("…").partition(".")[2]) <= 7


@pytest.mark.parametrize(
    ("one", "other"), [(0.975, 0.9750000000000001), (0.005, 0.005 - 1e-17), (0.145, 0.14500000000000002)]
)
def test_one_number_has_one_spelling_however_it_was_added(one: float, other: float) -> None:
    assert format_score(one) == format_score(other)


@given(st.lists(scores, min_size=1))
def test_a_mean_stays_within_its_values(values: list[float]) -> None:
    assert min(values) <= compute_mean(values) <= max(values)


def test_the_mean_of_huge_values_is_finite() -> None:
    assert compute_mean([1.7e308, 1.7e308]) == 1.7e308


@given(scores, st.integers(1, 50))
def test_the_mean_of_equal_scores_is_that_score(score: float, count: int) -> None:
    assert compute_mean([score] * count) == score


@pytest.mark.parametrize(("number", "text"), [(0, "0 cases"), (1, "1 case"), (1000, "1,000 cases")])
def test_counts_agree_with_their_noun(number: int, text: str) -> None:
    assert pluralize(number, "case") == text


@pytest.mark.parametrize(("value", "expected"), [(1, "1.0"), (-0.0, "0.0"), (0.7, "0.7"), (True, "1.0")])
def test_the_mean_of_one_value_is_the_float_that_a_sum_gives(value: float, expected: str) -> None:
    assert repr(compute_mean([value])) == repr(compute_mean([value, value])) == expected


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
