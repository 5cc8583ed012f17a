"""Estimates of a run's duration and cost from the runs of the baseline."""

from collections.abc import Mapping

import pytest

from evalgate.baselines.serialization import dump_baseline, load_baseline
from evalgate.config.schema.budgets import Budget
from evalgate.config.token_prices import Tokens
from evalgate.core.types import Baseline, BaselineCase, BaselineRun, BaselineSource, Usage
from evalgate.documents.strict_json import parse_json
from evalgate.llm.usage import MeteredUsage
from evalgate.runner.cost_estimate import (
    CostEstimate,
    UsageEstimate,
    describe_estimate,
    estimate_cost,
    find_changed_judged_metrics,
)

SOURCE = BaselineSource("2026-11-20T00:00:00+00:00", "1a2b3c4d5e6f", "main")


def a_run(
    usage: Usage | None = None, judge: Usage | None = None, user: Usage | None = None, seconds: float = 2.0
) -> BaselineRun:
    return BaselineRun(0, "answered", {"m": 1.0}, seconds, usage, user, judge)


def a_baseline(prints: Mapping[str, str] | None = None, **cases: list[BaselineRun]) -> Baseline:
    return Baseline(
        tuple(
            BaselineCase("s", name, "passed", "f", prints or {"m": "1-a"}, tuple(runs))
            for name, runs in cases.items()
        ),
        (SOURCE,),
    )


BASELINE = a_baseline(
    tea=[
        a_run(Usage(100, 20, 0.5), Usage(1000, 200, 0.25)),
        a_run(Usage(300, 60, 1.5), Usage(1000, 200, 0.75)),
    ],
    cake=[a_run(Usage(1000, 0, 2.0), None, Usage(10, 10, 0.125), seconds=6.0)],
)


def wanted(**runs: int) -> dict[tuple[str, str], int]:
    return {("s", name): number for name, number in runs.items()}


def an_estimate(baseline: Baseline = BASELINE, concurrency: int = 2, **runs: int) -> CostEstimate:
    found = estimate_cost(wanted(**runs), baseline, concurrency)
    assert found is not None
    return found


def test_each_case_counts_as_often_as_it_will_be_run() -> None:
    assert an_estimate(tea=10, cake=1) == CostEstimate(
        runs=11,
        agent=UsageEstimate(10 * 240 + 1000, 10 * 1.0 + 2.0),
        judges=UsageEstimate(12_000, 5.0),
        users=UsageEstimate(20, 0.125),
        seconds=(10 * 2 + 6) / 2,
        source="main@1a2b3c4",
    )


def test_a_case_that_is_new_is_as_the_others_on_average() -> None:
    found = an_estimate(tea=1, cake=1, milk=2)

    assert found.cases_without_stored_runs == 1
    assert found.agent == UsageEstimate(240 + 1000 + 2 * 620, 1 + 2 + 2 * 1.5)
    assert found.judges == UsageEstimate(1200 + 2 * 600, 0.5 + 2 * 0.25)


def test_nobody_waits_less_than_for_the_longest_case() -> None:
    assert an_estimate(concurrency=100, tea=3, cake=1).seconds == 6.0


@pytest.mark.parametrize("runs", [{}, {"milk": 3}])
def test_without_a_known_case_nothing_is_guessed(runs: Mapping[str, int]) -> None:
    assert estimate_cost(wanted(**runs), BASELINE, 4) is None


def test_a_judge_that_is_another_one_is_named() -> None:
    judged = {("s", "tea"): {"m": "1-b", "new": "2-a"}, ("s", "milk"): {"x": "3-a"}}

    assert find_changed_judged_metrics(judged, BASELINE, wanted(tea=1, milk=1)) == ("m", "new")
    assert find_changed_judged_metrics({("s", "tea"): {"m": "1-a"}}, BASELINE, wanted(tea=1)) == ()


HEAD = "Estimate: about 14 k tokens (agent 2.4 k, judges 12 k), $15.00, 10 s of conversations for 10 runs, from the usage of the baseline main@1a2b3c4."


@pytest.mark.parametrize(
    ("budget", "spent", "rest"),
    [
        (Budget(), MeteredUsage(), []),
        (Budget(usd=15.0, tokens=14_400, minutes=1), MeteredUsage(), []),
        (
            Budget(usd=14.99),
            MeteredUsage(),
            ["That is more than the budget of $14.99: the run will stop before its end, without a verdict."],
        ),
        (
            Budget(usd=15.5, tokens=15_000, minutes=0.1),
            MeteredUsage(tokens=Tokens(700), usd=1.0),
            [
                f"With what was used already that is more than the budget of {limit}: the run will stop before its end, without a verdict."
                for limit in ("$15.50", "15,000 tokens", "0.1 minutes")
            ],
        ),
    ],
)
def test_a_budget_that_will_not_do_is_told(budget: Budget, spent: MeteredUsage, rest: list[str]) -> None:
    assert list(describe_estimate(an_estimate(tea=10), budget, spent)) == [HEAD, *rest]


def test_what_cannot_be_known_is_said() -> None:
    silent = a_baseline(tea=[a_run(None, Usage(3_400_000, 0))])

    assert list(
        describe_estimate(an_estimate(silent, 1, tea=30, milk=60), Budget(), others=("m",), growth=5 / 3)
    ) == [
        "Estimate: about 310 M tokens, 3 min of conversations for 90 runs, from the usage of the baseline main@1a2b3c4.",
        "The agent did not report what it uses: that comes on top.",
        "What judging cost is not known.",
        "1 case is not in the baseline: taken for the average of the others.",
        "m was judged otherwise in the baseline, or not at all: it may cost more or less.",
        "`runs: auto` begins with these, and may come to 1.7 times as much, or more for suspects.",
    ]


def test_a_cost_that_is_known_in_part_is_a_lower_bound() -> None:
    partly = a_baseline(tea=[a_run(Usage(1000, 0, 2.0)), a_run(Usage(1000, 0, None, known_usd=1.0))])

    assert list(describe_estimate(an_estimate(partly, 1, tea=2), Budget())) == [
        "Estimate: about 2 k tokens, at least $3.00, 4 s for 2 runs, from the usage of the baseline main@1a2b3c4.",
        "What the agent cost is not known.",
    ]


def test_where_nobody_tells_of_tokens_only_a_budget_of_time_is_spoken_of() -> None:
    silent = an_estimate(a_baseline(tea=[a_run(None, seconds=90.0)]), 1, tea=90)

    assert list(describe_estimate(silent, Budget(minutes=200))) == []
    assert next(describe_estimate(silent, Budget(minutes=100))).startswith(
        "Estimate: about 2.2 h for 90 runs, from the usage"
    )


def test_a_baseline_keeps_what_users_and_judges_took_and_nothing_where_there_are_none() -> None:
    text = dump_baseline(a_baseline(tea=[a_run(None, Usage(1), Usage(2))], cake=[a_run()]))
    judged, plain = (line for line in text.splitlines() if '"eval_id"' in line)

    assert load_baseline(parse_json(text.encode(), "b.json")).cases[0].runs[0].judge_usage == Usage(1)
    assert '"user_usage": {"input_tokens": 2' in judged
    assert "user_usage" not in plain
    assert "judge_usage" not in plain
