"""Assignment of cases to shards: each case once, and balanced loads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.types import Baseline, BaselineCase, BaselineRun, BaselineSource
from evalgate.runner.sharding import assign_cases, estimate_case_seconds


@given(st.lists(st.floats(0, 1000)), st.integers(1, 20))
def test_every_case_is_in_one_shard(seconds: list[float], count: int) -> None:
    found = assign_cases(seconds, count)
    assert len(found) == count
    assert sorted(index for share in found for index in share) == list(range(len(seconds)))
    assert all(list(share) == sorted(share) for share in found)


@given(st.lists(st.floats(0.01, 1000), min_size=1), st.integers(1, 20))
def test_no_shard_has_much_more_to_do_than_it_must(seconds: list[float], count: int) -> None:
    longest = max(sum(seconds[index] for index in share) for share in assign_cases(seconds, count))
    best_possible = max(sum(seconds) / count, *seconds)
    assert longest <= best_possible * 2  # any list schedule holds this bound of what it cannot beat


def test_equal_cases_are_dealt_out_evenly() -> None:
    assert assign_cases([1.0] * 7, 3) == ((0, 3, 6), (1, 4), (2, 5))
    assert assign_cases([0.0] * 4, 2) == ((0, 2), (1, 3))


@pytest.mark.parametrize("known", [True, False])
def test_the_baseline_tells_how_long_a_case_takes(known: bool) -> None:
    runs = (BaselineRun(0, "answered", {}, 2.0), BaselineRun(0, "answered", {}, 4.0))
    case = BaselineCase("set", "slow", "passed", "", {}, runs)
    baseline = Baseline((case,), (BaselineSource(),)) if known else None
    assert estimate_case_seconds([("set", "slow"), ("set", "new")], baseline) == (
        [3.0, 3.0] if known else [1.0, 1.0]
    )
