"""Timers accept an answer that arrived in time although the event loop was blocked."""

import asyncio
import os
import time

import pytest

from evalgate.system.loop_timer import LoopTimeout, LoopTimer

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
