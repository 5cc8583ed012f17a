"""What is checked out, and what for: the commit, its branch, and whether anybody merged it yet."""

import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

_GIT_SECONDS = 20
_UNMERGED_EVENTS = {
    "pull_request": "a pull request",
    "pull_request_target": "a pull request",
    "pull_request_review": "a pull request",
    "pull_request_review_comment": "a pull request",
    "merge_group": "a merge queue",
}


def unmerged(environ: Mapping[str, str]) -> str:
    """What a job of GitHub Actions or GitLab CI tests that is not on a branch to stay; "" when it is."""
    if what := _UNMERGED_EVENTS.get(environ.get("GITHUB_EVENT_NAME", "")):
        return what
    in_merge_request = environ.get("CI_PIPELINE_SOURCE") == "merge_request_event"
    return "a merge request" if in_merge_request or environ.get("CI_MERGE_REQUEST_IID") else ""


def commit(folder: Path, environ: Mapping[str, str]) -> str | None:
    """The commit in `folder`, when anybody knows."""
    known = environ.get("GITHUB_SHA") or environ.get("CI_COMMIT_SHA")
    return known or git(folder, "rev-parse", "HEAD") or None


def branch(folder: Path, environ: Mapping[str, str]) -> str | None:
    """Its branch, when there is one and anybody knows."""
    if environ.get("GITHUB_REF_TYPE") == "branch" and environ.get("GITHUB_REF_NAME"):
        return environ["GITHUB_REF_NAME"]
    return environ.get("CI_COMMIT_BRANCH") or git(folder, "symbolic-ref", "--short", "-q", "HEAD") or None


def committed_at(folder: Path) -> datetime | None:
    """When the commit in `folder` was made; None where git knows of none."""
    seconds = git(folder, "show", "-s", "--format=%ct", "HEAD")
    return datetime.fromtimestamp(int(seconds), UTC) if seconds.isdecimal() else None


def text_at_base(folder: Path, path: str, environ: Mapping[str, str]) -> str | None:
    """A file as the branch has it that a change goes to, "" where it has none; None: git does not know it."""
    for revision in _bases(folder, environ):
        if git(folder, "rev-parse", "-q", "--verify", f"{revision}^{{commit}}"):
            return git(folder, "show", f"{revision}:./{path}")
    return None


def _bases(folder: Path, environ: Mapping[str, str]) -> Iterator[str]:
    if sha := environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA"):
        yield sha
    branch = environ.get("GITHUB_BASE_REF") or environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
    if branch:
        yield f"refs/remotes/origin/{branch}"
    if git(folder, "rev-parse", "-q", "--verify", "HEAD^2"):  # what GitHub checks out merges the change
        yield "HEAD^1"


def git(folder: Path, *words: str) -> str:
    """What git says there, without the last line end; "" when it says nothing, or is not there."""
    command = ["git", "-c", f"safe.directory={folder}", *words]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, encoding="utf-8", check=True, timeout=_GIT_SECONDS
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    return done.stdout.removesuffix("\n")
