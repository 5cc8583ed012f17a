"""The pull request that a CI job tests, read from the variables of the service that runs the job."""

import json
import re
from collections.abc import Mapping

from evalgate.frozen import frozen
from evalgate.system.runnerfiles import read_event

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT_SHA = re.compile(r"[0-9a-f]{12,64}")
_MERGED_BY_HOST = re.compile(r"refs/pull/\d+/merge|refs/heads/gh-readonly-queue/.+")
_MERGED_BY_GITLAB = ("merged_result", "merge_train")
_GITHUB_EVENTS = {
    "pull_request": "a pull request",
    "pull_request_target": "a pull request",
    "pull_request_review": "a pull request",
    "pull_request_review_comment": "a pull request",
    "merge_group": "a merge queue",
}


@frozen
class PullRequest:
    """A change that is not merged yet. Nothing in it is decided by the change itself."""

    kind: str
    """In words, with its article."""
    fetch: str
    """Sentence that says how the job makes the base known to git."""
    branch: str = ""
    """The branch that the change goes to; "" if the service does not say."""
    first_commit: str = ""
    """A commit of that branch that counts before all others; full or abbreviated."""
    last_commit: str = ""
    """A commit of that branch that counts if nothing newer is known."""
    merge_commit: str = ""
    """The commit that the service made by merging the change into its base: its first parent is the base."""


def read_pull_request(environ: Mapping[str, str]) -> PullRequest | None:
    """Return the pull request that this job tests, or None if it tests a branch to stay."""
    readers = (_read_github, _read_gitlab, _read_azure, _read_bitbucket, _read_jenkins, _read_buildkite)
    return next(filter(None, (read(environ) for read in readers)), None)


def is_known_service(environ: Mapping[str, str]) -> bool:
    """Return whether the service is one whose jobs all have a variable that is looked at here.

    Without a pull request's variables such a job tests a branch to stay. Elsewhere nothing is known.
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


def _read_github(environ: Mapping[str, str]) -> PullRequest | None:
    kind = _GITHUB_EVENTS.get(environ.get("GITHUB_EVENT_NAME", ""))
    if not kind:
        return None
    is_merge = _MERGED_BY_HOST.fullmatch(environ.get("GITHUB_REF", ""))
    return PullRequest(
        kind,
        "Check out with `fetch-depth: 2`",
        environ.get("GITHUB_BASE_REF", ""),
        last_commit=_base_in_event(environ),
        merge_commit=environ.get("GITHUB_SHA", "") if is_merge else "",
    )


def _base_in_event(environ: Mapping[str, str]) -> str:
    """Return the newest commit of the base when GitHub's event happened; "" if the event names none."""
    try:
        event = json.loads(read_event(environ) or b"")
        found = event.get("merge_group", {}).get("base_sha") or event["pull_request"]["base"]["sha"]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""
    return found if isinstance(found, str) and _SHA.fullmatch(found) else ""


def _read_gitlab(environ: Mapping[str, str]) -> PullRequest | None:
    base, event = environ.get("CI_MERGE_REQUEST_DIFF_BASE_SHA"), environ.get("CI_MERGE_REQUEST_EVENT_TYPE")
    in_merge_request = environ.get("CI_PIPELINE_SOURCE") == "merge_request_event"
    if not in_merge_request and not (environ.get("CI_MERGE_REQUEST_IID") or base or event):
        return None
    return PullRequest(
        "a merge request",
        "Set `GIT_DEPTH: 0` in the job",
        environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", ""),
        first_commit=base or "",
        merge_commit=environ.get("CI_COMMIT_SHA", "") if event in _MERGED_BY_GITLAB else "",
    )


def _read_azure(environ: Mapping[str, str]) -> PullRequest | None:
    # Azure leaves a macro as it is where the variable has no value: `$(System.PullRequest.TargetBranch)`.
    branch = environ.get("SYSTEM_PULLREQUEST_TARGETBRANCH", "")
    branch = "" if branch.startswith("$(") else branch.removeprefix("refs/heads/")
    if environ.get("BUILD_REASON") != "PullRequest" and not branch:
        return None
    is_merge = _MERGED_BY_HOST.fullmatch(environ.get("BUILD_SOURCEBRANCH", ""))
    return PullRequest(
        "a pull request",
        "Set `fetchDepth: 2` at the `checkout` step",
        branch,
        merge_commit=environ.get("BUILD_SOURCEVERSION", "") if is_merge else "",
    )


def _read_bitbucket(environ: Mapping[str, str]) -> PullRequest | None:
    # Bitbucket merges the other way round, the base into the change: the first parent is the change's own.
    if not environ.get("BITBUCKET_PR_ID"):
        return None
    commit = environ.get("BITBUCKET_PR_DESTINATION_COMMIT", "")
    return PullRequest(
        "a pull request",
        "Set `depth: full` in the section `clone`",
        environ.get("BITBUCKET_PR_DESTINATION_BRANCH", ""),
        last_commit=commit if _SHORT_SHA.fullmatch(commit) else "",
    )


def _read_jenkins(environ: Mapping[str, str]) -> PullRequest | None:
    if not environ.get("CHANGE_ID"):
        return None
    branch = environ.get("CHANGE_TARGET", "")
    return PullRequest("a pull request", _fetch_command(branch), branch)


def _read_buildkite(environ: Mapping[str, str]) -> PullRequest | None:
    if environ.get("BUILDKITE_PULL_REQUEST", "false") in ("", "false"):
        return None
    branch = environ.get("BUILDKITE_PULL_REQUEST_BASE_BRANCH", "")
    return PullRequest("a pull request", _fetch_command(branch), branch)


def _fetch_command(branch: str) -> str:
    name = branch or "BASE"
    return f"Run `git fetch --depth=1 origin +refs/heads/{name}:refs/remotes/origin/{name}` first"
