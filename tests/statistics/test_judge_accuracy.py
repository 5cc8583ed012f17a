"""Accuracy of judges: published figures, an independent computation, and coverage by simulation."""

import random

import pytest

from evalgate.statistics.judge_accuracy import (
    LabelCounts,
    compute_kappa,
    correct_pass_rate,
    decide_floor,
    estimate_accuracy,
)


@pytest.mark.parametrize(
    ("table", "kappa"),
    [
        # Two readers of 50 grant proposals: the example of Wikipedia's article "Cohen's kappa".
        ((20, 5, 10, 15), 0.40),
        # The two tables there with the same agreement of 60 % and different chance agreement.
        ((45, 15, 25, 15), 0.1304),
        ((25, 35, 5, 35), 0.2593),
        ((10, 0, 0, 10), 1.0),
        ((0, 5, 5, 0), -1.0),
    ],
)
def test_kappa_of_published_tables(table: tuple[int, int, int, int], kappa: float) -> None:
    assert compute_kappa(*table) == pytest.approx(kappa, abs=5e-5)


def test_kappa_is_unknown_without_variety() -> None:
    assert compute_kappa(7, 0, 0, 0) is None
    assert compute_kappa(0, 0, 0, 0) is None


def test_pass_rate_is_corrected_by_rogan_and_gladen() -> None:
    # With 30 % true passes, TPR 0.9 and TNR 0.8, a judge passes 0.3 * 0.9 + 0.7 * 0.2 = 41 %.
    assert correct_pass_rate(0.41, 0.9, 0.8) == pytest.approx(0.3)
    assert correct_pass_rate(0.1, 0.9, 0.8) == 0.0, "a share cannot be below 0"
    assert correct_pass_rate(0.5, 0.5, 0.5) is None
    assert correct_pass_rate(0.5, 0.3, 0.6) is None


def test_rates_are_weighted_by_how_often_the_judge_passes() -> None:
    """Of 1000 answers 900 pass: 20 labels each of passes (2 wrong) and failures (4 wrong) stand for
    810 right and 90 wrong passes, 80 right and 20 wrong failures.
    """
    found = estimate_accuracy(LabelCounts(18, 2, 16, 4, all_passed=900, all_failed=100))

    assert found.tpr.value == pytest.approx(810 / 830)
    assert found.tnr.value == pytest.approx(80 / 170)
    assert found.agreement.value == pytest.approx(0.89)
    assert found.kappa.value == pytest.approx(compute_kappa(810, 90, 20, 80))
    assert found.pass_rate.value == pytest.approx(0.83)
    assert found.is_informative


def test_few_labels_leave_wide_limits_and_none_leave_no_value() -> None:
    perfect = estimate_accuracy(LabelCounts(5, 0, 5, 0, all_passed=50, all_failed=50))
    nothing = estimate_accuracy(LabelCounts(0, 0, 0, 0, all_passed=50, all_failed=50))
    one_sided = estimate_accuracy(LabelCounts(5, 0, 0, 0, all_passed=50, all_failed=50))

    assert perfect.kappa.value == 1.0 == perfect.kappa.high
    assert perfect.kappa.low < 0.7
    assert nothing.tnr.value is None
    assert nothing.tnr.low < 0.05
    assert nothing.tnr.high > 0.95
    assert one_sided.tpr.value is None, "no failed answer is labelled"


def test_a_judge_that_tells_nothing_has_no_corrected_pass_rate() -> None:
    found = estimate_accuracy(LabelCounts(5, 5, 5, 5, all_passed=50, all_failed=50))

    assert not found.is_informative
    assert found.pass_rate.value is None


def test_limits_cover_the_truth() -> None:
    """150 judges with 60 labels each: every 95 % interval covers its truth about 95 times in 100.

    With a chance of 0.95, fewer than 133 of 150 are seen once in 1,000 trials (binomial).
    """
    draw = random.Random(7)
    truth_ppv, truth_npv, truth_rate = 0.9, 0.7, 0.75
    table = (truth_rate * truth_ppv, truth_rate * 0.1, 0.25 * 0.3, 0.25 * truth_npv)
    truths = {
        "agreement": table[0] + table[3],
        "kappa": compute_kappa(*table) or 0.0,
        "tpr": table[0] / (table[0] + table[2]),
        "tnr": table[3] / (table[3] + table[1]),
        "pass_rate": table[0] + table[2],
    }
    covered = dict.fromkeys(truths, 0)
    for _ in range(150):
        all_passed = sum(draw.random() < truth_rate for _ in range(300))
        passed = sum(draw.random() < truth_ppv for _ in range(30))
        failed = sum(draw.random() < truth_npv for _ in range(30))
        counts = LabelCounts(passed, 30 - passed, failed, 30 - failed, all_passed, 300 - all_passed)
        found = estimate_accuracy(counts, draws=600)
        for name, truth in truths.items():
            estimate = getattr(found, name)
            covered[name] += estimate.low <= truth <= estimate.high

    assert {name: times for name, times in covered.items() if times < 133} == {}


def test_floor_has_three_answers() -> None:
    good = LabelCounts(95, 5, 95, 5, all_passed=500, all_failed=500)
    few = LabelCounts(10, 0, 10, 0, all_passed=500, all_failed=500)
    poor = LabelCounts(50, 50, 95, 5, all_passed=500, all_failed=500)

    assert decide_floor(good, "tnr", 0.85).answer == "met"
    assert decide_floor(poor, "tnr", 0.85).answer == "missed"
    undecided = decide_floor(few, "tnr", 0.85)
    assert undecided.answer == "undecided"
    assert undecided.further_labels is not None
    assert decide_floor(few.extend(undecided.further_labels), "tnr", 0.85).answer == "met"
    assert decide_floor(few.extend(undecided.further_labels // 2), "tnr", 0.85).answer == "undecided"


def test_no_number_of_labels_decides_a_figure_that_equals_its_floor() -> None:
    exact = LabelCounts(8, 2, 8, 2, all_passed=500, all_failed=500)
    empty = LabelCounts(0, 0, 0, 0, all_passed=5, all_failed=5)

    assert decide_floor(exact, "agreement", 0.8).further_labels is None
    assert decide_floor(empty, "kappa", 0.6).further_labels is None
    assert decide_floor(empty, "kappa", 0.6).answer == "undecided"
    assert decide_floor(empty, "kappa", 0.99).answer == "undecided", "nothing is known, and nothing missed"
