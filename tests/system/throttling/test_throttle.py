"""The throttle of a run: turns per minute, requested pauses, and the end of a run."""

import asyncio
from dataclasses import dataclass, field

import pytest

from evalgate.system.throttling.backoff import Clock
from evalgate.system.throttling.throttle import Throttle, ThrottleSettings


@dataclass
class Time:
    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def clock(self) -> Clock:
        return Clock(lambda: self.now, lambda: self.now, self.sleep)


def a_pace(time: Time, settings: ThrottleSettings) -> Throttle:
    return Throttle(settings, time.clock(), chance=lambda: 0.5)


async def test_no_more_turns_a_minute_than_are_allowed() -> None:
    time = Time()
    pace = a_pace(time, ThrottleSettings(8, requests_per_minute=3))
    waited = [await pace.wait_for_turn() for _ in range(7)]
    assert waited == [0, 0, 0, 60, 0, 0, 60]


async def test_without_a_limit_nobody_waits() -> None:
    time = Time()
    pace = a_pace(time, ThrottleSettings(8))
    assert [await pace.wait_for_turn() for _ in range(100)] == [0.0] * 100
    assert time.slept == []


async def test_no_turn_begins_before_the_pause_that_a_provider_wants_is_over() -> None:
    time = Time()
    pace = a_pace(time, ThrottleSettings(8))
    async with pace.create_slot() as place:
        pace.on_rate_limited(place, 7.0)
    assert [await pace.wait_for_turn(), await pace.wait_for_turn()] == [7.0, 0.0]


async def test_a_pause_that_nobody_would_wait_for_is_not_made() -> None:
    time = Time()
    pace = a_pace(time, ThrottleSettings(8))
    async with pace.create_slot() as place:
        pace.on_rate_limited(place, 86_400.0)
    assert await pace.wait_for_turn() == 0.0


@pytest.mark.parametrize(
    ("retries", "fault", "wanted", "pause"),
    [
        (0, 1, None, None),
        (1, 1, None, 0.75),
        (1, 2, None, None),
        (3, 3, None, 3.0),
        (1, 1, 20.0, 20.0),
        (1, 1, 0.1, 0.75),
        (1, 1, 301.0, None),
    ],
)
def test_how_long_until_it_is_tried_again(
    retries: int, fault: int, wanted: float | None, pause: float | None
) -> None:
    assert a_pace(Time(), ThrottleSettings(1, retries=retries)).compute_retry_delay(fault, wanted) == pause


@pytest.mark.parametrize(("too_fast", "held"), [(True, 20.0), (False, 0.0)])
async def test_who_was_too_fast_holds_back_all_others(too_fast: bool, held: float) -> None:
    time = Time()
    pace = a_pace(time, ThrottleSettings(8))
    async with pace.create_slot() as place:
        assert await pace.wait_without_slot(place, 20.0, is_rate_limited=too_fast) == 20.0
        time.now = 0.0  # as others see it who ask meanwhile
        assert await pace.wait_for_turn() == held
