"""Rate limits of a provider: waiting before requests and after refusals."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.config.token_prices import Tokens
from evalgate.llm.client import ModelAnswer, ModelRequest, build_model_request
from evalgate.llm.errors import JudgeError
from evalgate.llm.rate_limiting import EndpointLimiter, LimitedModel, estimate_tokens
from evalgate.system.throttling.rate_limiter import MINUTE, Admission, RateLimiter
from tests.llm.fakes import FakeTime, ScriptedModel, answered, failed

LIMITS = st.none() | st.integers(1, 20)
REQUESTS = st.lists(st.tuples(st.integers(0, 30), st.floats(0, 90), st.integers(0, 40)), max_size=40)


@given(LIMITS, st.none() | st.integers(1, 60), REQUESTS)
def test_no_minute_has_more_than_it_may(
    requests: int | None, tokens: int | None, asked: list[tuple[int, float, int]]
) -> None:
    limiter, now, admitted = RateLimiter(requests, tokens), 0.0, list[Admission]()
    for wanted, pause, used in asked:
        now += pause
        wait = limiter.compute_wait(wanted, now)
        assert 0 <= wait <= MINUTE + 1e-9  # a difference of clock readings
        now += wait
        again = limiter.compute_wait(wanted, now)
        assert again <= 1e-6, "who waited as told may go"
        now += again
        minute = [each for each in admitted if each.at + MINUTE > now]
        assert requests is None or len(minute) < requests
        in_minute = sum(each.tokens for each in minute)
        if tokens is not None:
            assert in_minute + wanted <= tokens or in_minute == 0
        admitted.append(limiter.admit_request(wanted, now))
        limiter.settle_tokens(admitted[-1], min(used, wanted))


@given(REQUESTS)
def test_without_limits_nobody_waits(asked: list[tuple[int, float, int]]) -> None:
    limiter = RateLimiter()
    for wanted, _, _ in asked:
        assert limiter.compute_wait(wanted, 5.0) == 0
        limiter.admit_request(wanted, 5.0)


@pytest.mark.parametrize(
    ("limiter", "before", "tokens", "now", "wait"),
    [
        (RateLimiter(2), [(0, 1), (10, 1)], 1, 20, 40),
        (RateLimiter(2), [(0, 1), (10, 1)], 1, 60, 0),
        (RateLimiter(None, 100), [(0, 60), (10, 30)], 10, 20, 0),
        (RateLimiter(None, 100), [(0, 60), (10, 30)], 11, 20, 40),
        (RateLimiter(None, 100), [(0, 60), (10, 30)], 71, 20, 50),
        (RateLimiter(None, 100), [], 500, 20, 0),
        (RateLimiter(None, 100), [(0, 1)], 500, 20, 40),
        (RateLimiter(3, 100), [(0, 99), (1, 1), (2, 0)], 1, 20, 40),
    ],
)
def test_waits(
    limiter: RateLimiter, before: list[tuple[float, int]], tokens: int, now: float, wait: float
) -> None:
    for at, used in before:
        limiter.admit_request(used, at)

    assert limiter.compute_wait(tokens, now) == wait


def test_a_held_limiter_lets_nobody_through() -> None:
    limiter = RateLimiter()
    limiter.pause_until(30)
    limiter.pause_until(20)

    assert limiter.compute_wait(1, 10) == 20
    assert limiter.compute_wait(1, 30) == 0


async def test_at_most_so_many_at_the_same_time() -> None:
    under_way = most = 0

    class Busy:
        async def ask(self, request: ModelRequest) -> ModelAnswer:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            under_way -= 1
            return answered("yes")

    turnstile = EndpointLimiter(RateLimiter(), concurrency=3, longest_hold=9)
    model = LimitedModel(Busy(), turnstile)
    await asyncio.gather(*(model.ask(build_model_request(str(number))) for number in range(10)))

    assert (under_way, most) == (0, 3)


async def test_requests_wait_for_their_minute() -> None:
    time = FakeTime()
    inner = ScriptedModel(script=lambda _: "yes")
    turnstile = EndpointLimiter(RateLimiter(requests=2), concurrency=9, longest_hold=9, clock=time.clock)
    model = LimitedModel(inner, turnstile)
    await asyncio.gather(*(model.ask(build_model_request(str(number))) for number in range(5)))

    assert time.slept == [60, 60]
    assert [request.messages[0].text for request in inner.requests] == ["0", "1", "2", "3", "4"]


async def test_what_was_used_counts_rather_than_what_was_guessed() -> None:
    time = FakeTime()
    inner = ScriptedModel(answered("yes", 10, 10), failed("refused"), answered("yes"), answered("yes"))
    asked = build_model_request("x" * 400)
    guess = estimate_tokens(asked)
    limiter = RateLimiter(tokens=guess + 40)
    model = LimitedModel(inner, EndpointLimiter(limiter, concurrency=9, longest_hold=9, clock=time.clock))
    await model.ask(asked)
    with pytest.raises(JudgeError):
        await model.ask(asked)

    assert time.slept == [], "20 tokens leave room for the guess"
    await model.ask(asked)
    assert time.slept == [60], "a failure that tells no tokens counts as guessed"


async def test_who_must_not_be_asked_any_more_is_told_before_and_after_waiting() -> None:
    time, inner = FakeTime(), ScriptedModel("yes", "no")
    turnstile = EndpointLimiter(RateLimiter(requests=1), concurrency=1, longest_hold=9, clock=time.clock)

    def check_allowed() -> None:
        if time.slept:
            raise failed("budget_spent")

    model = LimitedModel(inner, turnstile, check_allowed)
    await model.ask(build_model_request("?"))
    for _ in range(2):
        with pytest.raises(JudgeError, match="it broke"):
            await model.ask(build_model_request("?"))

    assert len(inner.requests) == 1
    assert time.slept == [60], "only the first waits in vain"


async def test_everyone_pauses_when_the_provider_wants_it() -> None:
    time = FakeTime()
    inner = ScriptedModel(
        failed("rate_limited", retry_after=7), "yes", failed("outage", retry_after=999), "yes"
    )
    turnstile = EndpointLimiter(RateLimiter(), concurrency=9, longest_hold=300, clock=time.clock)
    one, other = LimitedModel(inner, turnstile), LimitedModel(inner, turnstile)
    with pytest.raises(JudgeError):
        await one.ask(build_model_request("?"))
    await other.ask(build_model_request("?"))
    with pytest.raises(JudgeError):
        await one.ask(build_model_request("?"))
    await other.ask(build_model_request("?"))

    assert time.slept == [7], "nobody waits a quarter of an hour because one was told to"


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [("", {}, 501), ("x" * 40, {"max_tokens": 20}, 31), ("x", {"max_tokens": 9999}, 501)],
)
def test_a_guess_before_the_answer(text: str, more: dict[str, Any], expected: int) -> None:
    assert estimate_tokens(build_model_request(text, **more)) == expected


def test_the_answers_tokens_are_all_of_them() -> None:
    assert Tokens(3, 4, cached_input=2).total == 7
