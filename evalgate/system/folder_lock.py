"""Lock a folder, so that only one thread or process at a time changes the files in it."""

import errno
import fcntl
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def lock_folder(folder: Path, timeout_s: float = math.inf, *, required: bool = True) -> Iterator[None]:
    """Hold an exclusive lock of an existing folder during the block.

    Before the block, wait until no other thread or process of this machine holds the lock. If the file system
    has no locks and `required` is False, the block runs without a lock.

    Raises:
        TimeoutError: another thread or process still holds the lock after `timeout_s` seconds.
        OSError: the folder cannot be opened; or `required` is True, and the file system has no locks.
    """
    # The folder itself is locked. A lock file would be left among the user's own files. A lock on the written
    # file would be useless, because an atomic write replaces the file.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            _wait_for_lock(descriptor, time.monotonic() + timeout_s)
        except OSError as error:
            if required or isinstance(error, TimeoutError):
                raise
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int, end: float) -> None:
    """Wait for the lock of an open folder, and take it.

    Raises:
        TimeoutError: the lock is not free at the time `end`, in seconds of `time.monotonic()`.
        OSError: the file system has no locks.
    """
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise TimeoutError(errno.ETIMEDOUT, "another process keeps its folder locked") from None
            time.sleep(0.02)
        else:
            return
