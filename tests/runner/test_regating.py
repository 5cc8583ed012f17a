"""The commands that look at stored runs and run nothing: compare, backtest, flaky, aa."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from evalgate.baselines.flakiness import BaselineThresholds
from evalgate.baselines.history import add_run, select_earlier_runs
from evalgate.baselines.serialization import dump_baseline
from evalgate.cli.aa import format_aa_result as aa_text
from evalgate.cli.aa import measure_false_alarms
from evalgate.cli.backtest import format_backtest as backtest_text
from evalgate.cli.backtest import run_backtest
from evalgate.cli.compare import compare_results
from evalgate.cli.flaky import format_flaky_report as flaky_text
from evalgate.cli.flaky import rank_flaky_cases
from evalgate.config.schema.gate import GateConfig
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    AnchorComparison,
    AnchorMetric,
    Baseline,
    BaselineSource,
    CaseMetric,
    CaseResult,
    Quarantine,
    Record,
    RunMetric,
    Status,
    Verdict,
)
from evalgate.datasets.results_io import dump_record
from evalgate.runner.regating import GateRules, apply_rules
from tests.builders import RESPONSE, a_case_result, a_record, a_run_result


def case(eval_id: str, *scores: float | None) -> CaseResult:
    """A case with a run for each score; None is a crash."""
    known = [score for score in scores if score is not None]
    status: Status = "errored" if len(known) < len(scores) else "passed" if min(known) >= 0.5 else "failed"
    runs = tuple(
        a_run_result(run=number, outcome="crashed")
        if score is None
        else a_run_result(
            run=number, metrics=(RunMetric(RESPONSE, score, "passed" if score >= 0.5 else "failed"),)
        )
        for number, score in enumerate(scores, 1)
    )
    score = sum(known) / len(known) if len(known) == len(scores) else None
    metric = CaseMetric(RESPONSE, score, 0.5, status, fingerprint="m")
    return replace(a_case_result(eval_id, status, metrics=(metric,), runs=runs), fingerprint="f")


def a_result(*cases: CaseResult, day: int = 20, verdict: Verdict | None = None) -> Record:
    return replace(a_record(*cases, verdict=verdict), created_at=f"2026-11-{day:02d}T08:00:00+00:00")


def suite(*, broken: int = 0, cases: int = 20, runs: int = 10) -> list[CaseResult]:
    return [case(f"c{n:02d}", *[0.0 if n < broken else 1.0] * runs) for n in range(cases)]


def write(folder: Path, name: str, record: Record) -> str:
    (folder / name).write_text(dump_record(record), encoding="utf-8")
    return name


def history(*records: Record) -> Baseline:
    found: Baseline | None = None
    for record in records:
        found = add_run(found, record, BaselineSource(record.created_at, digest=record.created_at))
    assert found is not None
    return found


def config(folder: Path, **sections: object) -> None:
    (folder / "evalgate.json").write_text(json.dumps({"version": 1, **sections}), encoding="utf-8")


_RARELY = "Run-to-run noise alone would do this less than 1 time in a million."
_SELDOM = "Run-to-run noise alone would do this about 1 time in 200,000."


@pytest.mark.parametrize(
    ("now", "status", "exit_code", "reason"),
    [
        (suite(), "pass", 0, "20 cases passed and every metric meets its threshold; nothing regressed."),
        (
            suite(broken=4),
            "fail",
            1,
            f"{RESPONSE}: Regression: the average fell 20 points (1.00 → 0.80) over 20 cases × 10 runs. {_RARELY}",
        ),
        (
            suite(broken=1)[:1] + suite()[1:],
            "fail",
            1,
            f"{RESPONSE}: Regression: the average fell 5 points (1.00 → 0.95) over 20 cases × 10 runs. {_SELDOM}",
        ),
    ],
)
def test_two_results_are_compared(
    tmp_path: Path, now: Sequence[CaseResult], status: str, exit_code: int, reason: str
) -> None:
    write(tmp_path, "a.json", a_result(*suite()))
    write(tmp_path, "b.json", a_result(*now))
    found = compare_results("a.json", "b.json", thresholds_file=None, folder=tmp_path)
    assert (found.verdict.status, found.verdict.exit_code) == (status, exit_code)
    assert found.verdict.reasons[0] == reason
    assert found.notices[0] == "b.json (20 cases) was compared with a.json; nothing was run."


@pytest.mark.parametrize(("is_part", "removed", "left_out"), [(True, 0, 2), (False, 2, 0)])
def test_eval_sets_that_were_not_selected_are_not_removed(
    tmp_path: Path, is_part: bool, removed: int, left_out: int
) -> None:
    others = [replace(each, eval_set_id="other") for each in suite(cases=2)]
    write(tmp_path, "a.json", a_result(*suite(), *others))
    write(tmp_path, "b.json", replace(a_result(*suite()), is_part=is_part))
    found = compare_results("a.json", "b.json", thresholds_file=None, folder=tmp_path).comparison
    assert found is not None
    assert (len(found.changes), found.left_out) == (removed, left_out)


def test_either_side_can_be_a_baseline(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(dump_baseline(history(a_result(*suite()))), encoding="utf-8")
    worse = history(a_result(*suite(broken=4), day=21))
    (tmp_path / "b.json").write_text(dump_baseline(worse), encoding="utf-8")
    assert compare_results("a.json", "b.json", thresholds_file=None, folder=tmp_path).verdict.status == "fail"
    assert compare_results("a.json", "a.json", thresholds_file=None, folder=tmp_path).verdict.status == "pass"
    better = compare_results("b.json", "a.json", thresholds_file=None, folder=tmp_path)
    assert better.verdict.status == "pass"
    assert better.metrics[0].delta == pytest.approx(0.2)


def test_the_gate_of_the_thresholds_file_holds(tmp_path: Path) -> None:
    write(tmp_path, "a.json", a_result(*suite()))
    write(tmp_path, "b.json", a_result(*suite(broken=4)))
    config(tmp_path, gate={"max_regression": 0.5, "max_failed_cases": 4, "statistics": {"case_drop": 1.0}})
    found = compare_results("a.json", "b.json", thresholds_file=None, folder=tmp_path)
    assert found.metrics[0].judgement is not None
    assert found.metrics[0].judgement.max_drop == 0.5


@pytest.mark.parametrize(
    ("text", "problem"),
    [("{}", "b.json"), ("no", "b.json"), (None, "b.json: does not exist. `evalgate run` writes")],
)
def test_a_file_that_is_neither_is_an_error(tmp_path: Path, text: str | None, problem: str) -> None:
    write(tmp_path, "a.json", a_result(*suite()))
    if text is not None:
        (tmp_path / "b.json").write_text(text)
    with pytest.raises(InvalidInputError, match=problem):
        compare_results("a.json", "b.json", thresholds_file=None, folder=tmp_path)


def test_a_break_after_a_result_takes_no_earlier_runs_from_its_backtest(tmp_path: Path) -> None:
    days = {1: 0.6, 2: 0.6, 3: 0.6, 5: 0.0, 6: 0.0, 7: 0.0}
    stored = history(*(a_result(case("a", *[score] * 5), day=day) for day, score in days.items()))
    since = stored.cases[0].failing_since
    assert since is not None
    assert (since.created_at or "")[:10] == "2026-11-05"
    (tmp_path / "b.json").write_text(dump_baseline(stored), "utf-8")
    write(tmp_path, "4.json", a_result(case("a", *[0.6] * 5), day=4, verdict=Verdict("pass", 0, ("fine",))))
    config(tmp_path, criteria={RESPONSE: 0.7}, gate={"min_cases": 1})
    [found] = run_backtest(["4.json"], thresholds_file=None, baseline="b.json", folder=tmp_path)
    assert found.now.status == "pass", found.now.reasons  # it failed by this threshold in every earlier run


def test_a_stored_verdict_under_a_changed_threshold(tmp_path: Path) -> None:
    passing = Verdict("pass", 0, ("fine",))
    write(tmp_path, "2.json", a_result(case("a", 0.9), case("b", 0.7), day=2, verdict=passing))
    write(tmp_path, "1.json", a_result(case("a", 0.9), case("b", 0.9), day=1, verdict=passing))
    config(tmp_path, criteria={RESPONSE: 0.8, "tool_trajectory_avg_score": 1.0})
    found = run_backtest(["2.json", "1.json"], thresholds_file=None, baseline=None, folder=tmp_path)
    untold = "  not evaluated: the file has no score of tool_trajectory_avg_score\n"
    assert backtest_text(found) == (
        f"1.json (2026-11-01T08:00): pass, as it was\n{untold}"
        "2.json (2026-11-02T08:00): pass -> fail\n"
        f"  1 of 2 cases (b) missed a threshold.\n{untold}"
        "1 of 2 verdicts would change.\n"
    )


def test_a_verdict_by_the_anchor_is_not_said_to_change(tmp_path: Path) -> None:
    fell = AnchorMetric(RESPONSE, "fell", 0.9, 1.0, 0.05, 2, 2, "It fell by 0.10 since v1.")
    closed = a_result(case("a", 0.9), case("b", 0.9), verdict=Verdict("fail", 1, (fell.sentence,)))
    write(tmp_path, "1.json", replace(closed, anchor=AnchorComparison("b.json@v1", "v1", (fell,))))
    config(tmp_path, criteria={RESPONSE: 0.8}, gate={"anchor": "b.json@v1"})
    found = run_backtest(["1.json"], thresholds_file=None, baseline=None, folder=tmp_path)
    lines = backtest_text(found).splitlines()
    assert lines[0].endswith("fail -> pass")
    assert lines[-2:] == [
        f"  not compared again: `gate.anchor` closed this gate ({RESPONSE})",
        "1 of 1 verdict would change; for 1 of them, not everything was compared again.",
    ]
    config(tmp_path, criteria={RESPONSE: 0.8})
    found = run_backtest(["1.json"], thresholds_file=None, baseline=None, folder=tmp_path)
    assert backtest_text(found).endswith("1 of 1 verdict would change.\n")


def test_a_stored_verdict_under_rules_for_some_cases(tmp_path: Path) -> None:
    write(tmp_path, "1.json", a_result(case("a", 0.9), case("b", 0.7), verdict=Verdict("pass", 0, ("fine",))))
    config(
        tmp_path,
        criteria={RESPONSE: 0.8},
        cases=[{"ids": "b", "criteria": {RESPONSE: 0.6}}, {"ids": "gone", "tag": "x"}],
    )
    found = run_backtest(["1.json"], thresholds_file=None, baseline=None, folder=tmp_path)
    assert [each.flips for each in found] == [False]


def test_a_stored_result_is_compared_with_earlier_runs(tmp_path: Path) -> None:
    good, bad = a_result(*suite(), day=1), a_result(*suite(broken=4), day=3)
    known = history(good, bad, a_result(*suite(broken=4), day=4))
    (tmp_path / "b.json").write_text(dump_baseline(known), encoding="utf-8")
    write(
        tmp_path,
        "r.json",
        replace(bad, created_at="2026-11-02T00:00:00+00:00", verdict=Verdict("pass", 0, ("",))),
    )
    config(tmp_path, criteria={RESPONSE: 0.5}, gate={"baseline": "b.json"})
    found = run_backtest(["r.json"], thresholds_file=None, baseline=None, folder=tmp_path)
    assert found[0].now.status == "fail"
    assert "the average fell 20 points (1.00 → 0.80)" in found[0].now.reasons[0]
    then = select_earlier_runs(known, "2026-11-02T00:00:00+00:00")
    assert then is not None
    assert [source.created_at for source in then.sources] == [good.created_at]
    assert select_earlier_runs(known, "2026-11-01") is None


def test_flaky_cases_are_listed_and_proposed() -> None:
    records = [
        a_result(
            case("steady", 1.0), case("even", day % 2), case("rare", day != 1), case("dead", None), day=day
        )
        for day in range(1, 21)
    ]
    found = rank_flaky_cases(history(*records), BaselineThresholds({RESPONSE: 0.5}), pass_score=1.0)
    assert flaky_text(found, date(2026, 11, 21)) == (
        "Flip rate: how often two runs of the case end differently (50 % at most for many runs).\n"
        " 53% travel:even: passed 10 of 20 runs, the last 0 in a row\n"
        " 10% travel:rare: passed 19 of 20 runs, the last 19 in a row\n"
        "2 of 4 cases flip; 2 always ended the same way.\n"
        "\n"
        "# Entries for gate.quarantine; name an owner of each:\n"
        '- {"case": "travel:even", "owner": "", "reason": "passed 10 of 20 runs", "expires": "2026-12-21"}\n'
    )


STORE_MORE = "Store more with `evalgate run --runs 10` and then `evalgate baseline save`.\n"


@pytest.mark.parametrize(
    ("cases", "expected"),
    [
        pytest.param(
            [case("a", 1.0), case("b", 0.0)],
            "Flakiness cannot be measured: the baseline has fewer than two scored runs of each of its 2 "
            f"cases. {STORE_MORE}",
            id="one run of each",
        ),
        pytest.param(
            [case("a", *[1.0] * 10), case("b", 1.0)],
            "0 of 1 case flip; 1 always ended the same way.\n"
            f"1 case left out: fewer than two scored runs do not show whether a case is flaky. {STORE_MORE}",
            id="one run of one",
        ),
        pytest.param(
            [case("a", *[1.0] * 3)],
            "0 of 1 case flip; 1 always ended the same way.\n"
            f"So few runs hardly show how often a case fails by luck. {STORE_MORE}",
            id="few runs",
        ),
        pytest.param(
            [case("a", *[1.0] * 10)], "0 of 1 case flip; 1 always ended the same way.\n", id="enough"
        ),
    ],
)
def test_flaky_says_what_is_missing(cases: list[CaseResult], expected: str) -> None:
    known = history(a_result(*cases))
    found = rank_flaky_cases(known, BaselineThresholds({RESPONSE: 0.5}), pass_score=1.0)
    assert flaky_text(found, date(2026, 11, 21), of=len(known.cases)) == expected


@pytest.mark.parametrize(
    ("outcomes", "is_flaky", "is_broken"),
    [
        pytest.param("+" * 19 + "-", False, False, id="one failure in twenty"),
        pytest.param("+" * 9 + "-" + "+" * 10, False, False, id="one in the middle"),
        pytest.param("+++-+++++-++++++++++", True, False, id="two apart"),
        pytest.param("+" * 10 + "---" + "+" * 7, False, False, id="broken, then mended"),
        pytest.param("-" * 5 + "+" * 15, False, False, id="mended"),
        pytest.param("+" * 15 + "-" * 5, False, True, id="broken"),
        pytest.param("++-+++++++-+++-" + "-" * 6, False, True, id="flaky, then broken"),
        pytest.param("-+" * 10, True, False, id="every other"),
        pytest.param("-" * 20, False, False, id="never passed"),
    ],
)
def test_only_a_case_with_failures_between_passes_is_flaky(
    outcomes: str, is_flaky: bool, is_broken: bool
) -> None:
    runs = enumerate(outcomes, 1)
    known = history(*[a_result(case("a", float(passed == "+")), day=day) for day, passed in runs])
    [found] = rank_flaky_cases(known, BaselineThresholds({RESPONSE: 0.5}), pass_score=1.0)
    assert (found.is_proposed, found.failing_since is not None) == (is_flaky, is_broken)
    text = flaky_text([found], date(2026, 11, 21))
    assert ("gate.quarantine" in text, "failing on main since" in text) == (is_flaky, is_broken)


def test_failures_and_passes_of_one_gate_run_are_flaky() -> None:
    known = history(a_result(case("a", *[0.0] * 3, *[1.0] * 7)))
    assert [
        each.is_proposed
        for each in rank_flaky_cases(known, BaselineThresholds({RESPONSE: 0.5}), pass_score=1.0)
    ] == [True]


def test_an_agent_without_noise_raises_no_alarm(tmp_path: Path) -> None:
    write(tmp_path, "r.json", a_result(*suite(cases=10)))
    config(tmp_path, runs="auto", criteria={RESPONSE: 0.5})
    found = measure_false_alarms("r.json", rounds=None, repeats=20, thresholds_file=None, folder=tmp_path)
    assert (found.false_alarms, found.inconclusive, found.runs_per_case) == (0.0, 0, 1.0)
    assert found.smallest_drop is not None
    assert aa_text(found).startswith(
        "20 trials of an agent that did not change, drawn from 10 stored runs of 10 cases:\n"
        "  false alarms: 0.0% (0 trials; between 0.0% and 16.1%, 95 times in 100)\n"
    )
    assert "point, if every metric falls by it and each case gets up to 5 runs (tried out" in aa_text(
        found
    ).replace("points,", "point,")
    assert aa_text(found).endswith(
        "  The stored runs limit these figures: a case that passed all of its 10 may still fail up to 26% of the time.\n"
    )


def test_a_threshold_that_luck_misses_is_a_false_alarm_with_its_reason(tmp_path: Path) -> None:
    flaky = [case(f"c{n}", *[1.0, 0.0] * 5) for n in range(4)]
    (tmp_path / "b.json").write_text(dump_baseline(history(a_result(*flaky))), encoding="utf-8")
    criterion = {"threshold": 0.9, "min_mean": 0.9}
    config(tmp_path, runs="auto", criteria={RESPONSE: criterion}, gate={"baseline": "b.json"})
    found = measure_false_alarms(None, rounds=None, repeats=20, thresholds_file=None, folder=tmp_path)
    assert found.false_alarms > 0.8
    assert "a metric below its threshold" in found.alarms


def test_the_threshold_of_a_case_is_no_minimum_of_the_mean_beside_a_baseline(tmp_path: Path) -> None:
    flaky = [case(f"c{n}", *[1.0] * 9, 0.0) for n in range(3)]
    steady = [case(f"s{n}", *[1.0] * 10) for n in range(27)]
    (tmp_path / "b.json").write_text(dump_baseline(history(a_result(*flaky, *steady))), encoding="utf-8")
    config(tmp_path, runs="auto", criteria={RESPONSE: 1.0}, gate={"baseline": "b.json"})
    found = measure_false_alarms(None, rounds=None, repeats=40, thresholds_file=None, folder=tmp_path)
    assert found.false_alarms <= 0.05


@pytest.fixture
def elsewhere(tmp_path: Path) -> str:
    """The name of a baseline that is no file of the working folder."""
    kept = tmp_path / "elsewhere" / "baseline.json"
    kept.parent.mkdir()
    kept.write_text(dump_baseline(history(a_result(*suite(), day=1))), encoding="utf-8")
    return kept.as_uri()


def test_a_baseline_in_a_store_is_compared(tmp_path: Path, elsewhere: str) -> None:
    write(tmp_path, "b.json", a_result(*suite(broken=4), verdict=Verdict("fail", 1, ("fell",))))
    config(tmp_path, criteria={RESPONSE: 0.5}, gate={"baseline": elsewhere})
    [found] = run_backtest(["b.json"], thresholds_file=None, baseline=None, folder=tmp_path)
    assert found.missing_baseline == ""
    assert any("the average fell 20 points (1.00 → 0.80)" in reason for reason in found.now.reasons)
    assert (
        compare_results(elsewhere, "b.json", thresholds_file=None, folder=tmp_path).verdict.status == "fail"
    )
    drawn = measure_false_alarms(None, rounds=None, repeats=10, thresholds_file=None, folder=tmp_path)
    assert drawn.repeats == 10


def test_a_missing_baseline_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "b.json", a_result(*suite(broken=4), verdict=Verdict("fail", 1, ("fell",))))
    config(tmp_path, criteria={RESPONSE: 0.5}, gate={"baseline": "gone.json", "max_failed_cases": 4})
    text = backtest_text(run_backtest(["b.json"], thresholds_file=None, baseline=None, folder=tmp_path))
    assert "There is no baseline at gone.json: absolute thresholds only.\n" in text
    with pytest.raises(InvalidInputError, match=r"gone\.json: does not exist"):
        run_backtest(["b.json"], thresholds_file=None, baseline="gone.json", folder=tmp_path)
    with pytest.raises(InvalidInputError, match=r"gone\.json: does not exist"):
        measure_false_alarms(None, rounds=None, repeats=10, thresholds_file=None, folder=tmp_path)


def test_against_itself_needs_something_to_draw_from(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="nothing to draw from: name a"):
        measure_false_alarms(None, rounds=None, repeats=10, thresholds_file=None, folder=tmp_path)
    write(tmp_path, "r.json", a_result())
    with pytest.raises(InvalidInputError, match="no case has a stored run"):
        measure_false_alarms("r.json", rounds=None, repeats=10, thresholds_file=None, folder=tmp_path)


@pytest.mark.parametrize(("runs", "said"), [(1, "1 scored run,"), (2, "2 scored runs,")])
def test_too_few_stored_runs_are_no_measure_of_luck(tmp_path: Path, runs: int, said: str) -> None:
    write(tmp_path, "r.json", a_result(*suite(runs=runs)))
    config(tmp_path, criteria={RESPONSE: 0.5})
    with pytest.raises(InvalidInputError, match=said) as error:
        measure_false_alarms("r.json", rounds=None, repeats=10, thresholds_file=None, folder=tmp_path)
    assert "Store more with `evalgate run --runs 10` and then `evalgate baseline save`" in str(error.value)
    assert "evalgate aa --rounds 10" in str(error.value)


@pytest.mark.parametrize(
    ("cases", "gate", "said"),
    [
        (
            [case(f"c{at}", *[1.0] * 10) for at in range(5)],
            {"max_regression": 1},
            "  No drop of a mean closes the gate: `max_regression` allows every drop.\n",
        ),
        (
            [case(f"c{at}", *[0.0] * 10) for at in range(5)],
            {},
            "  No drop is possible: all stored scores are the lowest.\n",
        ),
        (
            [case(f"c{at}", *[1.4] * 10) for at in range(5)],
            {},
            "  The smallest drop is not measured: no metric has all of its scores within its range.\n",
        ),
    ],
)
def test_aa_says_why_no_drop_is_measured(
    tmp_path: Path, cases: list[CaseResult], gate: dict[str, object], said: str
) -> None:
    write(tmp_path, "r.json", a_result(*cases))
    config(tmp_path, criteria={RESPONSE: 0.5}, gate=gate)
    found = measure_false_alarms("r.json", rounds=None, repeats=10, thresholds_file=None, folder=tmp_path)
    text = aa_text(found)
    assert said in text
    assert "No drop is caught reliably" not in text


def test_the_trials_of_aa_estimate_no_detectable_drops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_options: object) -> float:
        raise AssertionError("a trial needs only the verdict")

    monkeypatch.setattr("evalgate.gating.significance.estimate_detectable_drop", fail)
    write(tmp_path, "r.json", a_result(case("a", *[1.0] * 7, *[0.0] * 3), case("b", *[1.0] * 10)))
    config(tmp_path, runs="auto", criteria={RESPONSE: 0.5})
    found = measure_false_alarms("r.json", rounds=None, repeats=5, thresholds_file=None, folder=tmp_path)
    assert found.smallest_drop is not None


def test_aa_leaves_quarantined_cases_of_a_result_out(tmp_path: Path) -> None:
    config(tmp_path, criteria={RESPONSE: 0.5})
    excused = replace(case("flaky", 1.0, 0.0, 1.0), quarantine=Quarantine("anna", "moved", "2999-01-01"))
    write(tmp_path, "r.json", a_result(*suite(cases=4, runs=3), excused))
    found = measure_false_alarms("r.json", rounds=None, repeats=10, thresholds_file=None, folder=tmp_path)
    assert (found.cases, found.alarms) == (4, {})
    assert "  4 of 5 stored cases count: 1 cannot close the gate (quarantined" in aa_text(found)
    write(tmp_path, "r.json", a_result(excused))
    with pytest.raises(InvalidInputError, match="0 of 1 stored case counts"):
        measure_false_alarms("r.json", rounds=None, repeats=10, thresholds_file=None, folder=tmp_path)


def test_aa_counts_only_runs_with_a_score(tmp_path: Path) -> None:
    unscored = a_run_result(metrics=(RunMetric(RESPONSE, None, "errored"),))
    lost = replace(case("lost", 1.0), runs=tuple(replace(unscored, run=at) for at in range(1, 21)))
    config(tmp_path, criteria={RESPONSE: 0.5})
    write(tmp_path, "r.json", a_result(*suite(cases=4, runs=3), lost))
    found = measure_false_alarms("r.json", rounds=None, repeats=10, thresholds_file=None, folder=tmp_path)
    assert (found.cases, found.runs, found.left_out) == (4, (3, 3), 1)
    write(tmp_path, "r.json", a_result(lost))
    with pytest.raises(
        InvalidInputError, match="no case has a stored run with a score, and aa draws from at least 3"
    ):
        measure_false_alarms("r.json", rounds=None, repeats=10, thresholds_file=None, folder=tmp_path)


def test_cases_with_too_few_stored_runs_are_left_out_and_counted(tmp_path: Path) -> None:
    write(tmp_path, "r.json", a_result(*suite(cases=4, runs=3), case("new", 1.0)))
    config(tmp_path, criteria={RESPONSE: 0.5})
    found = measure_false_alarms("r.json", rounds=None, repeats=10, thresholds_file=None, folder=tmp_path)
    assert (found.cases, found.runs, found.left_out) == (4, (3, 3), 1)
    assert "may still fail up to 63% of the time.\n  1 case left out: fewer than 3 scored runs.\n" in aa_text(
        found
    )


def test_a_number_that_a_resumed_run_lacks_makes_no_run_a_follow_up() -> None:
    runs = (a_run_result(run=1), a_run_result(run=3), a_run_result(run=4))

    case = a_case_result("order", "passed", runs=runs)
    found = apply_rules(case, GateRules(GateConfig(), "auto"), rounds=2)

    assert [(run.run, run.confirms) for run in found.runs] == [(1, False), (3, False), (4, True)]
