"""Make records from other files than `results.json`, such as sessions, traces and baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalgate.agents.tracing.trace_formats import is_trace_file
from evalgate.baselines.serialization import is_baseline, load_baseline
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    AgentInfo,
    Baseline,
    BaselineCase,
    BaselineRun,
    CaseResult,
    EvalCase,
    EvalSet,
    Record,
    RunResult,
    Totals,
    TraceSpan,
    TurnResult,
    Verdict,
)
from evalgate.datasets.results_io import read_record
from evalgate.documents.strict_json import read_json
from evalgate.integrations.adk.sessions import is_session, read_session_spans
from evalgate.integrations.recordings import may_become_eval_set, read_recording, read_trace_steps
from evalgate.runner.regating import EMPTY_RECORD, build_stored_record


def read_any(path: Path, shown_as: str) -> tuple[Record, bool]:
    """Return (record, is recording) for a file with a record of a run or a recording.

    A recording, such as a session, was not evaluated. So its record has no scores that count, and the verdict
    means nothing.

    Raises:
        InvalidInputError: the file holds neither a record nor a recording, or is damaged.
    """
    try:
        return read_record(path, shown_as), False
    except InvalidInputError:
        if baseline := _read_baseline(path, shown_as):
            return _build_baseline_record(baseline), True
        if not _can_be_recording(path, shown_as):
            raise
    found = read_recording(path, shown_as)
    if isinstance(found, Record):  # results of another tool
        return found, False
    return _build_record(found, _read_traces(path, shown_as, found)), True


def _read_traces(path: Path, shown_as: str, found: EvalSet) -> Mapping[str, tuple[TraceSpan, ...]]:
    """Return the timed steps of each recorded conversation, by case id; {} if the file has no steps."""
    if is_trace_file(path):
        return read_trace_steps(path, shown_as)
    document = read_json(path, shown_as)
    if not is_session(document.value):
        return {}
    return {case.eval_id: read_session_spans(document) for case in found.cases}


def _read_baseline(path: Path, shown_as: str) -> Baseline | None:
    """Return the baseline in a file; None if the file is not a baseline, or is damaged."""
    try:
        document = read_json(path, shown_as)
        return load_baseline(document) if is_baseline(document) else None
    except InvalidInputError:
        return None


def _build_baseline_record(baseline: Baseline) -> Record:
    """Return a record with the runs of the baseline, their scores, and the stored replies of each case."""
    record = build_stored_record(baseline, {}, EMPTY_RECORD)
    cases = tuple(
        replace(case, metrics=(), runs=_build_stored_runs(case, stored))
        for case, stored in zip(record.cases, baseline.cases, strict=True)
    )
    return replace(record, cases=cases, totals=Totals(cases=len(cases)))


def _build_stored_runs(case: CaseResult, stored: BaselineCase) -> tuple[RunResult, ...]:
    """Return the stored runs of a case. The stored replies are added to the run in which the agent gave them.

    All scores of the runs have the status `not_evaluated`.
    """
    replied = _find_replied_run(stored.runs)
    turns = tuple(TurnResult("", None, reply) for reply in stored.replies)
    return tuple(
        replace(_drop_statuses(run), turns=turns if at == replied else ()) for at, run in enumerate(case.runs)
    )


def _find_replied_run(runs: Sequence[BaselineRun]) -> int | None:
    """Return the index of the run from which the baseline stores the replies; None if no run was answered.

    `runs` are the stored runs of one case, the oldest first. They come from several calls of `evalgate run`.
    The result is the first answered run of the newest call that has one.
    """
    answered = [at for at, run in enumerate(runs) if run.outcome == "answered"]
    # A baseline keeps replies of only one run of each case: the first answered run of the newest gate run
    # (one stored `evalgate run`) that has an answer.
    return next((at for at in answered if runs[at].source == runs[answered[-1]].source), None)


def _drop_statuses(run: RunResult) -> RunResult:
    """Return a run in which all scores have the status `not_evaluated`: a baseline stores no thresholds."""
    return replace(run, metrics=tuple(replace(each, status="not_evaluated") for each in run.metrics))


def _can_be_recording(path: Path, shown_as: str) -> bool:
    try:
        return may_become_eval_set(path, shown_as) or path.suffix == ".json"
    except InvalidInputError:
        return False


def _build_record(recorded: EvalSet, traces: Mapping[str, tuple[TraceSpan, ...]]) -> Record:
    cases = tuple(_build_case(recorded, case, traces.get(case.eval_id, ())) for case in recorded.cases)
    return Record(
        evalgate_version="",
        created_at="",
        duration_s=0.0,
        agent=AgentInfo("", ""),
        runs=1,
        verdict=Verdict("pass", 0),
        metrics=(),
        cases=cases,
        totals=Totals(cases=len(cases), not_evaluated=len(cases)),
    )


def _build_case(recorded: EvalSet, case: EvalCase, trace: tuple[TraceSpan, ...]) -> CaseResult:
    turns = tuple(TurnResult(turn.user.text, None, turn.expected) for turn in case.turns)
    duration = max((span.start_s + span.duration_s for span in trace), default=0.0)
    run = RunResult(1, "answered", duration, turns, trace=trace)
    return CaseResult(
        recorded.eval_set_id,
        case.eval_id,
        "not_evaluated",
        (),
        (run,),
        path=recorded.path,
        line=case.line,
        tags=case.tags,
    )
