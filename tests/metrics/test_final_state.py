"""`final_session_state`."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from evalgate.core.protocols import MetricContext
from evalgate.core.types import (
    CaseRun,
    Criterion,
    JsonObject,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
)
from evalgate.metrics.final_state import FinalSessionState
from tests.builders import a_case, a_reply


async def judged(expected: JsonObject | None, actual: JsonObject | None) -> MetricResult:
    case = replace(a_case(), final_state=expected)
    return await FinalSessionState().score(case, CaseRun(1, "answered", (a_reply(),), final_state=actual))


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"city": "Paris"}, {"city": "Paris", "temp": 3}),
        ({"n": 1}, {"n": 1.0}),
        ({"cart": {"items": [{"a": 1, "b": 2}]}}, {"cart": {"items": [{"b": 2, "a": 1}]}}),
        ({"x": None}, {"x": None}),
    ],
)
async def test_a_state_that_holds_what_is_expected(expected: JsonObject, actual: JsonObject) -> None:
    assert await judged(expected, actual) == MetricScore(1.0)


@pytest.mark.parametrize(
    ("expected", "actual", "reason"),
    [
        ({"a": 1, "city": "Paris"}, {"a": 1, "city": "Rome"}, 'state `city`: expected "Paris", got "Rome"'),
        ({"done": True}, {}, "state `done`: expected true, but the key is missing"),
        ({"x": None}, {}, "state `x`: expected null, but the key is missing"),
        ({"list": [1, 2]}, {"list": [2, 1]}, "state `list`: expected [1, 2], got [2, 1]"),
        ({"n": "1"}, {"n": 1}, 'state `n`: expected "1", got 1'),
        ({"n": 1}, None, "the agent reported no session state"),
    ],
)
async def test_the_first_difference_is_named(
    expected: JsonObject, actual: JsonObject | None, reason: str
) -> None:
    assert await judged(expected, actual) == MetricScore(0.0, reason=reason)


async def test_a_long_value_is_cut() -> None:
    result = await judged({"k": "x" * 1000}, {"k": "y" * 1000})

    assert isinstance(result, MetricScore)
    assert len(result.reason) < 250


async def test_a_case_that_expects_no_state_is_not_judged() -> None:
    assert await judged(None, {"n": 1}) == NotApplicable("the case expects no final session state")


async def test_a_state_without_bottom_fails_the_metric_and_nothing_else() -> None:
    def deep() -> JsonObject:
        state: JsonObject = {}
        for _ in range(100_000):
            state = {"a": state}
        return state

    assert await judged(deep(), deep()) == MetricFailure(
        "the session state is nested too deep to be compared"
    )


def test_it_has_no_options() -> None:
    with pytest.raises(ValidationError):
        FinalSessionState.build(Criterion("m", 1.0, {"deep": True}), MetricContext((2, 13)))
