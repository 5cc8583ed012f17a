"""Retries of failed requests."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.llm.client import ModelAnswer, ModelRequest, build_model_request
from evalgate.llm.errors import ADVICE, RETRYABLE_FAILURES, FailureKind, JudgeError
from evalgate.llm.retrying import RetryingModel
from evalgate.system.throttling.backoff import RetryPolicy, parse_retry_after
from tests.llm.fakes import FakeTime, ScriptedModel, Turn, answered, failed

WALL = 1_795_000_000.0  # 2026-11-18 11:06:40 UTC


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Wed, 18 Nov 2026 11:07:00 GMT"}, 20.0),
        ({"retry-after": "Wed, 18 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 99 Nov 2026 11:00:00 GMT"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
    ],
)
def test_what_the_provider_wants(headers: dict[str, str], pause: float | None) -> None:
    assert parse_retry_after(headers, WALL) == pause


@given(
    st.integers(1, 10**6), st.floats(0, 1, exclude_max=True), st.none() | st.floats(0, 10**6, allow_nan=False)
)
def test_pauses_are_bounded_and_never_shorter_than_wanted(
    attempt: int, chance: float, wanted: float | None
) -> None:
    policy = RetryPolicy(first_pause=1, longest_pause=60)
    pause = policy.compute_delay(attempt, chance, wanted)

    assert pause >= (wanted or 0)
    assert 0.5 <= pause <= max(60, wanted or 0)
    assert policy.compute_delay(attempt + 1, chance) >= policy.compute_delay(attempt, chance)


async def asked(policy: RetryPolicy, *turns: Turn) -> tuple[str | JudgeError, list[float], int]:
    time, inner = FakeTime(), ScriptedModel(*turns)
    model = RetryingModel(inner, policy, time.clock, chance=lambda: 0.5)
    try:
        found: str | JudgeError = (await model.ask(build_model_request("?"))).text
    except JudgeError as failure:
        found = failure
    return found, time.slept, len(inner.requests)


DOWN = failed("outage", "it is down")


@pytest.mark.parametrize(
    ("policy", "turns", "slept"),
    [
        (RetryPolicy(), ["yes"], []),
        (RetryPolicy(), [DOWN, "yes"], [0.75]),
        (RetryPolicy(), [DOWN, DOWN, DOWN, DOWN, "yes"], [0.75, 1.5, 3.0, 6.0]),
        (RetryPolicy(), [failed("rate_limited", retry_after=7), "yes"], [7]),
        (RetryPolicy(), [failed("rate_limited", retry_after=0.1), "yes"], [0.75]),
        (RetryPolicy(longest_pause=2), [DOWN, DOWN, DOWN, "yes"], [0.75, 1.5, 1.5]),
        (RetryPolicy(give_up_after=7), [failed("rate_limited", retry_after=7), "yes"], [7]),
    ],
)
async def test_an_answer_in_the_end(policy: RetryPolicy, turns: list[Turn], slept: list[float]) -> None:
    assert await asked(policy, *turns) == ("yes", slept, len(turns))


@pytest.mark.parametrize(
    ("policy", "turns", "message"),
    [
        (RetryPolicy(retries=0), [DOWN], "it is down"),
        (RetryPolicy(retries=2), [DOWN, DOWN, failed("rate_limited", "busy")], "busy (asked 3 times)"),
        (RetryPolicy(give_up_after=2), [DOWN, DOWN, DOWN], "it is down (asked 2 times)"),
        (RetryPolicy(give_up_after=6), [failed("rate_limited", "busy", retry_after=7)], "busy"),
    ],
)
async def test_there_is_an_end(policy: RetryPolicy, turns: list[Turn], message: str) -> None:
    found, slept, times = await asked(policy, *turns)

    assert isinstance(found, JudgeError)
    assert found.message == message
    assert found.attempts == times == len(slept) + 1


@pytest.mark.parametrize("kind", sorted(set(ADVICE) - RETRYABLE_FAILURES))
async def test_what_will_not_pass_is_not_asked_again(kind: FailureKind) -> None:
    found, slept, times = await asked(RetryPolicy(), failed(kind), answered("yes"))

    assert isinstance(found, JudgeError)
    assert (found.kind, slept, times) == (kind, [], 1)
    assert ADVICE[kind] in str(found)


async def test_waiting_for_a_turn_is_no_reason_to_give_up() -> None:
    time, inner = FakeTime(), ScriptedModel(DOWN, DOWN, "yes")

    class Queue:
        async def ask(self, request: ModelRequest) -> ModelAnswer:
            await time.sleep(1000)
            return await inner.ask(request)

    model = RetryingModel(Queue(), RetryPolicy(give_up_after=5), time.clock, chance=lambda: 0.0)

    assert (await model.ask(build_model_request("?"))).text == "yes"
    assert time.slept == [1000, 0.5, 1000, 1.0, 1000]
