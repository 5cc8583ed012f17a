"""Averages compared with an older baseline that stays fixed."""

from dataclasses import replace

import pytest

from evalgate.baselines.history import build_baseline
from evalgate.config.schema.gate import GateConfig
from evalgate.core.types import AnchorComparison, BaselineSource, CaseMetric, CaseResult, RunMetric
from evalgate.gating.anchor import AnchorContext, _iter_sentences, compare_with_anchor, describe_anchor
from evalgate.gating.comparison import ScoredRuns
from evalgate.gating.significance import decide_metrics
from evalgate.gating.statistical_policy import build_statistical_policy
from tests.builders import RESPONSE, a_case_result, a_record, a_run_result
from tests.gating.test_verdict_messages import CHANGE as CHANGE_OF_MEANS

SOURCE = BaselineSource("2026-09-01T00:00:00+00:00", "0123456789ab", "main")
CONTEXT = AnchorContext("main", "", "2026-11-24T06:00:00+00:00", 214)
CHANGE = replace(CONTEXT, unmerged_change="a pull request")


def build_cases(failures: int, *, runs: int = 5, changed: int = 0) -> list[CaseResult]:
    """Return 40 cases; the last `failures` of them fail their first run, the first `changed` ask otherwise."""
    cases = []
    for number in range(40):
        scores = [0.0 if at == 0 and number >= 40 - failures else 1.0 for at in range(runs)]
        metric = CaseMetric(RESPONSE, None, 0.5, "passed", fingerprint="m")
        found = tuple(
            a_run_result(run=at, metrics=(RunMetric(RESPONSE, score, "passed"),))
            for at, score in enumerate(scores, 1)
        )
        case = a_case_result(f"case_{number:02d}", metrics=(metric,), runs=found)
        cases.append(replace(case, fingerprint="other") if number < changed else case)
    return cases


def compare(
    then: int,
    before: int | None,
    now: int,
    context: AnchorContext = CONTEXT,
    *,
    changed: int = 0,
    **anchor: object,
) -> AnchorComparison:
    """Compare a run with an anchor and a baseline, by the number of their cases that fail one of five runs."""
    gate = GateConfig.model_validate({"baseline": "b.json", "anchor": {"baseline": "b.json@v1", **anchor}})
    policy = build_statistical_policy(gate, 5, (), shares_with_anchor=not context.unmerged_change)
    cases = build_cases(now, changed=changed)
    baseline = None if before is None else build_baseline(a_record(*build_cases(before, runs=10)), SOURCE)
    scored = ScoredRuns(tuple(cases), 5, policy, decide_metrics(cases, baseline, policy))
    return compare_with_anchor(scored, build_baseline(a_record(*build_cases(then)), SOURCE), gate, context)


def test_small_steps_close_the_default_branch_together() -> None:
    (metric,) = compare(0, 20, 16).metrics

    assert metric.outcome == "fell"
    assert (metric.baseline, round(metric.score, 3), metric.cases, metric.of) == (1.0, 0.92, 40, 40)
    assert metric.sentence == (
        f"{RESPONSE} fell by 0.08 since v1 (12 weeks, 214 commits): 1.00 → 0.92, which luck alone does about 1 "
        "time in 100,000; allowed is less than 0.05. This run alone moved by −0.03 against main."
    )


def test_a_change_that_did_not_fall_is_not_blamed() -> None:
    found = compare(0, 30, 16, CHANGE)

    assert [metric.outcome for metric in found.metrics] == ["fell_before"]
    (told,) = describe_anchor(found)
    assert "is not shown to take part" in told
    assert "the gate of a pull request stays open, that of the default branch closes" in told


@pytest.mark.parametrize(("before", "closes"), [(0, True), (None, True), (20, False)])
def test_a_change_closes_if_it_fell_or_nothing_shows_that_it_did_not(
    before: int | None, closes: bool
) -> None:
    (metric,) = compare(0, before, 16, CHANGE).metrics

    assert (metric.outcome == "fell") == closes


def test_the_limit_is_that_of_the_gate_or_its_own() -> None:
    assert compare(0, 16, 16).metrics[0].max_drop == 0.05
    (metric,) = compare(0, 16, 16, max_regression=0.1).metrics
    assert (metric.outcome, metric.max_drop) == ("held", 0.1)
    assert compare(0, 16, 16, max_drop=0.08).metrics[0].outcome == "fell"


def test_cases_that_changed_are_left_out_and_counted() -> None:
    found = compare(0, 0, 4, changed=30)

    assert [metric.cases for metric in found.metrics] == [10]
    assert "over the 10 of 40 cases that are as they were" in " ".join(describe_anchor(found))
    nothing = compare(0, 0, 4, changed=40)
    assert (nothing.metrics, nothing.not_compared) == ((), (RESPONSE,))
    assert "is not compared with the anchor v1" in " ".join(describe_anchor(nothing))


def test_a_limit_that_allows_any_drop_is_named_as_the_reason() -> None:
    found = compare(0, 0, 16, max_regression=1)

    assert (found.metrics, found.not_compared) == ((), ())
    assert list(describe_anchor(found)) == [
        (
            "Nothing was compared with the anchor v1: no metric gates by its average, or each may fall by any "
            "amount (`max_regression` 1)."
        )
    ]


def test_what_luck_may_do_is_told_and_closes_nothing() -> None:
    found = compare(0, 2, 4, changed=30)

    assert [metric.outcome for metric in found.metrics] == ["doubtful"]
    assert found.metrics[0].sentence.endswith("That is not enough to close the gate.")


def test_both_tests_share_the_budget_except_on_an_unmerged_change() -> None:
    alone = build_statistical_policy(GateConfig(baseline="b.json"), 5, ()).parameters
    shared = build_statistical_policy(
        GateConfig(baseline="b.json"), 5, (), shares_with_anchor=True
    ).parameters

    assert shared.averages_share * 2 == alone.averages_share
    assert compare(0, 20, 16).metrics[0].level == pytest.approx(0.015)
    assert compare(0, 20, 16, CHANGE).metrics[0].level == pytest.approx(0.03)


def test_a_small_drop_of_a_change_is_not_told_as_none() -> None:
    (metric,) = compare(0, 0, 16, CHANGE).metrics
    own = replace(CHANGE_OF_MEANS, drop=0.003, p=0.001)
    told = " ".join(_iter_sentences(metric, own, 1.0, "since v1", CHANGE, is_cleared=False))
    assert told.endswith("This change took it down by 0.003 against main.")


def test_runs_of_an_unchanged_agent_hold() -> None:
    assert list(describe_anchor(compare(3, 6, 3))) == [f"Since v1: {RESPONSE} 0.98 → 0.98."]
