"""Notices about judges that cause most of the variance between runs."""

import random
from dataclasses import replace

from evalgate.core.types import CaseResult, ModelUsage, RunMetric, TurnMetric
from evalgate.metrics.judge_noise import describe_judge_noise
from tests.builders import a_case_result, a_run_result, a_turn_result


def _judged_case(
    number: int,
    rng: random.Random,
    *,
    agent: float,
    judge: float,
    cached: bool = False,
    confirms: bool = False,
) -> CaseResult:
    runs = []
    for run in range(1, 4):
        level = 0.5 + agent * rng.choice((-0.5, 0.5))
        rows = [
            {"sample": sample, "score": level + judge * rng.choice((-0.5, 0.5)), "cached": cached}
            for sample in range(1, 6)
        ]
        details = {"samples": (*rows, {"sample": 6, "score": None, "failure": "outage"})}
        turn = a_turn_result(metrics=(TurnMetric("quality", 0.5, "passed", details=details),))
        plain = RunMetric("length", 0.5, "passed")
        made = a_run_result(turn, run=run, metrics=(plain,))
        runs.append(replace(made, judge=ModelUsage(), confirms=confirms and run > 1))
    return a_case_result(f"case{number}", runs=tuple(runs))


def _describe(agent: float, judge: float, cases: int = 30, **more: bool) -> list[str]:
    rng = random.Random(3)
    made = [_judged_case(number, rng, agent=agent, judge=judge, **more) for number in range(cases)]
    return list(describe_judge_noise(made))


def test_a_judge_that_causes_most_of_the_variance_is_named() -> None:
    (sentence,) = _describe(agent=0.1, judge=0.8)
    assert sentence.startswith("quality: the judge causes ")
    assert "30 cases): it scores the same answer differently." in sentence
    assert "(10 instead of 5) would leave about " in sentence


def test_a_noisy_agent_few_cases_and_cached_answers_give_no_notice() -> None:
    assert _describe(agent=0.8, judge=0.2) == []
    assert _describe(agent=0.1, judge=0.8, cases=11) == []
    assert _describe(agent=0.1, judge=0.8, cached=True) == []
    assert _describe(agent=0.1, judge=0.8, confirms=True) == []
