"""How whoever asks lets others go first while it is asked to wait, without knowing who keeps the pace."""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeAlias

StandBack: TypeAlias = Callable[[float, bool], Awaitable[None]]
"""Waits for so many seconds. True: because it was asked too fast, not because somebody is down."""

keeper: ContextVar[StandBack | None] = ContextVar("keeper", default=None)
"""Who keeps the pace of the conversation that the calling task holds; None: nobody does."""


async def stand_back(seconds: float, *, too_fast: bool) -> None:
    """Wait before the same is asked again; longer than that when others come first by then."""
    keep = keeper.get()
    if keep is None:
        await asyncio.sleep(seconds)
    else:
        await keep(seconds, too_fast)
