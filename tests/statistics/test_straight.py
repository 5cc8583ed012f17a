"""How many failures in a row are no luck, beside brute force over flaky suites."""

import random

import pytest

from evalgate.statistics.straight import History, count_needed_misses, estimate_flaky


@pytest.mark.parametrize(
    ("baseline_runs", "flaky", "most", "expected"),
    [
        (20, 1.0, 10, 3),
        (3, 1.0, 10, 3),
        (3, 9.0, 10, 4),
        (3, 25.0, 10, 6),
        (1, 1.0, 10, 4),
        (1, 7.0, 10, 10),
        (3, 9.0, 3, 3),
        (20, 1.0, 1, 1),
    ],
    ids=["deep", "three runs", "20 flaky", "60 flaky", "one run", "one run, flaky", "few allowed", "one allowed"],
)  # fmt: skip
def test_needed_misses(baseline_runs: int, flaky: float, most: int, expected: int) -> None:
    assert count_needed_misses(baseline_runs, flaky, most=most) == expected


def test_flaky_cases_are_estimated_from_those_that_show_it() -> None:
    steady, flaky, failing, single = History(3, 0), History(3, 1), History(3, 3), History(1, 0)
    assert estimate_flaky([steady] * 50) == 1
    assert estimate_flaky([failing, steady]) == 1
    assert estimate_flaky([flaky] * 4) == pytest.approx(9)
    assert estimate_flaky([single] * 10) == pytest.approx(4)


@pytest.mark.parametrize("stored", [3, 5, 10, 20])
@pytest.mark.parametrize("cases", [5, 20, 60, 200])
@pytest.mark.parametrize("flaky_share", [0.05, 1.0], ids=["few flaky", "all flaky"])
def test_flaky_cases_hardly_ever_look_broken(stored: int, cases: int, flaky_share: float) -> None:
    """Clean changes: cases that pass 9 times in 10, the others 99.5 times in 100."""
    dice = random.Random(f"{stored}/{cases}")
    flaky = max(1, round(cases * flaky_share))
    chances = [0.9] * flaky + [0.995] * (cases - flaky)
    repeats = 300
    alarms = sum(_looks_broken(chances, stored, dice) for _ in range(repeats))
    assert alarms / repeats <= 0.05


def _looks_broken(chances: list[float], stored: int, dice: random.Random) -> bool:
    baselines = [History(stored, sum(dice.random() > p for _ in range(stored))) for p in chances]
    need = count_needed_misses(stored, estimate_flaky(baselines), most=10)
    return any(
        all(dice.random() > p for _ in range(need))
        for p, before in zip(chances, baselines, strict=True)
        if not before.failed
    )
