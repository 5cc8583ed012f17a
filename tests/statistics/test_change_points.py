"""Change points: found where they are, hardly ever where there are none."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.statistics.change_points import _find_stretch, _has_stretch, find_change_points


def draw(seed: int, *levels: float, noise: float = 0.02) -> list[float]:
    source = random.Random(seed)
    return [level + source.gauss(0, noise) for level in levels]


def test_a_step_is_found_where_it_is() -> None:
    (found,) = find_change_points(draw(1, *[0.9] * 10, *[0.7] * 8), alpha=0.01)
    assert found.at == 10
    assert [found.before, found.after] == pytest.approx([0.9, 0.7], abs=0.03)
    assert found.p < 0.005


def test_a_fall_and_a_recovery_are_two() -> None:
    found = find_change_points(draw(2, *[0.9] * 8, *[0.5] * 8, *[0.9] * 8))
    assert [each.at for each in found] == [8, 16]
    assert found[0].after == found[1].before


@pytest.mark.parametrize(
    "values", [[], [0.5], [0.5] * 3, [0.9] * 20, [0.9, 0.9, 0.9, 0.1], [0.9, 0.9, 0.1, 0.1]]
)
def test_few_or_equal_values_have_no_change(values: list[float]) -> None:
    assert find_change_points(values) == ()


def test_a_change_in_the_middle_needs_nine_values() -> None:
    assert find_change_points([0.9] * 4 + [0.1] * 4) == ()
    assert [each.at for each in find_change_points([0.9] * 5 + [0.1] * 4)] == [5]


def test_one_bad_run_is_no_change() -> None:
    assert find_change_points([*draw(3, *[0.9] * 9), 0.2, *draw(4, *[0.9] * 9)]) == ()


def test_a_series_without_a_change_has_one_as_often_as_alpha_says() -> None:
    series = [draw(seed, *[0.8] * 12) for seed in range(200)]
    alarms = sum(bool(find_change_points(each, orders=99)) for each in series)
    assert 1 <= alarms <= 20  # 5 % of 200 are 10, with a standard deviation of 3.1


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]), min_size=4, max_size=30))
def test_orders_are_tested_against_the_statistic_that_finds_the_change(values: list[float]) -> None:
    largest, first, last = _find_stretch(values)
    if first < last:
        assert _has_stretch(values, largest - 1e-12)
        assert not _has_stretch(values, largest + 1e-9)


def test_a_long_series_costs_a_pass_of_each_length(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []

    def find(values: list[float]) -> tuple[float, int, int]:
        searched.append(len(values))
        return _find_stretch(values)

    monkeypatch.setattr("evalgate.statistics.change_points._find_stretch", find)
    assert [each.at for each in find_change_points(draw(5, *[0.9] * 60, *[0.7] * 40))] == [60]
    assert searched == [100, 60, 40]  # once for each piece: not for each of its 999 orders
