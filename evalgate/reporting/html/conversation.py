"""Turns and scores of a case on the page."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from evalgate.core.formatting import counted, shown
from evalgate.core.frozen import frozen
from evalgate.core.types import (
    CaseMetric,
    Event,
    Message,
    Reply,
    RunMetric,
    RunResult,
    Status,
    ToolCall,
    ToolResult,
    TurnMetric,
    TurnResult,
)
from evalgate.llm.judge_health import agreement_told
from evalgate.reporting.diff import Difference, Extent, differences, odd_turn
from evalgate.reporting.findings import shown_threshold
from evalgate.reporting.html.case_list import Room, Text


@frozen
class Opinion:
    """One of several answers of a judge, or what it says of one rubric."""

    name: str
    score: str
    reason: Text
    remarks: tuple[str, ...]
    answer: Text | None
    """The judge's own words."""


@frozen
class Score:
    """One metric."""

    name: str
    status: Status
    score: str
    threshold: str
    baseline: str
    reason: Text
    agreement: str = ""
    """How far the judge agrees with itself."""
    opinions: tuple[tuple[str, tuple[Opinion, ...]], ...] = ()
    """What kind, and each of them."""
    details: Text | None = None


def case_scores(metrics: Sequence[CaseMetric], room: Room) -> Iterator[Score]:
    """The metrics of a case, over its runs."""
    for metric in metrics:
        if room.is_full:
            return
        held = f"{shown_threshold(metric.threshold)}{f' ({metric.scope})' if metric.scope else ''}"
        score = shown(metric.score, beside=metric.threshold)
        yield Score(metric.name, metric.status, score, held, _baseline(metric), room.text(metric.reason))


def _baseline(metric: CaseMetric) -> str:
    before = metric.standing
    if before is None or before.baseline_mean is None:
        return "–"
    passed = (
        f" ({before.baseline_passed} of {before.baseline_runs} passed)" if before.baseline_runs > 1 else ""
    )
    return f"{shown(before.baseline_mean, beside=before.mean)}{passed}"


def scores(metrics: Sequence[TurnMetric] | Sequence[RunMetric], room: Room) -> Iterator[Score]:
    """The metrics of a turn or a run; what the judge said stands with them."""
    for metric in metrics:
        if room.is_full:
            return
        details = dict(metric.details or {})
        agreed = details.pop("agreement", None)
        opinions = tuple(_opinions(details, room))
        yield Score(
            metric.name,
            metric.status,
            shown(metric.score),
            "",
            "",
            room.text(metric.reason),
            agreement_told(agreed) if isinstance(agreed, int | float) else "",
            opinions,
            room.json(details) if details else None,
        )


_OPINIONS = {"samples": "answer", "rubrics": "rubric", "rubric_scores": "rubric"}


def _opinions(details: dict[str, object], room: Room) -> Iterator[tuple[str, tuple[Opinion, ...]]]:
    """The lists of opinions that `details` hold, which are taken out of them."""
    for key, what in _OPINIONS.items():
        rows = details.get(key)
        if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
            continue
        del details[key]
        found = tuple(
            _opinion(row, what, number, room) for number, row in enumerate(rows, 1) if not room.is_full
        )
        more = f" ({len(rows) - len(found):,} left out)" if len(found) < len(rows) else ""
        yield f"{counted(len(rows), what)}{more}", found


def _opinion(row: Mapping[str, object], what: str, number: int, room: Room) -> Opinion:
    name = row.get("text") if what == "rubric" else None
    answer = row.get("text") if what != "rubric" else None
    score = row.get("score")
    return Opinion(
        name=str(name or row.get("id") or f"Answer {row.get('sample') or number}")[:_LONGEST_NAME],
        score=shown(score) if isinstance(score, int | float) else "–",
        reason=room.text(str(row.get("reason") or row.get("failure") or "")),
        remarks=tuple(_remarks(row)),
        answer=room.text(answer) if isinstance(answer, str) and answer else None,
    )


_LONGEST_NAME = 500


def _remarks(row: Mapping[str, object]) -> Iterator[str]:
    if isinstance(row.get("model"), str):
        yield str(row["model"])[:_LONGEST_NAME]
    if row.get("cached") is True:
        yield "from the cache"
    attempts = row.get("attempts")
    if isinstance(attempts, int) and attempts > 1:
        yield f"{attempts} attempts"


_EXTENT = Extent(calls=60, lines=200, width=2000, call_width=400)
_SHORTEST = Extent(calls=12, lines=20, width=300, call_width=120)
_ROOMY = 20_000
_LONGEST_TOOL_NAME = 300

Speaker: TypeAlias = Literal["user", "agent", "call", "result"]


@frozen
class Entry:
    """Something that was said or done."""

    speaker: Speaker
    label: str
    name: str
    """Of the tool; "" for what is said."""
    body: Text | None
    is_final: bool = False


@frozen
class TurnView:
    """One turn."""

    number: int
    remarks: tuple[str, ...]
    said: tuple[Entry, ...]
    left_out: int
    """Events that there is no room for."""
    expected: tuple[Entry, ...]
    """What should have been said and done, where nothing was."""
    differences: tuple[Difference, ...]
    scores: tuple[Score, ...]


def turn_view(run: RunResult, number: int, before: Reply | None, room: Room) -> TurnView:
    """The turn of that number (1-based); `before` is what the agent did in it in the baseline."""
    turn = run.turns[number - 1]
    user = Entry("user", "Simulated user" if run.user_usage else "User", "", room.text(turn.user))
    found = tuple(_differences(turn, before, room))
    scored = tuple(scores(turn.metrics, room))
    said = tuple(_entries(turn.actual, room)) if turn.actual else ()
    events = len(turn.actual.events) + (turn.actual.response is not None) if turn.actual else 0
    return TurnView(
        number=number,
        remarks=tuple(odd_turn(run.turns, number)),
        said=(user, *said),
        left_out=events - len(said),
        expected=tuple(_entries(turn.expected, room)) if turn.expected and turn.actual is None else (),
        differences=found,
        scores=scored,
    )


def _entries(reply: Reply, room: Room) -> Iterator[Entry]:
    final = (
        [Entry("agent", "Agent", "", room.text(reply.response), True)] if reply.response is not None else []
    )
    for event in reply.events:
        if room.is_full:
            break
        yield _entry(event, room)
    yield from final


def _entry(event: Event, room: Room) -> Entry:
    author = f" ({event.author[:_LONGEST_TOOL_NAME]})" if event.author else ""
    name = "" if isinstance(event, Message) else event.name[:_LONGEST_TOOL_NAME]
    if isinstance(event, ToolCall):
        args = event.args if event.args is not None else event.other_args
        return Entry("call", f"Tool call{author}", name, room.json(args) if args else None)
    if isinstance(event, ToolResult):
        return Entry("result", f"Result{author}", name, room.json(event.result))
    body = room.text(event.text) if event.text or not event.payload else room.json(event.payload)
    return Entry("agent", f"Agent{author}", "", body)


def _differences(turn: TurnResult, before: Reply | None, room: Room) -> Iterator[Difference]:
    """Beside what is expected, and beside the baseline where that is known."""
    extent = _EXTENT if room.left > _ROOMY else _SHORTEST
    beside = [each for each in differences(turn, None, extent) if _is_expected(turn, each)]
    known = {each.lines for each in beside}
    later = differences(turn, before, extent) if before else ()
    since = [each for each in later if each.is_since and each.lines not in known]
    for each in (*beside, *since):
        if room.is_full:
            return
        room.left -= sum(len(line.text) + 60 for line in each.lines)
        yield each


def _is_expected(turn: TurnResult, found: Difference) -> bool:
    """Whether the case says anything of it: one that names neither calls nor response compares with none."""
    expected = turn.expected
    if expected is None:
        return False
    if found.what == "Response":
        return expected.response is not None
    return bool(expected.tool_calls) or any(metric.status == "failed" for metric in turn.metrics)
