"""The verdict is one pure function: one row a rule."""

from dataclasses import replace
from typing import Literal, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.config.schema.gate import GateConfig
from evalgate.core.types import (
    CaseComparison,
    CaseMetric,
    CaseResult,
    Failure,
    FollowUp,
    GateInput,
    MetricComparison,
    MetricSummary,
    Outcome,
    RunMetric,
    Status,
)
from evalgate.gating.comparison import flag_regressions
from evalgate.gating.verdict import decide_verdict
from evalgate.metrics.metric_summaries import compute_totals, summarize_metrics
from tests.builders import RESPONSE, TRAJECTORY, a_case_result, a_run_result

POLICY = GateConfig()
Outcomes: TypeAlias = Literal["broke", "flake", "excused", "open"]


def evidence(*cases: CaseResult, interrupted: bool = False, unreachable: str = "") -> GateInput:
    return GateInput(summarize_metrics(cases), cases, compute_totals(cases), None, interrupted, unreachable)


def scored(eval_id: str, score: float, threshold: float = 0.8, name: str = RESPONSE) -> CaseResult:
    status: Status = "passed" if score >= threshold else "failed"
    return a_case_result(eval_id, status, metrics=(CaseMetric(name, score, threshold, status),))


def crashed(eval_id: str, *, outcome: Outcome = "crashed") -> CaseResult:
    failure = Failure("exception", "the agent raised ValueError: no")
    run = a_run_result(outcome=outcome, failure=failure)
    metric = CaseMetric(RESPONSE, None, 0.8, "errored", failure.message)
    return a_case_result(eval_id, "errored", metrics=(metric,), runs=(run,))


def crashed_in_some_runs(eval_id: str, *, crashes: int, runs: int) -> CaseResult:
    """A case that has no score, because one of its runs crashed."""
    answered = a_run_result(metrics=(RunMetric(RESPONSE, 1.0, "passed"),))
    case = crashed(eval_id)
    return replace(case, runs=(*case.runs * crashes, *[answered] * (runs - crashes)))


def broken_metric(eval_id: str) -> CaseResult:
    metrics = (CaseMetric(RESPONSE, None, 0.8, "errored", "the judge did not answer"),)
    return a_case_result(eval_id, "errored", metrics=metrics)


def unclear(eval_id: str) -> CaseResult:
    """A case with a reason for a score, one for a metric that does not apply, and one for a metric that broke."""
    metrics = (
        CaseMetric(TRAJECTORY, 0.9, 0.8, "passed", "one call is missing"),
        CaseMetric("grounded", None, 0.8, "not_evaluated", "the case has no context"),
        CaseMetric(RESPONSE, None, 0.8, "errored", "the judge did not answer"),
    )
    return a_case_result(eval_id, "errored", metrics=metrics)


def not_run(eval_id: str) -> CaseResult:
    failure = Failure("unsupported", "it needs a simulated user")
    run = a_run_result(outcome="not_run", failure=failure)
    metric = CaseMetric(RESPONSE, None, 0.8, "not_evaluated", failure.message)
    return a_case_result(eval_id, "not_evaluated", metrics=(metric,), runs=(run,))


def with_delta(delta: float, *cases: CaseResult) -> GateInput:
    found = evidence(*cases)
    metrics = tuple(replace(m, baseline=0.9, delta=delta, compared=1) for m in found.metrics)
    return replace(found, metrics=flag_regressions(metrics, POLICY, {}))


def beside_baseline(
    case: CaseResult, status: Literal["ok", "suspect", "new"] = "suspect", runs: int = 10
) -> CaseResult:
    """The case, held against so many runs of a baseline."""
    standing = CaseComparison(status, runs, runs, 1.0, 1, 0, 0.0)
    return replace(case, metrics=tuple(replace(metric, standing=standing) for metric in case.metrics))


def followed_up(case: CaseResult, outcome: Outcomes, runs: int = 1, failed: int = 1) -> CaseResult:
    """The failing case after so many runs; its baseline has ten, which passed unless they excuse it."""
    before = 2 if outcome == "excused" else 0
    found = FollowUp(outcome, runs, failed, 4, 10, before, crashed=case.agent_failed)
    return replace(case, follow_up=found)


def followed_up_by_a_crash(case: CaseResult) -> CaseResult:
    crash = replace(a_run_result(run=2, outcome="crashed"), confirms=True)
    return replace(case, runs=(*case.runs, crash))


def min_mean(case: CaseResult, minimum: float) -> CaseResult:
    return replace(case, metrics=tuple(replace(metric, min_mean=minimum) for metric in case.metrics))


PASS, FAIL, NO_VERDICT = ("pass", 0), ("fail", 1), ("error", 3)


@pytest.mark.parametrize(
    ("given_evidence", "policy", "expected", "reason"),
    [
        pytest.param(
            evidence(scored("a", 0.9)), POLICY, PASS, "1 case passed and every metric meets its threshold.",
            id="all good",
        ),
        pytest.param(
            evidence(scored("a", 0.9), replace(scored("b", 0.1, 0.0), status="failed", protected=True)),
            GateConfig(max_failed_cases=5), FAIL, "Protected and not passed: 1 of 2 cases (b).",
            id="a protected case",
        ),
        pytest.param(evidence(scored("a", 0.8)), POLICY, PASS, "1 case passed", id="equality passes"),
        pytest.param(
            evidence(scored("a", 0.7999999)), POLICY, FAIL,
            "response_match_score is 0.7999999, below its threshold 0.80.", id="just below fails",
        ),
        pytest.param(
            evidence(min_mean(scored("a", 0.85), 0.9)), POLICY, FAIL,
            "response_match_score is 0.85, below its min_mean 0.90.", id="a minimum of the mean above the threshold",
        ),
        pytest.param(
            evidence(min_mean(scored("a", 1.0), 0.6), min_mean(scored("b", 0.3), 0.6)),
            GateConfig(max_failed_cases=1), PASS, "1 of 2 cases passed and every minimum is met.",
            id="a minimum of the mean below the threshold",
        ),
        pytest.param(
            evidence(min_mean(scored("a", 1.0), 0.0), min_mean(scored("b", 0.0), 0.0)),
            GateConfig(max_failed_cases=1), PASS, "1 of 2 cases passed and every minimum is met.",
            id="a minimum of nothing",
        ),
        pytest.param(
            evidence(*[min_mean(scored(name, 0.1), 0.1) for name in "abc"]),
            GateConfig(max_failed_cases=3), PASS, "0 of 3 cases passed and every minimum is met.",
            id="the last bits of a mean do not miss it",
        ),
        pytest.param(
            evidence(scored("a", 1.0), scored("b", 0.7)), POLICY, FAIL, "1 of 2 cases (b) missed a threshold.",
            id="a good mean does not hide a failed case",
        ),
        pytest.param(
            evidence(scored("a", 1.0), scored("b", 0.7)), GateConfig(max_failed_cases=1), PASS,
            "1 of 2 cases passed", id="unless the policy allows it",
        ),
        pytest.param(
            evidence(scored("a", 1.0), crashed("b")), POLICY, FAIL,
            "The agent crashed or timed out in 1 of 2 cases (b).", id="a crash closes the gate",
        ),
        pytest.param(
            evidence(scored("a", 1.0), crashed("b", outcome="timed_out")), GateConfig(max_failed_cases=1), PASS,
            "1 of 2 cases passed", id="a tolerated crash does not",
        ),
        pytest.param(
            evidence(scored("a", 1.0), crashed("b"), crashed("c")), POLICY, NO_VERDICT,
            "Too many errors: 2 of 3 cases ended without a score, more than the allowed 50%. The first reason: "
            "the agent raised ValueError: no", id="too many crashes are no verdict",
        ),
        pytest.param(
            evidence(scored("a", 1.0), *[crashed_in_some_runs(name, crashes=1, runs=5) for name in "bcd"]),
            GateConfig(max_failed_cases=3), PASS, "1 of 4 cases passed", id="few crashes in many cases are a verdict",
        ),
        pytest.param(
            evidence(scored("a", 1.0), *[crashed_in_some_runs(name, crashes=4, runs=5) for name in "bcd"]),
            GateConfig(max_failed_cases=3), NO_VERDICT,
            "Too many errors: 60% of the runs of 4 cases ended without a score, more than the allowed 50%. "
            "The first reason: the agent raised ValueError: no", id="many crashes in many cases are none",
        ),
        pytest.param(
            evidence(crashed("a")), POLICY, NO_VERDICT, "Nothing was evaluated: none of 1 case has a score. The "
            "first reason: the agent raised ValueError: no", id="only crashes are no verdict",
        ),
        pytest.param(
            evidence(unclear("a"), crashed("b"), crashed("c")), POLICY, NO_VERDICT,
            "more than the allowed 50%. The first reason: the agent raised ValueError: no",
            id="the quoted reason is one of a case without any score",
        ),
        pytest.param(
            evidence(scored("a", 1.0), unclear("b"), scored("c", 1.0, name="grounded")), POLICY, NO_VERDICT,
            "A metric broke in 1 of 3 cases (b). The first reason: the judge did not answer",
            id="the quoted reason is that of the metric that broke",
        ),
        pytest.param(
            evidence(scored("a", 1.0), broken_metric("b")), POLICY, NO_VERDICT,
            "A metric broke in 1 of 2 cases (b). The first reason: the judge did not answer",
            id="a broken metric is neither red nor green",
        ),
        pytest.param(
            evidence(scored("a", 0.1), broken_metric("b")), POLICY, FAIL, "response_match_score is 0.10",
            id="a certain failure outweighs a broken metric",
        ),
        pytest.param(
            evidence(scored("a", 1.0), not_run("b")), POLICY, NO_VERDICT, "Not evaluated: 1 of 2 cases (b)",
            id="a case that could not run is no verdict",
        ),
        pytest.param(
            evidence(scored("a", 1.0), followed_up(scored("b", 0.7), "excused")), POLICY, PASS,
            "1 of 2 cases passed", id="a failure as the baseline holds some",
        ),
        pytest.param(
            evidence(scored("a", 1.0), followed_up(crashed("b"), "excused")), POLICY, PASS,
            "1 of 2 cases passed", id="so is a crash",
        ),
        pytest.param(
            evidence(scored("a", 1.0), followed_up(crashed("b"), "flake", runs=2)), POLICY, PASS,
            "1 of 2 cases passed", id="a case that passes when it is run again",
        ),
        pytest.param(
            evidence(scored("a", 1.0), followed_up(scored("b", 0.7), "broke", runs=4, failed=4)), POLICY, FAIL,
            "b broke: failed all 4 runs; passed 10 of 10 on the baseline.", id="a case that does not",
        ),
        pytest.param(
            evidence(scored("a", 1.0), followed_up(crashed("b"), "broke", runs=4, failed=4)), POLICY, FAIL,
            "b broke: crashed or timed out in all 4 runs; passed 10 of 10 on the baseline.",
            id="a crash that repeats is no luck",
        ),
        pytest.param(
            evidence(scored("a", 1.0), followed_up(scored("b", 0.7), "open")), POLICY, ("inconclusive", 0),
            "b failed its only run; passed 10 of 10 on the baseline. One run cannot tell: 4 failures in a row "
            "would.", id="a case that could not be run again",
        ),
        pytest.param(
            evidence(scored("a", 1.0), beside_baseline(scored("b", 0.7))), POLICY, FAIL,
            "1 of 2 cases (b) missed a threshold.", id="a failure that nothing excuses",
        ),
        pytest.param(
            evidence(scored("a", 1.0), beside_baseline(scored("b", 0.7), "new")), POLICY, FAIL,
            "1 of 2 cases (b) missed a threshold.", id="a new case is held to its threshold",
        ),
        pytest.param(
            evidence(scored("a", 1.0), followed_up(scored("b", 0.7), "excused")), GateConfig(max_failed_cases=0), FAIL,
            "1 of 2 cases (b) missed a threshold.", id="a number of failed cases is literal",
        ),
        pytest.param(
            evidence(scored("a", 1.0), followed_up_by_a_crash(scored("b", 0.7))), GateConfig(max_failed_cases=1),
            PASS, "1 of 2 cases passed", id="a case fails once, however it was followed up",
        ),
        pytest.param(
            evidence(scored("a", 1.0), beside_baseline(broken_metric("b"), "ok")), POLICY, PASS,
            "1 of 2 cases passed", id="a judge that failed in one of many runs",
        ),
        pytest.param(
            evidence(scored("a", 1.0), beside_baseline(not_run("b"), "ok")), POLICY, PASS,
            "1 of 2 cases passed", id="a run of many that a service broke",
        ),
        pytest.param(
            with_delta(
                0.0,
                min_mean(scored("a", 1.0), 0.1),
                followed_up(min_mean(scored("old", 0.7), 0.1), "excused"),
                followed_up(min_mean(scored("older", 0.7), 0.1), "excused"),
                followed_up(min_mean(scored("moody", 0.7), 0.1), "flake"),
            ),
            POLICY, PASS,
            "1 of 4 cases passed and every minimum is met; nothing regressed; "
            "1 case failed in one run and not in another (moody); "
            "2 cases failed as in earlier runs of the baseline (old, older).",
            id="failures that the baseline knows are named, although nothing changed",
        ),
        pytest.param(evidence(), POLICY, NO_VERDICT, "No case was evaluated", id="no case is no verdict"),
        pytest.param(
            evidence(), GateConfig(min_cases=0), PASS, "No case was evaluated, as min_cases: 0 allows.",
            id="unless asked for by name",
        ),
        pytest.param(
            evidence(scored("a", 1.0)), GateConfig(min_cases=2), NO_VERDICT, "Only 1 case evaluated",
            id="too few cases",
        ),
        pytest.param(
            with_delta(-0.06, scored("a", 0.9)), POLICY, FAIL,
            "response_match_score regressed by 0.06 (0.90 → 0.84); allowed is less than 0.05.", id="a regression",
        ),
        pytest.param(
            with_delta(0.85 - 0.9, scored("a", 0.9)), POLICY, FAIL, "regressed by 0.05",
            id="a drop of that size, with float noise",
        ),
        pytest.param(
            with_delta(0.9 - 0.95, scored("a", 0.9)), POLICY, FAIL,
            "regressed by 0.05 (0.90 → 0.85); allowed is less than 0.05.", id="a drop below it by float noise alone",
        ),
        pytest.param(
            evidence(scored("a", 0.332, 0.333)), POLICY, FAIL,
            "response_match_score is 0.332, below its threshold 0.333.", id="a threshold with three decimals",
        ),
        pytest.param(
            evidence(scored("a", -0.004, 0.0)), POLICY, FAIL,
            "response_match_score is -0.004, below its threshold 0.00.", id="a small negative score",
        ),
        pytest.param(
            with_delta(-0.049, scored("a", 0.9)), POLICY, PASS, "nothing regressed", id="the allowed drop",
        ),
        pytest.param(with_delta(0.05, scored("a", 0.9)), POLICY, PASS, "nothing regressed", id="better"),
        pytest.param(
            evidence(not_run("a"), unreachable="no module named agent"), POLICY, NO_VERDICT,
            "The agent could not be reached: no module named agent", id="unreachable",
        ),
        pytest.param(
            evidence(scored("a", 0.1), not_run("b"), interrupted=True), POLICY, ("error", 130),
            "Interrupted after 1 of 2 cases.", id="interrupted",
        ),
    ],
)  # fmt: skip
def test_verdict(
    given_evidence: GateInput, policy: GateConfig, expected: tuple[str, int], reason: str
) -> None:
    verdict = decide_verdict(given_evidence, policy)
    assert (verdict.status, verdict.exit_code) == expected
    assert reason in verdict.reasons[0]


case_results = st.builds(
    scored, st.uuids().map(str), st.floats(0, 1), st.sampled_from([0.0, 0.5, 0.8, 1.0])
) | st.builds(crashed, st.uuids().map(str))


def lowered(case: CaseResult, by: float) -> CaseResult:
    metric = case.metrics[0]
    if metric.score is None:
        return case
    return scored(case.eval_id, max(0.0, metric.score - by), metric.threshold)


@given(st.lists(case_results, min_size=1, max_size=8), st.integers(0, 7), st.floats(0, 1))
def test_lowering_a_score_never_opens_the_gate(cases: list[CaseResult], index: int, by: float) -> None:
    worse = [lowered(case, by) if i == index else case for i, case in enumerate(cases)]
    if decide_verdict(evidence(*cases), POLICY).exit_code != 0:
        assert decide_verdict(evidence(*worse), POLICY).exit_code != 0


@given(st.lists(case_results, max_size=8))
def test_an_open_gate_means_that_every_number_agrees(cases: list[CaseResult]) -> None:
    found = evidence(*cases)
    verdict = decide_verdict(found, POLICY)
    assert verdict.reasons
    if verdict.exit_code == 0:
        assert cases
        assert all(m.score is not None and m.score >= m.threshold for m in found.metrics)
        assert found.totals.passed == found.totals.cases


def test_a_summary_with_eval_sets_is_named_by_them() -> None:
    cases = (scored("a", 0.1),)
    metric = MetricSummary(TRAJECTORY, 0.5, 1.0, "failed", None, None, 1, 0, eval_sets=("refunds",))
    verdict = decide_verdict(GateInput((metric,), cases, compute_totals(cases)), POLICY)
    assert verdict.reasons[0] == "tool_trajectory_avg_score (refunds) is 0.50, below its threshold 1.00."


def test_thousands_have_separators() -> None:
    cases = [scored(f"c{number}", 0.1) for number in range(1204)]
    verdict = decide_verdict(evidence(*cases), POLICY)
    assert "1,204 of 1,204 cases (c0, c1, c2 and 1,201 more) missed a threshold." in verdict.reasons


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (scored("b", 0.7), "1 of 2 cases (orders/b) missed a threshold."),
        (crashed("b"), "The agent crashed or timed out in 1 of 2 cases (orders/b)."),
        (followed_up(scored("b", 0.7), "broke", runs=4, failed=4), "orders/b broke: failed all 4 runs; "),
        (followed_up(scored("b", 0.7), "open"), "orders/b failed its only run; "),
    ],
)
def test_a_case_is_named_with_its_eval_set_if_there_are_several(case: CaseResult, reason: str) -> None:
    found = evidence(replace(scored("b", 1.0), eval_set_id="refunds"), replace(case, eval_set_id="orders"))
    assert reason in " ".join(decide_verdict(found, POLICY).reasons)


def test_a_metric_that_failed_without_a_sentence_closes_the_gate() -> None:
    found = evidence(scored("a", 1.0))
    judged = replace(found.metrics[0], judgement=MetricComparison("fail", "drop", (), 0.1))
    verdict = decide_verdict(replace(found, metrics=(judged,)), POLICY)
    assert (verdict.status, verdict.exit_code, verdict.reasons) == ("fail", 1, (f"{RESPONSE} failed.",))
