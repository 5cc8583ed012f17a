"""Exit codes of every command."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Number that a command ends with: the verdict of the gate, or the reason why there is none."""

    OPEN = 0
    """The change may be merged; for commands without a verdict: done."""
    CLOSED = 1
    """The agent got worse, or a threshold is missed."""
    INVALID_INPUT = 2
    """Usage, configuration, eval sets: the user can fix it."""
    NO_VERDICT = 3
    """The agent or the judge is unreachable, a shard is missing, or memory ran out."""
    INCONCLUSIVE = 4
    """Too close to call; only with `on_inconclusive: distinguish`."""
    BUG = 70
    """An error of evalgate itself, which must never look like a verdict; EX_SOFTWARE of sysexits.h."""
    INTERRUPTED = 130
    """Ctrl-C, SIGTERM or SIGHUP: 128 + SIGINT, as shells report it."""
