"""List every case with its status, and the turns of each failing metric in a table, as Google ADK does.

Google ADK calls a turn of a run an invocation.
"""

import json
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence

from evalgate.core.sanitize import disable_commands, to_log_line, truncate_block
from evalgate.core.types import CaseMetric, CaseResult, Record, Reply, Status, TurnResult
from evalgate.reporting.findings import describe_faults

_COLUMN = 25  # characters, as Google ADK's table
_LONGEST_CELL = 4_000
_STATUSES: tuple[Status, ...] = ("passed", "failed", "errored", "not_evaluated")
HEADER = (
    "status",
    "score",
    "threshold",
    "prompt",
    "expected response",
    "actual response",
    "expected calls",
    "actual calls",
)
"""First row of a table of invocations. `build_invocation_cells` returns the last five cells of other rows."""


def list_detailed_results(record: Record) -> Iterator[str]:
    """Yield lines about each eval set: counts by status, cases, and tables of failed or errored metrics.

    Each row of a table is an invocation: one turn of one run. No line has the form of a CI runner's command.
    """
    sets: dict[str, list[CaseResult]] = {}
    for case in record.cases:
        sets.setdefault(case.eval_set_id, []).append(case)
    for eval_set_id, cases in sets.items():
        counts = {status: sum(case.status == status for case in cases) for status in _STATUSES}
        shown = [f"{n:,} {_to_words(status)}" for status, n in counts.items() if n or status in _STATUSES[:2]]
        yield f"{to_log_line(eval_set_id, 120)}: {', '.join(shown)}"
        for case in cases:
            yield from _list_case(case)


def _list_case(case: CaseResult) -> Iterator[str]:
    yield f"  {_to_words(case.status).upper()} {to_log_line(case.eval_id, 120)}"
    missed = [metric for metric in case.metrics if metric.status in {"failed", "errored"}]
    if case.agent_failed or (case.status != "passed" and not missed):
        yield from (f"    {to_log_line(fault, 300)}" for fault in describe_faults(case))
    for metric in missed:
        score, threshold = metric.range.format_pair(metric.score, metric.threshold)
        yield (
            f"    {to_log_line(metric.name, 120)}: {_to_words(metric.status)}, "
            f"score {'none' if metric.score is None else score}, threshold {threshold}"
        )
        rows = [_build_row(turn, metric) for run in case.runs for turn in run.turns]
        if rows:
            yield from format_grid([HEADER, *rows]).split("\n")


def _build_row(turn: TurnResult, metric: CaseMetric) -> tuple[str, ...]:
    """Return the cells of an invocation: status, score, threshold, then those of `build_invocation_cells`.

    The score is "" if the metric has no score for this turn.
    """
    found = next((each for each in turn.metrics if each.name == metric.name), None)
    score = None if found is None else found.score
    text, threshold = metric.range.format_pair(score, metric.threshold)
    return (
        _to_words("not_evaluated" if found is None else found.status),
        "" if score is None else text,
        threshold,
        *build_invocation_cells(turn),
    )


def build_invocation_cells(turn: TurnResult) -> tuple[str, ...]:
    """Return (prompt, expected response, actual response, expected calls, actual calls) as texts.

    A missing text is "".
    """
    return (
        turn.user,
        _get_response(turn.expected),
        _get_response(turn.actual),
        _format_calls(turn.expected),
        _format_calls(turn.actual),
    )


def _get_response(reply: Reply | None) -> str:
    return (reply.response or "") if reply else ""


def _format_calls(reply: Reply | None) -> str:
    calls = reply.tool_calls if reply else ()
    return "\n".join(f"{call.name}({json.dumps(call.args or {}, ensure_ascii=False)})" for call in calls)


def _to_words(status: str) -> str:
    return status.replace("_", " ")


def format_grid(rows: Sequence[Sequence[str]]) -> str:
    """Return `rows` as a text grid with a frame; the first row is the header.

    Columns have at most 25 characters. Longer texts wrap, and are cut after 4,000 characters.
    """
    cells = [[_wrap_cell(cell) for cell in row] for row in rows]
    widths = [max(_count_columns(line) for row in cells for line in row[at]) for at in range(len(rows[0]))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    lines = [rule]
    for index, row in enumerate(cells):
        for at in range(max(map(len, row))):
            texts = [cell[at] if at < len(cell) else "" for cell in row]
            padded = [
                text + " " * (width - _count_columns(text)) for text, width in zip(texts, widths, strict=True)
            ]
            lines.append(f"| {' | '.join(padded)} |")
        lines.append(rule.replace("-", "=") if index == 0 else rule)
    return disable_commands("\n".join(lines))


def _count_columns(text: str) -> int:
    """Return a text's width in terminal columns: two for a Chinese character, none for an accent."""
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )


def _wrap_cell(text: str) -> list[str]:
    # The time to wrap one long word grows with the square of its length.
    lines = truncate_block(text, _LONGEST_CELL, _LONGEST_CELL).split("\n")
    return [part for line in lines for part in textwrap.wrap(line, _COLUMN)] or [""]
