"""How often the runs of a case disagree."""

import pytest

from evalgate.baselines.flakiness import Flakiness, measure_flakiness, score_run_pass
from evalgate.core.types import BaselineRun

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


def test_what_passes_is_a_matter_of_the_score() -> None:
    runs = [BaselineRun(0, "answered", {"response_match_score": score}, 1.0) for score in (0.8, 0.7)]
    assert measure_flakiness([score_run_pass(run, {}, 0.75) for run in runs]).passed == 1
