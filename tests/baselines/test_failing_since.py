"""A case that broke on the default branch is not flaky, and later changes are not blamed for it."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random

import pytest

from evalgate.baselines.failing_since import describe_already_failing, keep_comparable_runs, mark_breaks
from evalgate.baselines.flakiness import BaselineThresholds, score_run_pass
from evalgate.baselines.history import add_run, join_baselines, prune_runs, split_baseline
from evalgate.baselines.serialization import dump_baseline, load_baseline_or_results
from evalgate.cli.flaky import format_flaky_report, rank_flaky_cases
from evalgate.config.schema.gate import GateConfig
from evalgate.core.score_ranges import BUDGET_RANGE
from evalgate.core.types import (
    Baseline,
    BaselineCase,
    BaselineRun,
    BaselineSource,
    CaseMetric,
    FailingSince,
    Quarantine,
    Record,
    RunMetric,
)
from evalgate.runner.regating import GateRules, regate_record
from tests.builders import RESPONSE, a_case_result, a_record, a_run_result
from tests.runner.test_regating import case

HELD = {("travel", "a"): {RESPONSE: 0.5}, ("travel", "b"): {RESPONSE: 0.5}}
START = datetime(2026, 11, 1, 8, tzinfo=UTC)


def result(at: int, outcomes: str) -> Record:
    """Return the record of a gate run, `+` or `-` for each run of the case `a`; `b` always passes."""
    scores = [float(each == "+") for each in outcomes]
    record = a_record(case("a", *scores), case("b", *[1.0] * len(scores)))
    return replace(record, created_at=(START + timedelta(days=at)).isoformat())


def history(*gate_runs: str, keep: int = 20) -> Baseline:
    found: Baseline | None = None
    for at, outcomes in enumerate(gate_runs):
        record = result(at, outcomes)
        source = BaselineSource(record.created_at, f"commit{at}", "main", digest=str(at))
        found = add_run(found, record, source, keep=keep)
    assert found is not None
    return found


def since(baseline: Baseline) -> str | None:
    """Return the commit since which the case `a` is known to fail."""
    found = keep_comparable_runs(baseline, HELD).cases[0].failing_since
    return found.commit if found else None


@pytest.mark.parametrize(
    ("gate_runs", "commit"),
    [
        (["+"] * 10 + ["-"] * 2, "commit10"),
        (["+++++", "-----"], "commit1"),
        (["++++++++++", "+-+++", "-----", "-----"], "commit2"),
        (["+"] * 10 + ["-"], None),  # once is luck
        (["+", "-", "-"], None),  # so is this, once in three times
        (["++-++", "-----"], "commit1"),
        (["+-+-+", "-----"], None),
        (["-----", "-----"], None),  # never passed
        (["+++++", "-----", "+++++"], None),  # mended
        (["+"] * 6 + ["-"] * 5 + ["+"] * 6 + ["-"] * 2, "commit17"),  # broken again
        (["+++++", "-----", "-+---"], None),  # passes now and then
    ],
)
def test_a_break_is_what_luck_does_not_explain(gate_runs: list[str], commit: str | None) -> None:
    assert since(history(*gate_runs)) == commit


@pytest.mark.parametrize(
    ("gate_runs", "dropped"),
    [
        (["++++++++++", "----------", "+++++"], [1]),
        (["+++++", "-----", "-----", "++", "+++"], [1, 2]),
        (["-----", "+++++"], [0]),  # never passed before
        (["+++++", "-----", "+++++", "-----", "+++++"], [1, 3]),  # broken and fixed twice
        (["+++++", "++-++", "-----", "+++++"], [2]),  # what failed now and then counts on
        (["+++++", "-----", "++++"], [1]),
        (["+++++", "-----", "-----", "+++++", "++++-", "+++++"], [1, 2]),  # a later flake changes nothing
        (["+++++", "-----", "+++++", "-----"], [0, 1, 2]),  # broken again: since then
        (["+++++", "-----", "++"], []),  # luck, once in 21 times
        (["+++++", "-----", "++-++"], []),  # not all of it is fixed
        (["+++++", "--+--", "+++++"], []),  # fails now and then
        ([*["+"] * 9, "-", *["+"] * 9], []),  # failed once
        (["+"] * 10 + ["-"] * 2 + ["+"] * 5, []),  # two failures: luck, once in 21 times
        (["+"] * 7 + ["-"] * 3 + ["+"] * 7, [7, 8, 9]),
        (["+++++", "-----"], [0]),  # still broken: compared with the runs since the break
    ],
)
def test_runs_of_a_break_that_was_fixed_are_not_compared(gate_runs: list[str], dropped: list[int]) -> None:
    kept = keep_comparable_runs(history(*gate_runs), HELD)
    sources = {run.source for run in kept.cases[0].runs}
    assert sorted(set(range(len(gate_runs))) - sources) == dropped
    assert {run.source for run in kept.cases[1].runs} == set(range(len(gate_runs)))


@pytest.mark.parametrize(("rate", "runs"), [(0.02, 1), (0.1, 1), (0.3, 1), (0.5, 1), (0.1, 3), (0.3, 3)])
def test_a_case_that_fails_by_chance_rarely_loses_its_failures(rate: float, runs: int) -> None:
    source = Random(7)
    sources = tuple(BaselineSource(f"2026-11-{day + 1:02}T08:00:00+00:00", f"c{day}") for day in range(20))
    lost = histories = 0
    while histories < 500:
        stored = tuple(
            BaselineRun(at // runs, "answered", {RESPONSE: float(source.random() >= rate)})
            for at in range(20 * runs)
        )
        baseline = Baseline((BaselineCase("travel", "a", "passed", "f", {RESPONSE: "m"}, stored),), sources)
        kept = keep_comparable_runs(baseline, HELD).cases[0].runs
        histories += any(not run.scores[RESPONSE] for run in stored)
        lost += any(not run.scores[RESPONSE] for run in stored) and all(run.scores[RESPONSE] for run in kept)
    assert lost / histories <= 0.01


@pytest.mark.parametrize("gate_runs", [["+++++", "+++++", *["-----"] * 30], ["+"] * 20 + ["-"] * 40])
def test_the_window_never_forgets_a_break(gate_runs: list[str]) -> None:
    commit = f"commit{gate_runs.index('-' * len(gate_runs[0]))}"
    found = history(*gate_runs)
    assert len(found.sources) == 20
    assert since(found) == commit
    [*_, newest] = split_baseline(found)
    stored = join_baselines(split_baseline(found))
    for each in (
        load_baseline_or_results(dump_baseline(found).encode(), "b.json"),
        stored,
        prune_runs(found, keep=1),
        newest,
    ):
        assert each is not None
        assert since(each) == commit
    assert since(history(*gate_runs, "+" * len(gate_runs[0]))) is None


def test_a_baseline_of_before_breaks_were_kept_shows_them_too() -> None:
    found = history("+++++", "+++++", "-----")
    assert found.cases[0].failing_since == FailingSince(found.sources[2].created_at, "commit2", "main")
    old = replace(found, cases=tuple(replace(each, failing_since=None) for each in found.cases))
    assert "failing_since" not in dump_baseline(old)
    assert since(load_baseline_or_results(dump_baseline(old).encode(), "b.json")) == "commit2"


def test_a_case_that_asks_something_else_starts_anew() -> None:
    before = history("+++++", "-----")
    record = result(2, "-----")
    other = replace(record, cases=tuple(replace(each, fingerprint="other") for each in record.cases))
    assert since(add_run(before, other, BaselineSource(other.created_at, "commit2"))) is None


def test_the_next_change_is_not_blamed() -> None:
    """Ten good runs, then five bad ones: with the runs before the break the case would look broken here."""
    known = history("+++++", "+++++", "-----")
    rules = GateRules(GateConfig(baseline="b.json"), 10)
    found = regate_record(result(9, "-" * 10), rules, known)
    assert found.verdict.status == "pass", found.verdict.reasons
    assert found.comparison is not None
    assert found.comparison.changes == ()
    assert [notice for notice in found.notices if "already failing" in notice] == [
        "1 case already failing on main since commit2 (2026-11-03): a. This change did not break it."
    ]
    blamed = regate_record(result(9, "-" * 10), rules, history("+++++", "+++++"))
    assert blamed.verdict.status == "fail"


def test_a_case_that_was_fixed_is_not_broken_again_unseen() -> None:
    rules = GateRules(GateConfig(baseline="b.json"), 5)
    found = regate_record(result(9, "-----"), rules, history("+++++", "----------", "+++++"))
    assert found.verdict.status == "fail"
    assert any("a broke: failed 5 of 5 runs, passed 10 of 10" in each for each in found.verdict.reasons)


def test_a_case_that_passes_here_is_no_news_of_the_break() -> None:
    known = keep_comparable_runs(history("+++++", "-----"), HELD)
    assert list(describe_already_failing(result(9, "+++++").cases, known)) == []
    assert len(list(describe_already_failing(result(9, "-----").cases, known))) == 1


def test_a_quarantined_case_is_no_news_of_the_break() -> None:
    known = keep_comparable_runs(history("+++++", "-----"), HELD)
    about = Quarantine("anna", "slow", "2027-01-01")
    cases = [replace(each, quarantine=about) for each in result(9, "-----").cases]
    assert list(describe_already_failing(cases, known)) == []


def test_a_case_or_metric_that_this_change_altered_is_not_already_failing() -> None:
    known = keep_comparable_runs(history("+++++", "-----"), HELD)
    cases = result(9, "-----").cases
    other_metrics = tuple(replace(metric, fingerprint="new") for metric in cases[0].metrics)
    for changed in (replace(cases[0], fingerprint="new"), replace(cases[0], metrics=other_metrics)):
        assert list(describe_already_failing((changed, *cases[1:]), known)) == []


def test_a_budget_passes_below_its_limit_and_without_one() -> None:
    run = BaselineRun(0, "answered", {"budget/tokens": 900.0, "budget/latency_s": 3.0})
    assert score_run_pass(run, {"budget/tokens": 1000.0}, 1.0) == 1.0
    assert score_run_pass(run, {"budget/tokens": 800.0}, 1.0) == 0.0
    assert score_run_pass(run, {}, 1.0) is None
    assert score_run_pass(run, {"budget/tokens": 800.0, "budget/turns": None}, 1.0) == 0.0
    assert score_run_pass(run, {"budget/tokens": None}, 1.0) is None


def test_a_metric_that_was_removed_hides_no_break_and_makes_none() -> None:
    sources = tuple(BaselineSource(f"2026-11-0{day}T08:00:00+00:00", f"commit{day}") for day in range(1, 9))
    limits = {("travel", "a"): {"kept": 0.5}}
    for removed, kept, commit in ((0.8, 0.0, "commit6"), (0.0, 1.0, None)):
        older = tuple(BaselineRun(at, "answered", {"removed": 0.8, "kept": 1.0}, 1.0) for at in range(5))
        newer = tuple(
            BaselineRun(at, "answered", {"removed": removed, "kept": kept}, 1.0) for at in (5, 5, 6, 6, 7, 7)
        )
        case = BaselineCase("travel", "a", "failed", "f", {"removed": "r", "kept": "k"}, older + newer)
        baseline = Baseline((case,), sources)
        for found in (
            mark_breaks(baseline, baseline, limits),
            keep_comparable_runs(baseline, limits),
        ):
            since = found.cases[0].failing_since
            assert (since.commit if since else None) == commit


def gate_run(at: int, prints: dict[str, str], **scores: float | None) -> Record:
    """Return the record of a gate run in which a case had two runs with these scores, each must reach 0.5."""
    metrics = tuple(
        CaseMetric(name, None, 0.5, "errored" if score is None else "passed", fingerprint=prints[name])
        for name, score in scores.items()
    )
    runs = tuple(
        a_run_result(
            run=run,
            metrics=tuple(
                RunMetric(name, score, "errored" if score is None else "failed" if score < 0.5 else "passed")
                for name, score in scores.items()
            ),
        )
        for run in (1, 2)
    )
    made = a_record(a_case_result("a", metrics=metrics, runs=runs))
    return replace(made, created_at=(START + timedelta(days=at)).isoformat())


OLD, NEW = {"a": "a", "b": "b"}, {"a": "other"}


@pytest.mark.parametrize(
    ("gate_runs", "commits"),
    [
        pytest.param(
            [(OLD, {"a": 1.0})] * 5 + [(OLD, {"a": 0.0})] * 3 + [(NEW, {"a": 0.0})] * 2,
            [None] * 5 + ["commit5"] * 3 + [None] * 2,
            id="the metric changed",
        ),
        pytest.param(
            [(OLD, {"a": 1.0})] * 5 + [(OLD, {"a": 0.0})] * 3 + [(OLD, {"b": 0.0})] * 2,
            [None] * 5 + ["commit5"] * 3 + [None] * 2,
            id="another metric in its place",
        ),
        pytest.param(
            [(OLD, {"a": 1.0, "b": 1.0})] * 5 + [(OLD, {"a": 0.0, "b": None})] * 3 + [(OLD, {"b": 0.0})] * 2,
            [None] * 5 + ["commit5"] * 3 + ["commit8"] * 2,
            id="the judge failed until the metric was removed",
        ),
        pytest.param(
            [(OLD, {"a": 1.0, "b": 1.0})] * 5 + [(OLD, {"a": 0.0, "b": 0.0})] * 3 + [(OLD, {"b": 0.0})] * 2,
            [None] * 5 + ["commit5"] * 5,
            id="it failed the other metric all the time",
        ),
        pytest.param(
            [(OLD, {"a": 1.0})] * 5 + [(OLD, {"a": 0.0}), (OLD, {"a": None}), (OLD, {"a": 0.0})],
            [None] * 5 + ["commit5"] * 3,
            id="the judge failed in between",
        ),
    ],
)
def test_a_break_ends_with_the_metric_that_showed_it(
    gate_runs: list[tuple[dict[str, str], dict[str, float | None]]], commits: list[str | None]
) -> None:
    baseline: Baseline | None = None
    found: list[str | None] = []
    for at, (prints, scores) in enumerate(gate_runs):
        record = gate_run(at, prints, **scores)
        source = BaselineSource(record.created_at, f"commit{at}", "main", digest=str(at))
        baseline = add_run(baseline, record, source)
        known = baseline.cases[0].failing_since
        found.append(known.commit if known else None)
    assert found == commits


@pytest.mark.parametrize("gates", [False, None], ids=["reported", "removed since"])
def test_a_reported_metric_or_a_budget_without_limit_breaks_no_case(gates: bool | None) -> None:
    """A case does not fail since the day on which somebody began to look at its latency."""

    def measured(record: Record) -> Record:
        latency = "budget/latency_s"
        run_metric = RunMetric(latency, 0.3, "failed", gates=False)
        cases = tuple(
            replace(
                each,
                metrics=(
                    *each.metrics,
                    CaseMetric(latency, 0.3, 0.1, "failed", gates=False, range=BUDGET_RANGE),
                ),
                runs=tuple(replace(run, metrics=(*run.metrics, run_metric)) for run in each.runs),
            )
            for each in record.cases
        )
        return replace(record, cases=cases)

    found = history("+++++")
    for at in (1, 2):
        record = measured(result(at, "+++++"))
        source = BaselineSource(record.created_at, f"commit{at}", "main", digest=str(at))
        found = add_run(found, record, source)
    assert found.cases[0].failing_since is None
    limits = {
        key: {**own} if gates is None else {**own, "budget/latency_s": None} for key, own in HELD.items()
    }
    kept = keep_comparable_runs(found, limits)
    assert (len(kept.cases[0].runs), kept.cases[0].failing_since) == (15, None)
    report = format_flaky_report(
        rank_flaky_cases(found, BaselineThresholds(limits[("travel", "a")]), pass_score=1.0),
        date(2026, 11, 9),
    )
    assert "failing" not in report
