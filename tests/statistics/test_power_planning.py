"""The power that `evalgate plan` promises is that of the gate, measured by simulation."""

import random
from collections.abc import Mapping, Sequence

import pytest

from evalgate.statistics.parameters import MetricRule, Parameters
from evalgate.statistics.power_planning import CaseNoise, DropModel, RunDesign, measure_case_noise
from evalgate.statistics.power_simulation import simulate_trials

MAX_DROP = 0.05


def draw_suite(kind: str, cases: int, stored: int) -> dict[str, list[float]]:
    """Draw stored runs: `realistic` and `typical` as docs/statistics.md defines them, `clean` always passes."""
    dice = random.Random(1)

    def choose_chance(case: int) -> float:
        if kind == "realistic":
            return 0.9 if case % 20 == 0 else 0.995
        if kind == "clean":
            return 1.0
        return 1.0 if case % 10 < 6 else 0.0 if case % 10 == 6 else dice.choice([0.5, 0.7, 0.9])

    chances = {f"case_{case}": choose_chance(case) for case in range(cases)}
    return {case: [float(dice.random() < chance) for _ in range(stored)] for case, chance in chances.items()}


def build_parameters(design: RunDesign) -> Parameters:
    runs = None if design.is_auto else design.runs
    return Parameters(averages_share=0.6, doubt=0.1, futility=0.02, runs=runs, max_runs=5, follow_up=True)


def build_model(history: Mapping[str, Sequence[float]], design: RunDesign) -> DropModel:
    noise = measure_case_noise(history, keep=20)
    return DropModel(noise, build_parameters(design), max_drop=MAX_DROP)


@pytest.mark.parametrize(
    ("kind", "cases", "stored", "design"),
    [
        ("clean", 3, 10, RunDesign(5, is_auto=True)),
        ("clean", 8, 10, RunDesign(5, is_auto=True)),
        ("clean", 20, 10, RunDesign(3)),
        ("clean", 20, 10, RunDesign(5, is_auto=True)),
        ("clean", 60, 10, RunDesign(5, is_auto=True)),
        ("typical", 5, 10, RunDesign(5, is_auto=True)),
        ("realistic", 60, 10, RunDesign(1)),
        ("realistic", 20, 5, RunDesign(5, is_auto=True)),
        ("typical", 20, 5, RunDesign(1)),
        ("typical", 60, 10, RunDesign(3)),
        ("typical", 20, 5, RunDesign(5, is_auto=True)),
    ],
)
def test_the_promised_power_is_simulated(kind: str, cases: int, stored: int, design: RunDesign) -> None:
    history = draw_suite(kind, cases, stored)
    model = build_model(history, design)

    drop = model.find_smallest_drop(design, 0.8)

    assert drop is not None
    runs = {case: [{"m": score} for score in scores] for case, scores in history.items()}
    found = simulate_trials(
        runs, {"m": MetricRule(MAX_DROP)}, build_parameters(design), drop=drop, repeats=60
    )
    # 60 trials of a power of 0.8 have a standard error of 0.052. The model may promise 0.08 too much where
    # few runs fail, and the tests of single cases, which it leaves out, find more.
    assert 0.8 - 0.08 - 2 * 0.052 <= found.failed <= 1


def test_more_runs_and_more_cases_see_smaller_drops() -> None:
    history = draw_suite("typical", 40, 10)
    model = build_model(history, RunDesign(3))

    drops = [model.find_smallest_drop(RunDesign(runs), 0.8) for runs in (1, 3, 5, 10)]
    assert drops == sorted(drops, key=lambda drop: -(drop or 0))
    assert len(set(drops)) == 4
    needed = model.find_cases(0.08, RunDesign(3), 0.8)
    assert needed is not None
    assert model.compute_power(0.08, RunDesign(3), needed) >= 0.8
    assert model.compute_power(0.08, RunDesign(3), needed - 1) < 0.8


def test_auto_never_sees_more_than_all_of_its_rounds() -> None:
    model = build_model(draw_suite("typical", 40, 10), RunDesign(5, is_auto=True))

    for drop in (0.06, 0.1, 0.15):
        # 2,000 trials have a standard error of at most 0.011; interim looks find a little more by luck.
        most = model.compute_power(drop, RunDesign(5)) + 0.05
        assert model.compute_power(drop, RunDesign(5, is_auto=True)) <= most


def test_a_drop_that_is_allowed_is_not_caught() -> None:
    model = build_model(draw_suite("typical", 40, 10), RunDesign(5))

    assert model.find_cases(MAX_DROP, RunDesign(5), 0.8) is None
    assert model.compute_power(MAX_DROP, RunDesign(5), 100_000) == pytest.approx(0.5, abs=0.01)


def test_what_cannot_fall_cannot_be_caught() -> None:
    model = build_model({"a": [0.0, 0.0], "b": [0.0]}, RunDesign(3))

    assert model.find_smallest_drop(RunDesign(3), 0.8) is None
    assert model.compute_power(0.5, RunDesign(3)) == 0.0


def test_noise_of_single_runs_is_that_of_the_suite() -> None:
    noise = measure_case_noise({"a": [1.0], "b": [0.0, 1.0, 0.0, 1.0], "c": [None]}, keep=2)

    assert noise == (CaseNoise(0.75, 0.1875, 1), CaseNoise(0.5, 0.5, 2))
    assert measure_case_noise({"a": []}, keep=2) == ()
