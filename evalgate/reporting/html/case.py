"""One case on the page: in full, or in a line."""

from collections.abc import Iterator, Sequence
from itertools import islice

from evalgate.core.formatting import counted, sentence
from evalgate.core.frozen import frozen
from evalgate.core.types import Attempt, CaseResult, Record, RunResult, Usage
from evalgate.reporting.diff import then
from evalgate.reporting.findings import (
    OUTCOMES,
    Finding,
    faults,
    not_evaluated_because,
    score_beside_threshold,
)
from evalgate.reporting.html.case_list import Entry, Room, Text
from evalgate.reporting.html.conversation import Score, TurnView, case_scores, scores, turn_view
from evalgate.reporting.html.markup import render
from evalgate.reporting.repro_command import record_path, replay, reproduce_all, reproduction
from evalgate.reporting.summary_lines import STATUSES, judge_use, until

_LONGEST_NAME = 300
_LONGEST_REASON = 240
_LONGEST_COMMAND = 4_000
_CHEAPEST = 0.0001
_MOST_TAGS = 20


@frozen
class _AttemptView:
    what: Text
    left: Text | None


@frozen
class _RunView:
    number: int
    is_open: bool
    is_alone: bool
    """Whether the case has no other."""
    outcome: str
    """Why there is no answer, in words; "" where there is one."""
    status: str
    facts: tuple[str, ...]
    failure: Text | None
    left: Text | None
    """What the agent left behind: a traceback, or the end of its standard error."""
    attempts: tuple[_AttemptView, ...]
    turns: tuple[TurnView, ...]
    left_out: int
    """Turns that there is no room for."""
    scores: tuple[Score, ...]
    """Those that say more than the turns and the case do."""
    state: Text | None


def render_full(record: Record, entry: Entry, anchor: str, room: Room) -> str:
    """The case with all that happened, as far as there is room."""
    case = entry.case
    # What metrics say stands in their table, and why a single run has no answer with that run.
    is_told = len(case.runs) <= 1 or all(run.outcome == "answered" for run in case.runs)
    reasons = () if is_told else tuple(room.text(fault) for fault in faults(case))
    measured = tuple(case_scores(case.metrics, room))
    runs = tuple(_runs(entry.finding, room))
    return render(
        "page_case.html.j2",
        anchor=anchor,
        line=_line(entry),
        reasons=reasons,
        facts=tuple(_facts(entry)),
        rest=room.text(until(case)) if case.quarantine else None,
        scores=measured,
        has_baseline=any(score.baseline != "–" for score in measured),
        runs=runs,
        runs_left_out=len(case.runs) - len(runs),
        commands=_commands(record, entry) if entry.is_bad else (),
    )


def _commands(record: Record, entry: Entry) -> tuple[tuple[str, str], ...]:
    """What to say of each command that can be typed, and the command."""
    case = entry.case
    together, which = reproduce_all(record, entry.alike)
    made = (
        ("Run this case alone", reproduction(record, case)),
        (f"Run {which} that failed alike", together),
        (
            f"Reproduce it offline, with this run's record at {record_path(record)}",
            replay(record, case),
        ),
    )
    return tuple((words, command) for words, command in made if 0 < len(command) < _LONGEST_COMMAND)


def render_line(entry: Entry) -> str:
    """The case in a line."""
    return render("page_line.html.j2", line=_line(entry))


@frozen
class _Line:
    name: str
    kinds: tuple[str, ...]
    status: str
    """One of the kinds of `Entry`, which gives the colour."""
    word: str
    is_new: bool
    remarks: tuple[str, ...]
    why: str


def _line(entry: Entry) -> _Line:
    case = entry.case
    outcome = next((run.outcome for run in case.runs if run.outcome != "answered"), None)
    word = OUTCOMES[outcome] if outcome and case.status == "errored" else STATUSES[case.status]
    return _Line(
        name=entry.finding.name[:_LONGEST_NAME],
        kinds=tuple(kind.replace("_", "-") for kind in entry.kinds),
        status=case.status.replace("_", "-"),
        word=word,
        is_new=entry.finding.is_new,
        remarks=tuple(_remarks(entry)),
        why=_why(case)[:_LONGEST_REASON],
    )


def _remarks(entry: Entry) -> Iterator[str]:
    if "flaky" in entry.kinds:
        yield f"flaky: {entry.passed} of {len(entry.case.runs)} runs passed"
    if "resting" in entry.kinds:
        yield "quarantined"
    if entry.case.protected:
        yield "protected"


def _why(case: CaseResult) -> str:
    """What a closed case shows of its reason."""
    unanswered = next((run for run in case.runs if run.outcome != "answered"), None)
    if unanswered is not None and unanswered.failure is not None:
        return unanswered.failure.message
    if case.status == "not_evaluated":
        return not_evaluated_because(case)
    fell_short = (metric for metric in case.metrics if metric.status in {"failed", "errored"})
    return ", ".join(f"{metric.name} {score_beside_threshold(metric)}" for metric in islice(fell_short, 2))


def _facts(entry: Entry) -> Iterator[str]:
    case = entry.case
    if case.path:
        yield f"{case.path}:{case.line}"[-_LONGEST_NAME:] if case.line else case.path[-_LONGEST_NAME:]
    if case.tags:
        yield f"tags {', '.join(case.tags[:_MOST_TAGS])}"[:_LONGEST_NAME]
    if case.weight != 1:
        yield f"weight {case.weight:g}"
    if case.protected:
        yield "protected: the gate closes when it fails"


# --- runs ---------------------------------------------------------------------------------------------------


def _runs(finding: Finding, room: Room) -> Iterator[_RunView]:
    """In order; where there is not room for all, the one to look at and the first others."""
    first = finding.run
    made: dict[int, _RunView] = {}
    for run in sorted(finding.case.runs, key=lambda run: run is not first):
        if room.is_full:
            break
        made[id(run)] = _run(run, finding, room)
    yield from (made[id(run)] for run in finding.case.runs if id(run) in made)


def _run(run: RunResult, finding: Finding, room: Room) -> _RunView:
    failure = run.failure
    number, _ = finding.turn or (0, None)
    message = room.text(failure.message) if failure else None
    left = room.text(failure.detail, is_end=True) if failure and failure.detail else None
    turns = _turns(run, finding, number if run is finding.run else 0, room)
    return _RunView(
        number=run.run,
        is_open=run is finding.run,
        is_alone=len(finding.case.runs) == 1,
        outcome=OUTCOMES[run.outcome] if run.outcome != "answered" else "",
        status=_status(run),
        facts=tuple(_run_facts(run)),
        failure=message,
        left=left,
        attempts=tuple(_attempts(run.earlier_attempts, room)),
        turns=turns,
        left_out=len(run.turns) - len(turns),
        scores=tuple(_telling(run, len(finding.case.runs), room)),
        state=room.json(run.final_state) if run.final_state and not room.is_full else None,
    )


def _turns(run: RunResult, finding: Finding, telling: int, room: Room) -> tuple[TurnView, ...]:
    """Those that there is room for; the `telling` one (1-based) takes what it needs first."""
    numbers = sorted(range(1, len(run.turns) + 1), key=lambda number: number != telling)
    made: list[TurnView] = []
    for number in numbers:
        if room.is_full:
            break
        made.append(turn_view(run, number, then(finding, number), room))
    return tuple(sorted(made, key=lambda turn: turn.number))


def _status(run: RunResult) -> str:
    """As a case would be with this run alone."""
    if run.outcome != "answered":
        return "errored"
    statuses = {metric.status for metric in run.metrics}
    return next((word for word in ("failed", "errored") if word in statuses), "passed")


def _run_facts(run: RunResult) -> Iterator[str]:
    yield f"{run.duration_s:,.2f} s" if run.duration_s >= 1 else f"{1000 * run.duration_s:,.0f} ms"
    if run.usage:
        yield _used(run.usage)
    if run.user_usage:
        yield f"simulated user: {_used(run.user_usage)}"
    if run.judge:
        yield judge_use(run.judge)
    if run.confirms:
        yield "made to follow up a suspicion: no part of any mean"


def _used(usage: Usage) -> str:
    cost = _usd(usage.least_usd) if usage.least_usd else ""
    if usage.cost_usd is None:
        cost = f"at least {cost}" if cost else "cost unknown"
    return f"{usage.input_tokens:,} + {counted(usage.output_tokens, 'token')}{cost and f', {cost}'}"


def _usd(cost: float) -> str:
    return f"{cost:,.4f} USD" if cost >= _CHEAPEST else f"less than {_CHEAPEST} USD"


def _attempts(attempts: Sequence[Attempt], room: Room) -> Iterator[_AttemptView]:
    for attempt in attempts:
        if room.is_full:
            return
        used = f", {_used(attempt.usage)}" if attempt.usage else ""
        told = f"{OUTCOMES[attempt.outcome]} after {attempt.duration_s:,.2f} s{used}"
        left = attempt.failure.detail
        yield _AttemptView(
            room.text(sentence(f"{told}: {attempt.failure.message}")),
            room.text(left, is_end=True) if left else None,
        )


def _telling(run: RunResult, runs: int, room: Room) -> Iterator[Score]:
    """The metrics that do not stand with the case already: of a single run, those with details."""
    yield from scores([metric for metric in run.metrics if runs > 1 or metric.details], room)
