"""Values with which the templates of `report.html` show a case, in full or on one line."""

from collections.abc import Iterator, Sequence
from itertools import islice

from evalgate.core.formatting import to_sentence
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import shorten_text
from evalgate.core.types import Attempt, CaseResult, Record, RunResult, Status
from evalgate.reporting.findings import (
    OUTCOMES,
    Finding,
    describe_faults,
    explain_not_evaluated,
    format_score_and_threshold,
)
from evalgate.reporting.html.case_list import CaseEntry, ClippedText, SizeBudget
from evalgate.reporting.html.conversation import (
    ScoreView,
    TurnView,
    build_case_scores,
    build_scores,
    build_turn_view,
)
from evalgate.reporting.html.groups import CaseMarks
from evalgate.reporting.html.trace import RunTraceView, build_run_trace
from evalgate.reporting.repro_command import (
    ACCEPT,
    build_accept_command,
    build_group_command,
    build_replay_command,
    build_repro_command,
    resolve_record_path,
)
from evalgate.reporting.summary_lines import STATUSES, explain_exemption, format_judge_usage
from evalgate.reporting.trace_view import format_seconds, format_usage

_LONGEST_NAME = 300
_LONGEST_REASON = 240
_LONGEST_COMMAND = 4_000
_MOST_TAGS = 20


@frozen
class _AttemptView:
    what: ClippedText
    crash_output: ClippedText | None


@frozen
class _RunView:
    number: int
    is_open: bool
    is_alone: bool
    """True if the case has only this run."""
    outcome: str
    """The outcome in words, such as `timed out`; "" if there is an answer."""
    status: str
    facts: tuple[str, ...]
    failure: ClippedText | None
    crash_output: ClippedText | None
    """The agent's traceback, or the end of its standard error; None if neither is known."""
    attempts: tuple[_AttemptView, ...]
    turns: tuple[TurnView, ...]
    left_out: int
    """The number of turns that are not shown, because the size budget is spent."""
    scores: tuple[ScoreView, ...]
    """The scores of the run; if the case has only this run, only the scores with details."""
    state: ClippedText | None
    trace: RunTraceView | None


def build_case_view(
    record: Record, entry: CaseEntry, marks: CaseMarks, anchor: str, budget: SizeBudget
) -> dict[str, object]:
    """Return the arguments of the template macro `case_in_full`, which shows a case with its runs.

    Texts and runs are left out if `budget` does not allow them. `marks` are the sort keys and group numbers
    of the case. `anchor` is its HTML id; the ids of its parts begin with `anchor`.
    """
    case = entry.case
    # The table shows the reasons of metrics, and a single run shows why it has no answer.
    is_explained = len(case.runs) <= 1 or all(run.outcome == "answered" for run in case.runs)
    # The budget is spent in this order: reasons, scores, runs, exemption.
    reasons = () if is_explained else tuple(budget.take_text(fault) for fault in describe_faults(case))
    scores = tuple(build_case_scores(case, budget))
    runs = tuple(_build_runs(entry.finding, anchor, budget))
    exemption = explain_exemption(case)
    return {
        "anchor": anchor,
        "line": build_line_view(entry, marks),
        "reasons": reasons,
        "facts": tuple(_list_facts(entry)),
        "exemption": None if case.gates else budget.take_text(exemption[:1].upper() + exemption[1:]),
        "scores": scores,
        "has_baseline": any(score.baseline != "–" for score in scores),
        "runs": runs,
        "runs_left_out": len(case.runs) - len(runs),
        "commands": _list_commands(record, entry) if entry.is_bad else (),
    }


def _list_commands(record: Record, entry: CaseEntry) -> tuple[tuple[str, str], ...]:
    """Return (description, command) of each command for a case; commands that are too long are left out."""
    case = entry.case
    together, which = build_group_command(record, entry.alike)
    commands = (
        ("Run this case alone", build_repro_command(record, case)),
        (f"Run {which} that failed alike", together),
        (
            f"Reproduce it offline, with this run's record at {resolve_record_path(record)}",
            build_replay_command(record, case),
        ),
        (ACCEPT, build_accept_command(record, case)),
    )
    return tuple((words, command) for words, command in commands if 0 < len(command) < _LONGEST_COMMAND)


@frozen
class LineView:
    """Texts of the line that shows a case in the list of `report.html`."""

    name: str
    kinds: tuple[str, ...]
    status: str
    """The case's status with hyphens instead of `_`; the CSS class that determines the colour."""
    word: str
    """The status in words. For an errored case with a run without an answer, the outcome of this run."""
    is_new: bool
    remarks: tuple[str, ...]
    why: str
    marks: CaseMarks


def build_line_view(entry: CaseEntry, marks: CaseMarks) -> LineView:
    """Return the texts of the line about a case, which is also the title of a case shown in full."""
    case = entry.case
    outcome = next((run.outcome for run in case.runs if run.outcome != "answered"), None)
    word = OUTCOMES[outcome] if outcome and case.status == "errored" else STATUSES[case.status]
    return LineView(
        name=entry.finding.name[:_LONGEST_NAME],
        kinds=tuple(kind.replace("_", "-") for kind in entry.kinds),
        status=case.status.replace("_", "-"),
        word=word,
        is_new=entry.finding.is_new,
        remarks=tuple(_list_remarks(entry)),
        why=shorten_text(_explain_status(case), _LONGEST_REASON),
        marks=marks,
    )


def _list_remarks(entry: CaseEntry) -> Iterator[str]:
    if "flaky" in entry.kinds:
        yield f"flaky: {entry.passed_if_flaky} of {len(entry.case.runs)} runs passed"
    yield from (kind for kind in ("quarantined", "observed") if kind in entry.kinds)
    if entry.case.protected:
        yield "protected"


def _explain_status(case: CaseResult) -> str:
    """Return the reason for the status of a case; "" for a passed case.

    The reason is the message of the first run without an answer. If there is none, it is the reason why the
    case was not evaluated, or up to two failed or errored metrics.
    """
    unanswered = next((run for run in case.runs if run.outcome != "answered"), None)
    if unanswered is not None and unanswered.failure is not None:
        return unanswered.failure.message
    if case.status == "not_evaluated":
        return explain_not_evaluated(case)
    fell_short = (metric for metric in case.metrics if metric.gating_status in {"failed", "errored"})
    return ", ".join(
        f"{metric.name} could not be evaluated"
        if metric.gating_status == "errored"
        else f"{metric.name} {format_score_and_threshold(metric)}"
        for metric in islice(fell_short, 2)
    )


def _list_facts(entry: CaseEntry) -> Iterator[str]:
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


def _build_runs(finding: Finding, anchor: str, budget: SizeBudget) -> Iterator[_RunView]:
    """Yield as many runs as `budget` allows, in their order.

    The run that explains the failure best gets its part of the budget first.
    """
    first = finding.run
    views: dict[int, _RunView] = {}
    for run in sorted(finding.case.runs, key=lambda run: run is not first):
        if budget.is_full:
            break
        # By identity, because two runs with equal results are equal.
        views[id(run)] = _build_run(run, finding, f"{anchor}-{run.run}", budget)
    yield from (views[id(run)] for run in finding.case.runs if id(run) in views)


def _build_run(run: RunResult, finding: Finding, anchor: str, budget: SizeBudget) -> _RunView:
    failure = run.failure
    number, _ = finding.turn or (0, None)
    message = budget.take_text(failure.message) if failure else None
    crash_output = budget.take_text(failure.detail, is_end=True) if failure and failure.detail else None
    # The budget is spent in the order of importance, which is not the order on the page.
    turns = _build_turns(run, finding, number if run is finding.run else 0, anchor, budget)
    return _RunView(
        number=run.run,
        is_open=run is finding.run,
        is_alone=len(finding.case.runs) == 1,
        outcome=OUTCOMES[run.outcome] if run.outcome != "answered" else "",
        status=classify_run(run).replace("_", "-"),
        facts=tuple(describe_run(run)),
        failure=message,
        crash_output=crash_output,
        attempts=tuple(_build_attempts(run.earlier_attempts, budget)),
        turns=turns,
        left_out=len(run.turns) - len(turns),
        # The case shows the metrics of a single run already, but not their details.
        scores=tuple(
            build_scores(
                [each for each in run.metrics if len(finding.case.runs) > 1 or each.details],
                finding.case,
                budget,
            )
        ),
        state=budget.take_json(run.final_state) if run.final_state and not budget.is_full else None,
        trace=build_run_trace(run, turns, anchor, budget) if run.trace and not budget.is_full else None,
    )


def _build_turns(
    run: RunResult, finding: Finding, first: int, anchor: str, budget: SizeBudget
) -> tuple[TurnView, ...]:
    """Return as many turns as `budget` allows, in their order.

    Turn `first` (1-based; 0 for none) gets its part of the budget first. In a run with a trace, the HTML ids
    of messages begin with `anchor`; in other runs, messages have no ids.
    """
    anchor = anchor if run.trace else ""
    numbers = sorted(range(1, len(run.turns) + 1), key=lambda number: number != first)
    views: list[TurnView] = []
    for number in numbers:
        if budget.is_full:
            break
        views.append(build_turn_view(run, number, finding, budget, anchor and f"{anchor}-{number}"))
    return tuple(sorted(views, key=lambda view: view.number))


def classify_run(run: RunResult) -> Status:
    """Return the worst status of a run's gating metrics; `errored` for a run without an answer.

    The order is `failed`, `errored`, `passed`, `not_evaluated`: a failed metric is the worst.
    """
    if run.outcome != "answered":
        return "errored"
    statuses = {metric.gating_status for metric in run.metrics}
    for status in ("failed", "errored", "passed"):
        if status in statuses:
            return status
    return "not_evaluated"


def describe_run(run: RunResult) -> Iterator[str]:
    """Yield the time and usage of a run as texts, and a remark if it is a follow-up run.

    A follow-up run repeats a failed case, to tell whether it is flaky.
    """
    yield format_seconds(run.duration_s)
    if run.usage:
        yield format_usage(run.usage)
    if run.user_usage:
        yield f"simulated user: {format_usage(run.user_usage)}"
    if run.judge:
        yield format_judge_usage(run.judge)
    if run.confirms:
        yield "a follow-up run: not part of any mean"


def _build_attempts(attempts: Sequence[Attempt], budget: SizeBudget) -> Iterator[_AttemptView]:
    for attempt in attempts:
        if budget.is_full:
            return
        used = f", {format_usage(attempt.usage)}" if attempt.usage else ""
        outcome = f"{OUTCOMES[attempt.outcome]} after {format_seconds(attempt.duration_s)}{used}"
        crash_output = attempt.failure.detail
        yield _AttemptView(
            budget.take_text(to_sentence(f"an earlier attempt {outcome}: {attempt.failure.message}")),
            budget.take_text(crash_output, is_end=True) if crash_output else None,
        )
