"""Time, as something that a test can hold in its hands."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from evalgate.frozen import frozen


@frozen
class Clock:
    """The clocks that asking a model needs, in seconds."""

    now: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    """Since the epoch."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


REAL = Clock()
