"""Git in a folder: the commit and branch that are checked out, and programs that it never runs."""

import os
import subprocess
from pathlib import Path

import pytest

from evalgate.system.git import read_branch, read_commit, run_git

WHO = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "-c", "init.defaultBranch=main")


def do(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *WHO, *words], cwd=folder, capture_output=True, check=True, encoding="utf-8"
    )
    return done.stdout.strip()


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with the file `rules` on `main`."""
    folder = tmp_path / "origin"
    folder.mkdir()
    do(folder, "init", "-q")
    (folder / "rules").write_text("old", "utf-8")
    do(folder, "add", ".")
    do(folder, "commit", "-q", "-m", "old")
    return folder


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"BUILD_SOURCEVERSION": "abc", "BUILD_SOURCEBRANCH": "refs/heads/x/y"}, ("abc", "x/y")),
        ({"BUILD_SOURCEVERSION": "abc", "BUILD_SOURCEBRANCH": "refs/pull/7/merge"}, ("abc", "main")),
        ({"BITBUCKET_COMMIT": "abc", "BITBUCKET_BRANCH": "x"}, ("abc", "x")),
        ({"JENKINS_URL": "https://ci.example.com/", "BRANCH_NAME": "x"}, ("HEAD", "x")),
        ({"BRANCH_NAME": "x"}, ("HEAD", "main")),
        ({"BUILDKITE_BRANCH": "x"}, ("HEAD", "x")),
    ],
)
def test_the_commit_and_branch_that_services_name(
    origin: Path, environ: dict[str, str], expected: tuple[str, str]
) -> None:
    head = do(origin, "rev-parse", "HEAD")
    wanted = (head if expected[0] == "HEAD" else expected[0], expected[1])
    assert (read_commit(origin, environ), read_branch(origin, environ)) == wanted


def test_git_runs_no_program_that_the_repository_names_and_hears_no_secret(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nenv > {seen}\ncat\n", "utf-8")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "diff.x.textconv", "core.pager"):
        do(origin, "config", key, str(program))
    do(origin, "config", "alias.canary", f"!{program}")
    (origin / ".gitattributes").write_text("* diff=x\n", "utf-8")
    monkeypatch.setenv("INPUT_TOKEN", "ghs_canary")
    monkeypatch.setenv("GIT_DIR", os.devnull)

    assert run_git(origin, "ls-files", "--", "rules") == "rules"
    assert run_git(origin, "cat-file", "blob", "main:./rules") == "old"
    assert not seen.exists()
    run_git(origin, "canary")
    assert "ghs_canary" not in seen.read_text("utf-8")
