"""Values for the template `case.md.j2`: a group of failing cases in the comment."""

import html
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from evalgate.core.sanitize import keep_last_lines, to_html_code, to_md_code, to_md_text, truncate_block
from evalgate.core.types import Record, Reply, TurnResult
from evalgate.reporting.diff import (
    DifferenceLine,
    DiffLimits,
    describe_odd_turn,
    find_differences,
    get_baseline_reply,
)
from evalgate.reporting.findings import Finding, FindingGroup, describe_faults, format_score_and_threshold
from evalgate.reporting.repro_command import (
    build_group_command,
    build_replay_command,
    build_repro_command,
    resolve_record_path,
)

_MOST_FAULTS = 8
_MOST_NAMES = 10
_LINES = 12
_LIMITS = DiffLimits(calls=9, lines=_LINES, width=400)  # and one line that marks the first divergence
_SYMBOLS = {"failed": "❌", "errored": "💥"}


def build_case_view(
    record: Record, group: FindingGroup, *, is_open: bool, everything: bool, commands: bool
) -> dict[str, object]:
    """Return the values for the template `case.md.j2`.

    The template shows the first case of a group, and names the other cases.

    Args:
        record: the record of the run.
        group: the group of failing cases.
        is_open: True for a block that is not collapsed.
        everything: False to leave out the difference of the responses, the traceback, the command that
            replays the case, and the command that runs the whole group.
        commands: False to leave out all commands.
    """
    finding = group.first
    number, turn = finding.turn or (0, None)
    before = get_baseline_reply(finding, number)
    failure, turns = (finding.run.failure, finding.run.turns) if finding.run else (None, ())
    return {
        "open": is_open,
        "symbol": _get_symbol(finding),
        "name": finding.name,
        "others": [other.name for other in group.others[:_MOST_NAMES]],
        "more_others": max(0, len(group.others) - _MOST_NAMES),
        "is_new": finding.is_new,
        "position": _describe_position(finding, number),
        "short": "" if is_open else _summarize_reason(finding),
        "faults": [
            *islice(describe_faults(finding.case), _MOST_FAULTS),
            *([] if failure else describe_odd_turn(turns, number)),
        ],
        "user": truncate_block(turn.user, 600, lines=_LINES) if turn else "",
        "differences": [*_build_diff_blocks(turn, before, everything=everything)] if turn else [],
        "crash": keep_last_lines(failure.detail) if failure and everything else "",
        "replay": build_replay_command(record, finding.case) if commands and everything else "",
        "kept_at": resolve_record_path(record),
        "is_judged": any(run.judge for run in finding.case.runs),
        "again": build_repro_command(record, finding.case) if commands else "",
        "together": build_group_command(record, group.cases) if commands and everything else ("", ""),
    }


def render_brief(group: FindingGroup) -> str:
    """Return a line of Markdown with a group's first case, the number of its other cases, and the reason."""
    finding = group.first
    newly = " (newly failing)" if finding.is_new else ""
    others = f" and {len(group.others):,} more" if group.others else ""
    why = to_md_text(next(describe_faults(finding.case), ""), 160)
    return f"- {_get_symbol(finding)} {to_md_code(finding.name, 120)}{others}{newly}: {why}\n"


def _get_symbol(finding: Finding) -> str:
    return _SYMBOLS.get(finding.case.status, "❔")


def _summarize_reason(finding: Finding) -> str:
    """Return a short reason for the title of a collapsed case, as HTML.

    The reason is the outcome of the first run without an answer; if there is none, up to two failed metrics.
    """
    outcome = next((run.outcome for run in finding.case.runs if run.outcome != "answered"), None)
    if outcome is not None:
        return outcome.replace("_", " ")
    fell_short = (each for each in finding.case.metrics if each.gating_status in {"failed", "errored"})
    return ", ".join(
        f"{to_html_code(metric.name, 80)} could not be evaluated"
        if metric.gating_status == "errored"
        else f"{to_html_code(metric.name, 80)} {html.escape(format_score_and_threshold(metric))}"
        for metric in islice(fell_short, 2)
    )


def _describe_position(finding: Finding, number: int) -> str:
    """Return the turn and the run that are shown, such as `turn 2 of 3, run 1 of 4`.

    `number` is the 1-based number of the turn; 0 if the turn is unknown. The turn is left out if it is
    unknown or the only turn. The run is left out if it is the only run. Return "" if the case was not run.
    """
    if finding.run is None:
        return ""
    parts = []
    if number and len(finding.run.turns) > 1:
        parts.append(f"turn {number} of {len(finding.run.turns)}")
    if len(finding.case.runs) > 1:
        parts.append(f"run {finding.run.run} of {len(finding.case.runs)}")
    return ", ".join(parts)


class _DiffBlock(NamedTuple):
    what: str
    """The title of the block, as Markdown."""
    text: str


def _build_diff_blocks(turn: TurnResult, before: Reply | None, *, everything: bool) -> Iterator[_DiffBlock]:
    for difference in find_differences(turn, before, _LIMITS):
        if difference.part == "Response" and not everything:
            continue
        yield _DiffBlock(
            f"**{difference.part}**, {difference.sides}:",
            "\n".join(_format_lines(difference.lines)),
        )


def _format_lines(lines: Iterable[DifferenceLine]) -> Iterator[str]:
    for line in lines:
        if line.diverges:
            yield "@@ first divergence @@"
        yield f"{line.sign} {line.text}"
