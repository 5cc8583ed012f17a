"""Records for tests of the viewer."""

from dataclasses import replace

from evalgate.core.types import (
    CaseChange,
    CaseMetric,
    CaseResult,
    Comparison,
    Failure,
    Record,
    Reply,
    RunMetric,
    RunResult,
    Status,
    ToolResult,
    TraceSpan,
    TurnMetric,
    TurnResult,
    Usage,
    Verdict,
)
from tests.builders import (
    RESPONSE,
    TRAJECTORY,
    a_call,
    a_case_result,
    a_record,
    a_reply,
    a_run_result,
    a_summary,
)

EXPECTED = a_reply(
    "Your refund of 10 EUR is on its way.",
    a_call("lookup_order", order_id="A-17", fields=["status", "total"]),
    ToolResult("lookup_order", {"status": "late", "total": 10}),
    a_call("issue_refund", order_id="A-17", amount=10, note={"reason": "late parcel", "to": "card"}),
    a_call("send_mail", to="anna@example.com"),
)
ACTUAL = a_reply(
    "Your refund of 12 EUR is on its way, sorry.",
    a_call("lookup_order", order_id="A-17", fields=["status", "total"]),
    ToolResult("lookup_order", {"status": "late", "total": 10}),
    a_call("issue_refund", order_id="A-17", amount=12, note={"reason": "lost parcel", "to": "card"}),
    ToolResult("issue_refund", {"ok": True}),
    a_call("close_ticket", id=4),
)
TRACE = (
    TraceSpan("a", "support_agent", "agent", 0, 0.0, 2.4),
    TraceSpan(
        "b", "gpt-5-mini", "model", 0, 0.1, 0.9, "a", "support_agent", Usage(420, 31, 0.0021),
        request={"messages": [{"role": "user", "content": "Where is my order A-17?"}], "tools": [{"name": "lookup_order"}, {"name": "issue_refund"}, {"name": "close_ticket"}]},
        response={"tool_calls": [{"name": "lookup_order"}]},
    ),
    TraceSpan("c", "lookup_order", "tool", 0, 1.0, 0.2, "a", "support_agent", request={"order_id": "A-17", "fields": ["status", "total"]}, response={"status": "late"}),
    TraceSpan("d", "gpt-5-mini", "model", 0, 1.2, 0.5, "a", "support_agent", Usage(510, 22, 0.0019)),
    TraceSpan("e", "issue_refund", "tool", 0, 1.7, 0.1, "a", "support_agent", request={"order_id": "A-17", "amount": 12}, error="limit exceeded"),
    TraceSpan("f", "gpt-5-mini", "model", 0, 1.8, 0.6, "a", "support_agent", Usage(600, 40, None)),
)  # fmt: skip


def a_scored_case(
    eval_id: str, score: float, *runs: RunResult, eval_set_id: str = "support", **more: object
) -> CaseResult:
    status: Status = "passed" if score >= 0.8 else "failed"
    metrics = (
        CaseMetric(TRAJECTORY, score, 0.8, status, "" if score >= 0.8 else "call 2: other arguments"),
        CaseMetric(RESPONSE, 0.9, 0.5, "passed"),
    )
    case = a_case_result(eval_id, status, eval_set_id=eval_set_id, metrics=metrics, runs=runs or None)
    return replace(case, **more)  # type: ignore[arg-type]


def a_scored_run(
    run: int, actual: Reply | None, score: float, *, trace: tuple[TraceSpan, ...] = ()
) -> RunResult:
    status: Status = "passed" if score >= 0.8 else "failed"
    reason = "" if score >= 0.8 else "call 2: expected issue_refund(amount=10)"
    details = {
        "agreement": 0.67,
        "samples": [
            {"score": 1.0, "text": "Correct.", "model": "gpt-5"},
            {"score": 0.0, "reason": "Wrong amount"},
        ],
        "rubrics": [
            {"id": "polite", "text": "The answer is polite", "score": 1.0, "reason": "It says sorry"}
        ],
    }
    turn = TurnResult(
        "My parcel A-17 is late. I want my money back!",
        EXPECTED,
        actual,
        (
            TurnMetric(TRAJECTORY, score, status, reason),
            TurnMetric("rubric_quality_v1", 0.5, "failed", "one rubric fails", details),
        ),
    )
    metrics = (RunMetric(TRAJECTORY, score, status, reason), RunMetric(RESPONSE, 0.9, "passed"))
    found = a_run_result(turn, run=run, metrics=metrics, duration_s=2.4)
    return replace(found, usage=Usage(1530, 93, 0.004), trace=trace, final_state={"cart": []})


def a_record_to_view() -> Record:
    """Return a record with failing, flaky, crashed, quarantined and passing cases, compared with a baseline."""
    refund = a_scored_case(
        "refund_late",
        0.0,
        a_scored_run(1, ACTUAL, 0.0, trace=TRACE),
        a_scored_run(2, EXPECTED, 1.0),
        tags=("billing", "smoke"),
    )
    crash = a_case_result(
        "crash",
        "errored",
        eval_set_id="support",
        metrics=(CaseMetric(TRAJECTORY, None, 0.8, "errored"),),
        runs=(
            a_run_result(
                outcome="crashed",
                failure=Failure(
                    "exception",
                    "ValueError: no such order",
                    "Traceback (most recent call last):\n  File agent.py\nValueError",
                ),
            ),
        ),
    )
    others = [
        a_scored_case(f"order_{number}", 1.0, eval_set_id="orders", tags=("smoke",)) for number in range(4)
    ]
    changes = (
        CaseChange("support", "refund_late", "newly_failing", "passed", "failed", (EXPECTED,)),
        CaseChange("orders", "order_1", "newly_passing", "failed", "passed"),
    )
    return a_record(
        refund,
        crash,
        *others,
        verdict=Verdict(
            "fail", 1, ("Regression: support/refund_late fails since this change.", "1 case crashed.")
        ),
        metrics=(
            a_summary(TRAJECTORY, 0.8, 0.8, "passed", baseline=0.95, delta=-0.15, n=6, errors=1, compared=5),
            a_summary(RESPONSE, 0.9, 0.5, n=5),
        ),
        comparison=Comparison(".evalgate/baseline.json", "2026-11-01T00:00:00Z", "1a2b3c4d5e6f", changes, 4),
        notices=("The agent gave `0` tokens for 1 run.",),
    )
