"""Ends the agents' processes when the gate itself is killed, which can no longer do it. Linux only.

A small process beside the gate waits until the gate is gone: the kernel closes the pipe between them, however
it ended. Then it ends whatever carries a mark of this gate, as the gate would have: an agent that does not
read its stdin, because it is busy or does not care, and its children, in whatever session they are.
"""

import os
import subprocess
import sys
from pathlib import Path

from evalgate.system.seclusion import is_wanted
from evalgate.workerpool.strays import GATE

_PROGRAM = """\
import sys
sys.path.insert(0, sys.argv[1])
from evalgate.workerpool.watch import watch
watch(sys.argv[2])
"""


class _Guard:
    """Of this process: the end of the pipe that closes with it."""

    def __init__(self) -> None:
        self.pipe: int | None = None


_OWN = _Guard()


def post_guard() -> None:
    """Before the first process of an agent. Does nothing where seclusion is not wanted, and the next time.

    Where it cannot be started, all is as without it.
    """
    if not is_wanted() or _OWN.pipe is not None:
        return
    try:
        reading, _OWN.pipe = os.pipe()
    except OSError:
        return
    try:
        _start(reading)
    except OSError:
        return
    finally:
        os.close(reading)


def _start(reading: int) -> None:
    root = str(Path(__file__).resolve().parents[2])
    libraries = {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}
    process = subprocess.Popen(
        # Without site-packages and bytecode: it needs the standard library, and starts in milliseconds.
        [sys.executable, "-I", "-S", "-B", "-c", _PROGRAM, root, GATE],
        stdin=reading,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=libraries,
        cwd="/",
        process_group=0,  # what ends the group of the gate leaves it alone
    )
    process.returncode = 0  # it is never waited for: it ends after us
