"""Build the parts of a case's page: expected and actual turns side by side, and its runs."""

from collections.abc import Iterator

from evalgate.core.frozen import frozen
from evalgate.core.sanitize import shorten_text
from evalgate.core.score_ranges import get_score_range
from evalgate.core.types import CaseResult, Reply, RunMetric, RunResult, Status, ToolCall, TurnMetric
from evalgate.metrics.tool_call_matching import align_calls, is_same_tool_call
from evalgate.reporting.diff import Difference
from evalgate.reporting.findings import OUTCOMES, Finding, describe_faults, explain_not_evaluated
from evalgate.reporting.html.case import classify_run, describe_run
from evalgate.reporting.html.case_list import CaseEntry, ClippedText, SizeBudget
from evalgate.reporting.html.conversation import (
    ScoreView,
    TranscriptEntry,
    build_scores,
    build_turn_view,
)
from evalgate.reporting.summary_lines import STATUSES, describe_agreement, explain_exemption
from evalgate.reporting.trace_view import format_seconds
from evalgate.viewer.value_diff import (
    DiffStatus,
    Segment,
    ValueRow,
    diff_texts,
    diff_values,
    list_values,
)

_LONGEST_TEXT = 100_000
_MOST_CALLS = 300
_LONGEST_REASON = 240


def create_budget() -> SizeBudget:
    """Return a new limit for the number of characters that a page about one case shows."""
    return SizeBudget(3_000_000, _LONGEST_TEXT)


@frozen
class CallRow:
    """Expected tool call next to the actual call; one of the two may be missing (None)."""

    status: DiffStatus
    expected: ToolCall | None
    actual: ToolCall | None
    values: tuple[ValueRow, ...]
    """Comparison of the arguments, path by path."""
    left_out: int
    """Number of paths that `values` leaves out because there are too many."""
    is_divergence: bool
    """True for the first row of the turn in which the calls differ."""
    number: int
    """Position, from 0, of the actual call among the turn's actual calls; -1 without an actual call."""


@frozen
class TurnComparison:
    """Turn of a run: the user's message, and the expected reply next to the actual reply."""

    number: int
    user: TranscriptEntry
    remarks: tuple[str, ...]
    calls: tuple[CallRow, ...]
    calls_left_out: int
    has_expected: bool
    """False if the case expects no reply in this turn, as with a simulated user."""
    expected: tuple[Segment, ...] | None
    """Expected response, split at the differences from the actual response; None if none is expected."""
    actual: tuple[Segment, ...] | None
    since_baseline: tuple[Difference, ...]
    entries: tuple[TranscriptEntry, ...]
    """Messages, calls and results of the agent in this turn, in order."""
    entries_left_out: int
    scores: tuple[ScoreView, ...]


def compare_turn(run: RunResult, number: int, finding: Finding, budget: SizeBudget) -> TurnComparison:
    """Compare the expected with the actual reply in turn `number` (from 1) of a run.

    `finding` describes the case of the run. `budget` limits the texts that the page can still show.
    """
    turn = run.turns[number - 1]
    view = build_turn_view(run, number, finding, budget)
    expected, actual = turn.expected, turn.actual
    has_expected = expected is not None and (expected.response is not None or bool(expected.events))
    rows = tuple(_compare_calls(expected, actual)) if has_expected else ()
    before, after = _compare_responses(expected if has_expected else None, actual)
    return TurnComparison(
        number,
        view.entries[0],
        view.remarks,
        rows[:_MOST_CALLS],
        max(0, len(rows) - _MOST_CALLS),
        has_expected,
        before,
        after,
        tuple(each for each in view.differences if each.is_since),
        view.entries[1:],
        view.left_out,
        view.scores,
    )


def _compare_calls(expected: Reply | None, actual: Reply | None) -> Iterator[CallRow]:
    pairs = align_calls(expected.tool_calls if expected else (), actual.tool_calls if actual else ())
    numbers = {id(call): at for at, call in enumerate(actual.tool_calls if actual else ())}
    is_first = True
    for one, other in pairs:
        status = _classify_pair(one, other)
        differs = status != "same"
        if one is not None and other is not None:
            values, more = diff_values(_get_args(one), _get_args(other))
        else:
            call = one or other
            values, more = list_values(_get_args(call), status) if call else ([], 0)
        yield CallRow(
            status, one, other, tuple(values), more, differs and is_first, numbers.get(id(other), -1)
        )
        is_first = is_first and not differs


def _classify_pair(one: ToolCall | None, other: ToolCall | None) -> DiffStatus:
    if other is None:
        return "missing"
    if one is None:
        return "extra"
    return "same" if is_same_tool_call(one, other) else "changed"


def _get_args(call: ToolCall) -> object:
    return {} if call.arguments is None else call.arguments


def _compare_responses(
    expected: Reply | None, actual: Reply | None
) -> tuple[tuple[Segment, ...] | None, tuple[Segment, ...] | None]:
    before = expected.response if expected else None
    after = actual.response if actual else None
    if before is not None and after is not None:
        return diff_texts(before[:_LONGEST_TEXT], after[:_LONGEST_TEXT])
    return _wrap_text(before), _wrap_text(after)


def _wrap_text(text: str | None) -> tuple[Segment, ...] | None:
    return None if text is None else ((False, text[:_LONGEST_TEXT]),)


# --- runs ---------------------------------------------------------------------------------------------------


@frozen
class AttemptView:
    """Failed attempt at a run, after which the run was repeated."""

    words: str
    crash_output: ClippedText | None
    """Traceback of the agent, or the end of its standard error; None if there is neither."""


@frozen
class RunComparison:
    """Run of a case, with expected and actual turns side by side."""

    number: int
    status: Status
    word: str
    facts: tuple[str, ...]
    failure: str
    crash_output: ClippedText | None
    """Traceback of the agent, or the end of its standard error; None if there is neither."""
    attempts: tuple[AttemptView, ...]
    turns: tuple[TurnComparison, ...]
    scores: tuple[ScoreView, ...]
    state: ClippedText | None


def compare_run(run: RunResult, finding: Finding, budget: SizeBudget) -> RunComparison:
    """Compare the expected with the actual turns of a run. Leave out turns for which `budget` has no room.

    `finding` describes the case of the run.
    """
    turns: list[TurnComparison] = []
    for number in range(1, len(run.turns) + 1):
        if budget.is_full:
            break
        turns.append(compare_turn(run, number, finding, budget))
    status = classify_run(run)
    failure = run.failure
    # The scores of a single turn are shown there, and not once more as scores of the run.
    shown = {_describe_score(each) for each in run.turns[0].metrics} if len(run.turns) == 1 else set()
    scores = [each for each in run.metrics if _describe_score(each) not in shown]
    return RunComparison(
        run.run,
        status,
        OUTCOMES[run.outcome] if run.outcome != "answered" else STATUSES[status],
        tuple(list_run_facts(run)),
        failure.message if failure else "",
        budget.take_text(failure.detail, is_end=True) if failure and failure.detail else None,
        tuple(
            AttemptView(
                f"{OUTCOMES[attempt.outcome]} after {format_seconds(attempt.duration_s)}: "
                f"{attempt.failure.message}",
                budget.take_text(attempt.failure.detail, is_end=True) if attempt.failure.detail else None,
            )
            for attempt in run.earlier_attempts
        ),
        tuple(turns),
        tuple(build_scores(scores, finding.case, budget)),
        budget.take_json(run.final_state) if run.final_state else None,
    )


def _describe_score(metric: RunMetric | TurnMetric) -> tuple[str, str]:
    return metric.name, repr((metric.score, metric.status, metric.reason, metric.details))


def list_run_facts(run: RunResult) -> Iterator[str]:
    """Yield texts about the time, usage, models and session id of a run, as far as they are known."""
    yield from describe_run(run)
    if run.usage and run.usage.models:
        yield ", ".join(run.usage.models)
    if run.session_id:
        yield f"session {run.session_id}"


# --- the case -----------------------------------------------------------------------------------------------


@frozen
class CaseLine:
    """Texts of the line about a case, in a list of cases or at the top of the case's page."""

    name: str
    status: str
    """Status of the case as a CSS class."""
    word: str
    is_new: bool
    remarks: tuple[str, ...]
    why: str
    """First reason why the case did not pass or was not evaluated, shortened; "" without a reason."""
    tags: tuple[str, ...]


def build_case_line(entry: CaseEntry) -> CaseLine:
    """Return the texts of the line about a case, with the first reason why it did not pass."""
    case = entry.case
    outcome = next((run.outcome for run in case.runs if run.outcome != "answered"), None)
    is_evaluated = case.status != "not_evaluated"
    why = next(describe_faults(case), "") if is_evaluated else explain_not_evaluated(case)
    return CaseLine(
        entry.finding.name,
        case.status.replace("_", "-"),
        OUTCOMES[outcome] if outcome and case.status == "errored" else STATUSES[case.status],
        entry.finding.is_new,
        tuple(_list_remarks(entry)),
        shorten_text(why, _LONGEST_REASON),
        case.tags,
    )


def _list_remarks(entry: CaseEntry) -> Iterator[str]:
    if "flaky" in entry.kinds:
        yield f"flaky: {entry.passed_if_flaky} of {len(entry.case.runs)} runs passed"
    if entry.case.quarantine is not None:
        yield "quarantined"
    elif entry.case.observed:
        yield "observed"
    if entry.case.protected:
        yield "protected"


def list_case_facts(case: CaseResult) -> Iterator[str]:
    """Yield texts about a case, as far as they apply.

    There is a text for the case's `file:line`, for a weight other than 1, for a protected case (which closes
    the gate when it fails), and for a case that does not count for the verdict, because it is quarantined or
    not reviewed yet.
    """
    if case.path:
        yield f"{case.path}:{case.line}" if case.line else case.path
    if case.weight != 1:
        yield f"weight {case.weight:g}"
    if case.protected:
        yield "protected: the gate closes when it fails"
    if exemption := explain_exemption(case):
        yield exemption


@frozen
class RunColumn:
    """One run of a case: its column in the table that compares all runs of the case."""

    number: int
    status: Status
    word: str
    facts: tuple[str, ...]
    scores: tuple[tuple[str, Status, str, str], ...]
    """(name, status, score, reason) of each metric."""
    turns: tuple[tuple[tuple[str, ...], str], ...]
    """(names of the tools that were called, response) of each turn."""
    failure: str


def build_run_columns(case: CaseResult, most: int) -> Iterator[RunColumn]:
    """Yield the columns of the table of a case's runs, one for each of the first `most` runs."""
    thresholds = {each.name: each.threshold for each in case.metrics}
    for run in case.runs[:most]:
        status = classify_run(run)
        yield RunColumn(
            run.run,
            status,
            OUTCOMES[run.outcome] if run.outcome != "answered" else STATUSES[status],
            tuple(list_run_facts(run)),
            tuple(
                (
                    each.name,
                    each.status,
                    get_score_range(each.name).format_pair(each.score, thresholds.get(each.name))[0],
                    _join_reason(each.reason, each.details),
                )
                for each in run.metrics
            ),
            tuple(
                (
                    tuple(call.name for call in turn.actual.tool_calls[:_MOST_CALLS]) if turn.actual else (),
                    ((turn.actual.response if turn.actual else None) or "")[:_LONGEST_TEXT],
                )
                for turn in run.turns
            ),
            run.failure.message if run.failure else "",
        )


def _join_reason(reason: str, details: object) -> str:
    agreement = details.get("agreement") if isinstance(details, dict) else None
    if isinstance(agreement, int | float):
        return f"{reason} ({describe_agreement(agreement)})".strip()
    return reason
