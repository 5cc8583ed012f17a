"""Agents with luck of their own through the whole gate: what it runs, what it says, and what it ends with."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import eval_set, wait_for
from tests.commands import Done, evalgate

AGENT = """\
import json, pathlib, time
SCRIPT = json.loads(pathlib.Path("script.json").read_text())
COUNTS = pathlib.Path("counts")

class Busy(Exception):
    status_code = 503

def answer(text):
    COUNTS.mkdir(exist_ok=True)
    counter = COUNTS / text
    number = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(number + 1))
    hold = pathlib.Path("hold")
    if hold.exists() and hold.read_text() == f"{text} {number}":
        pathlib.Path("held").touch()
        time.sleep(600)
    script = SCRIPT.get(text, "+")
    step = script[min(number, len(script) - 1)]
    if step == "!":
        raise ValueError("no such order")
    if step == "~":
        raise Busy("come back later")
    return text if step == "+" else "something else entirely"
"""
CASES = 20
CONFIG = {
    "version": 1,
    "eval_sets": ["demo.evalset.json"],
    "agent": {"kind": "python", "entry": "agent.py:answer", "concurrency": 1},
    "runs": "auto",
    "criteria": {"response_match_score": 0.8},
    "gate": {"baseline": "b.json"},
}


def texts() -> list[str]:
    return [f"order{number:02d}" for number in range(CASES)]


def prepare(folder: Path, *, baseline_runs: int = 10, script: Mapping[str, str] | None = None) -> None:
    """A project whose baseline has so many runs of an agent that follows `script`, one letter a run."""
    (folder / "agent.py").write_text(AGENT)
    (folder / "demo.evalset.json").write_text(eval_set(*texts()))
    configure(folder)
    play(folder, script or {}, "--runs", str(baseline_runs))
    saved = evalgate("baseline", "save", "--allow-failing", "--to", "b.json", cwd=folder)
    assert saved.code == 0, saved.err


def configure(folder: Path, **gate: object) -> None:
    config = {**CONFIG, "gate": {"baseline": "b.json", **gate}}
    (folder / "evalgate.json").write_text(json.dumps(config))


def play(folder: Path, script: Mapping[str, str], *options: str) -> Done:
    for counter in (folder / "counts").glob("*"):
        counter.unlink()
    (folder / "script.json").write_text(json.dumps(script))
    return evalgate("run", *options, cwd=folder)


def record(folder: Path) -> Any:
    return json.loads((folder / "evalgate-report/results.json").read_text())


def runs_of(found: Any) -> dict[str, int]:
    return {case["eval_id"]: len(case["runs"]) for case in found["cases"] if len(case["runs"]) > 1}


BELOW = (
    "The mean is lower than each case must score: response_match_score (0.95 < 1.00). This closes nothing, "
)


@pytest.mark.parametrize(
    ("criterion", "code", "reason"),
    [
        (1.0, 0, "19 of 20 cases passed and every minimum is met"),
        ({"threshold": 1.0, "min_mean": 0.9}, 0, "19 of 20 cases passed and every minimum is met"),
        ({"threshold": 1.0, "min_mean": 0.99}, 1, "response_match_score is 0.95, below its min_mean 0.99."),
        ({"threshold": 1.0, "min_mean": 1.0}, 1, "response_match_score is 0.95, below its threshold 1.00."),
        ("test_config.json", 1, "response_match_score is 0.95, below its threshold 1.00."),
    ],
    ids=[
        "the baseline judges the mean",
        "met",
        "missed",
        "as strict as the threshold",
        "Google ADK's file is literal",
    ],
)
def test_what_the_mean_must_reach(tmp_path: Path, criterion: object, code: int, reason: str) -> None:
    """A case that its baseline knows to fail fails: what becomes of the mean is a setting of its own."""
    prepare(tmp_path, script={"order00": "+-++++-++-"})
    options = ["--runs", "1"]
    if criterion == "test_config.json":
        (tmp_path / "test_config.json").write_text(json.dumps({"criteria": {"response_match_score": 1.0}}))
        options += ["--thresholds", "test_config.json", "--agent", "python:agent.py:answer"]
        options += ["demo.evalset.json", "--baseline", "b.json"]
    else:
        config = {**CONFIG, "criteria": {"response_match_score": criterion}}
        (tmp_path / "evalgate.json").write_text(json.dumps(config))

    done = play(tmp_path, {"order00": "-"}, *options)

    assert done.code == code, done.out
    found = record(tmp_path)
    assert any(reason in each for each in found["verdict"]["reasons"])
    assert any(each.startswith(BELOW) for each in found["notices"]) is (criterion == 1.0)
    assert ("1.00 a case" in done.out) is (code == 0 or "min_mean" in reason)


def outcomes(found: Any, case: str) -> Sequence[str]:
    return [run["outcome"] for each in found["cases"] if each["eval_id"] == case for run in each["runs"]]


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose agent passed 10 of 10 runs of every case."""
    folder = tmp_path_factory.mktemp("steady")
    prepare(folder)
    return folder


def test_nothing_changed(steady: Path) -> None:
    done = play(steady, {})
    found = record(steady)
    assert (done.code, runs_of(found), found["effort"]["spent"]) == (0, {}, CASES)
    assert "No change: all 20 cases scored the same as on the baseline." in done.out
    assert "20 runs, 80 saved by `runs: auto`" in done.out


def test_a_broken_case_is_confirmed_and_closes_the_gate(steady: Path) -> None:
    done = play(steady, {"order03": "-"})
    found = record(steady)
    assert done.code == 1
    assert runs_of(found) == {"case_3": 4}
    assert (
        "case_3 broke: failed 4 of 4 runs, passed 10 of 10 on the baseline." in found["verdict"]["reasons"][0]
    )
    standing = found["cases"][3]["metrics"][0]["standing"]
    assert (standing["status"], standing["need"]) == ("broken", 4)
    assert [run.get("confirms", False) for run in found["cases"][3]["runs"]] == [False, True, True, True]


def test_a_single_flaky_failure_does_not_close_the_gate(steady: Path) -> None:
    done = play(steady, {"order03": "-+"})
    found = record(steady)
    assert done.code == 0, done.out
    assert found["cases"][3]["metrics"][0]["standing"]["status"] == "suspect"
    assert "scored lower; taken alone, its runs could be luck: case_3" in done.out
    assert found["cases"][3]["status"] == "failed"


def test_a_crash_counts_as_a_failed_run_and_is_shown_as_a_crash(steady: Path) -> None:
    done = play(steady, {"order03": "!"})
    found = record(steady)
    assert done.code == 1
    assert outcomes(found, "case_3") == ["crashed"] * 4
    assert "case_3 broke: failed 4 of 4 runs" in found["verdict"]["reasons"][0]
    assert "ERROR demo/case_3" in done.out
    assert found["cases"][3]["metrics"][0]["score"] is None
    once = play(steady, {"order03": "!+"})
    assert once.code == 0, once.out
    assert record(steady)["cases"][3]["status"] == "errored"


def test_every_case_worse_closes_the_gate_after_one_round(steady: Path) -> None:
    done = play(steady, dict.fromkeys(texts()[:10], "-"))
    found = record(steady)
    assert (done.code, found["effort"]["spent"]) == (1, CASES)
    assert "Regression: the average fell 50 points (1.00 → 0.50) over 20 cases × 1 run." in done.out


def test_as_many_failures_as_the_policy_names_are_literal(steady: Path) -> None:
    configure(steady, max_failed_cases=0)
    try:
        assert play(steady, {"order03": "-+"}).code == 1
    finally:
        configure(steady)


def test_fixed_runs_confirm_what_they_can(steady: Path) -> None:
    broken = play(steady, {"order03": "-"}, "--runs", "4")
    assert broken.code == 1
    assert "case_3 broke: failed 4 of 4 runs, passed 10 of 10" in broken.out
    assert record(steady).get("effort") is None


def test_what_rests_neither_gates_nor_is_followed_up(steady: Path) -> None:
    configure(steady, quarantine="rest.yaml")
    (steady / "rest.yaml").write_text(
        "- {case: case_3, owner: anna, reason: the index moves, expires: 2999-12-31}\n"
        "- {case: case_4, owner: ben, reason: was slow, expires: 2020-12-31}\n"
    )
    try:
        done = play(steady, {"order03": "-"})
    finally:
        configure(steady)
    found = record(steady)
    assert (done.code, runs_of(found)) == (0, {})
    assert "demo/case_3 failed, until 2999-12-31, anna: the index moves" in done.out
    assert "Note: The quarantine of case_4 ended on 2020-12-31: it gates again." in done.out
    assert "case_3 is quarantined and passed its last 10 runs" not in done.out  # it fails in this one
    assert found["metrics"][0]["n"] == CASES - 1
    assert found["verdict"]["reasons"] == [
        "19 cases passed and every metric meets its threshold; nothing regressed; 1 quarantined."
    ]


def test_a_case_that_always_failed_keeps_the_gate_open(tmp_path: Path) -> None:
    prepare(tmp_path, script={"order05": "-", "order06": "+-"}, baseline_runs=4)
    done = play(tmp_path, {"order05": "-", "order06": "-"})
    assert done.code == 0, done.out
    assert "2 newly failing" not in done.out


def test_accepting_says_why_in_the_next_report(tmp_path: Path) -> None:
    prepare(tmp_path, baseline_runs=2)
    accepted = evalgate("baseline", "accept", "--to", "b.json", "--reason", "shorter answers", cwd=tmp_path)
    assert accepted.code == 0
    done = play(tmp_path, {})
    assert re.search(r"Note: The baseline was accepted on \d{4}-\d\d-\d\d: shorter answers", done.out)
    assert (
        "Note: The baseline holds 2 runs of each case, which hardly tells how far luck reaches." in done.out
    )


def test_an_interrupted_search_for_enough_runs_goes_on_where_it_stopped(steady: Path) -> None:
    (steady / "script.json").write_text(json.dumps({"order03": "-"}))
    for counter in (steady / "counts").glob("*"):
        counter.unlink()
    (steady / "hold").write_text("order03 1")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_"))}
    running = subprocess.Popen([sys.executable, "-m", "evalgate", "run"], cwd=steady, env=clean)
    wait_for(steady / "held")
    running.send_signal(signal.SIGINT)
    assert running.wait(600) == 130
    (steady / "hold").unlink()
    (steady / "held").unlink()
    stopped = record(steady)
    assert stopped["verdict"]["reasons"] == ["Interrupted after 20 of 20 cases."]
    assert stopped["cases"][3]["metrics"][0]["standing"]["status"] == "suspect"
    done = evalgate("run", "--resume", cwd=steady)
    assert done.code == 1
    assert runs_of(record(steady)) == {"case_3": 4}


@pytest.mark.parametrize("runs", ["1", "3", "5", "auto"])
@pytest.mark.parametrize("how", ["-", "!"], ids=["wrong answers", "crashes"])
def test_a_steady_case_that_breaks_closes_the_gate_at_every_number_of_runs(
    steady: Path, runs: str, how: str
) -> None:
    done = play(steady, {"order03": how}, "--runs", runs)
    found = record(steady)
    assert done.code == 1, done.out
    # From five runs on the average alone tells.
    sign = "Regression: the average fell 5 points" if runs == "5" else "case_3 broke: "
    assert sign in found["verdict"]["reasons"][0]
    fixed = int(runs.replace("auto", "1"))
    others = {len(case["runs"]) for case in found["cases"] if case["eval_id"] != "case_3"}
    assert (found["runs"], others) == (fixed, {fixed})


@pytest.mark.parametrize("how", ["-+", "!+"], ids=["a wrong answer", "a crash"])
def test_a_flaky_stumble_keeps_the_gate_open_with_one_run(steady: Path, how: str) -> None:
    done = play(steady, {"order03": how}, "--runs", "1")
    found = record(steady)
    assert done.code == 0, done.out
    assert runs_of(found) == {"case_3": 3}
    assert re.search(r"^20 cases: .* s, 1 run each, 2 follow-up runs$", done.out, re.MULTILINE)
    assert [case["follow_up"]["outcome"] for case in found["cases"] if "follow_up" in case] == ["flake"]
    assert found["verdict"]["status"] == "inconclusive" or "1 case failed in one run" in done.out
    assert found["cases"][3]["metrics"][0]["score"] == (None if "!" in how else 0)  # the first run alone


def test_a_case_whose_baseline_fails_as_well_is_excused(tmp_path: Path) -> None:
    prepare(tmp_path, baseline_runs=3, script={"order03": "+-+"})
    done = play(tmp_path, {"order03": "-"}, "--runs", "1")
    found = record(tmp_path)
    assert (done.code, found["cases"][3]["follow_up"]["outcome"]) == (0, "excused")
    assert runs_of(found) == {}


@pytest.mark.parametrize(("stored", "needed"), [(1, 10), (2, 4), (3, 3)])
def test_shallow_baselines_take_more_failures_in_a_row(tmp_path: Path, stored: int, needed: int) -> None:
    prepare(tmp_path, baseline_runs=stored)
    done = play(tmp_path, {"order03": "-"}, "--runs", "1")
    assert done.code == 1
    assert f"case_3 broke: failed all {needed} runs; passed {stored} of {stored} on the baseline." in done.out
    assert runs_of(record(tmp_path)) == {"case_3": needed}


def test_without_a_way_to_run_again_the_first_failure_counts(steady: Path) -> None:
    play(steady, {"order03": "-"}, "--runs", "1")
    recorded = steady / "recorded.json"
    recorded.write_bytes((steady / "evalgate-report/results.json").read_bytes())
    replayed = evalgate("run", "--runs", "1", "--agent", "replay:recorded.json", cwd=steady)
    assert replayed.code == 1
    assert "case_3 broke: failed its only run; passed 10 of 10 on the baseline." in replayed.out
    assert "recorded.json holds more runs of 1 case than were replayed" in replayed.out
    configure(steady, deterministic=True)
    try:
        exact = play(steady, {"order03": "-"}, "--runs", "1")
    finally:
        configure(steady)
    assert (exact.code, runs_of(record(steady))) == (1, {})


def test_shards_follow_up_their_own_cases_and_merge_to_the_same(steady: Path) -> None:
    whole = play(steady, {"order03": "-"}, "--runs", "1")
    expected = record(steady)
    for counter in (steady / "counts").glob("*"):
        counter.unlink()
    for index in (1, 2):
        part = evalgate("run", "--runs", "1", "--shard", f"{index}/2", "--out", f"part{index}", cwd=steady)
        assert part.code == 0, part.out
    merged = evalgate("merge", "part1/results.json", "part2/results.json", "--runs", "1", cwd=steady)
    found = record(steady)
    assert (merged.code, whole.code) == (1, 1), merged.out
    assert found["verdict"] == expected["verdict"]
    assert runs_of(found) == runs_of(expected)


def test_a_resumed_run_makes_the_run_again_for_which_a_service_was_busy(tmp_path: Path) -> None:
    """Run 2 of a case says nothing about the agent, and the journal has runs 1 and 3: one run is missing."""
    lucky = {text: ("+-++-" * 4)[at % 5 :] for at, text in enumerate(texts())}
    prepare(tmp_path, script=lucky)
    worse = {text: "-" * (at % 3 == 1) + lucky[text] for at, text in enumerate(texts())}
    busy = {**worse, "order00": "+~~" + lucky["order00"]}
    stopped = play(tmp_path, busy)
    assert outcomes(record(tmp_path), "case_0")[:3] == ["answered", "faulted", "answered"], stopped.out

    done = evalgate("run", "--resume", cwd=tmp_path)

    assert done.code in {0, 1}, done.out
    numbers = [run["run"] for run in record(tmp_path)["cases"][0]["runs"]]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    assert set(outcomes(record(tmp_path), "case_0")) == {"answered"}


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (3, "`runs: auto` was chosen, as the baseline holds 3 runs or more of 20 of 20 cases."),
        (2, "Each case was run once, as the baseline holds 3 runs or more of 0 of 20 cases."),
    ],
)
def test_a_deep_baseline_makes_auto_the_default(tmp_path: Path, stored: int, said: str) -> None:
    prepare(tmp_path, baseline_runs=stored)
    config = json.loads((tmp_path / "evalgate.json").read_text())
    del config["runs"]
    (tmp_path / "evalgate.json").write_text(json.dumps(config))
    done = play(tmp_path, {})
    assert (done.code, f"Note: {said}" in done.out) == (0, True), done.out
    assert (record(tmp_path).get("effort") is not None) is (stored == 3)
    named = play(tmp_path, {}, "--runs", "2")
    assert "runs: auto" not in named.out
    assert record(tmp_path)["runs"] == 2


def interrupt(folder: Path, script: Mapping[str, str], held: str, *options: str) -> None:
    """Press Ctrl-C while the agent holds back its answer `held`, which is a text and how often it was asked."""
    (folder / "script.json").write_text(json.dumps(script))
    for counter in (folder / "counts").glob("*"):
        counter.unlink()
    (folder / "hold").write_text(held)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_"))}
    command = [sys.executable, "-m", "evalgate", "run", *options]
    running = subprocess.Popen(command, cwd=folder, env=clean)
    wait_for(folder / "held")
    running.send_signal(signal.SIGINT)
    assert running.wait(600) == 130
    (folder / "hold").unlink()
    (folder / "held").unlink()


def comparable(found: Any) -> Any:
    """The record without what depends on the clock and on the command line."""
    if isinstance(found, dict):
        left_out = {"duration_s", "created_at", "options", "evalgate_version"}
        return {key: comparable(each) for key, each in found.items() if key not in left_out}
    return [comparable(each) for each in found] if isinstance(found, list) else found


@pytest.mark.parametrize(
    ("script", "held"),
    [
        pytest.param("+--", "order03 3", id="wrong answers, in the first follow-up run"),
        pytest.param("+!!", "order03 3", id="crashes, in the first follow-up run"),
        pytest.param("+--", "order03 1", id="before the follow-up runs"),
    ],
)
def test_follow_ups_of_fixed_runs_go_on_where_they_were_interrupted(
    steady: Path, script: str, held: str
) -> None:
    script_of = {"order03": script + script[-1] * 4}
    whole = play(steady, script_of, "--runs", "3")
    expected = record(steady)
    interrupt(steady, script_of, held, "--runs", "3")
    stopped = record(steady)
    assert stopped["verdict"]["reasons"][0].startswith("Interrupted after ")
    assert "judge or API errors" not in json.dumps(stopped)
    (steady / "counts/order03").write_text(held.split()[1])  # the answer that was held is asked for again
    done = evalgate("run", "--runs", "3", "--resume", cwd=steady)
    assert (done.code, comparable(record(steady))) == (whole.code, comparable(expected))
    # A replay makes no follow-up runs: it scores the three runs of every case alike, and only these.
    recorded = steady / "recorded.json"
    recorded.write_bytes((steady / "evalgate-report/results.json").read_bytes())
    evalgate("run", "--runs", "3", "--agent", "replay:recorded.json", cwd=steady)
    found = record(steady)
    assert runs_of(found) == {f"case_{at}": 3 for at in range(CASES)}
    assert [each["metrics"][0]["score"] for each in found["cases"]] == [
        each["metrics"][0]["score"] for each in expected["cases"]
    ]


GRADE = """\
import pathlib

def grade(case, run):
    text = run.replies[0].response or ""
    if pathlib.Path("outage").exists() and text in ("order01", "order02", "order04"):
        raise RuntimeError("the service of the metric is down")
    return float(text.startswith("order"))
"""


def test_a_break_is_told_although_its_metric_lacks_scores_of_other_cases(tmp_path: Path) -> None:
    """A metric with too few scores has no verdict, not even of an agent that is declared deterministic."""
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "grade.py").write_text(GRADE)
    (tmp_path / "demo.evalset.json").write_text(eval_set(*texts()))
    metric = {"criteria": {"mine": 1.0}, "custom_metrics": {"mine": {"entry": "grade.py:grade"}}}
    gate = {"baseline": "b.json", "deterministic": True}
    (tmp_path / "evalgate.json").write_text(json.dumps({**CONFIG, **metric, "runs": 1, "gate": gate}))
    play(tmp_path, {}, "--runs", "2")
    assert evalgate("baseline", "save", "--to", "b.json", cwd=tmp_path).code == 0
    (tmp_path / "outage").touch()

    done = play(tmp_path, {"order03": "-"})

    assert done.code == 1, done.out
    assert "case_3 broke: failed its only run; passed 2 of 2 on the baseline." in done.out
    assert "mine: Not enough data: 3 of 20 runs have no score" in done.out
