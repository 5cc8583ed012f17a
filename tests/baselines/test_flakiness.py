"""How often the runs of a case disagree."""

import pytest

from evalgate.baselines.flakiness import Flakiness, measure_flakiness

RUNS = {"1": 1.0, "0": 0.0, "x": None}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1111", Flakiness(4, 4, 0.0, 4)),
        ("0000", Flakiness(4, 0, 0.0, 0)),
        ("1010", Flakiness(4, 2, 2 / 3, 0)),
        ("0011", Flakiness(4, 2, 2 / 3, 2)),
        ("x1x", Flakiness(1, 1, None, 1)),
        ("", Flakiness(0, 0, None, 0)),
    ],
)
def test_the_flip_rate_of_a_case(text: str, expected: Flakiness) -> None:
    assert measure_flakiness([RUNS[each] for each in text]) == expected
