"""Ports of this machine: free ones, and one without a listener."""

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

# Below the range from which the kernel takes ports for connections and for servers without a fixed port.
_FIRST, _LAST = 10_240, 32_700


def free_port() -> int:
    """Return a free port for a server that will start soon. Tests reserve it until this process ends."""
    dice = random.SystemRandom()
    while not _reserved(port := dice.randint(_FIRST, _LAST)):
        continue
    return port


def _reserved(port: int) -> bool:
    """Reserve a port if it is free for TCP; return True on success.

    Tests reserve a port by binding it for UDP.
    """
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
    """Yield a port on which no server listens or can start to listen."""
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        yield occupied.getsockname()[1]
