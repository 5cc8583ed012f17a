"""Ends children that the agent forked and that come back into the host, where they would answer, too."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from typing import Optional

_PID = os.getpid()


def watch_forks(loop: asyncio.AbstractEventLoop) -> None:
    """End each forked child in the first round of the host's event loop that it runs.

    A child that ends by itself, or runs another program or event loop, as those of `subprocess` and
    `multiprocessing` do, never comes there.
    """
    register = getattr(os, "register_at_fork", None)
    if register is not None:
        register(after_in_child=lambda: _end_soon(loop))


def _end_soon(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.call_soon(end_if_forked)
    except RuntimeError:  # the loop is closed, or debugged and of another thread: it does not go on here
        return


def end_if_forked(error: Optional[BaseException] = None) -> None:
    """End this process if it is a child of the host's; `error` is what the agent's code in it ended with.

    Never as the agent's code may: what stands in the buffers and what runs at exit is the parent's.
    """
    if os.getpid() == _PID:
        return
    code = 0
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        code = 1
        traceback.print_exception(type(error), error, error.__traceback__)
    sys.stderr.flush()
    os._exit(code & 0xFF)
