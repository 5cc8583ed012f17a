"""Usage of concurrent blocks: each block counts its own requests."""

import asyncio

from evalgate.config.token_prices import Tokens
from evalgate.core.types import ModelUsage, Usage
from evalgate.llm.usage import MeteredUsage, UsageTally, count_model_usage


async def asked(times: int) -> ModelUsage | None:
    with UsageTally() as tally:
        await asyncio.gather(*(one(number) for number in range(times)))
        await asyncio.sleep(0)
        return tally.usage


async def one(number: int) -> None:
    await asyncio.sleep(0)
    paid = MeteredUsage.from_call(Tokens(10 + number, 1), None if number else 0.5)
    count_model_usage(paid.to_paid_usage())
    count_model_usage(MeteredUsage.from_call(Tokens(3, 4), 0.25).to_spared_usage())


async def test_each_block_counts_its_own_tasks_alone() -> None:
    found = await asyncio.gather(asked(2), asked(0), asked(1))

    assert list(found) == [
        ModelUsage(2, 21, 2, 0.5, 1, 2, Usage(6, 8, 0.5)),
        None,
        ModelUsage(1, 10, 1, 0.5, 0, 1, Usage(3, 4, 0.25)),
    ]


def test_outside_of_a_block_nothing_is_counted_and_nothing_breaks() -> None:
    count_model_usage(MeteredUsage.from_call(None, None).to_paid_usage())

    with UsageTally() as tally:
        pass
    assert tally.usage is None


def test_totals_add_up() -> None:
    one, other = ModelUsage(1, 2, 3, 4.0, 5, 6, Usage(7, 8, 9.0)), ModelUsage(10, 20, 30, 40.0, 50, 60)

    assert one + other == ModelUsage(11, 22, 33, 44.0, 55, 66, Usage(7, 8, 9.0))
    assert other.usage == Usage(20, 30, None, known_usd=40.0)
