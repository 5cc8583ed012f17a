"""Large answers are read in a thread, so that other cases go on meanwhile."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from evalgate.agents.http.conversation import pause_turn_timer
from evalgate.agents.workers.wire import LARGE

_T = TypeVar("_T")


async def run_off_loop(size: int, work: Callable[[], _T]) -> _T:
    """Return what `work` makes of an answer of so many bytes; in a thread if it is large.

    The thread gives way while it reads JSON by `parsed`. Its time is ours and not the agent's.
    """
    if size <= LARGE:
        return work()
    with pause_turn_timer():
        return await asyncio.to_thread(work)
