"""What is checked out, and what for: the commit, its branch, and whether anybody merged it yet."""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from evalgate.system.environment import agent_environment
from evalgate.system.runnerfiles import read_event
from evalgate.system.workspace import open_workspace

_GIT_SECONDS = 20
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_MERGED_BY_GITHUB = re.compile(r"refs/pull/\d+/merge|refs/heads/gh-readonly-queue/.+")
_MERGED_BY_GITLAB = ("merged_result", "merge_train")
SETTINGS = ("safe.directory=*", "core.hooksPath=/dev/null", "core.fsmonitor=false")
"""What git is told of a repository that may belong to another user, whose programs are not ours to run."""
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
    base = base_commit(folder, environ)
    return git(folder, "cat-file", "blob", f"{base}:./{path}") if base else None


def base_commit(folder: Path, environ: Mapping[str, str]) -> str:
    """The commit of the branch that a change goes to; "" when git does not know it."""
    found = (
        git(folder, "rev-parse", "-q", "--verify", f"{each}^{{commit}}") for each in _bases(folder, environ)
    )
    return next(filter(None, found), "")


def _bases(folder: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """What the change goes to, the newest first; nothing that the change itself decides."""
    if sha := environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA"):
        yield sha
    branch = environ.get("GITHUB_BASE_REF") or environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
    if branch:
        yield f"refs/remotes/origin/{branch}"
    if _is_merged_here(folder, environ):
        yield "HEAD^1"
    if sha := _base_in_event(environ):
        yield sha


def _is_merged_here(folder: Path, environ: Mapping[str, str]) -> bool:
    """Whether the host made the commit that is checked out, by merging the change into its base.

    The newest commit of the change can be a merge as well, whose first parent is the change's own.
    """
    theirs = environ.get("CI_MERGE_REQUEST_EVENT_TYPE") in _MERGED_BY_GITLAB
    ours = _MERGED_BY_GITHUB.fullmatch(environ.get("GITHUB_REF", "")) is not None
    made = environ.get("GITHUB_SHA") if ours else environ.get("CI_COMMIT_SHA") if theirs else None
    is_merge = bool(git(folder, "rev-parse", "-q", "--verify", "HEAD^2"))
    return made is not None and is_merge and git(folder, "rev-parse", "HEAD") == made


def _base_in_event(environ: Mapping[str, str]) -> str:
    """The newest commit of the base when GitHub's event happened; "" where there is none."""
    try:
        event = json.loads(read_event(environ) or b"")
        found = event.get("merge_group", {}).get("base_sha") or event["pull_request"]["base"]["sha"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""
    return found if isinstance(found, str) and _SHA.fullmatch(found) else ""


def git(folder: Path, *words: str) -> str:
    """What git says there, without the last line end; "" when it says nothing, or is not there."""
    return git_bytes(folder, *words).decode("utf-8", "replace").removesuffix("\n")


def git_bytes(folder: Path, *words: str) -> bytes:
    """What git says there; b"" when it says nothing, or is not there.

    It runs as the folder's owner and sees none of our secrets: the agent can write what git reads.
    """
    command = ["git", *(word for setting in SETTINGS for word in ("-c", setting)), *words]
    try:
        uid, gid = open_workspace(folder).agent_user or (None, None)
        done = subprocess.run(
            command,
            cwd=folder,
            env={**agent_environment(os.environ, ()), "GIT_OPTIONAL_LOCKS": "0"},
            user=uid,
            group=gid,
            extra_groups=None if uid is None else (),
            capture_output=True,
            check=True,
            timeout=_GIT_SECONDS,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return b""
    return done.stdout
