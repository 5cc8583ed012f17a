"""The simulated gate, detectable drops, and flakiness."""

from evalgate.statistics.parameters import MetricRule, Parameters
from evalgate.statistics.power_simulation import (
    StoredRun,
    estimate_detectable_drops,
    measure_gate_sensitivity,
    simulate_procedure,
    simulate_trials,
)
from tests.statistics.suites import runs

RULES = {"m": MetricRule()}


def history(size: int, text: str) -> dict[str, list[StoredRun]]:
    return {f"c{index}": [{"m": score} for score in runs(text)] for index in range(size)}


def test_an_agent_that_never_changes_its_mind_never_alarms() -> None:
    found = simulate_trials(history(10, "1" * 10), RULES, Parameters(), repeats=20)

    assert (found.failed, found.inconclusive, found.runs_per_case) == (0, 0, 1)


def test_a_collapse_is_always_caught() -> None:
    assert simulate_trials(history(10, "1" * 10), RULES, Parameters(), drop=1.0, repeats=20).failed == 1


def test_the_same_seed_gives_the_same_figures() -> None:
    stored = history(10, "1110110111")
    first = simulate_trials(stored, RULES, Parameters(), repeats=30, seed=5)

    assert simulate_trials(stored, RULES, Parameters(), repeats=30, seed=5) == first
    assert simulate_trials(stored, RULES, Parameters(), repeats=30, seed=6) != first


def test_a_larger_suite_catches_smaller_drops() -> None:
    small = measure_gate_sensitivity(history(6, "1111111101"), RULES, Parameters(), repeats=40)
    large = measure_gate_sensitivity(history(30, "1111111101"), RULES, Parameters(), repeats=40)

    assert small.smallest_drop is not None
    assert large.smallest_drop is not None
    assert 0.05 < large.smallest_drop < small.smallest_drop
    assert large.unchanged.failed <= 0.2


def test_what_cannot_fall_cannot_be_caught() -> None:
    assert (
        measure_gate_sensitivity(history(5, "0000000000"), RULES, Parameters(), repeats=5).smallest_drop
        is None
    )


def test_fixed_runs_are_played_as_such() -> None:
    found = simulate_trials(history(10, "1" * 10), RULES, Parameters(runs=3), repeats=5)

    assert found.runs_per_case == 3


def test_suspects_of_fixed_runs_are_followed_up_as_the_gate_does() -> None:
    stored = history(40, "1" * 10)
    found = {
        follow_up: simulate_procedure(
            ["m"],
            RULES,
            stored,
            lambda case: {"m": float(case != "c0")},
            Parameters(runs=3, follow_up=follow_up),
        )
        for follow_up in (False, True)
    }

    assert found[False].verdict == "pass"
    assert found[False].runs_per_case["c0"] == 3
    assert found[True].verdict == "fail"
    assert found[True].runs_per_case["c0"] > 3


def test_cases_without_stored_runs_are_left_out() -> None:
    found = measure_gate_sensitivity(history(5, "1" * 10) | {"new": []}, RULES, Parameters(), repeats=5)

    assert found.unchanged.runs_per_case == 1


def test_a_mean_that_equals_the_case_drop_but_for_its_last_digits_is_not_left_out() -> None:
    """The gate takes a mean of two thirds for 0.6666666667, so a case with this mean can break."""
    for case_drop in (0.6666666666, 0.6666666667):
        parameters = Parameters(case_drop=case_drop)
        found = estimate_detectable_drops({"m": {"case": [1.0, 1.0, 0.0]}}, parameters, {"m": 0.05})
        assert found["m"].unconfirmable == {"case": 4}
