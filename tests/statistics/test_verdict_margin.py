"""The margin of a verdict: the change that is named turns the verdict, and a smaller one does not."""

import pytest

from evalgate.core.types import Margin
from evalgate.statistics.metric_decisions import MetricDecision, decide_without_follow_ups
from evalgate.statistics.parameters import MetricRule, Parameters, PassKRule
from tests.statistics.suites import metric, suite

TEN = "1" * 10


def decided(failing: int, rule: MetricRule | None = None, size: int = 20) -> MetricDecision:
    names = [f"c{index}" for index in range(size)]
    candidate = {name: "000" if index < failing else "111" for index, name in enumerate(names)}
    return decide_without_follow_ups(
        {"m": metric(dict.fromkeys(names, TEN), candidate, rule)}, Parameters(runs=3)
    ).metrics["m"]


def test_a_pass_tells_how_many_failed_runs_would_have_ended_it() -> None:
    """3 of 60 runs are 5 points."""
    flip = decided(0).flip

    assert flip is not None
    assert [flip.limit, flip.distance] == pytest.approx([0.95, 0.05])
    assert flip.runs == 3


def test_a_fail_tells_how_many_passed_runs_would_have_lifted_it() -> None:
    found = decided(4)

    assert found.reason == "average_fell"
    assert found.flip is not None
    assert found.flip.distance == pytest.approx(0.15)
    assert found.flip.runs == 9


def test_the_named_number_of_runs_turns_the_verdict_and_one_less_does_not() -> None:
    turned = decide_without_follow_ups({"m": suite(20, TEN, "111", c0="000")}, Parameters(runs=3)).metrics[
        "m"
    ]
    nearly = decide_without_follow_ups({"m": suite(20, TEN, "111", c0="001")}, Parameters(runs=3)).metrics[
        "m"
    ]

    assert turned.verdict == "fail"
    assert nearly.verdict == "pass"


def test_a_minimum_has_its_own_distance() -> None:
    rule = MetricRule(max_drop=None, min_score=0.9)
    short, met = decided(4, rule).flip, decided(0, rule).flip

    assert short is not None
    assert met is not None
    assert [short.limit, short.distance] == pytest.approx([0.9, 0.1])
    assert met.distance == pytest.approx(0.1)
    assert (short.runs, met.runs) == (6, 6)


def test_reliability_has_a_distance_alone() -> None:
    found = decided(4, MetricRule(max_drop=None, reliability=PassKRule(3, 0.9)))

    assert found.flip is not None
    assert (found.flip.limit, found.flip.runs) == (0.9, None)
    assert found.flip.distance == pytest.approx(0.1)


def test_what_hangs_on_proof_or_data_has_no_such_number() -> None:
    assert decided(0, MetricRule(require="proof"), size=5).flip is None
    assert (
        decide_without_follow_ups({"m": metric({}, {"a": "1"})}, Parameters(runs=1)).metrics["m"].flip is None
    )


@pytest.mark.parametrize(
    "rule",
    [
        MetricRule(max_drop=None, min_score=0.7, require="proof"),
        MetricRule(max_drop=None, reliability=PassKRule(3, 0.7), require="proof"),
    ],
)
def test_a_limit_that_is_reached_but_not_proven_has_no_such_number(rule: MetricRule) -> None:
    found = decided(1, rule, size=5)

    assert found.verdict == "inconclusive"
    assert found.flip is None


def test_a_limit_below_every_score_cannot_be_reached() -> None:
    flip = decided(0, MetricRule(max_drop=1.0)).flip

    assert flip is not None
    assert flip.runs == 60
    assert decided(0, MetricRule(max_drop=0.0)).flip == Margin(1.0, 0.0, None)
