"""Runs that are killed, sharded, resumed and merged, in real processes: the record equals that of one run."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from evalgate import __version__
from evalgate.cli.repro_options import build_resume_command
from evalgate.datasets.results_io import dump_record, load_record, read_record
from tests.cli.test_cli import eval_set
from tests.commands import Done, evalgate

AGENT = """\
import asyncio, pathlib

async def answer(text):
    while is_enough():
        await asyncio.sleep(0.002)
    with open("asked.txt", "a") as log:
        log.write(text + "\\n")
    await asyncio.sleep(0.02)
    if text == "boom":
        raise ValueError("no such order")
    return text

def is_enough():
    try:
        return len(open("asked.txt").readlines()) >= int(open("enough.txt").read() or 0)
    except FileNotFoundError:
        return False
"""
TEXTS = [*(f"question {number}" for number in range(23)), "boom"]
RUN = ("run", "demo.evalset.json", "--agent", "python:agent.py:answer", "--runs", "2", "--concurrency", "4")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "demo.evalset.json").write_text(eval_set(*TEXTS))
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    return tmp_path


def results(folder: Path, name: str = "evalgate-report") -> Any:
    """The record without what depends on the clock."""
    found = json.loads((folder / name / "results.json").read_text())
    return without_times(found)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: without_times(each) for key, each in value.items() if key not in {"duration_s", "created_at"}
        }
    return [without_times(each) for each in value] if isinstance(value, list) else value


def asked(folder: Path) -> int:
    return len((folder / "asked.txt").read_text().splitlines())


def ended_by(folder: Path, number: signal.Signals, questions: int) -> int:
    """The exit code of a run that gets that signal when the agent was asked so many questions.

    However late the signal comes, the agent answers no more than these.
    """
    (folder / "asked.txt").write_text("")
    (folder / "enough.txt").write_text(str(questions))
    gate = subprocess.Popen(
        [sys.executable, "-m", "evalgate", *RUN],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while asked(folder) < questions:
        time.sleep(0.002)
    started = psutil.Process(gate.pid).children(recursive=True)
    gate.send_signal(number)
    code = gate.wait()
    psutil.wait_procs(started, timeout=60)  # one that lives on would ask more as soon as it may
    (folder / "enough.txt").unlink()
    return code


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_record_of_a_whole_one(project: Path) -> None:
    assert evalgate(*RUN, cwd=project).code == 1
    whole = results(project)
    dice = random.Random(7)
    for _ in range(6):
        assert ended_by(project, signal.SIGKILL, dice.randint(1, 40)) == -signal.SIGKILL
        journal = project / "evalgate-report/journal.jsonl"
        kept, before = journal.read_bytes().count(b"\n") - 1, asked(project)
        done = evalgate(*RUN, "--resume", cwd=project)
        assert done.code == 1, done.err
        assert results(project) == whole
        assert not journal.exists()
        assert asked(project) - before == 2 * len(TEXTS) - kept


def test_resume_stands_before_the_end_of_options() -> None:
    assert (
        build_resume_command(["run", "--html", "--", "-a.json"]) == "evalgate run --html --resume -- -a.json"
    )
    assert build_resume_command(["run", "--html", "--"]) == "evalgate run --html --resume"


def test_an_interrupted_run_says_what_was_cut_off_and_how_to_go_on(project: Path) -> None:
    """Neither the agent nor a judge is to blame for what Ctrl-C cut off."""
    (project / "enough.txt").write_text(str(len(TEXTS) + 5))
    (project / "asked.txt").write_text("")
    gate = subprocess.Popen(
        [sys.executable, "-m", "evalgate", *RUN],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while asked(project) < len(TEXTS) + 5:
        time.sleep(0.002)
    gate.send_signal(signal.SIGINT)
    out, err = gate.communicate(timeout=60)
    assert gate.returncode == 130
    assert "did not end the same way" not in out
    assert "judge or API errors" not in out
    command = f"evalgate {' '.join(RUN)} --resume"
    assert f"Continue this run with: {command}\n" in err
    (project / "enough.txt").unlink()
    resumed = evalgate(*command.split()[1:], cwd=project)
    assert (resumed.code, "Continue this run" in resumed.err) == (1, False)


@pytest.mark.slow
def test_an_interrupted_run_is_resumed(project: Path) -> None:
    assert evalgate(*RUN, cwd=project).code == 1
    whole = results(project)
    assert ended_by(project, signal.SIGINT, 9) == 130
    assert results(project)["verdict"]["status"] == "error"
    assert evalgate(*RUN, "--resume", cwd=project).code == 1
    assert results(project) == whole


def test_nothing_is_resumed_when_something_changed(project: Path) -> None:
    evalgate(*RUN, cwd=project)
    assert "there is no run to resume" in evalgate(*RUN, "--resume", cwd=project).err
    ended_by(project, signal.SIGKILL, 9)
    (project / "test_config.json").write_text('{"criteria": {"response_match_score": 0.7}}')
    done = evalgate(*RUN, "--resume", cwd=project)
    assert done.code == 2
    assert (
        "the thresholds file changed since: the criterion `response_match_score`. Leave --resume" in done.err
    )
    (project / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    done = evalgate(*RUN, "--runs", "3", "--env", "LANG", "--resume", cwd=project)
    assert done.code == 2
    assert (
        "the agent, its code, or the version of Python, changed since: `runs` (2 then, 3 now), `agent.env`"
        in done.err
    )
    (project / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    assert evalgate(*RUN, "--resume", cwd=project).code == 1


def shard(project: Path, index: int, count: int, *more: str) -> Done:
    return evalgate(*RUN, "--shard", f"{index}/{count}", "--out", f"s{index}", *more, cwd=project)


MERGE = ("merge", "--eval-sets", "demo.evalset.json", "--agent", "python:agent.py:answer", "--runs", "2")


def test_shards_merge_into_the_record_of_one_run(project: Path) -> None:
    assert evalgate(*RUN, cwd=project).code == 1
    whole = results(project)
    (project / "asked.txt").unlink()
    assert [shard(project, index, 3).code for index in (1, 2, 3)] == [0, 0, 0]
    assert asked(project) == 2 * len(TEXTS)
    files = [f"s{index}/results.json" for index in (2, 3, 1)]
    done = evalgate(*MERGE, *files, cwd=project)
    assert done.code == 1, done.err
    assert results(project) == whole
    page = project / "evalgate-report/report.html"
    assert not page.exists()
    assert evalgate(*MERGE, "--html", "s*/results.json", cwd=project).code == 1
    assert results(project) == whole
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_a_shard_that_is_missing_doubled_or_foreign_gives_no_verdict(project: Path) -> None:
    for index in (1, 2):
        shard(project, index, 3)
    missing = evalgate(*MERGE, "s1/results.json", "s2/results.json", cwd=project)
    assert (missing.code, missing.err) == (3, "evalgate: shard 3 of 3 is missing\n")
    nothing = evalgate(*MERGE, "t*/results.json", cwd=project)
    assert (nothing.code, "t*/results.json: no such file" in nothing.err) == (2, True)
    doubled = evalgate(*MERGE, *["s1/results.json"] * 2, "s2/results.json", cwd=project)
    assert (doubled.code, "s1/results.json: shard 1 is given 2 times" in doubled.err) == (2, True)
    (project / "empty").mkdir()
    empty = evalgate(*MERGE, "empty", cwd=project)
    assert (empty.code, "empty/results.json: no such file" in empty.err) == (2, True)
    shutil.copytree(project / "s1", project / "older")
    older = project / "older/results.json"
    older.write_text(older.read_text().replace(f'"{__version__}"', '"0.0.1"', 1))
    built = evalgate(*MERGE, "older", "s2", cwd=project)
    assert "older/results.json: was made by evalgate 0.0.1, and this is" in built.err
    for options, told in (
        (("--runs", "3"), "runs of each case (2 in the shard, 3 here) differ from what is here"),
        (
            ("-k", "demo and not 1"),
            "selected cases (all in the shard, `-k 'demo and not 1'` here) differ from what is here",
        ),
    ):
        other = evalgate(*MERGE, *options, "s1", "s2", cwd=project)
        assert (other.code, f"s1/results.json: is a shard of another run: {told}\n" in other.err) == (2, True)
    (project / "test_config.json").write_text('{"criteria": {"response_match_score": 0.1}}')
    foreign = evalgate(*MERGE, "s1/results.json", "s2/results.json", cwd=project)
    assert "s1/results.json: is a shard of another run: thresholds differ from what is here" in foreign.err
    assert foreign.code == 2
    assert not (project / "evalgate-report/results.json").exists()


METERED = """\
def answer(text):
    return {"response": text, "usage": {"input_tokens": 90, "output_tokens": 10}}
"""


def test_a_shard_whose_budget_is_spent_is_not_done_until_it_is_resumed(project: Path) -> None:
    rules = "version: 1\ncriteria: {{response_match_score: 0.8}}\nbudget: {{tokens: {0}}}\n"
    (project / "agent.py").write_text(METERED)
    (project / "evalgate.yaml").write_text(rules.format(500))
    spent = shard(project, 1, 2)
    assert (spent.code, "Shard 1 of 2: The budget of 500 tokens is spent" in spent.out) == (3, True)
    assert "Raise `budget` and go on with --resume" in spent.out
    (project / "evalgate.yaml").write_text(rules.format(1_000_000))
    assert shard(project, 2, 2).code == 0
    refused = evalgate(*MERGE, "s1", "s2", cwd=project)
    assert refused.code == 3
    assert "s1/results.json: is not whole: Shard 1 of 2: The budget" in refused.err
    assert shard(project, 1, 2, "--resume").code == 0
    assert evalgate(*MERGE, "s1", "s2", cwd=project).code == 0


def test_a_run_that_finds_out_how_long_it_is_cannot_be_sharded(project: Path) -> None:
    done = evalgate(*RUN[:-4], "--runs", "auto", "--shard", "1/2", cwd=project)
    assert (done.code, "cannot be sharded" in done.err) == (2, True)


def reseal(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a failed case of a shard and write it as evalgate would, digest included: a careful forger."""
    path = folder / "results.json"
    record = read_record(path, "results.json")
    values = json.loads(path.read_text())
    failed = next(case for case in values["cases"] if case["status"] == "failed")
    change(failed)
    path.write_text(dump_record(replace(load_record(json.dumps(values), "x"), shard=record.shard)))


def raise_score(case: dict[str, Any]) -> None:
    case["runs"][0]["metrics"][0]["score"] = 1.0


def raise_score_and_status(case: dict[str, Any]) -> None:
    case["runs"][0]["metrics"][0] |= {"score": 1.0, "status": "passed"}


def pass_another_time(case: dict[str, Any]) -> None:
    raise_score_and_status(case)
    raise_turn(case)
    case["runs"] += [dict(case["runs"][0])]


def raise_turn(case: dict[str, Any]) -> None:
    case["runs"][0]["turns"][0]["metrics"][0] |= {"score": 1.0, "status": "passed"}


def make_third_run(case: dict[str, Any]) -> None:
    case["runs"] += [{**case["runs"][0], "run": 3}]


def drop_run(case: dict[str, Any]) -> None:
    del case["runs"][0]


def drop_metric(case: dict[str, Any]) -> None:
    del case["runs"][0]["metrics"][0]


@pytest.fixture(scope="module")
def two_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    (folder / "agent.py").write_text(
        "def answer(text):\n    return 'something else' if text == 'b' else text\n"
    )
    (folder / "demo.evalset.json").write_text(eval_set("a", "b", "c", "d"))
    (folder / "test_config.json").write_text('{"criteria": {"response_match_score": 0.8}}')
    assert [shard(folder, index, 2).code for index in (1, 2)] == [0, 0]
    done = evalgate(*MERGE, "s1", "s2", cwd=folder)
    assert done.code == 1, done.err
    return folder


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (raise_score, "run 1: response_match_score is failed with a score of 1.0"),
        (raise_score_and_status, "run 1: response_match_score is 1.0, and 0.0 by its turns"),
        (pass_another_time, "run 1 is given 2 times"),
        (make_third_run, "run 3 is none of 2"),
        (drop_run, "run 1 of 2 is missing"),
        (drop_metric, "run 1: answered, but not with the metrics that were asked of it"),
    ],
)
def test_a_shard_that_contradicts_itself_is_not_believed(
    two_shards: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    project = tmp_path / "copy"
    shutil.copytree(two_shards, project)
    names = [
        name for name in ("s1", "s2") if '"status":"failed"' in (project / name / "results.json").read_text()
    ]
    reseal(project / names[0], change)
    done = evalgate(*MERGE, "s1", "s2", cwd=project)
    assert done.code == 2, done.out
    assert f"{names[0]}/results.json: " in done.err
    assert f"{sentence}: run the shard again" in done.err


@pytest.mark.parametrize("order", [("s1", "s2"), ("s2", "s1")])
@pytest.mark.parametrize(
    ("shares", "code", "told"),
    [
        ([(0, 3), (1, 2, 3)], 2, ["case_3 is in more than one shard ({0}/results.json, {1}/results.json): "]),
        ([(0, 1, 2), (1, 2, 3)], 2, ["case_1 and 1 other case are in more than one shard ("]),
        ([(0,), (3,)], 3, ["case_1 and 1 other case are in no shard: "]),
        ([(0, 3), (2, 3)], 2, ["case_3 is in more than one shard (", "case_1 is in no shard: "]),
    ],
    ids=["doubled", "two doubled", "lost", "doubled and lost"],
)  # fmt: skip
def test_shards_that_split_the_cases_by_other_baselines_give_no_verdict(
    two_shards: Path,
    tmp_path: Path,
    shares: list[tuple[int, ...]],
    code: int,
    told: list[str],
    order: tuple[str, str],
) -> None:
    """The verdict depended on the order of the files, because the last shard with a case won."""
    project = tmp_path / "copy"
    shutil.copytree(two_shards, project)
    paths = [project / name / "results.json" for name in ("s1", "s2")]
    records = [read_record(path, "results.json") for path in paths]
    cases = {
        index: case
        for record in records
        if record.shard is not None
        for index, case in zip(record.shard.cases, record.cases, strict=True)
    }
    for path, record, share in zip(paths, records, shares, strict=True):
        assert record.shard is not None
        held = tuple(cases[index] for index in share)
        path.write_text(dump_record(replace(record, shard=replace(record.shard, cases=share), cases=held)))
    done = evalgate(*MERGE, *order, cwd=project)
    assert done.code == code, done.out
    assert [each for each in told if each.format(*order) not in done.err] == []
    assert done.err.count(": the baseline changed between the shards, and they divided") == len(told)
    assert "Run all shards again with the same baseline" in done.err


def test_a_shard_with_another_byte_is_refused(two_shards: Path, tmp_path: Path) -> None:
    project = tmp_path / "copy"
    shutil.copytree(two_shards, project)
    path = project / "s1/results.json"
    path.write_text(path.read_text().replace('"user":"', '"user":"!', 1))
    done = evalgate(*MERGE, "s1", "s2", cwd=project)
    assert (done.code, "s1/results.json: was changed since the shard wrote it" in done.err) == (2, True)
