"""Git in a folder: the commit and branch that are checked out, and programs that it never runs."""

import os
import subprocess
from pathlib import Path

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.system.git import has_folder, is_tracked, read_blob, read_branch, read_commit, run_git

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


@pytest.fixture
def linked(origin: Path) -> Path:
    """A folder of a repository that has links to files and folders, within it and out of it."""
    (origin / "real/inner").mkdir(parents=True)
    (origin / "real/inner/rules").write_text("linked", "utf-8")
    (origin / "desk").mkdir()
    for name, target in {
        "folder": "../real/inner",
        "chain": "folder",
        "file": "chain/rules",
        "loop": "loop",
        "dead": "nothing",
        "out": "../../rules",
        "absolute": f"{origin}/rules",
    }.items():
        (origin / "desk" / name).symlink_to(target)
    do(origin, "add", ".")
    do(origin, "commit", "-q", "-m", "links")
    return origin / "desk"


@pytest.mark.parametrize(
    ("path", "content", "is_folder"),
    [
        ("../rules", b"old", False),
        ("folder/rules", b"linked", False),
        ("chain/rules", b"linked", False),
        ("file", b"linked", False),
        ("chain", b"", True),
        ("../real", b"", True),
        ("..", b"", True),
        ("chain/../rules", b"", False),
        ("loop", b"", False),
        ("dead", b"", False),
        ("out", b"", False),
        ("absolute", b"", False),
        ("../../origin/rules", b"", False),
        ("nothing blob 3", b"", False),
    ],
)
def test_a_file_of_a_commit_is_found_through_links(
    linked: Path, path: str, content: bytes, is_folder: bool
) -> None:
    assert (read_blob(linked, "HEAD", path), has_folder(linked, "HEAD", path)) == (content, is_folder)


def test_a_file_that_the_clone_lacks_is_not_taken_for_none(origin: Path, tmp_path: Path) -> None:
    do(origin, "config", "uploadpack.allowFilter", "true")
    do(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", origin.as_uri(), "clone")
    commit = do(origin, "rev-parse", "HEAD")
    origin.rename(tmp_path / "unreachable")
    with pytest.raises(InvalidInputError) as raised:
        read_blob(tmp_path / "clone", commit, "rules")
    assert str(raised.value).startswith(
        f"rules: git cannot read the version of the commit {commit[:12]}: check out without a filter such as "
        "`filter: blob:none`, which leaves out files of other commits. Git says: fatal: "
    )
    assert read_blob(tmp_path / "clone", commit, "nothing") == b""


def test_file_counts_as_tracked_if_git_fails(origin: Path, tmp_path: Path) -> None:
    (origin / "new").write_text("", "utf-8")
    assert (is_tracked(origin, "rules"), is_tracked(origin, "new")) == (True, False)
    (origin / ".git/HEAD").unlink()
    assert is_tracked(origin, "new")
    assert not is_tracked(tmp_path, "new")
