"""Adaptive concurrency: slots grow and shrink with the load, and each waiter gets one."""

import asyncio
import time
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.system.throttling.adaptive_concurrency import AdaptiveConcurrency
from evalgate.system.throttling.backoff import Clock


@dataclass
class Time:
    now: float = 0.0

    def clock(self) -> Clock:
        return Clock(now=lambda: self.now)


async def most_at_once(places: AdaptiveConcurrency, workers: int) -> int:
    at_work = most = 0

    async def work() -> None:
        nonlocal at_work, most
        async with places.create_slot():
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0)
            at_work -= 1

    await asyncio.gather(*(work() for _ in range(workers)))
    return most


@given(st.integers(1, 20), st.integers(1, 60))
def test_never_more_than_there_are_and_everybody_gets_one(places: int, workers: int) -> None:
    assert asyncio.run(most_at_once(AdaptiveConcurrency(places), workers)) == min(places, workers)


async def test_who_waits_is_not_passed_by_those_who_come_again() -> None:
    places, order = AdaptiveConcurrency(1), list[str]()

    async def work(name: str) -> None:
        for _ in range(3):
            async with places.create_slot():
                order.append(name)
                await asyncio.sleep(0)

    await asyncio.gather(*map(work, "abc"))
    assert "".join(order) == "abcabcabc"


async def test_it_halves_once_for_all_that_were_at_work_and_grows_again_by_one_a_round() -> None:
    clock = Time()
    places = AdaptiveConcurrency(8, clock=clock.clock())
    since = [await places.acquire_slot() for _ in range(8)]
    clock.now = 1.0
    for each in since:
        places.on_throttled(each)
    assert places.current_limit == 4
    for _ in range(8):
        places.release_slot()
    assert await most_at_once(places, 8) == 4
    for _ in range(4):
        places.on_success()
    assert places.current_limit == 4  # 4 + 1/4 + 1/4.25 + …
    places.on_success()
    assert places.current_limit == 5
    for _ in range(100):
        places.on_success()
    assert places.current_limit == 8


async def test_it_never_closes() -> None:
    clock = Time()
    places = AdaptiveConcurrency(2, clock=clock.clock())
    for now in range(1, 9):
        clock.now = now
        places.on_throttled(now - 0.5)
    assert places.current_limit == 1
    assert await most_at_once(places, 3) == 1


async def test_it_halves_what_is_used_not_what_could_be() -> None:
    clock = Time(1.0)
    places = AdaptiveConcurrency(100, clock=clock.clock())
    since = [await places.acquire_slot() for _ in range(4)]
    places.on_throttled(since[0])
    assert places.current_limit == 2


async def test_the_ramp_rises_from_one() -> None:
    clock = Time()
    places = AdaptiveConcurrency(11, ramp_up_s=10.0, clock=clock.clock())
    found = []
    for now in (0.0, 1.0, 5.5, 9.9, 10.0, 11.0):
        clock.now = now
        found.append(places.current_limit)
    assert found == [1, 2, 6, 10, 11, 11]


async def test_who_waits_for_the_ramp_is_called_when_it_has_risen() -> None:
    places = AdaptiveConcurrency(5, ramp_up_s=0.2)
    began = time.monotonic()
    for _ in range(5):
        await asyncio.wait_for(places.acquire_slot(), 10)  # nobody gives one back
    assert time.monotonic() - began >= 0.15


@pytest.mark.parametrize("called", [False, True])
async def test_who_is_cancelled_takes_nobodys_place(called: bool) -> None:
    places = AdaptiveConcurrency(1)
    await places.acquire_slot()
    first, second = asyncio.create_task(places.acquire_slot()), asyncio.create_task(places.acquire_slot())
    await asyncio.sleep(0)
    if called:
        places.release_slot()
    first.cancel()
    await asyncio.sleep(0)
    if not called:
        places.release_slot()
    await asyncio.wait_for(second, 10)
    assert first.cancelled()


async def test_who_leaves_for_a_while_lets_others_in_and_waits_for_a_place_again() -> None:
    places, order, pause = AdaptiveConcurrency(1), list[str](), asyncio.Event()

    async def patient() -> None:
        async with places.create_slot() as place:
            order.append("first")
            await place.release_during(waited())
            order.append("again")

    async def waited() -> None:
        await pause.wait()

    async def other() -> None:
        async with places.create_slot():
            order.append("other")
            pause.set()
            await asyncio.sleep(0.01)
            order.append("other ends")

    await asyncio.wait_for(asyncio.gather(patient(), other()), 10)
    assert order == ["first", "other", "other ends", "again"]


@pytest.mark.parametrize("pause_is_over", [False, True])
async def test_who_is_cancelled_while_away_gives_nothing_back_twice(pause_is_over: bool) -> None:
    places, pause = AdaptiveConcurrency(1), asyncio.Event()

    async def patient() -> None:
        async with places.create_slot() as place:
            await place.release_during(waited())

    async def waited() -> None:
        await pause.wait()

    away = asyncio.create_task(patient())
    await asyncio.sleep(0)
    await places.acquire_slot()
    if pause_is_over:
        pause.set()
        await asyncio.sleep(0.01)
    away.cancel()
    with pytest.raises(asyncio.CancelledError):
        await away
    third = asyncio.create_task(places.acquire_slot())
    await asyncio.sleep(0.01)
    assert not third.done()
    places.release_slot()
    await asyncio.wait_for(third, 10)
