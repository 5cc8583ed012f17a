"""`evalgate baseline`: save, accept, prune, show and export, and the results that they refuse."""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evalgate.cli.baseline_save import BaselineSaveOptions, accept_baseline, prune_baseline, save_baseline
from evalgate.cli.baseline_show import export_baseline, format_baseline_summary, summarize_baseline
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import CaseMetric, PlanId, Record, RunMetric, Shard, Status, Verdict
from evalgate.datasets.results_io import dump_record
from evalgate.runner.baseline_targets import BaselineTarget, resolve_target
from tests.builders import TRAJECTORY, a_case_result, a_record, a_run_result
from tests.commands import evalgate

PLAIN = BaselineSaveOptions({}, commit="abc1234")


def a_run(*scores: float, day: int = 20, runs: int = 1) -> Record:
    """A record with a case for each score, of a day in November."""
    cases = []
    for number, score in enumerate(scores):
        status: Status = "passed" if score == 1 else "failed"
        own = tuple(
            a_run_result(run=run, metrics=(RunMetric(TRAJECTORY, score, status),))
            for run in range(1, runs + 1)
        )
        metric = CaseMetric(TRAJECTORY, score, 1.0, status)
        cases.append(a_case_result(f"case_{number}", status, metrics=(metric,), runs=own))
    return replace(a_record(*cases), created_at=f"2026-11-{day:02d}T08:30:00+00:00")


def save(folder: Path, record: Record, keeping: BaselineSaveOptions = PLAIN) -> str:
    (folder / "results.json").write_text(dump_record(record), encoding="utf-8")
    return save_baseline("results.json", shelf(folder), keeping)


def shelf(folder: Path) -> BaselineTarget:
    return resolve_target(folder, "b.json", None)


def test_saving_adds_and_never_erases(tmp_path: Path) -> None:
    assert save(tmp_path, a_run(1.0, 1.0)) == "Baseline of 2 cases saved to b.json. Commit it."
    assert save(tmp_path, a_run(0.5, day=21)) == (
        "Runs of 1 case added to b.json, which now contains 2 gate runs. Commit it. 1 case in it did not pass."
    )
    found = shelf(tmp_path).read()
    assert {case.eval_id: len(case.runs) for case in found.cases} == {"case_0": 2, "case_1": 1}
    assert [(source.created_at, source.commit) for source in found.sources] == [
        ("2026-11-20T08:30:00+00:00", "abc1234"),
        ("2026-11-21T08:30:00+00:00", "abc1234"),
    ]


def test_saving_twice_adds_nothing(tmp_path: Path) -> None:
    save(tmp_path, a_run(1.0))
    before = (tmp_path / "b.json").read_bytes()
    assert save(tmp_path, a_run(1.0)) == "b.json already contains this run: nothing was added."
    assert (tmp_path / "b.json").read_bytes() == before


def test_the_thresholds_file_limits_the_stored_gate_runs(tmp_path: Path) -> None:
    (tmp_path / "evalgate.json").write_text(
        '{"gate": {"baseline": "b.json", "statistics": {"baseline_keep": 2}}}'
    )
    for day in (1, 2, 3):
        save(tmp_path, a_run(1.0, day=day))
    assert [source.created_at for source in resolve_target(tmp_path, None, None).read().sources] == [
        "2026-11-02T08:30:00+00:00",
        "2026-11-03T08:30:00+00:00",
    ]


@pytest.mark.parametrize(
    ("environ", "what"),
    [
        ({"GITHUB_EVENT_NAME": "pull_request"}, "a pull request"),
        ({"GITHUB_EVENT_NAME": "pull_request_target"}, "a pull request"),
        ({"GITHUB_EVENT_NAME": "merge_group"}, "a merge queue"),
        ({"CI_PIPELINE_SOURCE": "merge_request_event"}, "a merge request"),
        ({"CI_MERGE_REQUEST_IID": "7"}, "a merge request"),
        ({"GITHUB_EVENT_NAME": "push"}, ""),
        ({"GITHUB_EVENT_NAME": "schedule"}, ""),
        ({"CI_PIPELINE_SOURCE": "push"}, ""),
    ],
)
def test_a_change_that_is_not_merged_is_refused_as_baseline(
    tmp_path: Path, environ: Mapping[str, str], what: str
) -> None:
    keeping = replace(PLAIN, environ=environ)
    if not what:
        assert save(tmp_path, a_run(1.0), keeping).startswith("Baseline of 1 case saved")
        return
    with pytest.raises(InvalidInputError, match=f"this job tests {what}, and its runs are not added to"):
        save(tmp_path, a_run(1.0), keeping)
    with pytest.raises(InvalidInputError, match="or add --allow-pull-request"):
        accept_baseline("results.json", "why not", shelf(tmp_path), keeping)
    assert not (tmp_path / "b.json").exists()
    allowed = replace(keeping, allow_pull_request=True)
    assert save(tmp_path, a_run(1.0), allowed).startswith("Baseline of 1 case saved")


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (replace(a_run(1.0), verdict=Verdict("error", 3, ("Too many errors.",))), "this run has no verdict (Too"),
        (replace(a_run(1.0), verdict=Verdict("pass", 1)), "The file was edited"),
        (replace(a_run(1.0), created_at="yesterday"), "created_at: Input should be a time in ISO 8601"),
        (replace(a_run(1.0), created_at=""), "`created_at` is empty. The file was edited"),
        (a_record(a_case_result("a", "not_evaluated")), "no case has a score, so it cannot be a baseline"),
        (replace(a_run(0.0), verdict=Verdict("inconclusive", 0), shard=Shard(2, 3, (1,), 3, PlanId("", "", ""))), "this run is shard 2 of 3, so it has no verdict. Merge all shards"),
    ],
)  # fmt: skip
def test_results_that_are_no_baseline_are_refused(tmp_path: Path, record: Record, problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        save(tmp_path, record)
    assert problem in str(caught.value)
    with pytest.raises(InvalidInputError) as caught:
        accept_baseline("results.json", "why not", shelf(tmp_path), PLAIN)
    assert problem in str(caught.value)
    assert not (tmp_path / "b.json").exists()


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_source_names_the_commit_and_branch_and_an_older_run_is_stale(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "trunk")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    fresh = replace(a_run(1.0), created_at=datetime.now(UTC).isoformat())
    save(tmp_path, fresh, BaselineSaveOptions({}))
    source = shelf(tmp_path).read().sources[0]
    assert (source.commit, source.branch) == (git(tmp_path, "rev-parse", "HEAD"), "trunk")
    old = replace(a_run(1.0), created_at="2020-01-01T00:00:00Z")
    with pytest.raises(InvalidInputError, match="this run was made before the commit that is checked out"):
        save(tmp_path, old, BaselineSaveOptions({}))
    assert "added" in save(tmp_path, old, PLAIN)
    in_ci = BaselineSaveOptions(
        {"GITHUB_SHA": "f" * 40, "GITHUB_REF_TYPE": "branch", "GITHUB_REF_NAME": "main"}
    )
    save(tmp_path, replace(fresh, duration_s=9), in_ci)
    assert ("f" * 40, "main") in {(each.commit, each.branch) for each in shelf(tmp_path).read().sources}


def test_a_secret_in_the_reason_is_not_kept(tmp_path: Path) -> None:
    save(tmp_path, a_run(1.0))
    keeping = replace(PLAIN, environ={**PLAIN.environ, "DEPLOY_TOKEN": "blue-monkey-4711"})
    token = "ghp_" + "a1B2c3D4e5F6" * 3
    accept_baseline("results.json", f"curl with {token}, not blue-monkey-4711", shelf(tmp_path), keeping)
    assert [source.accepted for source in shelf(tmp_path).read().sources] == ["curl with ***, not ***"]


def test_accepting_replaces_the_baseline_and_keeps_the_reason(tmp_path: Path) -> None:
    save(tmp_path, a_run(1.0, 1.0))
    (tmp_path / "results.json").write_text(dump_record(a_run(0.5, day=21)), encoding="utf-8")
    said = accept_baseline("results.json", "shorter answers", shelf(tmp_path), PLAIN)
    assert said == (
        "b.json holds 1 case of this run, and nothing else. Commit it. 1 case in it did not pass."
    )
    assert [source.accepted for source in shelf(tmp_path).read().sources] == ["shorter answers"]


def test_pruning_leaves_the_newest(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"b\.json: there is no baseline yet"):
        prune_baseline(1, shelf(tmp_path))
    for day in (1, 2, 3):
        save(tmp_path, a_run(1.0, day=day))
    assert prune_baseline(2, shelf(tmp_path)) == "b.json: 1 gate run removed, 2 left."
    assert prune_baseline(2, shelf(tmp_path)) == "b.json: 0 gate runs removed, 2 left."


def test_export_prints_every_raw_score(tmp_path: Path) -> None:
    save(tmp_path, a_run(1.0, 0.25))
    baseline = shelf(tmp_path).read()
    assert export_baseline(baseline, "csv") == (
        "eval_set_id,eval_id,metric,score,outcome,created_at,commit,branch,duration_s\n"
        f"travel,case_0,{TRAJECTORY},1.0,answered,2026-11-20T08:30:00+00:00,abc1234,,0.5\n"
        f"travel,case_1,{TRAJECTORY},0.25,answered,2026-11-20T08:30:00+00:00,abc1234,,0.5\n"
    )
    rows = json.loads(export_baseline(baseline, "json"))
    assert [(row["eval_id"], row["score"], row["branch"]) for row in rows] == [
        ("case_0", 1.0, None),
        ("case_1", 0.25, None),
    ]


def test_a_name_that_a_runner_would_obey_is_exported_as_json_alone(tmp_path: Path) -> None:
    run = a_run(1.0)
    save(tmp_path, replace(run, cases=tuple(replace(case, eval_id="##vso[task]") for case in run.cases)))
    baseline = shelf(tmp_path).read()
    with pytest.raises(InvalidInputError, match="CSV cannot escape it: use --format json"):
        export_baseline(baseline, "csv")
    printed = evalgate("baseline", "export", "--to", "b.json", cwd=tmp_path).out
    assert "##vso" not in printed
    assert [row["eval_id"] for row in json.loads(printed)] == ["##vso[task]"]


def test_showing_lists_the_cases_that_broke_on_the_default_branch(tmp_path: Path) -> None:
    (tmp_path / "evalgate.json").write_text(json.dumps({"version": 1, "criteria": {TRAJECTORY: 1.0}}))
    for day in (1, 2, 3):
        save(tmp_path, a_run(1.0, 1.0, day=day, runs=5))
    assert "Broke" not in format_baseline_summary(summarize_baseline(shelf(tmp_path)))
    failing = BaselineSaveOptions({}, commit="bad0000", allow_failing=True)
    save(tmp_path, a_run(0.0, 1.0, day=4, runs=5), failing)
    found = summarize_baseline(shelf(tmp_path))
    assert (
        "Broke on the default branch and not fixed: 1 case\n"
        "  travel/case_0: failing on main since bad0000 (2026-11-04)\n"
    ) in format_baseline_summary(found)
    assert json.loads(found.as_json())["failing"]["travel/case_0"]["commit"] == "bad0000"


def test_showing_names_the_cases_that_could_break_unnoticed(tmp_path: Path) -> None:
    (tmp_path / "evalgate.json").write_text('{"runs": "auto"}')
    """One that always passed is followed up at any depth; one that fails now and then needs a deep baseline."""
    save(tmp_path, a_run(1.0, 0.0, 1.0, day=1))
    save(tmp_path, a_run(0.0, 0.0, 1.0, day=2))
    found = summarize_baseline(shelf(tmp_path))
    needed = found.metrics[TRAJECTORY].unconfirmable
    assert needed.keys() == {"travel/case_0"}
    assert f"so many runs: travel/case_0 ({needed['travel/case_0']})\n" in format_baseline_summary(found)


def test_show_uses_the_range_of_the_metric(tmp_path: Path) -> None:
    own = {TRAJECTORY: {"entry": "a.b", "range": [-2, 2]}}
    for day in (1, 2):
        save(tmp_path, a_run(*[1.0] * 19, 0.0, day=day, runs=5))
    usual = summarize_baseline(shelf(tmp_path))
    (tmp_path / "evalgate.json").write_text(json.dumps({"version": 1, "custom_metrics": own}))
    found = summarize_baseline(shelf(tmp_path))
    assert (usual.ranges, found.ranges) == ({}, {TRAJECTORY: (-2.0, 2.0)})
    assert round(found.metrics[TRAJECTORY].average, 9) == round(usual.metrics[TRAJECTORY].average, 9) == 0.95
    assert "points" in format_baseline_summary(usual)
    assert "points" not in format_baseline_summary(found)
    assert f"Drops of about {found.metrics[TRAJECTORY].notice:.2f} or more" in format_baseline_summary(found)


def test_show_promises_nothing_of_a_metric_that_does_not_gate(tmp_path: Path) -> None:
    save(tmp_path, a_run(*[1.0] * 20, runs=10))
    (tmp_path / "evalgate.json").write_text(
        json.dumps({"version": 1, "criteria": {TRAJECTORY: {"threshold": 1.0, "gates": False}}})
    )
    found = summarize_baseline(shelf(tmp_path))
    text = format_baseline_summary(found)
    assert (dict(found.metrics), found.reported) == ({}, (TRAJECTORY,))
    assert f"{TRAJECTORY}: only reported (`gates: false`), so no change of it closes the gate\n" in text
    assert "caught reliably" not in text
    assert "would be found" not in text


def test_show_knows_the_drop_that_a_criterion_allows(tmp_path: Path) -> None:
    save(tmp_path, a_run(*[1.0] * 20, runs=10))
    for allowed in (0.05, 0.3):
        criterion = {"threshold": 1.0, "max_regression": allowed}
        (tmp_path / "evalgate.json").write_text(
            json.dumps({"version": 1, "criteria": {TRAJECTORY: criterion}})
        )
        text = format_baseline_summary(summarize_baseline(shelf(tmp_path)))
        (found,) = re.findall(r"Drops of about (\d+) points or more are caught reliably", text)
        assert allowed * 100 < int(found) < allowed * 100 + 10


@pytest.mark.parametrize(
    ("criteria", "gate"),
    [({TRAJECTORY: {"threshold": 1.0, "max_regression": 1}}, {}), ({TRAJECTORY: 1.0}, {"max_regression": 1})],
    ids=["of the metric", "of the gate"],
)
def test_show_says_that_every_drop_of_a_metric_is_allowed(
    tmp_path: Path, criteria: dict[str, object], gate: dict[str, object]
) -> None:
    save(tmp_path, a_run(*[1.0] * 20, runs=10))
    (tmp_path / "evalgate.json").write_text(json.dumps({"version": 1, "criteria": criteria, "gate": gate}))
    found = summarize_baseline(shelf(tmp_path))
    text = format_baseline_summary(found)
    assert found.unlimited == (TRAJECTORY,)
    assert "  `max_regression` allows every drop of the average, so none closes the gate.\n" in text
    assert "too small to catch" not in text


def test_show_names_the_smallest_detectable_drop(tmp_path: Path) -> None:
    (tmp_path / "evalgate.json").write_text('{"runs": "auto"}')
    for day in (1, 2):
        save(tmp_path, a_run(*[1.0] * 19, 0.0, day=day, runs=5))
    save(tmp_path, replace(a_run(1.0, day=3), cases=a_run(1.0, 1.0, day=3, runs=2).cases[1:]))
    found = summarize_baseline(shelf(tmp_path), now=datetime(2026, 11, 21, tzinfo=UTC))
    assert format_baseline_summary(found) == (
        "b.json: 20 cases from 3 gate runs, the newest 17 days old (old)\n"
        "  runs per case: 10 to 12\n"
        "  2026-11-01T08:30:00+00:00, abc1234\n"
        "  2026-11-02T08:30:00+00:00, abc1234\n"
        "  2026-11-03T08:30:00+00:00, abc1234\n"
        f"{TRAJECTORY}: 0.95 on average of 20 cases\n"
        "  Drops of about 9 points or more are caught reliably with up to 5 runs of each case.\n"
        "  Every case that passes would be found if it broke.\n"
        "Note: The newest run in the baseline is 17 days old: a model that drifted since looks like a change of "
        "the agent. Save a fresh run of the default branch.\n"
    )
    assert json.loads(found.as_json())["cases"]["travel/case_1"] == 12


def test_showing_knows_that_a_deterministic_agent_is_run_once(tmp_path: Path) -> None:
    (tmp_path / "evalgate.json").write_text('{"gate": {"deterministic": true}}')
    for day in (1, 2):
        save(tmp_path, a_run(*[1.0] * 19, 0.0, day=day, runs=5))
    assert "with up to 5 runs" not in format_baseline_summary(summarize_baseline(shelf(tmp_path)))
