"""Timers accept an answer that arrived in time although the event loop was blocked."""

import asyncio
import os
import time
from collections.abc import Callable

import pytest

from evalgate.system.loop_timer import LoopTimeout, LoopTimer, TimeLimits

LIMIT_S = 0.3


async def answered_while_stalled(limit: float) -> str:
    """What is read from a pipe that was written to long before the limit, while the loop stood still."""
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    answer: asyncio.Future[str] = loop.create_future()
    # Delivered a round later, as asyncio does for subprocesses.
    loop.add_reader(reading, lambda: loop.call_soon(_settle, answer, "in time"))
    try:
        async with LoopTimeout(limit):
            await asyncio.sleep(0)
            os.write(writing, b"x")
            time.sleep(2 * limit)  # noqa: ASYNC251  what a huge answer of a neighbour does
            return await answer
    except TimeoutError:
        return "late"
    finally:
        loop.remove_reader(reading)
        os.close(reading)
        os.close(writing)


def _settle(answer: "asyncio.Future[str]", text: str) -> None:
    if not answer.done():
        answer.set_result(text)


async def test_an_answer_that_waited_in_the_pipe_is_in_time() -> None:
    assert await answered_while_stalled(LIMIT_S) == "in time"


async def test_a_loop_that_stood_still_gives_the_time_back() -> None:
    ends: list[float] = []
    started = time.monotonic()
    timer = LoopTimer(0.05, lambda: ends.append(time.monotonic() - started))
    time.sleep(0.4)  # noqa: ASYNC251
    await asyncio.sleep(0.2)
    assert ends == []
    for _ in range(200):
        await asyncio.sleep(0.05)
        if ends:
            break
    assert ends[0] >= 0.7
    timer.cancel()


async def test_a_timer_that_is_cancelled_never_acts() -> None:
    timer = LoopTimer(0.01, lambda: pytest.fail("it acted"))
    timer.cancel()
    await asyncio.sleep(0.05)


async def test_a_block_that_takes_too_long_ends() -> None:
    with pytest.raises(TimeoutError):
        async with LoopTimeout(0.01):
            await asyncio.sleep(60)


async def test_a_block_can_be_given_more_time() -> None:
    async with LoopTimeout(0.05) as timeout:
        timeout.reschedule(None)
        await asyncio.sleep(0.2)
        assert timeout.when() is None


async def test_each_key_reaches_its_own_limit() -> None:
    reached: list[str] = []
    limits = TimeLimits[str](reached.append)
    limits.set_limit("late", 0.05)
    limits.set_limit("early", 0.01)
    limits.set_limit("answered", 0.02)
    limits.remove_limit("answered")
    limits.remove_limit("unknown")
    await _wait_until(lambda: len(reached) == 2)
    assert reached == ["early", "late"]


async def test_no_limit_is_reached_after_all_are_removed() -> None:
    reached: list[str] = []

    def remove_others(key: str) -> None:
        reached.append(key)
        limits.remove_all()

    limits = TimeLimits[str](remove_others)
    for key in ("first", "second"):
        limits.set_limit(key, 0.01)
    await _wait_until(lambda: bool(reached))
    await asyncio.sleep(0.05)
    assert reached == ["first"]
    limits.set_limit("third", 0.01)
    await _wait_until(lambda: len(reached) == 2)
    assert reached == ["first", "third"]


async def _wait_until(is_true: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if is_true():
            return
        await asyncio.sleep(0.01)
    pytest.fail("never became true")
