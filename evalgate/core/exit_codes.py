"""Exit codes of all commands, and a check for out-of-memory errors that needs no further import."""

import errno
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit code of a command: the verdict of the gate, or the reason why there is no verdict."""

    OPEN = 0
    """The change may be merged; for commands without a verdict: success."""
    CLOSED = 1
    """The agent got worse, or a threshold is missed."""
    INVALID_INPUT = 2
    """Usage, configuration, eval sets: the user can fix it."""
    NO_VERDICT = 3
    """The agent or the judge is unreachable, a shard is missing, or memory ran out."""
    INCONCLUSIVE = 4
    """The runs do not suffice to decide, and the thresholds file has `on_inconclusive: distinguish`. Or a
    judge has too few labels (`cli/judge_labelling.py`)."""
    BUG = 70
    """An error of evalgate itself, which must never look like a verdict; EX_SOFTWARE of sysexits.h."""
    INTERRUPTED = 130
    """Ctrl-C, SIGTERM or SIGHUP: 128 + SIGINT, as shells report it."""


OUT_OF_MEMORY = b"evalgate: there is not enough memory to go on: raise `ulimit -v`, or the limit of the job\n"
"""Message about a lack of memory. It is bytes for `os.write`, because `print` would need more memory."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if the error means that no memory is left for data, a module or a new thread."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    unmapped = ("failed to map segment", "cannot allocate memory", "can't start new thread")
    return isinstance(error, MemoryError) or (
        isinstance(error, (ImportError, RuntimeError))
        and any(phrase in str(error).lower() for phrase in unmapped)
    )
