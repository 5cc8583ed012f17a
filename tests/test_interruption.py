import asyncio
import os
import signal

import pytest

from evalgate.system.interruption import END_SIGNALS, Patience, cancelled_by_signals


@pytest.mark.parametrize("number", END_SIGNALS)
def test_a_signal_interrupts_until_the_result_is_certain(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    patience = Patience()
    with patience.kept():
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        patience.is_certain = True
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", END_SIGNALS)
def test_a_signal_cancels_the_task(number: signal.Signals) -> None:
    async def wait() -> None:
        with cancelled_by_signals():
            os.kill(os.getpid(), number)
            await asyncio.sleep(60)

    async def run() -> None:
        task = asyncio.create_task(wait())
        with pytest.raises(asyncio.CancelledError):
            await task

    before = signal.getsignal(number)
    asyncio.run(run())
    assert signal.getsignal(number) is before


async def test_the_second_signal_leaves_the_tidying_up_alone() -> None:
    tidy = []

    async def wait() -> None:
        with cancelled_by_signals():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.sleep(60)
            finally:
                os.kill(os.getpid(), signal.SIGHUP)
                await asyncio.sleep(0.01)
                tidy.append(True)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(wait())
    assert tidy == [True]


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Patience().kept():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
