"""Conversations that no run evaluated, as a record: saved sessions, traces, and recordings of other tools."""

from collections.abc import Mapping
from pathlib import Path

from evalgate.agents.tracing.span_steps import read_trace_runs
from evalgate.agents.tracing.trace_formats import is_trace_file
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    AgentInfo,
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
from evalgate.integrations.recordings import is_recording, read_recording


def read_any(path: Path, shown_as: str) -> tuple[Record, bool]:
    """Return the record in a file, and True if it is a recording that no run evaluated.

    Raises:
        InvalidInputError: the file is neither, or damaged.
    """
    try:
        return read_record(path, shown_as), False
    except InvalidInputError:
        if not _can_be_recording(path, shown_as):
            raise
    found = read_recording(path, shown_as)
    if isinstance(found, Record):  # results of another tool
        return found, False
    traces = read_trace_runs(path, shown_as) if is_trace_file(path) else {}
    return _build_record(found, traces), True


def _can_be_recording(path: Path, shown_as: str) -> bool:
    try:
        return is_recording(path, shown_as) or path.suffix == ".json"
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
