"""The runner's files: opened before the agent starts, and restored without the agent's changes."""

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evalgate.ci.github_event import PullRequest, find_subject
from evalgate.system.github_runner_files import (
    NOT_WRITTEN,
    WRITTEN,
    append_to_command_file,
    hold_command_files,
    open_regular,
    release_command_files,
)
from tests.cli.test_cli import ROOT, eval_set

RUNNER = 1001
EVIL = "LD_PRELOAD=/tmp/evil.so\n"
UNDONE = "{} was changed, but not by the gate: the change was undone."


@pytest.fixture
def files(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a step, with an empty file for each variable, of the runner's user if we are root."""
    folder = tmp_path / "commands"
    folder.mkdir()
    environ = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request"}
    for name in (*WRITTEN, *NOT_WRITTEN):
        (folder / name).write_text("before\n")
        (folder / name).chmod(0o644)
        environ[name] = str(folder / name)
    event = folder / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    environ["GITHUB_EVENT_PATH"] = str(event)
    if os.geteuid() == 0:
        for path in (folder, *folder.iterdir()):
            os.chown(path, RUNNER, RUNNER)
    yield environ
    release_command_files()


def remove(path: Path) -> None:
    path.unlink()


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write(EVIL)


def replace_by_file(path: Path) -> None:
    path.unlink()
    path.write_text(EVIL)


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    (path / "full").mkdir(parents=True)


def replace_by_link(path: Path) -> None:
    victim = path.parent.parent / "victim"
    victim.write_text("the victim's\n")
    path.unlink()
    path.symlink_to(victim)


ATTACKS = [append, remove, replace_by_file, replace_by_pipe, replace_by_folder, replace_by_link]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", [*NOT_WRITTEN, *WRITTEN])
def test_the_gate_alone_writes_command_files(
    files: dict[str, str], name: str, attack: Callable[[Path], None], tmp_path: Path
) -> None:
    if name in WRITTEN and attack is append and os.geteuid() != 0:
        pytest.skip("where the gate is not root, others of its user may write there, too")
    path = Path(files[name])
    before = path.stat()
    hold_command_files(files)
    attack(path)
    if name in WRITTEN:
        append_to_command_file(files[name], b"verdict=fail\n")
    assert release_command_files() == [UNDONE.format(name)]
    after = path.lstat()
    assert stat.S_ISREG(after.st_mode)
    assert path.read_text() == ("before\nverdict=fail\n" if name in WRITTEN else "before\n")
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    if attack is replace_by_link:
        assert (tmp_path / "victim").read_text() == "the victim's\n"


def test_files_that_nobody_touched_are_as_they_were(files: dict[str, str]) -> None:
    before = {name: Path(files[name]).stat() for name in (*WRITTEN, *NOT_WRITTEN)}
    hold_command_files(files)
    if os.geteuid() == 0:
        held = [Path(files[name]).stat() for name in before]
        assert {(each.st_uid, stat.S_IMODE(each.st_mode)) for each in held} == {(0, 0o600)}
    assert release_command_files() == []
    after = {name: Path(files[name]).stat() for name in before}
    assert [(each.st_ino, each.st_uid, each.st_mode) for each in after.values()] == [
        (each.st_ino, each.st_uid, each.st_mode) for each in before.values()
    ]


def test_the_event_is_what_it_was_before_the_agent(files: dict[str, str]) -> None:
    hold_command_files(files)
    Path(files["GITHUB_EVENT_PATH"]).write_text(json.dumps({"pull_request": {"number": 666}}))
    assert find_subject(files) == PullRequest(7)


@pytest.mark.parametrize("attack", [replace_by_pipe, replace_by_link, replace_by_folder])
def test_what_is_no_regular_file_is_neither_followed_nor_waited_for(
    files: dict[str, str], attack: Callable[[Path], None]
) -> None:
    path = Path(files["GITHUB_OUTPUT"])
    attack(path)
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_APPEND):
        with pytest.raises(OSError, match=r"regular|directory|symbolic|No such device"):
            os.close(open_regular(str(path), flags))
    with pytest.raises(OSError, match=r"regular|directory|symbolic|No such device"):
        append_to_command_file(str(path), b"x")


AGENT = f"""
import json, os, shutil
FILES = json.load(open("files.json"))

def answer(text):
    for name, path in FILES.items():
        with open(path, "a") as file:
            file.write({EVIL!r})
    return text
"""


def test_a_command_gives_the_files_back(files: dict[str, str], tmp_path: Path) -> None:
    """As a user runs it: an agent that writes the files of a gate of the same user changes nothing."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT)
    (folder / "files.json").write_text(json.dumps({name: files[name] for name in NOT_WRITTEN}))
    (folder / "demo.evalset.json").write_text(eval_set("hello"))
    (folder / "test_config.json").write_text('{"criteria": {"response_match_score": 0.0}}')
    done = subprocess.run(
        [sys.executable, "-m", "evalgate", "run", "demo.evalset.json", "--agent", "python:agent.py:answer"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **files},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for name in NOT_WRITTEN:
        assert Path(files[name]).read_text() == "before\n"
        assert f"::warning title=evalgate::{UNDONE.format(name)}" in done.stdout
    assert "verdict" in Path(files["GITHUB_OUTPUT"]).read_text()
    shutil.rmtree(folder)
