"""Build small valid objects for tests. Arguments override the default values."""

from evalgate.core.types import (
    AgentInfo,
    CaseMetric,
    CaseResult,
    CaseTurn,
    Comparison,
    EvalCase,
    Event,
    Failure,
    JsonObject,
    Message,
    MetricSummary,
    Outcome,
    Record,
    Reply,
    RunMetric,
    RunResult,
    Status,
    ToolCall,
    ToolResult,
    Totals,
    TurnMetric,
    TurnResult,
    UserMessage,
    Verdict,
)

TRAJECTORY = "tool_trajectory_avg_score"
RESPONSE = "response_match_score"


def a_call(name: str = "get_weather", args: JsonObject | None = None, **more: object) -> ToolCall:
    """Return a tool call. Its arguments are `args`, or else the keyword arguments."""
    return ToolCall(name, args if args is not None else more)


def a_reply(response: str | None = "It is sunny.", *events: Event) -> Reply:
    """Return a reply with the events that came before the response."""
    return Reply(response, events)


def a_turn(user: str = "How is the weather?", expected: Reply | None = None) -> CaseTurn:
    """Return a turn with a user's text and an expected reply."""
    return CaseTurn(UserMessage(user), expected if expected is not None else a_reply())


def a_case(eval_id: str = "weather", *turns: CaseTurn, line: int = 1) -> EvalCase:
    """Return a case, with one turn by default."""
    return EvalCase(eval_id, turns or (a_turn(),), line=line)


def a_turn_result(
    user: str = "How is the weather?",
    expected: Reply | None = None,
    actual: Reply | None = None,
    metrics: tuple[TurnMetric, ...] = (),
) -> TurnResult:
    """Return the result of a turn. By default, the agent did what was expected."""
    expected = expected if expected is not None else a_reply()
    return TurnResult(user, expected, actual if actual is not None else expected, metrics)


def a_run_result(
    *turns: TurnResult,
    run: int = 1,
    outcome: Outcome = "answered",
    failure: Failure | None = None,
    duration_s: float = 0.5,
    metrics: tuple[RunMetric, ...] = (),
) -> RunResult:
    """Return the result of a run. By default, it is answered and has one turn."""
    return RunResult(run, outcome, duration_s, turns or (a_turn_result(),), metrics, failure=failure)


def a_case_result(
    eval_id: str = "weather",
    status: Status = "passed",
    *,
    eval_set_id: str = "travel",
    metrics: tuple[CaseMetric, ...] | None = None,
    runs: tuple[RunResult, ...] | None = None,
    path: str = "evals/travel.evalset.json",
    line: int = 3,
) -> CaseResult:
    """Return the result of a case, by default with one run and one metric with a score that fits the status."""
    if metrics is None:
        score = {"passed": 1.0, "failed": 0.0}.get(status)
        metrics = (CaseMetric(TRAJECTORY, score, 1.0, status),)
    runs = runs if runs is not None else (a_run_result(),)
    return CaseResult(eval_set_id, eval_id, status, metrics, runs, "f00d", path, line)


def a_record(
    *cases: CaseResult,
    verdict: Verdict | None = None,
    metrics: tuple[MetricSummary, ...] | None = None,
    comparison: Comparison | None = None,
    notices: tuple[str, ...] = (),
) -> Record:
    """Return a record with totals that fit its cases. The default verdict is `pass`."""
    counts = {name: sum(case.status == name for case in cases) for name in _STATUSES}
    return Record(
        evalgate_version="1.0.0",
        created_at="2026-11-20T08:30:00Z",
        duration_s=2.5,
        agent=AgentInfo("python", "agent.py:answer"),
        runs=1,
        verdict=verdict or Verdict("pass", 0, ()),
        metrics=metrics if metrics is not None else (a_summary(n=len(cases)),),
        cases=cases,
        totals=Totals(len(cases), **counts, input_tokens=1200, output_tokens=340, cost_usd=0.0123),
        comparison=comparison,
        notices=notices,
    )


def a_summary(
    name: str = TRAJECTORY,
    score: float | None = 1.0,
    threshold: float = 1.0,
    status: Status = "passed",
    *,
    baseline: float | None = None,
    delta: float | None = None,
    n: int = 1,
    errors: int = 0,
    compared: int = 0,
) -> MetricSummary:
    """Return the summary of a metric, which is one line in the table of metrics."""
    return MetricSummary(name, score, threshold, status, baseline, delta, n, errors, compared)


_STATUSES = ("passed", "failed", "errored", "not_evaluated")

__all__ = [
    "RESPONSE",
    "TRAJECTORY",
    "Message",
    "ToolResult",
    "a_call",
    "a_case",
    "a_case_result",
    "a_record",
    "a_reply",
    "a_run_result",
    "a_summary",
    "a_turn",
    "a_turn_result",
]
