"""How many failures are no luck, next to brute force over flaky suites."""

import random

import pytest

from evalgate.statistics.case_regression import (
    BreakageCriteria,
    StoredOutcomes,
    estimate_flaky,
    find_breakage_criteria,
)


@pytest.mark.parametrize(
    ("baseline_runs", "flaky", "most", "expected"),
    [
        pytest.param(20, 1.0, 10, BreakageCriteria(3, 4), id="deep"),
        pytest.param(3, 1.0, 10, BreakageCriteria(3, 5), id="three runs"),
        pytest.param(3, 7.0, 10, BreakageCriteria(5, 9), id="20 flaky"),
        pytest.param(3, 25.0, 10, BreakageCriteria(8, 13), id="60 flaky"),
        pytest.param(3, 80.0, 10, BreakageCriteria(10, 17), id="200 flaky"),
        pytest.param(1, 1.0, 10, BreakageCriteria(7, 12), id="one run"),
        pytest.param(1, 7.0, 10, BreakageCriteria(10, None), id="one run, flaky"),
        pytest.param(3, 9.0, 3, BreakageCriteria(3, None), id="few allowed"),
        pytest.param(20, 1.0, 1, BreakageCriteria(1, None), id="one allowed"),
    ],
)
def test_what_a_case_must_show(
    baseline_runs: int, flaky: float, most: int, expected: BreakageCriteria
) -> None:
    assert find_breakage_criteria(baseline_runs, flaky, most=most) == expected


@pytest.mark.parametrize(
    ("runs", "needs", "expected"),
    [
        ("F", BreakageCriteria(3, 5), "open"),
        ("FFF", BreakageCriteria(3, 5), "broke"),
        ("FP", BreakageCriteria(3, 5), "open"),
        ("FPFF", BreakageCriteria(3, 5), "open"),
        ("FPFFF", BreakageCriteria(3, 5), "broke"),
        ("PFFFF", BreakageCriteria(3, 5), "broke"),
        ("FPFP", BreakageCriteria(3, 5), "flake"),
        ("FFFPPPP", BreakageCriteria(3, 5), "broke"),
        ("FPFPFFFFFF", BreakageCriteria(3, 5), "flake"),
        ("FP", BreakageCriteria(3, None), "flake"),
        ("FF", BreakageCriteria(3, None), "open"),
        ("FFF", BreakageCriteria(3, None), "broke"),
    ],
)
def test_what_runs_say(runs: str, needs: BreakageCriteria, expected: str) -> None:
    assert needs.classify_runs([each == "F" for each in runs]) == expected


@pytest.mark.parametrize("stored", [3, 5, 10, 20])
@pytest.mark.parametrize("cases", [20, 60, 200])
@pytest.mark.parametrize("share_flaky", [0.1, 0.3])
def test_a_broken_case_is_found_although_it_passes_2_runs_of_100(
    stored: int, cases: int, share_flaky: float
) -> None:
    needs = find_breakage_criteria(stored, 1 + share_flaky * cases, most=10)
    dice = random.Random(f"{stored}/{cases}")
    found = sum(
        needs.classify_runs([dice.random() > 0.02 for _ in range(20)]) == "broke" for _ in range(2_000)
    )
    assert found / 2_000 >= 0.95


def test_flaky_cases_are_estimated_from_those_that_show_it() -> None:
    steady, flaky, failing, single = (
        StoredOutcomes(3, 0),
        StoredOutcomes(3, 1),
        StoredOutcomes(3, 3),
        StoredOutcomes(1, 0),
    )
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
    repeats = 600
    alarms = sum(_looks_broken(chances, stored, dice) for _ in range(repeats))
    assert alarms / repeats <= 0.05


def _looks_broken(chances: list[float], stored: int, dice: random.Random) -> bool:
    baselines = [StoredOutcomes(stored, sum(dice.random() > p for _ in range(stored))) for p in chances]
    needs = find_breakage_criteria(stored, estimate_flaky(baselines), most=10)
    return any(
        needs.classify_runs([dice.random() > p for _ in range(20)]) == "broke"
        for p, before in zip(chances, baselines, strict=True)
        if not before.failed
    )
