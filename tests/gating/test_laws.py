"""Laws of the gate, on drawn suites that go through the whole path of a record."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalgate.config.schema.gate import GateConfig
from evalgate.core.types import MetricSummary, Record
from evalgate.datasets.results_io import dump_record, load_record
from evalgate.reporting.summary_lines import build_metric_line
from evalgate.reporting.terminal import TerminalReport
from evalgate.runner.regating import GateRules, regate_record
from evalgate.runner.result_loading import find_inconsistencies
from tests.builders import RESPONSE
from tests.gating.drawn_suites import (
    RANGES,
    SERVICE_DOWN,
    Draw,
    DrawnSuite,
    Outcome,
    draw_outcome,
    draw_suite,
    plan_suite,
    run_suite,
    store_runs,
)

SEEDS = range(25)
BLAME = re.compile(r"Regression|broke:|regressed by")


def draw_runs(suite: DrawnSuite, seed: int, *, outages: float = 0) -> Draw:
    """Return runs of which two in three cases behave as they did when they were stored."""
    dice = random.Random(seed)
    kinds = {
        case: kind if dice.random() < 0.67 else dice.choice(("steady", "failing", "crashing", "flaky", "any"))
        for case, kind in suite.kinds.items()
    }

    def draw(case: str, number: int) -> Outcome:
        own = random.Random(f"{seed}/{case}/{number}")
        return draw_outcome(own, kinds.get(case, "any"), suite.metrics, outages=outages)

    return draw


def check_record(record: Record, gate: GateConfig) -> None:
    """Fail if verdict, exit code, cases and sentences contradict each other."""
    assert list(find_inconsistencies(record)) == []
    verdict = record.verdict
    expected = {"pass": 0, "fail": 1, "error": 3, "inconclusive": {"warn": 0, "fail": 1, "distinguish": 4}}
    code = expected[verdict.status]
    assert verdict.exit_code == (code[gate.on_inconclusive] if isinstance(code, dict) else code)
    assert verdict.reasons
    for text in (*verdict.reasons, *record.notices):
        assert not re.search(r"\bnan\b|\binf\b|\bNone\b|\b0 of 0\b|\{", text), text
        for some, of in re.findall(r"(?<![\d.])(\d+) of (\d+)(?!\.\d)", text):
            assert int(some) <= int(of), text
    if verdict.status == "pass":
        assert not any(metric.regressed or metric.status == "failed" for metric in record.metrics)
        failing = [case for case in record.cases if case.status == "failed" or case.agent_failed]
        assert all(case.follow_up and case.follow_up.outcome in ("excused", "flake") for case in failing)


def summarize(record: Record) -> tuple[object, ...]:
    """Return what must not depend on the order of cases, metrics and stored runs."""
    cases = sorted(
        (case.eval_id, case.status, len(case.runs), str(case.follow_up and case.follow_up.outcome))
        for case in record.cases
    )
    return record.verdict.status, record.verdict.exit_code, cases


@pytest.mark.parametrize("seed", SEEDS)
def test_a_suite_that_repeats_its_stored_runs_never_closes(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    suite = draw_suite(dice)
    plan = plan_suite(tmp_path / "p", suite.cases, suite.rules, suite.runs)
    steady = {case: suite.stored[0][case][0] for case in suite.cases}
    unchanged = store_runs(plan, [{case: [steady[case]] * 3 for case in suite.cases}] * len(suite.stored))
    record = run_suite(plan, unchanged, lambda case, number: steady[case])
    check_record(record, plan.gate)
    assert record.verdict.status != "fail", record.verdict.reasons


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_is_nowhere_worse_than_any_stored_run_passes(tmp_path: Path, seed: int) -> None:
    suite = draw_suite(random.Random(seed))
    plan = plan_suite(tmp_path / "p", suite.cases, suite.rules, suite.runs)

    def find_best(case: str, number: int) -> Outcome:
        del number
        scored = [outcome for outcome in suite.pool_runs(case) if outcome is not None]
        return {name: max((each[name] or 0.0 for each in scored), default=0.1) for name in suite.metrics}

    record = run_suite(plan, store_runs(plan, suite.stored), find_best)
    check_record(record, plan.gate)
    assert record.verdict.status == "pass", record.verdict.reasons


@pytest.mark.parametrize("seed", SEEDS)
def test_a_further_case_that_passes_never_closes_an_open_gate(tmp_path: Path, seed: int) -> None:
    suite = draw_suite(random.Random(seed))
    draw = draw_runs(suite, seed, outages=0.03)
    plans = [
        plan_suite(tmp_path / name, cases, suite.rules, suite.runs)
        for name, cases in (("p", suite.cases), ("q", (*suite.cases, "new")))
    ]
    baseline = store_runs(plans[0], suite.stored)
    best = dict.fromkeys(suite.metrics, 1.0)

    def draw_or_pass(case: str, number: int) -> Outcome:
        return draw(case, number) if case != "new" else best

    before, after = (run_suite(plan, baseline, draw_or_pass) for plan in plans)
    for record in (before, after):
        check_record(record, plans[0].gate)
    if before.verdict.status in ("pass", "inconclusive"):
        assert after.verdict.status in ("pass", "inconclusive"), (before.verdict, after.verdict)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_open_gate_leaves_no_failing_case_undecided(tmp_path: Path, seed: int) -> None:
    suite = draw_suite(random.Random(seed))
    plan = plan_suite(tmp_path / "p", suite.cases, suite.rules, suite.runs)
    record = run_suite(plan, store_runs(plan, suite.stored), draw_runs(suite, seed))
    if record.verdict.status != "fail":  # else no run follows that changes nothing
        outcomes = {case.eval_id: case.follow_up.outcome for case in record.cases if case.follow_up}
        assert "open" not in outcomes.values(), record.verdict


@pytest.mark.parametrize("runs", [1, "auto"])
def test_a_mean_above_the_threshold_ends_no_follow_up(tmp_path: Path, runs: int | str) -> None:
    """The score of the case counts its first run alone: the mean of both runs would pass."""
    cases = [f"case_{at}" for at in range(20)]
    rules = {"criteria": {RESPONSE: 0.8}, "gate": {"baseline": "b.json"}}
    plan = plan_suite(tmp_path / "p", cases, rules, runs)
    baseline = store_runs(plan, [{case: [{RESPONSE: 1.0}] * 5 for case in cases}])
    record = run_suite(
        plan, baseline, lambda case, number: {RESPONSE: 0.7 if (case, number) == ("case_0", 1) else 1.0}
    )
    case = record.cases[0]
    assert (case.status, len(case.runs), case.follow_up and case.follow_up.outcome) == ("failed", 3, "flake")
    assert record.verdict.status == "pass"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_cases_metrics_and_stored_runs_decides_nothing(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    suite = draw_suite(dice)
    draw = draw_runs(suite, seed, outages=0.03)
    plan = plan_suite(tmp_path / "p", suite.cases, suite.rules, suite.runs)
    criteria = dict(dice.sample(list(suite.rules["criteria"].items()), len(suite.metrics)))
    cases = dice.sample(suite.cases, len(suite.cases))
    other = plan_suite(tmp_path / "q", cases, suite.rules | {"criteria": criteria}, suite.runs)
    stored = [
        {case: dice.sample(list(gate_run[case]), len(gate_run[case])) for case in cases}
        for gate_run in suite.stored
    ]
    one = run_suite(plan, store_runs(plan, suite.stored), draw)
    two = run_suite(other, store_runs(other, stored), draw)
    assert summarize(one) == summarize(two)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reported_metric_decides_nothing(tmp_path: Path, seed: int) -> None:
    suite = draw_suite(random.Random(seed))
    silent, *gating = suite.metrics
    if not gating:
        return
    draw = draw_runs(suite, seed, outages=0.03)
    with_it = suite.rules["criteria"] | {silent: {"threshold": 1.0, "gates": False}}
    without = {name: suite.rules["criteria"][name] for name in gating}
    plans = [
        plan_suite(tmp_path / name, suite.cases, suite.rules | {"criteria": criteria}, suite.runs)
        for name, criteria in (("p", with_it), ("q", without))
    ]
    records = [run_suite(plan, store_runs(plan, suite.stored), draw) for plan in plans]
    assert summarize(records[0]) == summarize(records[1])
    assert records[0].verdict == records[1].verdict


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stored_record_is_judged_as_the_run_was(tmp_path: Path, seed: int) -> None:
    suite = draw_suite(random.Random(seed))
    plan = plan_suite(tmp_path / "p", suite.cases, suite.rules, suite.runs)
    baseline = store_runs(plan, suite.stored)
    record = run_suite(plan, baseline, draw_runs(suite, seed, outages=0.03))
    check_record(record, plan.gate)
    criteria = {bound.name: bound.criterion for each in plan.suites for bound in each.metrics}
    stored = load_record(dump_record(record), "results.json")
    assert (
        regate_record(stored, GateRules(plan.gate, plan.runs, criteria), baseline).verdict == record.verdict
    )


def find_blamed(record: Record) -> list[str]:
    """Return the reasons that call something worse than the baseline."""
    return [reason for reason in record.verdict.reasons if BLAME.search(reason)]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_outage_of_the_judge_is_no_regression(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    suite = draw_suite(dice)
    plan = plan_suite(tmp_path / "p", suite.cases, suite.rules, suite.runs)
    steady = {case: suite.stored[0][case][0] for case in suite.cases}

    def lose_scores(case: str, number: int) -> Outcome:
        outcome = steady[case]
        if outcome is None:
            return None
        lost = random.Random(f"{seed}/{case}/{number}")
        return {name: None if lost.random() < 0.3 else share for name, share in outcome.items()}

    unchanged = store_runs(plan, [{case: [steady[case]] * 5 for case in suite.cases}])
    record = run_suite(plan, unchanged, lose_scores)
    check_record(record, plan.gate)
    assert find_blamed(record) == []
    assert record.verdict.status != "fail", record.verdict.reasons


MEANS = re.compile(r"(?P<now>[\d.]+) vs (?P<then>[\d.]+) on |\((?P<before>[\d.]+) → (?P<after>[\d.]+)\)")
MINIMUM = re.compile(r"^([\d.]+) (?:is below|meets)")


def list_printed_means(metric: MetricSummary) -> Iterator[tuple[str, str]]:
    """Yield (baseline or "", this run's mean) as texts, for each sentence about this line's mean."""
    for sentence in metric.judgement.sentences if metric.judgement else ():
        for found in MEANS.finditer(sentence):
            yield found["then"] or found["before"], found["now"] or found["after"]
        for now in MINIMUM.findall(sentence):
            yield "", now


def is_same_number(one: str, other: str) -> bool:
    """Return True if two texts can be the same number, rounded to the digits that they have."""
    digits = min(len(text.partition(".")[2]) for text in (one, other))
    return abs(float(one) - float(other)) <= 0.51 * 10.0**-digits


def check_means(record: Record) -> None:
    """Fail if a sentence and the table of metrics show different means of a metric without an explanation."""
    text = TerminalReport().render(record)
    is_explained = "; the score " in text
    is_partial = " that can be compared." in text
    for metric in record.metrics:
        row = build_metric_line(metric)
        for then, now in list_printed_means(metric):
            assert not then or is_same_number(then, row.baseline), (row, metric.judgement)
            if row.score == "–" or not is_same_number(now, row.score):
                assert is_explained or (is_partial and then), (row, metric.judgement)
        if metric.compared_score != metric.score:
            assert is_explained or is_partial, row
        if row.status == "failed" and not metric.regressed and metric.minimum is not None:
            assert metric.score is not None
            assert is_explained or not metric.range.is_met(metric.score, metric.minimum), row


@pytest.mark.parametrize("seed", range(100))
def test_every_mean_of_a_metric_is_the_same_or_explained(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    suite = draw_suite(dice)
    for name, criterion in suite.rules["criteria"].items():
        assert isinstance(criterion, dict)
        if dice.random() < 0.4:
            criterion |= {"min_mean": RANGES[name].to_score(0.5), "threshold_rule": "statistical"}
    plan = plan_suite(tmp_path / "p", suite.cases, suite.rules, suite.runs)
    draw = draw_runs(suite, seed, outages=dice.choice((0, 0.03)))
    kind, share = dice.choice((None, SERVICE_DOWN)), dice.choice((0, 0.1, 0.1))

    def draw_or_lose(case: str, number: int) -> Outcome:
        is_lost = random.Random(f"{seed}/{case}/{number}/lost").random() < share
        return kind if is_lost else draw(case, number)

    check_means(run_suite(plan, store_runs(plan, suite.stored), draw_or_lose))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_larger_allowance_never_closes_what_a_smaller_one_opens(tmp_path: Path, seed: int) -> None:
    """With fixed runs, because with `runs: auto` the allowance decides how many runs are made."""
    suite = draw_suite(random.Random(seed))
    runs = 2 if suite.runs == "auto" else suite.runs
    draw = draw_runs(suite, seed, outages=0.03)
    is_open = False
    for allowance in (0.05, 0.5, 0.999, 1.0):
        rules = suite.rules | {"gate": suite.rules["gate"] | {"max_regression": allowance}}
        plan = plan_suite(tmp_path / str(allowance), suite.cases, rules, runs)
        record = run_suite(plan, store_runs(plan, suite.stored), draw)
        check_record(record, plan.gate)
        was_open, is_open = is_open, record.verdict.status in ("pass", "inconclusive")
        assert is_open or not was_open, (allowance, record.verdict)
