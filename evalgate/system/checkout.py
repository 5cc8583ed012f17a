"""What is checked out, and what for: the commit, its branch, and whether anybody merged it yet."""

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from evalgate.system.environment import agent_environment
from evalgate.system.pullrequest import PullRequest, read_pull_request
from evalgate.system.workspace import open_workspace

_GIT_SECONDS = 20
_LINK = "120000"
_MOST_LINKS = 5
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT_SHA = re.compile(r"[0-9a-f]{12,64}")
SETTINGS = (
    "safe.directory=*",
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.sshCommand=ssh",
    "core.pager=cat",
    "diff.external=",
    "log.showSignature=false",
    "gpg.program=false",
    "protocol.ext.allow=never",
)
"""What git is told of a repository that may belong to another user, whose programs are not ours to run."""


def unmerged(environ: Mapping[str, str]) -> str:
    """Return what a CI job tests that is not on a branch to stay, in words; "" if it is on one."""
    found = read_pull_request(environ)
    return found.kind if found else ""


def commit(folder: Path, environ: Mapping[str, str]) -> str | None:
    """Return the commit in `folder`, if the CI service or git knows it."""
    known = (
        environ.get("GITHUB_SHA")
        or environ.get("CI_COMMIT_SHA")
        or environ.get("BUILD_SOURCEVERSION")
        or environ.get("BITBUCKET_COMMIT")
    )
    return known or git(folder, "rev-parse", "HEAD") or None  # Jenkins and Buildkite may say `HEAD`


def branch(folder: Path, environ: Mapping[str, str]) -> str | None:
    """Return its branch, if there is one and the CI service or git knows it."""
    if environ.get("GITHUB_REF_TYPE") == "branch" and environ.get("GITHUB_REF_NAME"):
        return environ["GITHUB_REF_NAME"]
    ref = environ.get("BUILD_SOURCEBRANCH", "")
    known = (
        environ.get("CI_COMMIT_BRANCH")
        or (ref.removeprefix("refs/heads/") if ref.startswith("refs/heads/") else "")
        or environ.get("BITBUCKET_BRANCH")
        or (environ.get("BRANCH_NAME") if environ.get("JENKINS_URL") else "")
        or environ.get("BUILDKITE_BRANCH")
    )
    return known or git(folder, "symbolic-ref", "--short", "-q", "HEAD") or None


def committed_at(folder: Path) -> datetime | None:
    """When the commit in `folder` was made; None where git knows of none."""
    seconds = git(folder, "show", "-s", "--format=%ct", "HEAD")
    return datetime.fromtimestamp(int(seconds), UTC) if seconds.isdecimal() else None


def text_at_base(folder: Path, path: str, environ: Mapping[str, str]) -> str | None:
    """Return a file as the base of a change has it; "" if it has none, None if git cannot tell."""
    base = base_commit(folder, environ)
    return read_blob(folder, base, path).decode("utf-8", "replace").removesuffix("\n") if base else None


def read_blob(folder: Path, commit: str, path: str) -> bytes:
    """Return the content of a file at a commit; b"" if there is none. `path` is relative to `folder`.

    A symbolic link is followed within the repository, as it is where the commit is checked out.
    """
    for _ in range(_MOST_LINKS):
        mode = git(folder, "ls-tree", commit, "--", path).partition(" ")[0]
        content = git_bytes(folder, "cat-file", "blob", f"{commit}:./{path}") if mode else b""
        if mode != _LINK:
            return content
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.fsdecode(content)))  # noqa: PTH118, PTH120
    return b""


def base_commit(folder: Path, environ: Mapping[str, str]) -> str:
    """Return the commit of the branch that a change goes to; "" if git does not know it."""
    request = read_pull_request(environ)
    found = (_find_commit(folder, each) for each in (_revisions(folder, request) if request else ()))
    return next(filter(None, found), "")


def how_to_fetch_base(environ: Mapping[str, str]) -> str:
    """Return the sentence that says how the job makes the base known to git."""
    request = read_pull_request(environ)
    how = request.fetch if request else "Give the gate the variables of the CI service"
    return f"{how}, so that no change can soften its own rules."


def _revisions(folder: Path, request: PullRequest) -> Iterator[str]:
    """Yield what the change goes to, the newest first; nothing that the change itself decides."""
    if request.first_commit:
        yield request.first_commit
    if request.branch:
        yield f"refs/remotes/origin/{request.branch}"
    if request.merge_commit and _is_merge(folder, request.merge_commit):
        yield "HEAD^1"
    if request.last_commit:
        yield request.last_commit


def _find_commit(folder: Path, revision: str) -> str:
    """Return the full hash of a commit; "" if git does not know it.

    A short hash is looked for among objects alone: a tag or a branch may have the same name.
    """
    if _SHORT_SHA.fullmatch(revision) and not _SHA.fullmatch(revision):
        revision = git(folder, "rev-parse", f"--disambiguate={revision}")
        if not _SHA.fullmatch(revision):
            return ""
    return git(folder, "rev-parse", "-q", "--verify", f"{revision}^{{commit}}")


def _is_merge(folder: Path, made: str) -> bool:
    """Return whether the merge that the service made is checked out.

    The newest commit of the change can be a merge as well, whose first parent is the change's own.
    """
    is_merge = bool(git(folder, "rev-parse", "-q", "--verify", "HEAD^2"))
    return is_merge and git(folder, "rev-parse", "HEAD") == made


def git(folder: Path, *words: str) -> str:
    """What git says there, without the last line end; "" when it says nothing, or is not there."""
    return git_bytes(folder, *words).decode("utf-8", "replace").removesuffix("\n")


def git_bytes(folder: Path, *words: str, given: bytes = b"", with_own_settings: bool = False) -> bytes:
    """Return what git says there when it is given this; b"" when it says nothing, or is not there.

    It runs as the agent's user and sees none of our secrets: the agent can write what git reads. The
    configuration of the machine and of the user is left out, unless `with_own_settings` wants it read.
    """
    unread = {} if with_own_settings else {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    never = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1"}
    command = ["git", *(word for setting in SETTINGS for word in ("-c", setting)), *words]
    try:
        uid, gid = open_workspace(folder).agent_user or (None, None)
        done = subprocess.run(
            command,
            cwd=folder,
            env={
                **agent_environment(os.environ, ()),
                **never,
                **unread,
            },
            user=uid,
            group=gid,
            extra_groups=None if uid is None else (),
            input=given,
            capture_output=True,
            check=True,
            timeout=_GIT_SECONDS,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return b""
    return done.stdout
