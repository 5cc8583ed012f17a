"""Find and end processes that an agent left behind, even if the gate itself was killed.

A signal to the worker's process group does not reach a process that left the group. The environment of each
worker therefore contains a mark, which all of its descendants inherit and which Linux shows in `/proc`. A
process that cleared its environment is found among the children of the gate, after its parent ended.

The watchdog is a small process that waits until the gate is gone. However the gate ends, the kernel closes
the pipe between the gate and the watchdog. Then the watchdog ends every process that carries a mark of this
gate: agents that do not read their stdin, and the children of agents, also in another session. The watchdog
runs this module, which therefore imports little.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Iterator

from evalgate.system.isolation import find_reparented_children, is_isolation_requested

MARK_VARIABLE = "EVALGATE_WORKER"
"""Environment variable that holds the mark of a worker."""

# A process that is started during one round is found in the next. A fork bomb is not chased for ever.
_KILL_ROUNDS = 5
# A killed process ends at once unless the kernel holds it.
_KILL_WAIT_S = 0.2

_MARK_PREFIXES: dict[int, str] = {}
"""Prefix of marks, by id of the gate's process.

A gate that was forked has another prefix than its parent, and so does not end the parent's agents.
"""


def get_mark_prefix() -> str:
    """Return the prefix that the marks of this gate's workers share: 32 random hexadecimal digits."""
    return _MARK_PREFIXES.setdefault(os.getpid(), os.urandom(16).hex())


def create_mark() -> str:
    """Return a new mark for a worker: `get_mark_prefix()` followed by 32 random hexadecimal digits."""
    return get_mark_prefix() + os.urandom(16).hex()


def kill_orphans(mark: str) -> None:
    """Kill every process with a mark that begins with `mark`. Without `/proc`, no process is found.

    Processes that the gate may not inspect are not found. Processes that cleared their environment are found
    by `kill_reparented` instead. The search ends after 5 rounds, so a program that starts processes
    faster than they are killed may survive.
    """
    for _ in range(_KILL_ROUNDS):
        if not signal_orphans(mark, signal.SIGKILL):
            return


def signal_orphans(mark: str, number: int) -> bool:
    """Send the signal `number` to each process with a mark that begins with `mark`.

    Return True if there is at least one such process. With the signal 0, nothing is sent: this only checks
    that such a process exists.
    """
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    # A list and not `any`, which would stop at the first process.
    return bool([pid for pid in _iter_pids() if _signal_if_marked(pid, wanted, number)])


def kill_reparented() -> None:
    """Kill left-behind processes that became children of the gate when their parent ended.

    Only a gate that called `isolate_process` gets such children. For any other gate, none are found. Call
    this function only while no process of an agent runs.
    """
    for _ in range(_KILL_ROUNDS):
        found = find_reparented_children()
        if not found:
            return
        for pid in found:
            _kill_child(pid)


def _kill_child(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        select.select([handle], [], [], _KILL_WAIT_S)
        # Nothing else in the gate waits for this child: it would remain as a zombie.
        os.waitpid(pid, os.WNOHANG)
    except OSError:
        return  # not a child of this process, or already waited for
    finally:
        os.close(handle)


def _iter_pids() -> Iterator[int]:
    try:
        names = os.listdir("/proc")  # noqa: PTH208  pathlib takes three times as long, and the gate waits
    except OSError:
        return
    yield from (int(name) for name in names if name.isdecimal())


def _signal_if_marked(pid: int, wanted: bytes, number: int) -> bool:
    if not _has_mark(pid, wanted):
        return False
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # Check again: only with a handle is it certain that the id still belongs to the same process.
        if not _has_mark(pid, wanted):
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _has_mark(pid: int, wanted: bytes) -> bool:
    """Return True if the environment of a process has an entry (`NAME=value`) that begins with `wanted`."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:  # noqa: PTH123  as above
            return any(each.startswith(wanted) for each in file.read().split(b"\0"))
    except OSError:
        return False


_GRACE_S = 1.0
"""Seconds that a process may take to end by itself, and again after SIGTERM."""
_POLL_S = 0.05
# A program that starts processes faster than they are killed is not chased for ever.
_MAX_WATCHDOG_ROUNDS = 200


def run_watchdog(gate: str) -> None:
    """Wait until stdin closes, then end every process with a mark that begins with `gate`.

    `gate` is the prefix of the gate's marks. A process may end by itself at first, then gets SIGTERM, and at
    last SIGKILL.
    """
    # A CI system that ends a job signals all of its processes: the watchdog must outlive the gate.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    # Nothing is ever written: the kernel closes the other end, however the gate ended.
    while os.read(0, 1):
        pass
    time.sleep(_POLL_S)  # a process that was just being started has no mark yet
    if _wait_until_gone(gate):
        return
    signal_orphans(gate, signal.SIGTERM)
    _wait_until_gone(gate)
    for _ in range(_MAX_WATCHDOG_ROUNDS):
        if not signal_orphans(gate, signal.SIGKILL):
            return
        time.sleep(_POLL_S)


def _wait_until_gone(gate: str) -> bool:
    """Wait until no process with a mark of this gate is left; return False after a second of waiting.

    `gate` is the prefix of the gate's marks (`get_mark_prefix`).
    """
    end = time.monotonic() + _GRACE_S
    while signal_orphans(gate, 0):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_S)
    return True


_PROGRAM = """\
import sys
sys.path.insert(0, sys.argv[1])
from evalgate.agents.workers.orphans import run_watchdog
run_watchdog(sys.argv[2])
"""


class _Watchdog:
    """Holder of the write end of the watchdog's pipe, which the kernel closes when this process ends."""

    def __init__(self) -> None:
        self.pipe: int | None = None


_WATCHDOG = _Watchdog()


def start_watchdog() -> None:
    """Start the watchdog; do nothing if it runs already, or if the gate does not isolate itself from agents.

    The command `evalgate` isolates itself, the library does not (`evalgate.system.isolation`). Call this
    function before the first process of an agent starts. If the watchdog cannot be started, the run continues
    without one.
    """
    if not is_isolation_requested() or _WATCHDOG.pipe is not None:
        return
    try:
        reading, _WATCHDOG.pipe = os.pipe()
    except OSError:
        return
    try:
        _spawn_watchdog(reading)
    except OSError:
        return
    finally:
        os.close(reading)


def _spawn_watchdog(reading: int) -> None:
    # Imported here, because the watchdog imports this module and does not need them.
    import subprocess
    from pathlib import Path

    root = str(Path(__file__).resolve().parents[3])
    libraries = {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}
    process = subprocess.Popen(
        # Without site-packages and bytecode: it needs only the standard library and starts in milliseconds.
        [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, root, get_mark_prefix()],
        stdin=reading,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=libraries,
        cwd="/",
        process_group=0,  # a signal to the gate's process group must not end it
    )
    process.returncode = 0  # or Popen warns: the watchdog ends after this process, which cannot wait for it
