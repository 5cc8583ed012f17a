"""The exceptions that end a command, and the exit code of each.

    EvalgateError
    ├── InvalidInputError      2   usage, configuration, eval set: the user can fix it
    ├── NoVerdictError         3   the agent is unreachable, a shard is missing: no verdict is possible
    └── RunInterruptedError  130   Ctrl-C

Every other exception is a bug in evalgate (70) and must never look like a verdict.
"""

from collections.abc import Iterable

from evalgate.core.exit_codes import ExitCode
from evalgate.core.frozen import frozen

MOST_SHOWN = 100
"""Most problems that one message lists; a file can have 200,000 wrong items."""


@frozen
class Problem:
    """One problem at one place of the input. Problems sort by file, line, column and message.

    >>> print(Problem("evalgate.yaml", 3, 7, "`runs` must be at least 1"))
    evalgate.yaml:3:7: `runs` must be at least 1
    """

    file: str
    """Path as the user wrote it, or "" when the problem is in no file."""
    line: int
    """Line number, from 1; 0 when unknown."""
    column: int
    """Column number, from 1; 0 when unknown."""
    message: str
    """The problem and its remedy, in one sentence."""

    def __lt__(self, other: object) -> bool:
        return self._order < other._order if isinstance(other, Problem) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self._order <= other._order if isinstance(other, Problem) else NotImplemented

    @property
    def _order(self) -> tuple[str, int, int, str]:
        return (self.file, self.line, self.column, self.message)

    def __str__(self) -> str:
        location = ":".join(str(part) for part in (self.file, self.line, self.column) if part)
        return f"{location}: {self.message}" if location else self.message


class EvalgateError(Exception):
    """Base of all errors that are shown to the user without a traceback.

    >>> isinstance(InvalidInputError("no eval sets"), EvalgateError)
    True
    """

    exit_code: ExitCode = ExitCode.BUG


class InvalidInputError(EvalgateError):
    """Error in the user's input. `problems` lists all problems in order; the message shows the first 100.

    >>> [problem.message for problem in InvalidInputError("no eval sets").problems]
    ['no eval sets']
    """

    exit_code = ExitCode.INVALID_INPUT

    def __init__(self, problems: Iterable[Problem] | str) -> None:
        self.problems: tuple[Problem, ...] = (
            (Problem("", 0, 0, problems),) if isinstance(problems, str) else tuple(problems)
        )
        # All problems stay in `problems`, for editors and tests; only the text is cut.
        shown = [str(problem) for problem in self.problems[:MOST_SHOWN]]
        left = len(self.problems) - len(shown)
        super().__init__("\n".join([*shown, f"… and {left:,} more"] if left else shown))


class NoVerdictError(EvalgateError):
    """Error for a run without a trustworthy verdict; the message states the reason and the next step."""

    exit_code = ExitCode.NO_VERDICT


class RunInterruptedError(EvalgateError):
    """Error for a run that the user stopped, for example with Ctrl-C."""

    exit_code = ExitCode.INTERRUPTED
