"""Samples of one question agree or not."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.llm.sample_agreement import compute_agreement, compute_self_agreement
from evalgate.reporting.summary_lines import describe_agreement


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        ([], None),
        ([1], None),
        ([1, 1], 1.0),
        ([1, 0], 0.0),
        ([1, 1, 0], pytest.approx(1 / 3)),
        ([1, 1, 1, 1, 0], pytest.approx(0.6)),
        (["a", "b", "c"], 0.0),
        ([{"a": 1}, {"a": 1}], 1.0),
        ([None, None, 1], pytest.approx(1 / 3)),
    ],
)
def test_agreement(votes: list[object], expected: float | None) -> None:
    assert compute_agreement(votes) == expected


@given(st.lists(st.integers(0, 3), min_size=2, max_size=8))
def test_agreement_is_the_share_of_pairs_that_agree(votes: list[int]) -> None:
    pairs = list(combinations(votes, 2))

    assert compute_agreement(votes) == pytest.approx(sum(one == other for one, other in pairs) / len(pairs))
    assert compute_agreement(votes) == compute_agreement(sorted(votes))


def test_self_agreement_is_the_mean_over_questions() -> None:
    assert compute_self_agreement([[1, 1], [1, 0], [1]]) == 0.5
    assert compute_self_agreement([[1], []]) is None
    assert describe_agreement(compute_self_agreement([[1, 1, 0]])) == "the judge agrees with itself 0.33"
    assert describe_agreement(None) == ""
