"""Find the pull request that a CI job tests, and its base commit.

Each CI service describes the pull request in environment variables of its own.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from evalgate.core.frozen import frozen
from evalgate.core.lazy_pattern import compile_lazily
from evalgate.system.git import SHA, SHORT_SHA, find_commit, read_blob, run_git

_MERGED_BY_HOST = compile_lazily(r"refs/pull/\d+/merge|refs/heads/gh-readonly-queue/.+")
_MERGED_BY_GITLAB = ("merged_result", "merge_train")
_GITHUB_EVENTS = {
    "pull_request": "a pull request",
    "pull_request_target": "a pull request",
    "pull_request_review": "a pull request",
    "pull_request_review_comment": "a pull request",
    "merge_group": "a merge queue",
}


@frozen
class PullRequestContext:
    """Facts about the unmerged change, such as a pull request, that a CI job tests.

    The CI service states most of them in environment variables.
    """

    kind: str
    """Kind of change, with an article, such as `a merge request`."""
    fetch: str
    """Instruction to the user to make the base commit known to git, such as `Check out with …`."""
    branch: str = ""
    """Target branch of the change; "" if the CI service does not report it."""
    first_commit: str = ""
    """Full or abbreviated hash of a commit on the target branch that is tried first as the base; "": none."""
    last_commit: str = ""
    """Full or abbreviated hash of a commit on the target branch that is tried last as the base; "": none."""
    merge_commit: str = ""
    """Hash of the commit in which the CI service merged the change into the base; "" if there is none.

    The first parent of this commit is the base.
    """


def read_pull_request(environ: Mapping[str, str]) -> PullRequestContext | None:
    """Return the pull request that this job tests; None if it tests a permanent branch.

    Return None also if the job does not run in a supported CI service (`is_known_service`).
    """
    readers = (_read_github, _read_gitlab, _read_azure, _read_bitbucket, _read_jenkins, _read_buildkite)
    return next(filter(None, (read(environ) for read in readers)), None)


def is_github_actions(environ: Mapping[str, str]) -> bool:
    """Return True if GitHub's runner started this process."""
    return environ.get("GITHUB_ACTIONS") == "true"


def describe_unmerged_change(environ: Mapping[str, str]) -> str:
    """Return the kind of unmerged change that this job tests, such as `a pull request`.

    Return "" if the job tests no unmerged change, or if the CI service is not supported.
    """
    found = read_pull_request(environ)
    return found.kind if found else ""


def is_known_service(environ: Mapping[str, str]) -> bool:
    """Return True if the job runs in a CI service that `read_pull_request` supports.

    In another service, `read_pull_request` returns None even for a job that tests a pull request.
    """
    found = (
        environ.get("GITHUB_EVENT_NAME"),
        environ.get("CI_PIPELINE_SOURCE"),
        environ.get("BUILD_REASON"),
        environ.get("BITBUCKET_BUILD_NUMBER"),
        environ.get("JENKINS_URL"),
        environ.get("BUILDKITE_PULL_REQUEST"),
    )
    return any(found)


def find_base_commit(folder: Path, environ: Mapping[str, str]) -> str:
    """Return the full hash of the commit of the target branch on which the tested pull request is based.

    Return "" if git knows no such commit, or if the job tests no pull request.
    """
    request = read_pull_request(environ)
    found = (find_commit(folder, each) for each in (_iter_base_revisions(folder, request) if request else ()))
    return next(filter(None, found), "")


def read_text_at_base(folder: Path, path: str, environ: Mapping[str, str]) -> str | None:
    """Return the text of a file at the base commit, without its last line end.

    Return "" if the base commit has no such file, and None if `find_base_commit` finds no base commit.

    Raises:
        InvalidInputError: git cannot read the file, or does not know the commit of a submodule.
    """
    base = find_base_commit(folder, environ)
    return read_blob(folder, base, path).decode("utf-8", "replace").removesuffix("\n") if base else None


def describe_base_fetch(environ: Mapping[str, str]) -> str:
    """Return a sentence that tells the user how to make the base commit known to git."""
    request = read_pull_request(environ)
    how = request.fetch if request else "Give the gate the variables of the CI service"
    return f"{how}, so that no change can soften its own rules."


def _iter_base_revisions(folder: Path, request: PullRequestContext) -> Iterator[str]:
    """Yield revisions (hashes or names) that may be the base commit, the preferred one first.

    The tested change cannot alter these revisions; otherwise it could choose its own base.
    """
    if request.first_commit:
        yield request.first_commit
    if request.branch:
        yield f"refs/remotes/origin/{request.branch}"
    if request.merge_commit and _is_merge(folder, request.merge_commit):
        yield "HEAD^1"
    if request.last_commit:
        yield request.last_commit


def _is_merge(folder: Path, made: str) -> bool:
    """Return True if HEAD is a merge commit with the hash `made`: the merge that the CI service made."""
    # Only then is the first parent of HEAD the base. A change may itself end with a merge, and the first
    # parent of that merge is a commit of the change.
    is_merge = bool(run_git(folder, "rev-parse", "-q", "--verify", "HEAD^2"))
    return is_merge and run_git(folder, "rev-parse", "HEAD") == made


def _read_github(environ: Mapping[str, str]) -> PullRequestContext | None:
    kind = _GITHUB_EVENTS.get(environ.get("GITHUB_EVENT_NAME", ""))
    if not kind:
        return None
    is_merge = _MERGED_BY_HOST.fullmatch(environ.get("GITHUB_REF", ""))
    return PullRequestContext(
        kind,
        "Check out with `fetch-depth: 2`",
        environ.get("GITHUB_BASE_REF", ""),
        last_commit=_read_event_base(environ),
        merge_commit=environ.get("GITHUB_SHA", "") if is_merge else "",
    )


def _read_event_base(environ: Mapping[str, str]) -> str:
    """Return the hash of the base commit that GitHub's event names; "" if the event names none."""
    from evalgate.system.github_runner_files import read_event

    try:
        event = json.loads(read_event(environ) or b"")
        found = event.get("merge_group", {}).get("base_sha") or event["pull_request"]["base"]["sha"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""
    return found if isinstance(found, str) and SHA.fullmatch(found) else ""


def _read_gitlab(environ: Mapping[str, str]) -> PullRequestContext | None:
    base, event = environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA"), environ.get("CI_MERGE_REQUEST_EVENT_TYPE")
    in_merge_request = environ.get("CI_PIPELINE_SOURCE") == "merge_request_event"
    is_merged = event in _MERGED_BY_GITLAB
    if not in_merge_request and not (environ.get("CI_MERGE_REQUEST_IID") or base or event):
        return None
    return PullRequestContext(
        "a merge request",
        "Set `GIT_DEPTH: 0` in the job",
        environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""),
        # The commit that GitLab merged the change into, and else the one at which the change branched off.
        first_commit=(environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_SHA") if is_merged else "") or base or "",
        merge_commit=environ.get("CI_COMMIT_SHA", "") if is_merged else "",
    )


def _read_azure(environ: Mapping[str, str]) -> PullRequestContext | None:
    # Azure does not replace the macro of a variable without a value: `$(System.PullRequest.TargetBranch)`.
    branch = environ.get("SYSTEM_PULLREQUEST_TARGETBRANCH", "")
    branch = "" if branch.startswith("$(") else branch.removeprefix("refs/heads/")
    if environ.get("BUILD_REASON") != "PullRequest" and not branch:
        return None
    is_merge = _MERGED_BY_HOST.fullmatch(environ.get("BUILD_SOURCEBRANCH", ""))
    return PullRequestContext(
        "a pull request",
        "Set `fetchDepth: 2` at the `checkout` step",
        branch,
        merge_commit=environ.get("BUILD_SOURCEVERSION", "") if is_merge else "",
    )


def _read_bitbucket(environ: Mapping[str, str]) -> PullRequestContext | None:
    # No `merge_commit`: Bitbucket merges the base into the change, so the first parent is the change.
    if not environ.get("BITBUCKET_PR_ID"):
        return None
    commit = environ.get("BITBUCKET_PR_DESTINATION_COMMIT", "")
    return PullRequestContext(
        "a pull request",
        "Set `depth: full` in the section `clone`",
        environ.get("BITBUCKET_PR_DESTINATION_BRANCH", ""),
        last_commit=commit if SHORT_SHA.fullmatch(commit) else "",
    )


def _read_jenkins(environ: Mapping[str, str]) -> PullRequestContext | None:
    if not environ.get("CHANGE_ID"):
        return None
    branch = environ.get("CHANGE_TARGET", "")
    return PullRequestContext("a pull request", _build_fetch_hint(branch), branch)


def _read_buildkite(environ: Mapping[str, str]) -> PullRequestContext | None:
    if environ.get("BUILDKITE_PULL_REQUEST", "false") in ("", "false"):
        return None
    branch = environ.get("BUILDKITE_PULL_REQUEST_BASE_BRANCH", "")
    return PullRequestContext("a pull request", _build_fetch_hint(branch), branch)


def _build_fetch_hint(branch: str) -> str:
    # Without `--depth`, which would cut the history of a full clone, and `affected` needs it.
    name = branch or "BASE"
    return f"Run `git fetch origin +refs/heads/{name}:refs/remotes/origin/{name}` first"
