"""The text of a failing case, in the manner of a failing assertion."""

from collections.abc import Iterator, Sequence

from evalgate.core.sanitize import escape_invisible, shorten_text, to_log_line
from evalgate.core.types import CaseResult, TurnResult
from evalgate.reporting.diff import DiffLimits, describe_odd_turn, find_differences
from evalgate.reporting.findings import Finding, count_passed_runs, describe_faults

_LIMITS = DiffLimits(calls=12, lines=12, width=160)
_LONGEST_LINE = 500
_LAST_LINES = 15  # of the agent's traceback
_MARK = "E   "
"""What pytest writes before the lines of an assertion."""


def describe_failure(case: CaseResult, commands: Sequence[str], accept: str = "") -> str:
    """Return the text of a case that failed: its faults, the turn, the differences, and how to repeat it.

    `accept` is the command that makes what the agent did the expectation; "" for none.
    """
    accepted = [f"if the new behaviour is right: {accept}"] if accept else []
    return "\n".join([*_iter_lines(case), *(f"run it again: {command}" for command in commands), *accepted])


def _iter_lines(case: CaseResult) -> Iterator[str]:
    finding = Finding(case)
    number, turn = finding.turn or (0, None)
    faults = list(describe_faults(case)) or [f"the case {case.status}"]
    yield to_log_line(f"turn {number}: {faults[0]}" if number else faults[0], _LONGEST_LINE)
    yield from (f"{_MARK}{to_log_line(fault, _LONGEST_LINE)}" for fault in faults[1:])
    run = finding.run
    if run is None:
        return
    passed, runs = count_passed_runs(case)
    if runs > 1:
        yield f"{_MARK}{passed} of {runs} runs passed; this is run {run.run}"
    if turn is not None:
        yield f"{_MARK}user: {to_log_line(turn.user, _LONGEST_LINE)}"
        yield from (f"{_MARK}{sentence}" for sentence in describe_odd_turn(run.turns, number))
        yield from _iter_difference_lines(turn)
    if run.failure and run.failure.detail:
        detail = run.failure.detail.rstrip().split("\n")[-_LAST_LINES:]
        yield from (f"{_MARK}{shorten_text(escape_invisible(line), _LONGEST_LINE)}" for line in detail)


def _iter_difference_lines(turn: TurnResult) -> Iterator[str]:
    for difference in find_differences(turn, None, _LIMITS):
        yield f"{_MARK}{difference.what.lower()}, {difference.sides}:"
        for line in difference.lines:
            mark = "   <- first divergence" if line.diverges else ""
            yield f"{_MARK}  {line.sign} {line.text}{mark}"
