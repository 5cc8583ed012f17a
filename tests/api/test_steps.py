"""Each step of an evaluation alone, and that together they find what `evaluate` finds."""

import json
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import evalgate
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    AnchorComparison,
    AnchorMetric,
    ControlCase,
    ControlComparison,
    FollowUp,
)
from tests.api.test_evaluation import CRITERIA, build_case, build_set, greet

TWO = build_set(build_case("ada"), build_case("bob", "Bob", "Hi Bob"))


class Csv:
    """A reporter as another package brings it."""

    file_name = "cases.csv"

    def render(self, record: evalgate.Record) -> str:
        return "".join(f"{case.eval_id},{case.status}\n" for case in record.cases)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def drop_times(record: evalgate.Record) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record.to_json())
    del found["created_at"], found["duration_s"]
    for case in found["cases"]:
        for run in case["runs"]:
            del run["duration_s"]
    return found


class TestScore:
    """Conversations that exist already get scores."""

    def test_running_and_scoring_apart_finds_what_evaluate_finds(self) -> None:
        whole = evalgate.evaluate(TWO, greet, criteria=CRITERIA, runs=2)
        made = evalgate.run(TWO, greet, runs=2)
        assert drop_times(evalgate.score(made, TWO, criteria=CRITERIA)) == drop_times(whole)
        assert [case.status for case in whole.cases] == ["passed", "failed"]

    def test_durations_and_time_are_those_of_the_run(self) -> None:
        made = evalgate.run(TWO, greet)
        scored = evalgate.score(made, TWO, criteria=CRITERIA)
        assert scored.created_at == made.created_at
        assert [case.runs[0].duration_s for case in scored.cases] == [
            case.runs[0].duration_s for case in made.cases
        ]

    def test_a_record_survives_its_file(self, tmp_path: Path) -> None:
        made = evalgate.run(TWO, greet)
        made.write(tmp_path / "made")
        read = evalgate.Record.read(tmp_path / "made" / "results.json")
        assert drop_times(evalgate.score(read, TWO, criteria=CRITERIA)) == drop_times(
            evalgate.score(made, TWO, criteria=CRITERIA)
        )

    def test_a_run_has_no_score_and_no_open_gate(self) -> None:
        made = evalgate.run(TWO, greet)
        assert made.metrics == ()
        assert not made.passed
        assert made.verdict.status == "error"

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            (build_set(build_case("ada"), build_case("eve")), "the record has no run of this case"),
            (
                build_set(build_case("ada"), build_case("bob", "Rob")),
                "the record answers another question in turn 1",
            ),
        ],
    )
    def test_cases_of_another_time_are_not_scored(self, changed: dict[str, Any], reason: str) -> None:
        scored = evalgate.score(evalgate.run(TWO, greet), changed, criteria=CRITERIA)
        assert [case.status for case in scored.cases] == ["passed", "not_evaluated"]
        run = scored.cases[1].runs[0]
        assert (run.outcome, run.failure and run.failure.message) == ("not_run", reason)
        assert not scored.passed

    def test_cases_that_no_set_has_are_told(self) -> None:
        scored = evalgate.score(evalgate.run(TWO, greet), build_set(build_case("ada")), criteria=CRITERIA)
        assert "1 case of the record is in none of the eval sets and was not scored." in scored.notices

    def test_a_crash_stays_a_crash(self) -> None:
        def crash(text: str) -> str:
            raise RuntimeError("no key")

        scored = evalgate.score(evalgate.run(TWO, crash), TWO, criteria=CRITERIA)
        assert [case.runs[0].outcome for case in scored.cases] == ["crashed", "crashed"]
        assert [case.status for case in scored.cases] == ["errored", "errored"]

    def test_follow_up_runs_are_left_out(self) -> None:
        made = evalgate.run(TWO, greet, runs=2)
        cases = [
            replace(case, runs=(case.runs[0], replace(case.runs[1], confirms=True))) for case in made.cases
        ]
        scored = evalgate.score(replace(made, cases=tuple(cases)), TWO, criteria=CRITERIA)
        assert [len(case.runs) for case in scored.cases] == [1, 1]


class TestCompareAndDecide:
    """A record with scores is compared and decided without an agent."""

    def test_a_record_is_compared_with_a_record(self) -> None:
        before = evalgate.evaluate(TWO, lambda text: f"Hi {text}", criteria=CRITERIA)
        after = evalgate.evaluate(TWO, greet, criteria=CRITERIA)
        found = evalgate.compare(after, before)
        assert found.comparison is not None
        changes = {each.eval_id: each.change for each in found.comparison.changes}
        assert changes == {"ada": "newly_passing", "bob": "newly_failing"}

    def test_a_file_is_a_baseline(self, tmp_path: Path) -> None:
        record = evalgate.evaluate(TWO, greet, criteria=CRITERIA)
        record.write("before")
        found = evalgate.compare(record, "before/results.json")
        assert found.comparison is not None
        assert (found.comparison.changes, found.comparison.unchanged) == ((), 2)

    def test_the_thresholds_file_has_the_settings_of_the_gate(self) -> None:
        before = evalgate.evaluate(TWO, lambda text: "Hi Bob", criteria={"response_match_score": 0.3})
        after = evalgate.evaluate(TWO, greet, criteria={"response_match_score": 0.3})
        rises = evalgate.compare(after, before, thresholds={"gate": {"max_regression": 0.9}})
        assert rises.verdict.status == "pass"

    def test_a_missing_baseline_is_an_error(self) -> None:
        record = evalgate.evaluate(TWO, greet, criteria=CRITERIA)
        with pytest.raises(InvalidInputError, match=r"nowhere\.json: does not exist"):
            evalgate.compare(record, "nowhere.json")

    @pytest.mark.parametrize(("gate", "status"), [(None, "fail"), ({"max_failed_cases": 1}, "fail")])
    def test_the_gate_has_other_settings(self, gate: dict[str, Any] | None, status: str) -> None:
        record = evalgate.evaluate(TWO, greet, criteria={"response_match_score": 0.9})
        assert evalgate.decide(record, gate).status == status

    def test_a_failing_case_may_be_allowed(self) -> None:
        rules = {"criteria": {"response_match_score": {"threshold": 0.9, "min_mean": 0.5}}}
        record = evalgate.evaluate(TWO, greet, thresholds=rules)
        assert record.verdict.status == "fail"
        assert evalgate.decide(record, {"max_failed_cases": 1}).status == "pass"

    def test_no_setting_opens_the_gate_of_a_run_that_must_not_be_trusted(self) -> None:
        record = evalgate.evaluate(build_set(), greet, criteria=CRITERIA)
        spent = replace(record, verdict=evalgate.Verdict("error", 3, ("The budget is spent.",)))
        for found in (evalgate.decide(spent), evalgate.compare(spent, record).verdict):
            assert (found.status, found.reasons) == ("error", ("The budget is spent.",))

    def test_a_drop_since_the_anchor_keeps_the_gate_closed(self) -> None:
        record = evalgate.evaluate(build_set(build_case("ada")), greet, criteria=CRITERIA)
        fell = AnchorMetric("response_match_score", "fell", 0.8, 1.0, 0.1, 1, 1, "It fell since v1.")
        found = replace(record, anchor=AnchorComparison("branch:main@v1", "v1", (fell,)))
        verdict = evalgate.decide(found)
        assert (verdict.status, verdict.reasons) == ("fail", ("It fell since v1.",))

    def test_what_the_control_explains_keeps_the_gate_open(self) -> None:
        record = evalgate.evaluate(build_set(build_case("ada")), greet, criteria=CRITERIA)
        broke = FollowUp("broke", runs=2, failed=2, need=2, baseline_runs=9, baseline_failed=0)
        [case] = record.cases
        suspected = replace(record, cases=(replace(case, follow_up=broke),))
        assert evalgate.decide(suspected).status == "fail"
        same = ControlCase(*case.key, (), "drifted", sentence="ada fails on main today as well.")
        explained = replace(suspected, control=ControlComparison("0" * 40, "drifted", (same,)))
        assert evalgate.decide(explained).reasons[0] == "ada fails on main today as well."

    def test_min_cases_counts_selected_cases(self, tmp_path: Path) -> None:
        gate = {"min_cases": 2}
        rules = {"criteria": CRITERIA, "gate": gate}
        path = tmp_path / "two.json"
        path.write_text(json.dumps(TWO), encoding="utf-8")
        for source, k in ((str(path), "ada"), (f"{path}:ada", None)):
            record = evalgate.evaluate(source, greet, thresholds=rules, k=k)
            again = evalgate.compare(record, record, thresholds={"gate": gate}).verdict
            assert record.verdict.status == again.status == evalgate.decide(record, gate).status == "pass"
            assert evalgate.decide(record, gate).reasons == record.verdict.reasons
        empty = evalgate.run({"eval_set_id": "none", "eval_cases": []}, greet)
        assert evalgate.decide(empty, gate).status == "error"

    def test_every_wrong_setting_is_named(self) -> None:
        record = evalgate.evaluate(TWO, greet, criteria=CRITERIA)
        with pytest.raises(InvalidInputError) as caught:
            evalgate.decide(record, {"max_failed": 1, "alpha": 2})
        assert len(caught.value.problems) == 2


class TestRender:
    """A record becomes any report."""

    @pytest.mark.parametrize(
        ("report", "start"),
        [
            ("comment", "<!-- evalgate"),
            ("junit", "<?xml"),
            ("json", "{"),
            ("html", "<!doctype html>"),
            ("codequality", "["),
        ],
    )
    def test_each_report_is_text(self, report: str, start: str) -> None:
        record = evalgate.evaluate(TWO, greet, criteria=CRITERIA)
        assert evalgate.render(record, report).startswith(start)

    def test_a_plugin_has_a_report(self, monkeypatch: pytest.MonkeyPatch) -> None:
        point = EntryPoint("csv", f"{__name__}:Csv", "evalgate.reporters")
        monkeypatch.setattr(plugin_registry, "list_entry_points", lambda family: (point,))
        record = evalgate.evaluate(TWO, greet, criteria=CRITERIA)
        assert evalgate.render(record, "csv") == "ada,passed\nbob,failed\n"

    def test_a_plugin_that_fails_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        point = EntryPoint("csv", f"{__name__}:Csv", "evalgate.reporters")
        monkeypatch.setattr(plugin_registry, "list_entry_points", lambda family: (point,))
        monkeypatch.setattr(Csv, "render", lambda self, record: record["x"])
        record = evalgate.evaluate(TWO, greet, criteria=CRITERIA)
        with pytest.raises(InvalidInputError, match="the plugin `csv` cannot be used: TypeError: "):
            evalgate.render(record, "csv")
        with pytest.raises(InvalidInputError, match=r"`cvs` is not a report\. Did you mean `csv`\?"):
            evalgate.render(record, "cvs")

    def test_an_unknown_report_is_an_error(self) -> None:
        record = evalgate.evaluate(TWO, greet, criteria=CRITERIA)
        with pytest.raises(InvalidInputError, match=r"`junt` is not a report\. Did you mean `junit`\?"):
            evalgate.render(record, "junt")


def test_loading_reads_any_source() -> None:
    Path("a.evalset.json").write_text(json.dumps(build_set(eval_set_id="a")), "utf-8")
    loaded = evalgate.load(["a.evalset.json", build_set(eval_set_id="b")])
    assert [each.eval_set_id for each in loaded] == ["a", "b"]
    assert evalgate.evaluate(loaded, greet, criteria=CRITERIA).passed
