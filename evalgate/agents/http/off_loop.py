"""Parsing of large answers in a thread, so that other cases continue meanwhile."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from evalgate.agents.http.conversation import pause_turn_timer
from evalgate.agents.workers.wire import LARGE

_T = TypeVar("_T")


async def run_off_loop(size: int, work: Callable[[], _T]) -> _T:
    """Return the result of `work` on an answer of `size` bytes; call it in a thread if that is large.

    The thread releases the GIL from time to time while `parse_untrusted_json` runs. The turn's timer is
    stopped: the time is the gate's and not the agent's.
    """
    if size <= LARGE:
        return work()
    with pause_turn_timer():
        return await asyncio.to_thread(work)
