"""The first divergence of a failed run."""

from dataclasses import replace

import pytest

from evalgate.core.failures import call_divergences
from evalgate.core.failures.run_divergences import find_divergence
from evalgate.core.plugin_registry import METRICS, get_own_metric_type
from evalgate.core.types import (
    CaseMetric,
    CaseResult,
    Failure,
    JsonObject,
    RecordedCriterion,
    RunMetric,
    RunResult,
    ToolCall,
    TurnMetric,
)
from tests.builders import RESPONSE, TRAJECTORY, a_call, a_case_result, a_reply, a_run_result, a_turn_result

LOOKUP, REFUND, MAIL = a_call("lookup_order", order="A-7"), a_call("issue_refund", amount=9), a_call("mail")


def failing_case(run: RunResult, metric: str = TRAJECTORY) -> CaseResult:
    metrics = (CaseMetric(metric, 0.0, 1.0, "failed", fingerprint="f"),)
    return a_case_result(status="failed", metrics=metrics, runs=(run,))


def describe_calls(
    expected: tuple[ToolCall, ...],
    actual: tuple[ToolCall, ...],
    options: JsonObject,
    metric: str = TRAJECTORY,
) -> str:
    """The label of a case that fails a metric of tool calls."""
    turn = a_turn_result("Hi", a_reply("Done.", *expected), a_reply("Done.", *actual))
    run = a_run_result(a_turn_result(), turn, metrics=(RunMetric(metric, 0.0, "failed"),))
    criteria = {(metric, "f"): RecordedCriterion(metric, "f", options)}
    return find_divergence(failing_case(run, metric), criteria).label


@pytest.mark.parametrize(
    ("expected", "actual", "label"),
    [
        ((LOOKUP, REFUND), (REFUND, LOOKUP), "`issue_refund` before `lookup_order`"),
        ((LOOKUP, REFUND), (REFUND,), "no call of `lookup_order`"),
        ((LOOKUP, REFUND), (LOOKUP,), "no call of `issue_refund`"),
        ((LOOKUP, REFUND), (), "no call of `lookup_order`"),
        ((LOOKUP, REFUND), (LOOKUP, MAIL, REFUND), "unexpected call of `mail`"),
        ((LOOKUP,), (LOOKUP, LOOKUP), "unexpected call of `lookup_order`"),
        ((LOOKUP, REFUND), (LOOKUP, MAIL), "`mail` instead of `issue_refund`"),
        ((LOOKUP, REFUND, LOOKUP), (REFUND, LOOKUP), "no call of `lookup_order`"),
        ((REFUND,), (a_call("issue_refund", amount=8),), "`issue_refund` with another `amount`"),
        ((REFUND,), (a_call("issue_refund"),), "`issue_refund` without `amount`"),
        ((REFUND,), (replace(REFUND, args={"amount": 9, "x": 1}),), "`issue_refund` with an unexpected `x`"),
        (
            (ToolCall("book", {"seats": [{"row": 1, "class": "a"}, {"row": 2}]}),),
            (ToolCall("book", {"seats": [{"row": 1, "class": "a"}, {"row": 3}]}),),
            "`book` with another `seats[*].row`",
        ),
        (
            (ToolCall("say", other_args="a"),),
            (ToolCall("say", other_args="b"),),
            "`say` with other arguments",
        ),
        ((a_call("a`b\n"),), (), "no call of `a'b`"),
    ],
)
def test_the_kind_of_the_first_call_that_differs(
    expected: tuple[ToolCall, ...], actual: tuple[ToolCall, ...], label: str
) -> None:
    assert describe_calls(expected, actual, {}) == label


def test_what_a_metric_allows_is_no_divergence() -> None:
    in_order, any_order = {"match_type": "in-order"}, {"match_type": "ANY_ORDER"}
    assert describe_calls((LOOKUP, REFUND), (MAIL, REFUND, LOOKUP), in_order).startswith(
        "`issue_refund` before"
    )
    assert describe_calls((LOOKUP, REFUND), (MAIL, LOOKUP), in_order) == "no call of `issue_refund`"
    wrong = a_call("issue_refund", amount=1)
    assert describe_calls((LOOKUP, REFUND), (wrong, MAIL, LOOKUP), any_order).endswith("another `amount`")
    assert describe_calls((LOOKUP, REFUND), (MAIL, LOOKUP), any_order) == "no call of `issue_refund`"
    names_only = {"match_type": "EXACT", "ignore_args": True}
    assert describe_calls((LOOKUP, REFUND), (a_call("lookup_order"), MAIL), names_only).startswith(
        "`mail` in"
    )
    trpc = {"toolTrajectory": {"orderSensitive": False}}
    name = "trpc/tool_trajectory_avg_score"
    assert describe_calls((LOOKUP, REFUND), (REFUND, LOOKUP, MAIL), trpc, name) == "unexpected call of `mail`"
    assert describe_calls((LOOKUP, REFUND), (REFUND, MAIL), trpc, name) == "`mail` instead of `lookup_order`"


def test_other_failures_are_named_by_what_failed() -> None:
    def describe(run: RunResult) -> str:
        return find_divergence(failing_case(run), {}).label

    def describe_metrics(*metrics: RunMetric, calls: bool = False) -> str:
        expected = a_reply("Done.", LOOKUP) if calls else a_reply("Done.")
        return describe(a_run_result(a_turn_result("Hi", expected, a_reply("No.", MAIL)), metrics=metrics))

    response = RunMetric(RESPONSE, 0.0, "failed")
    assert describe_metrics(response) == "only the response differs"
    assert describe_metrics(response, RunMetric(TRAJECTORY, 1.0, "passed"), calls=True) == describe_metrics(
        response
    )
    # No metric compares the calls, but they are the first that differs.
    assert describe_metrics(response, calls=True) == "`mail` instead of `lookup_order`"
    assert (
        describe_metrics(RunMetric("check/polite", 0.0, "failed"), response)
        == "the check `polite` does not hold"
    )
    rubrics = {"rubrics": [{"id": "short", "score": 1.0}, {"id": "kind", "score": 0.0}]}
    judged = RunMetric("rubric_based_final_response_quality_v1", 0.5, "failed", details=rubrics)
    assert describe_metrics(judged) == "the rubric `kind` is not met"
    assert describe_metrics(RunMetric("safety_v1", 0.0, "failed")) == "`safety_v1` is not met"
    assert describe_metrics(RunMetric("budget/tokens", 7.0, "failed")) == "the budget `tokens` is exceeded"
    outage = RunMetric("safety_v1", None, "errored")
    assert describe_metrics(outage) == "`safety_v1` could not be evaluated"
    assert describe_metrics(outage, response) == "only the response differs"

    crash = Failure("exception", "the agent raised shop.errors.NoOrderError: A-7")
    assert describe(a_run_result(outcome="crashed", failure=crash)) == "crashed: `NoOrderError`"
    assert (
        describe(a_run_result(outcome="crashed", failure=Failure("exited", "code 3"))) == "crashed: `exited`"
    )
    told = Failure("exception", "ValueError: no such order")
    assert describe(a_run_result(outcome="crashed", failure=told)) == "crashed: `ValueError`"
    assert describe(a_run_result(outcome="timed_out", failure=Failure("timeout", "60 s"))) == "timed out"
    silent = replace(a_turn_result(), actual=None)
    assert describe(a_run_result(silent, metrics=(response,))) == "a turn without an answer"
    further = replace(a_turn_result(), expected=None)
    assert (
        describe(a_run_result(a_turn_result(), further, metrics=(response,)))
        == "a turn that the case does not have"
    )
    assert find_divergence(a_case_result(status="failed", runs=()), {}).kind == "metric"


def test_the_turn_that_a_metric_fails_is_the_one_that_is_compared() -> None:
    skipped = a_turn_result("a", a_reply("x", LOOKUP), a_reply("x"), (TurnMetric(TRAJECTORY, 1.0, "passed"),))
    failed = a_turn_result("b", a_reply("x"), a_reply("x", MAIL), (TurnMetric(TRAJECTORY, 0.0, "failed"),))
    run = a_run_result(skipped, failed, metrics=(RunMetric(TRAJECTORY, 0.5, "failed"),))
    assert find_divergence(failing_case(run), {}).label == "unexpected call of `mail`"


def test_arguments_that_nest_too_deep_are_no_error() -> None:
    deep: JsonObject = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert describe_calls((ToolCall("t", deep),), (ToolCall("t", {"a": 1}),), {}).startswith(
        "`t` with another `a"
    )


def test_the_metrics_that_compare_calls_and_responses_are_known() -> None:
    for name in METRICS:
        compares = getattr(get_own_metric_type(name), "compares_with", None)
        if compares == "tools" and name != "trajectory_single_tool_use":
            assert name in call_divergences._TOOL_METRICS
        if compares == "response":
            assert name.rpartition("/")[2] in call_divergences._RESPONSE_METRICS
