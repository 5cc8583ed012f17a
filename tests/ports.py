"""Ports of this machine: free ones, and one without a listener."""

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

# Below those that the kernel gives to programs that connect, or that ask for any port.
_FIRST, _LAST = 10_240, 32_700


def free_port() -> int:
    """A port for a server that is started in a moment. It is reserved while this process lives."""
    dice = random.SystemRandom()
    while not _reserved(port := dice.randint(_FIRST, _LAST)):
        continue
    return port


def _reserved(port: int) -> bool:
    """Taken for UDP, which stands for it among tests, and free for TCP."""
    claim = socket.socket(type=socket.SOCK_DGRAM)
    try:
        with socket.socket() as probe:
            claim.bind(("127.0.0.1", port))
            probe.bind(("127.0.0.1", port))
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True


@contextmanager
def closed_port() -> Iterator[int]:
    """A port without a listener, which is occupied so that none can start."""
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        yield occupied.getsockname()[1]
