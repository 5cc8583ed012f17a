"""The judge's share of the variance between runs: by hand, and against simulated judges with a known share."""

import random

import pytest

from evalgate.statistics.judge_noise import (
    FEWEST_CASES,
    CaseVariance,
    decompose_case,
    estimate_judge_share,
)


def test_a_case_is_decomposed_as_by_hand() -> None:
    # Averages 0.5 and 1; the first varies by 0.5 between samples, by 0.25 as an average of two.
    question = [(1.0, 0.0), (1.0, 1.0)]
    once = decompose_case([question])
    assert (once.total, once.judge) == pytest.approx((0.125, 0.125))
    assert decompose_case([[*question, (1.0,)], [(0.0, 1.0)], []]) == once
    twice = decompose_case([question, question])
    assert (twice.total, twice.judge) == pytest.approx((0.25, 0.25))


def test_few_cases_and_equal_scores_give_no_estimate() -> None:
    varying = CaseVariance(0.2, 0.1)
    assert estimate_judge_share([varying] * (FEWEST_CASES - 1) + [CaseVariance(0.0, 0.0)] * 50) is None
    assert estimate_judge_share([CaseVariance(0.0, 0.1)] * 20) is None
    found = estimate_judge_share([varying] * FEWEST_CASES)
    assert found is not None
    assert (found.value, found.low, found.high, found.cases) == pytest.approx((0.5, 0.5, 0.5, FEWEST_CASES))


@pytest.mark.parametrize(("agent", "judge"), [(0.2, 0.2), (0.1, 0.4), (0.0, 0.3)])
def test_intervals_hold_the_share_of_simulated_judges(agent: float, judge: float) -> None:
    rng = random.Random(11)
    share = judge**2 / 5 / (agent**2 + judge**2 / 5)

    def simulate_case() -> CaseVariance:
        levels = [rng.gauss(0.5, agent) for _ in range(3)]
        return decompose_case([[[rng.gauss(level, judge) for _ in range(5)] for level in levels]])

    found = [estimate_judge_share([simulate_case() for _ in range(20)]) for _ in range(150)]
    held = [each for each in found if each is not None and each.low <= share <= each.high]
    assert len(held) >= 0.89 * len(found)
    average = sum(each.value for each in found if each is not None) / len(found)
    assert average == pytest.approx(share, abs=0.06 if agent else 0.12), "clipped at 1 if all is the judge's"
