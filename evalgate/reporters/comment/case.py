"""One failing case in the comment."""

import html
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import islice
from typing import NamedTuple

from evalgate.hostile import block, html_code, last_lines, md_code, md_text, shortened, spelled_out
from evalgate.model import CaseResult, Record, Reply, TurnResult
from evalgate.reporters.comment.markdown import Markdown, render
from evalgate.scoring.trajectory import trajectory_diff
from evalgate.telling.findings import Finding, faults, replay, reproduction, score_beside_threshold

_MOST_FAULTS = 8
_LINES = 12
_CALL_LINES = 9  # and one that says where they part
_WIDTH = 400
_SYMBOLS = {"failed": "❌", "errored": "💥"}


def render_case(record: Record, finding: Finding, *, is_open: bool, everything: bool, commands: bool) -> str:
    """The case as a `<details>` block. Without `everything`: what failed and where the tool calls part."""
    number, turn = finding.turn or (0, None)
    then = _then(finding, number)
    failure = finding.run.failure if finding.run else None
    return render(
        "case.md.j2",
        open=is_open,
        symbol=_symbol(finding),
        name=finding.name,
        is_new=finding.is_new,
        place=Markdown(_place(finding, number)),
        short=Markdown("" if is_open else _short(finding)),
        faults=[*islice(faults(finding.case), _MOST_FAULTS), *_odd_turn(turn, number)],
        user=block(turn.user, 600, lines=_LINES) if turn else "",
        differences=[*_differences(turn, then, everything=everything)] if turn and turn.actual else [],
        crash=last_lines(failure.detail) if failure and everything else "",
        commands=_commands(record, finding.case) if commands else [],
    )


def render_brief(finding: Finding) -> str:
    """The case on one line."""
    newly = " (newly failing)" if finding.is_new else ""
    why = md_text(next(faults(finding.case), ""), 160)
    return f"- {_symbol(finding)} {md_code(finding.name, 120)}{newly}: {why}\n"


def _symbol(finding: Finding) -> str:
    return _SYMBOLS.get(finding.case.status, "❔")


def _short(finding: Finding) -> str:
    """What a collapsed case shows of its reason."""
    outcome = next((run.outcome for run in finding.case.runs if run.outcome != "answered"), None)
    if outcome is not None:
        return outcome.replace("_", " ")
    fell_short = (metric for metric in finding.case.metrics if metric.status in {"failed", "errored"})
    return ", ".join(
        f"{html_code(metric.name, 80)} {html.escape(score_beside_threshold(metric))}"
        for metric in islice(fell_short, 2)
    )


def _place(finding: Finding, number: int) -> str:
    """Which turn of how many, which run of how many; "" where there is one of each."""
    if finding.run is None:
        return ""
    parts = []
    if number and len(finding.run.turns) > 1:
        parts.append(f"turn {number} of {len(finding.run.turns)}")
    if len(finding.case.runs) > 1:
        parts.append(f"run {finding.run.run} of {len(finding.case.runs)}")
    return ", ".join(parts)


def _odd_turn(turn: TurnResult | None, number: int) -> Iterator[str]:
    if turn is None:
        return
    if turn.expected is None:
        yield f"turn {number} was not asked for: the case ends before it"
    elif turn.actual is None:
        yield f"turn {number} has no answer"


class _Difference(NamedTuple):
    """One diff block."""

    what: Markdown
    text: str


def _then(finding: Finding, number: int) -> Reply | None:
    """What the agent did in that turn in the baseline, where that is known."""
    return finding.then[number - 1] if 0 < number <= len(finding.then) else None


def _differences(turn: TurnResult, then: Reply | None, *, everything: bool) -> Iterator[_Difference]:
    """Tool calls and response, beside the baseline's where that has other ones, else beside the expected."""
    for what, compared in (("Tool calls", _calls), ("Response", _response)):
        if what == "Response" and not everything:
            continue
        since = list(compared(then, turn.actual)) if then else []
        lines = since or list(compared(turn.expected, turn.actual))
        if lines:
            sides = "baseline (−) and now (+)" if since else "expected (−) and actual (+)"
            yield _Difference(Markdown(f"**{what}**, {sides}:"), "\n".join(lines))


def _commands(record: Record, case: CaseResult) -> list[str]:
    """What reproduces the case: the way that needs no agent first."""
    return list(filter(None, (replay(record, case), reproduction(record, case))))


def _calls(before: Reply | None, after: Reply | None) -> Iterator[str]:
    then, now = before.tool_calls if before else (), after.tool_calls if after else ()
    for line in trajectory_diff(then, now, lines=_CALL_LINES):
        if line.diverges:
            yield "@@ first divergence @@"
        yield f"{line.sign} {line.text}"


def _response(one: Reply | None, other: Reply | None) -> list[str]:
    """Line by line; empty when both are equal or neither says anything."""
    before, after = _lines(one), _lines(other)
    if before == after:
        return []
    found: list[str] = []
    for tag, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            found += [f"  {line}" for line in before[i:j]]
        else:
            found += [f"- {line}" for line in before[i:j]] + [f"+ {line}" for line in after[k:m]]
    return found


def _lines(reply: Reply | None) -> list[str]:
    if reply is None or reply.response is None:
        return []
    lines = reply.response.split("\n", _LINES)
    shown = [shortened(spelled_out(line), _WIDTH) for line in lines[:_LINES]]
    return [*shown, "…"] if len(lines) > _LINES else shown
