"""Keeps an agent of the same user out of the gate, and lets none of its processes get away. Linux only."""

import os
import sys
from collections.abc import Collection

_SET_DUMPABLE = 4
_SET_CHILD_SUBREAPER = 36
# <linux/prctl.h>


class _Seclusion:
    """Of this process. Wanted by the command; a program that uses evalgate as a library stays as it is."""

    def __init__(self) -> None:
        self.is_wanted = False
        self.children_before: Collection[int] | None = None


_OWN = _Seclusion()


def want_seclusion() -> None:
    """This process is the gate's alone: seclude it once an agent is about to start."""
    _OWN.is_wanted = sys.platform == "linux"


def is_wanted() -> bool:
    """Whether this process is the gate's alone, on a system that can seclude it."""
    return _OWN.is_wanted


def seclude() -> None:
    """Before the first process of an agent: nobody but root can look into this one any more.

    Its environment, memory and open files are hidden from processes of the same user (`/proc`, ptrace),
    unless they may trace any process. Processes that lose their parent become children of this one. Does
    nothing where it is not wanted, and the next time.
    """
    if not _OWN.is_wanted or _OWN.children_before is not None:
        return
    import ctypes

    _OWN.children_before = frozenset(children_of(os.getpid()))
    prctl = ctypes.CDLL(None).prctl
    # Should the kernel refuse, as some sandboxes make it, all is as it was without.
    prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def adopted() -> list[int]:
    """Children of this process that nobody here started: agents' processes whose parent is gone.

    Told by their session: whatever is started here stays in the own one, but for the agents themselves. So
    none of those may be alive.
    """
    if _OWN.children_before is None:
        return []
    own = os.getsid(0)
    return [
        pid
        for pid in children_of(os.getpid())
        if pid not in _OWN.children_before and _session_of(pid) not in (0, own)
    ]


def children_of(pid: int) -> list[int]:
    """The children of a process; empty when it is gone, and where `/proc` does not tell."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  ten times a second
            with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:  # noqa: PTH123
                found += map(int, file.read().split())
    except OSError:
        return found
    return found


def _session_of(pid: int) -> int:
    """0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123
            # The name, in parentheses, may hold anything; the 4th field behind it is the session.
            return int(file.read().rpartition(b")")[2].split()[3])
    except OSError:
        return 0
