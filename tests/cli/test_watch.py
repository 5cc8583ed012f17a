"""`evalgate run --watch`: which cases a change concerns, and the loop as a user meets it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evalgate.__main__ import main
from evalgate.cli import watch
from evalgate.cli.run import run
from evalgate.cli.watch import (
    FileWatcher,
    WatchedCases,
    build_watch_overrides,
    compare_snapshots,
    restore_states,
)
from evalgate.config.cli_overrides import Overrides, SelectionOptions
from tests.forbidden_folders import make_forbidden_folder
from tests.runner.test_selection_options import build_set

A, B, C = ("s", "a"), ("s", "b"), ("s", "c")


def test_a_change_concerns_the_edited_the_failed_or_all_cases() -> None:
    cases = WatchedCases()
    assert cases.update_cases({A: "1", B: "1", C: "1"}, {}) == {A, B, C}

    cases.update_results({A: True, B: False, C: True})
    assert cases.choose_cases(cases.update_cases({A: "1", B: "1", C: "2"}, {}), is_code=False) == [C]
    # Its run ended without results, so that it is due after the next change as well.
    assert cases.choose_cases(cases.update_cases({A: "1", B: "1", C: "2"}, {}), is_code=True) == [B, C]
    cases.update_results({C: True})
    assert cases.update_cases({A: "1", B: "1", C: "2"}, {}) == set()
    assert cases.choose_cases((), is_code=False) == []
    assert cases.choose_cases((), is_code=True) == [B]
    assert cases.choose_cases({C}, is_code=True) == [B, C]
    cases.update_results({B: True})
    assert cases.choose_cases((), is_code=True) == [A, B, C]
    cases.update_results({A: False})
    cases.update_cases({B: "1", C: "2"}, {})
    assert cases.failed == set()


def test_files_that_tools_leave_behind_are_no_change(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("1")
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv/pyvenv.cfg").write_text("")
    watcher = FileWatcher(tmp_path, tmp_path / "evalgate-report", (tmp_path.parent / "outside.json",))
    before = watcher.take_snapshot()
    assert set(before) == {str(tmp_path / "agent.py")}

    for name in (
        "__pycache__/a.pyc",
        ".git/index",
        "evalgate-report/results.json",
        "venv/a.py",
        "agent.py~",
        "w.log",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert compare_snapshots(before, watcher.take_snapshot()) == set()

    (tmp_path / "new.py").write_text("2")
    (tmp_path / "new.py").replace(tmp_path / "agent.py")  # as many editors save a file
    changed, after = watcher.wait_for_change(before)
    assert changed == {str(tmp_path / "agent.py")}
    assert after == watcher.take_snapshot()


def test_a_file_that_is_made_and_removed_at_once_is_no_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, made, edited = {"a": (1, 1, 1)}, {"a": (1, 1, 1), "b": (1, 1, 2)}, {"a": (2, 1, 1)}
    seen = iter((made, before, before, edited, edited))
    monkeypatch.setattr(FileWatcher, "take_snapshot", lambda _: next(seen))
    monkeypatch.setattr(watch, "_SETTLED_S", 0.0)
    monkeypatch.setattr(watch, "_POLL_S", 0.0)
    watcher = FileWatcher(tmp_path, tmp_path / "evalgate-report")
    assert watcher.wait_for_change(before) == ({"a"}, edited)


def test_files_next_to_a_folder_that_must_not_be_looked_into_are_watched(tmp_path: Path) -> None:
    folder = make_forbidden_folder(tmp_path).parent
    names = {f"{number}.py" for number in range(30)}
    for name in names:
        (folder / name).write_text("")
    seen = FileWatcher(tmp_path, tmp_path / "evalgate-report").take_snapshot()
    assert {Path(path).name for path in seen} == names


def test_the_output_of_the_command_is_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = FileWatcher(tmp_path, tmp_path / "evalgate-report")
    with (tmp_path / "out.txt").open("w") as file:
        real = os.fstat
        monkeypatch.setattr(os, "fstat", lambda at: real(file.fileno() if at == 1 else at))
        assert not watcher.take_snapshot()
    monkeypatch.undo()
    assert set(watcher.take_snapshot()) == {str(tmp_path / "out.txt")}


@pytest.mark.parametrize(
    "option", [["--failed"], ["--sample", "2"], ["--resume"], ["--shard", "1/2"], ["--check"]]
)
def test_options_that_make_no_sense_are_refused(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--watch", *option, "-C", str(tmp_path)]) == 2
    assert f"--watch cannot be combined with {option[0]}." in capsys.readouterr().err


def test_cases_are_looked_up_with_the_options_of_the_runs() -> None:
    words = ["--watch", "--live-tools", "--env-file", "a.env", "--format", "trpc", "-k", "late", "s.json"]
    assert build_watch_overrides(run.make_context("run", words).params) == Overrides(
        eval_sets=("s.json",),
        env_file=("a.env",),
        format="trpc",
        live_tools=True,
        selection_options=SelectionOptions(keyword="late"),
    )


def test_an_eval_set_that_is_edited_added_or_removed_during_a_run_is_a_change_after_it() -> None:
    before = {"edited": (1, 1, 1), "removed": (1, 1, 1), "written.txt": (1, 1, 1), "same": (1, 1, 1)}
    after = {"edited": (2, 1, 1), "added": (2, 1, 1), "written.txt": (2, 1, 1), "same": (1, 1, 1)}
    sets = {"edited", "removed", "added"}
    kept = restore_states(after, before, sets)
    assert compare_snapshots(kept, after) == sets


@pytest.fixture
def watching(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    with watch_project(tmp_path, "shop.evalset.json") as process:
        yield process


@pytest.fixture
def watching_outside(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    folder = tmp_path / "project"
    folder.mkdir()
    with watch_project(folder, "../shop.evalset.json") as process:
        yield process


@contextmanager
def watch_project(folder: Path, eval_set: str) -> Iterator["subprocess.Popen[str]"]:
    """Start `run --watch` in a folder whose recorded agent gives one wrong answer, to `greets`."""
    (folder / eval_set).write_text(json.dumps(build_set()))
    (folder / "recorded.evalset.json").write_text(json.dumps(build_set(wrong=("greets",))))
    (folder / "evalgate.yaml").write_text(
        f"agent: {{kind: replay, path: recorded.evalset.json}}\neval_sets: [{eval_set}]\n"
        "criteria: {response_match_score: 1.0}\n"
    )
    command = [sys.executable, "-m", "evalgate", "run", "--watch", "--runs", "1"]
    process = subprocess.Popen(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    timer = threading.Timer(240, process.kill)
    timer.start()
    yield process
    timer.cancel()
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def read_until(process: "subprocess.Popen[str]", words: str) -> str:
    """Return what a process prints up to the line with these words."""
    text = ""
    for line in process.stdout or ():
        text += line
        if words in line:
            return text
    raise AssertionError(text)


def test_the_loop_runs_what_changed_until_ctrl_c(watching: "subprocess.Popen[str]", tmp_path: Path) -> None:
    first = read_until(watching, "Waiting for a change")
    assert "5 cases: 4 passed, 1 failed" in first
    assert "1 case did not pass. Waiting for a change; Ctrl-C ends." in first

    (tmp_path / "recorded.evalset.json").write_text(json.dumps(build_set()))
    second = read_until(watching, "Waiting for a change")
    assert "Changed: recorded.evalset.json" in second
    assert "1 case: 1 passed" in second
    assert "did not pass" not in second

    edited = build_set(wrong=("history",))
    (tmp_path / "new.json").write_text(json.dumps(edited))
    (tmp_path / "new.json").replace(tmp_path / "shop.evalset.json")
    third = read_until(watching, "Waiting for a change")
    assert "Changed: shop.evalset.json" in third
    assert "1 case: 1 failed" in third

    notes = tmp_path / "shop.cases.yaml"
    notes.write_text("cases: {greets: {checks: {calls: {tools: {require: look}}}}}\n")
    fourth = read_until(watching, "Waiting for a change")
    assert "Changed: shop.cases.yaml" in fourth
    assert "1 case: 1 failed" in fourth

    edited["eval_cases"][0]["eval_id"] = " greets "  # which the command line cannot name
    notes.unlink()
    (tmp_path / "shop.evalset.json").write_text(json.dumps(edited))
    read_until(watching, "5 cases:")  # perhaps after a run of the case that lost its notes
    read_until(watching, "Waiting for a change")

    (tmp_path / "shop.evalset.json").write_text("{")
    assert "shop.evalset.json:1:2" in read_until(watching, "Waiting for a change")

    agent = tmp_path / "agent.sh"
    agent.write_text("rm -f shop.evalset.json; echo Hi")
    settings = (
        (tmp_path / "evalgate.yaml")
        .read_text()
        .replace(
            "{kind: replay, path: recorded.evalset.json}",
            "{kind: command, mode: per_turn, command: sh agent.sh}",
        )
    )
    (tmp_path / "evalgate.yaml").write_text(settings)
    read_until(watching, "Waiting for a change")
    (tmp_path / "shop.evalset.json").write_text(json.dumps(build_set()))
    read_until(watching, "Waiting for a change")
    assert "Changed: shop.evalset.json" in read_until(watching, "Waiting for a change")

    os.killpg(watching.pid, signal.SIGINT)
    assert "Stopped watching." in read_until(watching, "Stopped watching.")
    assert watching.wait() == 0


def test_an_eval_set_outside_of_the_folder_is_no_change_until_it_is_edited(
    watching_outside: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    read_until(watching_outside, "Waiting for a change")
    time.sleep(1.5)  # long enough to see a change that is none
    outside = tmp_path / "shop.evalset.json"
    outside.write_text(json.dumps(build_set(wrong=("history",))))
    assert read_until(watching_outside, "1 case: 1 failed").count("Changed: ") == 1
