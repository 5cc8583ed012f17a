"""GitHub's event that started a job: the pull request, commit or workflow run that its payload names.

The payload is not trusted. A missing or malformed value is ignored without an error.
"""

import json
import re
from collections.abc import Mapping
from typing import TypeAlias

from evalgate.ci.posting import NoPullRequest, read_number
from evalgate.core.frozen import frozen
from evalgate.system.github_runner_files import read_event

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_WITH_PULL_REQUEST = (
    "pull_request",
    "pull_request_target",
    "pull_request_review",
    "pull_request_review_comment",
)


@frozen
class PullRequest:
    """The pull request that an event names."""

    number: int
    head_sha: str = ""
    """The newest commit of the pull request, not the merge commit that is checked out; "" if unknown."""


@frozen
class HeadCommit:
    """A commit that an event names without a pull request, for example after a workflow run of a fork.

    GitHub's API can list the pull requests of the commit.
    """

    sha: str
    repository: str = ""
    """The repository that the commit was pushed to, as `owner/name`; "" if the event does not name it."""
    branch: str = ""
    """The branch in `repository`; "" if the event does not name the branch.

    The branch is needed because anyone can push the same commit to a branch of their own.
    """


Subject: TypeAlias = PullRequest | HeadCommit | NoPullRequest


def find_subject(environ: Mapping[str, str]) -> Subject:
    """Return the pull request or commit that the job's event names, or a `NoPullRequest` with the reason.

    The event is read from GITHUB_EVENT_NAME and the file GITHUB_EVENT_PATH. No request is sent.
    """
    event = environ.get("GITHUB_EVENT_NAME", "")
    path = environ.get("GITHUB_EVENT_PATH", "")
    if not event or not path:
        return NoPullRequest(
            "GITHUB_EVENT_NAME and GITHUB_EVENT_PATH are not set: this is no job of GitHub Actions"
        )
    payload = _read_payload(environ)
    if payload is None:
        return NoPullRequest("the file GITHUB_EVENT_PATH cannot be read as an event")
    return parse_subject(event, payload)


def _read_payload(environ: Mapping[str, str]) -> Mapping[str, object] | None:
    """Return the payload of the event; None if it cannot be read or is not a JSON object."""
    raw = read_event(environ)
    try:
        payload = json.loads(raw) if raw is not None else None
    except (ValueError, RecursionError):
        payload = None
    return payload if isinstance(payload, dict) else None


def find_tested_run(environ: Mapping[str, str]) -> tuple[int, int]:
    """Return id and attempt of the workflow run in which the gate ran; 0 for a number that is unknown.

    Usually, this is the current run. But if the event is `workflow_run`, it is the run that started this one:
    the gate ran there, and left the report files that are posted now.
    """
    if environ.get("GITHUB_EVENT_NAME") != "workflow_run":
        return read_number(environ, "GITHUB_RUN_ID"), read_number(environ, "GITHUB_RUN_ATTEMPT")
    run = _get_object(_read_payload(environ) or {}, "workflow_run")
    return _parse_number(run.get("id")), _parse_number(run.get("run_attempt"))


def parse_subject(event: str, payload: Mapping[str, object]) -> Subject:
    """Return the pull request or commit that an event names, or a `NoPullRequest` with the reason.

    `event` is the name of the event, such as `pull_request`.
    """
    if event in _WITH_PULL_REQUEST:
        return _parse_pull_request(_get_object(payload, "pull_request")) or _build_no_pull_request(event)
    # In this event a pull request is an issue, and only the key `pull_request` distinguishes it.
    if event == "issue_comment":
        issue = _get_object(payload, "issue")
        return (
            _parse_pull_request(issue) if _get_object(issue, "pull_request") else None
        ) or _build_no_pull_request(event)
    if event == "workflow_run":
        return _parse_workflow_run(
            _get_object(payload, "workflow_run"), _get_object(payload, "repository")
        ) or _build_no_pull_request(event)
    if event == "merge_group":
        return NoPullRequest("a merge queue tests several pull requests at once: there is none to comment on")
    return NoPullRequest(f"an event of this kind has no pull request: {event[:40]!r}")


def _parse_workflow_run(run: Mapping[str, object], repository: Mapping[str, object]) -> Subject | None:
    """Return the pull request or commit of another workflow's run, or None if the payload names neither."""
    sha = _parse_sha(run.get("head_sha"))
    listed = run.get("pull_requests")
    ours: list[PullRequest] = []
    for item in listed if isinstance(listed, list) else ():
        each = item if isinstance(item, dict) else {}
        base = _get_object(_get_object(each, "base"), "repo").get("id")
        # A run of a fork lists no pull requests; those of other repositories are not ours.
        if base is not None and base == repository.get("id") and (found := _parse_pull_request(each)):
            ours.append(PullRequest(found.number, found.head_sha or sha))
    # GitHub lists the open pull requests of the branch with their present commits. A pull request with a
    # newer commit than the run was not tested. If there are several, the payload does not name the tested
    # pull request, so the commit is returned, and `post_comment` posts to each.
    if ours and (not sha or (len(ours) == 1 and ours[0].head_sha == sha)):
        return ours[0]
    where = (_get_object(run, "head_repository").get("full_name"), run.get("head_branch"))
    return HeadCommit(sha, *(each if isinstance(each, str) else "" for each in where)) if sha else None


def _parse_pull_request(item: Mapping[str, object]) -> PullRequest | None:
    number = _parse_number(item.get("number"))
    return PullRequest(number, _parse_sha(_get_object(item, "head").get("sha"))) if number else None


def _parse_number(value: object) -> int:
    """Return `value` if it is an integer from 1 to 2**53 - 1, else 0."""
    # JSON's `true` is an int in Python. Above 2**53, JSON readers may round a number differently.
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 < value < 2**53 else 0


def _build_no_pull_request(event: str) -> NoPullRequest:
    return NoPullRequest(f"the payload of the event {event} names no pull request")


def _get_object(item: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = item.get(name)
    return found if isinstance(found, dict) else {}


def _parse_sha(value: object) -> str:
    return value if isinstance(value, str) and _SHA.fullmatch(value) else ""
