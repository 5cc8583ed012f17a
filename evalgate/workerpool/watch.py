"""What the guard does (`evalgate.workerpool.guard`). Imports little: it starts with every run."""

import os
import signal
import time

from evalgate.workerpool.strays import signal_strays

_PATIENCE_S = 1.0
"""How long a process may take to end by itself, and again after SIGTERM."""
_LOOK_S = 0.05
_MOST_ROUNDS = 200
# Who starts processes faster than they are killed is not chased for ever.


def watch(gate: str) -> None:
    """Wait until stdin closes, then end every process with a mark that begins with `gate`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    while os.read(0, 1):
        pass
    time.sleep(_LOOK_S)  # one that was just being started has no mark yet
    if _are_gone(gate):
        return
    signal_strays(gate, signal.SIGTERM)
    _are_gone(gate)
    for _ in range(_MOST_ROUNDS):
        if not signal_strays(gate, signal.SIGKILL):
            return
        time.sleep(_LOOK_S)


def _are_gone(gate: str) -> bool:
    """Whether they all end within the patience."""
    end = time.monotonic() + _PATIENCE_S
    while signal_strays(gate, 0):
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK_S)
    return True
