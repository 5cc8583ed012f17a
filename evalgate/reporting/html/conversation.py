"""Values with which `report.html` shows the turns and the scores of a case."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from evalgate.core.formatting import format_score, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import get_score_range
from evalgate.core.types import (
    REPORT_ONLY,
    CaseMetric,
    CaseResult,
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
from evalgate.reporting.diff import (
    Difference,
    DiffLimits,
    describe_odd_turn,
    find_differences,
    get_baseline_reply,
)
from evalgate.reporting.findings import Finding
from evalgate.reporting.html.case_list import ClippedText, SizeBudget
from evalgate.reporting.summary_lines import describe_agreement


@frozen
class OpinionView:
    """One answer of a judge that was asked several times, or the judge's result for one rubric."""

    name: str
    score: str
    reason: ClippedText
    remarks: tuple[str, ...]
    answer: ClippedText | None
    """The judge's answer, word for word; None for a rubric, or if the answer is not known."""


@frozen
class ScoreView:
    """The score of one metric, as texts for the page."""

    name: str
    status: Status
    score: str
    threshold: str
    baseline: str
    reason: ClippedText
    agreement: str = ""
    """The agreement of the judge's repeated answers, in words; "" if it is unknown."""
    opinions: tuple[tuple[str, tuple[OpinionView, ...]], ...] = ()
    """(title, list) for the repeated answers of the judge, and for its results by rubric."""
    details: ClippedText | None = None


def build_case_scores(case: CaseResult, budget: SizeBudget) -> Iterator[ScoreView]:
    """Yield the score of each metric of a case over all its runs, as many as `budget` allows.

    If a metric has no score because a run failed, its reason is left out: the page shows the failure once for
    all metrics.
    """
    failures = {run.failure.message for run in case.runs if run.failure is not None}
    for metric in case.metrics:
        if budget.is_full:
            return
        notes = ", ".join(filter(None, (metric.scope, "" if metric.gates else REPORT_ONLY)))
        score, limit = metric.range.format_pair(metric.score, metric.threshold)
        threshold = f"{limit}{f' ({notes})' if notes else ''}"
        yield ScoreView(
            metric.name,
            metric.status,
            score,
            threshold,
            _format_baseline(metric),
            budget.take_text("" if metric.score is None and metric.reason in failures else metric.reason),
        )


def _format_baseline(metric: CaseMetric) -> str:
    before = metric.standing
    if before is None or before.baseline_mean is None:
        return "–"
    mean = metric.range.format(before.baseline_mean, beside=before.mean)
    if before.baseline_runs < 2:
        return mean
    # `baseline_passed` counts only runs with the best score. It means nothing if other runs have scores
    # between the worst and the best.
    share = before.baseline_passed / before.baseline_runs
    if metric.range.lower_is_better or metric.range.to_share(before.baseline_mean) != share:
        return f"{mean} ({pluralize(before.baseline_runs, 'run')})"
    return f"{mean} ({before.baseline_passed} of {before.baseline_runs} passed)"


def build_scores(
    metrics: Sequence[TurnMetric] | Sequence[RunMetric], case: CaseResult, budget: SizeBudget
) -> Iterator[ScoreView]:
    """Yield the scores of a turn or a run of `case` with the judge's answers, as many as `budget` allows."""
    thresholds = {each.name: each.threshold for each in case.metrics}
    for metric in metrics:
        if budget.is_full:
            return
        details = dict(metric.details or {})
        agreement = details.pop("agreement", None)
        opinions = tuple(_pop_opinions(details, budget))
        yield ScoreView(
            metric.name,
            metric.status,
            get_score_range(metric.name).format_pair(metric.score, thresholds.get(metric.name))[0],
            "",
            "",
            budget.take_text(metric.reason),
            describe_agreement(agreement) if isinstance(agreement, int | float) else "",
            opinions,
            budget.take_json(details) if details else None,
        )


_OPINIONS = {"samples": "answer", "rubrics": "rubric", "rubric_scores": "rubric"}


def _pop_opinions(
    details: dict[str, object], budget: SizeBudget
) -> Iterator[tuple[str, tuple[OpinionView, ...]]]:
    """Remove the lists of the judge's answers and rubrics from `details`; yield (title, opinions) for each.

    Opinions for which `budget` has no room are left out, and the title says how many.
    """
    for key, what in _OPINIONS.items():
        rows = details.get(key)
        if not isinstance(rows, list | tuple) or not all(isinstance(row, Mapping) for row in rows):
            continue
        del details[key]
        opinions = tuple(
            _build_opinion(row, what, number, budget)
            for number, row in enumerate(rows, 1)
            if not budget.is_full
        )
        more = f" ({len(rows) - len(opinions):,} left out)" if len(opinions) < len(rows) else ""
        yield f"{pluralize(len(rows), what)}{more}", opinions


def _build_opinion(row: Mapping[str, object], row_kind: str, number: int, budget: SizeBudget) -> OpinionView:
    name = row.get("text") if row_kind == "rubric" else None
    answer = row.get("text") if row_kind != "rubric" else None
    score = row.get("score")
    return OpinionView(
        name=str(name or row.get("id") or f"Answer {row.get('sample') or number}")[:_LONGEST_NAME],
        score=format_score(score) if isinstance(score, int | float) else "–",
        reason=budget.take_text(str(row.get("reason") or row.get("failure") or "")),
        remarks=tuple(_list_remarks(row)),
        answer=budget.take_text(answer) if isinstance(answer, str) and answer else None,
    )


_LONGEST_NAME = 500


def _list_remarks(row: Mapping[str, object]) -> Iterator[str]:
    if isinstance(row.get("model"), str):
        yield str(row["model"])[:_LONGEST_NAME]
    if row.get("cached") is True:
        yield "from the cache"
    attempts = row.get("attempts")
    if isinstance(attempts, int) and attempts > 1:
        yield f"{attempts} attempts"


_WIDE = DiffLimits(calls=60, lines=200, width=2000, call_width=400)
_NARROW = DiffLimits(calls=12, lines=20, width=300, call_width=120)
_ENOUGH_FOR_WIDE = 20_000
_LONGEST_TOOL_NAME = 300

Speaker: TypeAlias = Literal["user", "agent", "call", "result"]


@frozen
class TranscriptEntry:
    """A message, a tool call or a tool result."""

    speaker: Speaker
    label: str
    name: str
    """The name of the tool; "" for a message."""
    body: ClippedText | None
    is_final: bool = False
    anchor: str = ""
    """Id of the HTML element; "" for none."""


@frozen
class TurnView:
    """One turn of a conversation, with its scores and differences, as texts for the page."""

    number: int
    remarks: tuple[str, ...]
    entries: tuple[TranscriptEntry, ...]
    left_out: int
    """The number of events that are not shown, because the size budget is spent."""
    expected: tuple[TranscriptEntry, ...]
    """The expected messages and calls if the turn has no answer, else ()."""
    differences: tuple[Difference, ...]
    scores: tuple[ScoreView, ...]


def build_turn_view(
    run: RunResult, number: int, finding: Finding, budget: SizeBudget, anchor: str = ""
) -> TurnView:
    """Return turn `number` (1-based) of a run of the case in `finding`, as much as `budget` allows.

    The HTML ids of the agent's messages and calls are `anchor`, a hyphen and the 0-based number of the event.
    If `anchor` is "", the messages and calls have no ids.
    """
    turn = run.turns[number - 1]
    user = TranscriptEntry(
        "user", "Simulated user" if run.user_usage else "User", "", budget.take_text(turn.user)
    )
    # Differences and scores explain a failure, so they get their part of the budget before the transcript.
    differences = tuple(_select_differences(turn, get_baseline_reply(finding, number), budget))
    scores = tuple(build_scores(turn.metrics, finding.case, budget))
    entries = tuple(_build_entries(turn.actual, budget, anchor)) if turn.actual else ()
    events = len(turn.actual.events) + (turn.actual.response is not None) if turn.actual else 0
    return TurnView(
        number=number,
        remarks=tuple(describe_odd_turn(run.turns, number)),
        entries=(user, *entries),
        left_out=events - len(entries),
        expected=tuple(_build_entries(turn.expected, budget))
        if turn.expected and turn.actual is None
        else (),
        differences=differences,
        scores=scores,
    )


def _build_entries(reply: Reply, budget: SizeBudget, anchor: str = "") -> Iterator[TranscriptEntry]:
    # The response is the most important entry, so it gets its part of the budget first.
    final = (
        [
            TranscriptEntry(
                "agent",
                "Agent",
                "",
                budget.take_text(reply.response),
                True,
                anchor and f"{anchor}-{len(reply.events)}",
            )
        ]
        if reply.response is not None
        else []
    )
    for at, event in enumerate(reply.events):
        if budget.is_full:
            break
        entry = _build_entry(event, budget)
        yield replace(entry, anchor=f"{anchor}-{at}") if anchor else entry
    yield from final


def _build_entry(event: Event, budget: SizeBudget) -> TranscriptEntry:
    author = f" ({event.author[:_LONGEST_TOOL_NAME]})" if event.author else ""
    name = "" if isinstance(event, Message) else event.name[:_LONGEST_TOOL_NAME]
    if isinstance(event, ToolCall):
        args = event.arguments
        return TranscriptEntry("call", f"Tool call{author}", name, budget.take_json(args) if args else None)
    if isinstance(event, ToolResult):
        return TranscriptEntry("result", f"Result{author}", name, budget.take_json(event.result))
    body = (
        budget.take_text(event.text) if event.text or not event.payload else budget.take_json(event.payload)
    )
    return TranscriptEntry("agent", f"Agent{author}", "", body)


def _select_differences(turn: TurnResult, before: Reply | None, budget: SizeBudget) -> Iterator[Difference]:
    """Yield the differences from the expected reply, then further differences from the baseline's reply.

    `before` is the baseline's reply. End when `budget` is spent.
    """
    limits = _WIDE if budget.left > _ENOUGH_FOR_WIDE else _NARROW
    from_expected = [each for each in find_differences(turn, None, limits) if _is_expected(turn, each)]
    known = {each.lines for each in from_expected}
    changes = find_differences(turn, before, limits) if before else ()
    since_baseline = [each for each in changes if each.is_since and each.lines not in known]
    for each in (*from_expected, *since_baseline):
        if budget.is_full:
            return
        budget.left -= sum(len(line.text) + 60 for line in each.lines)
        yield each


def _is_expected(turn: TurnResult, difference: Difference) -> bool:
    """Return True if the case has an expectation for the differing part: the response or the tool calls.

    A turn without expected calls either forbids calls, which is an expectation, or ignores them. If a metric
    of the turn failed, assume that calls are forbidden.
    """
    expected = turn.expected
    if expected is None:
        return False
    if difference.part == "Response":
        return expected.response is not None
    return bool(expected.tool_calls) or any(metric.status == "failed" for metric in turn.metrics)
