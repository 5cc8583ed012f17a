"""One comparison over all cases of a metric, whatever thresholds its tags have."""

from pathlib import Path

import pytest

from evalgate.baselines.history import build_baseline
from evalgate.config.schema.gate import GateConfig
from evalgate.core.types import (
    BaselineSource,
    CaseMetric,
    CaseResult,
    Criterion,
    MetricSummary,
    Record,
    RunMetric,
)
from evalgate.runner.regating import GateRules, regate_record
from tests.builders import RESPONSE, a_case_result, a_record, a_run_result
from tests.gating.drawn_suites import Outcome, Rules, plan_suite, run_suite, store_runs

TAGS = {"": 0.5, "tag north": 0.6, "tag east": 0.7, "tag west": 0.8}


def case(number: int, scores: str, *, tagged: bool) -> CaseResult:
    """One of a metric's cases; every fourth belongs to the same tag."""
    scope = list(TAGS)[number % 4] if tagged else ""
    metric = CaseMetric(RESPONSE, None, TAGS[scope], "not_evaluated", fingerprint="m", scope=scope)
    runs = tuple(
        a_run_result(run=run, metrics=(RunMetric(RESPONSE, float(letter), "passed"),))
        for run, letter in enumerate(scores, 1)
    )
    return a_case_result(f"case_{number:02d}", metrics=(metric,), runs=runs)


def compared(now: list[str], *, tagged: bool, criterion: Criterion | None = None, runs: int = 3) -> Record:
    """Sixteen cases that passed eight of ten runs, with the runs that they made now."""
    before = a_record(*[case(number, "1111011110", tagged=tagged) for number in range(16)])
    source = BaselineSource("2026-11-20T00:00:00Z", "0123456789ab", "main")
    record = a_record(*[case(number, scores, tagged=tagged) for number, scores in enumerate(now)])
    criteria = {RESPONSE: criterion} if criterion else {}
    rules = GateRules(GateConfig(baseline="b.json", max_failed_cases=16), runs, criteria)
    return regate_record(record, rules, build_baseline(before, source, "b.json"))


WORSE = [*["111"] * 6, *["110"] * 6, *["100"] * 4]
FALLEN = [*["111"] * 4, *["100"] * 8, *["000"] * 4]


def lines(record: Record) -> list[MetricSummary]:
    return list(record.metrics)


@pytest.mark.parametrize("now", [["111"] * 16, WORSE, FALLEN], ids=["better", "worse", "fallen"])
def test_tags_do_not_change_what_is_tested(now: list[str]) -> None:
    alone, *others = [each.judgement for each in lines(compared(now, tagged=False))]
    tagged = [each.judgement for each in lines(compared(now, tagged=True))]

    assert not others
    assert len(tagged) == 4
    assert alone
    for each in tagged:
        assert each
        assert (each.verdict, each.reason, each.p, each.level) == (
            alone.verdict, alone.reason, alone.p, alone.level,
        )  # fmt: skip
    assert [each.shared for each in tagged if each and each.shared] == [alone.sentences]
    assert [each.sentences for each in tagged if each] == [()] * 4


@pytest.mark.parametrize("runs", [3, "auto"])
@pytest.mark.parametrize("rule", ["literal", "statistical"])
def test_a_threshold_of_its_own_changes_nothing_for_a_case_that_crashed_before(
    tmp_path: Path, rule: str, runs: int | str
) -> None:
    """Its line has no score then, because a crash is never one."""

    def draw(case: str, number: int) -> Outcome:
        return None if (case, number) == ("case_1", 1) else {RESPONSE: 1.0}

    names = [f"case_{at}" for at in range(6)]
    criteria = {RESPONSE: {"threshold": 0.8, "threshold_rule": rule}}
    rules: Rules = {"criteria": criteria, "gate": {"baseline": "b.json"}}
    own = {"ids": "case_1", "criteria": {RESPONSE: 0.5}}
    stored = {case: [draw(case, number) for number in range(1, 6)] for case in names}
    verdicts = {}
    for label, cases in (("alike", []), ("own", [own])):
        plan = plan_suite(tmp_path / label, names, {**rules, "cases": cases}, runs)
        verdicts[label] = run_suite(plan, store_runs(plan, [stored]), draw).verdict

    assert {label: (each.status, each.exit_code) for label, each in verdicts.items()} == {
        "alike": ("pass", 0),
        "own": ("pass", 0),
    }
    (reason,) = verdicts["own"].reasons
    assert reason.startswith("5 of 6 cases passed and every minimum is met; 1 case failed as in earlier runs")


def test_a_sentence_about_all_tags_is_printed_once_and_names_none() -> None:
    record = compared(FALLEN, tagged=True)

    told = [reason for reason in record.verdict.reasons if "Regression: the average fell" in reason]
    assert told == [reason for reason in told if reason.startswith(f"{RESPONSE}: ")]
    assert len(told) == 1


def test_each_line_keeps_its_own_difference() -> None:
    now = ["000" if number % 4 == 1 else "111" for number in range(16)]
    found = {each.scope: each for each in lines(compared(now, tagged=True))}

    assert found["tag north"].delta == pytest.approx(-0.8)
    assert [found[scope].delta for scope in TAGS if scope != "tag north"] == [pytest.approx(0.2)] * 3
    assert {each.compared for each in found.values()} == {4}


def test_each_line_keeps_its_own_minimum() -> None:
    now = ["010" if number % 4 == 3 else "111" for number in range(16)]
    criterion = Criterion(RESPONSE, 0.0, rule="statistical")
    found = {each.scope: each for each in lines(compared(now, tagged=True, criterion=criterion))}

    minima = {scope: each.judgement.minimum for scope, each in found.items() if each.judgement}
    assert {scope: each and each.minimum for scope, each in minima.items()} == TAGS
    assert {scope: each.status for scope, each in found.items()} == {
        **dict.fromkeys(TAGS, "passed"), "tag west": "failed",
    }  # fmt: skip
    west = found["tag west"].judgement
    assert west
    assert west.sentences == ("0.33 is below the required 0.80, beyond noise (at most 0.74).",)


def test_a_line_that_rose_is_no_part_of_a_regression() -> None:
    now = ["000" if number % 4 in {1, 2} else "111" for number in range(16)]
    found = lines(compared(now, tagged=True))

    assert {each.judgement.verdict for each in found if each.judgement} == {"fail"}
    assert [each.scope for each in found if each.regressed] == ["tag north", "tag east"]
