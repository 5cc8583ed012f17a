"""Find the pull request or commit that an event of GitHub Actions is about.

The payload is not trusted: missing and malformed values are handled.
"""

import json
import re
from collections.abc import Mapping
from typing import TypeAlias

from evalgate.core.frozen import frozen
from evalgate.system.runner_files import read_event

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_WITH_PULL_REQUEST = (
    "pull_request",
    "pull_request_target",
    "pull_request_review",
    "pull_request_review_comment",
)


@frozen
class PullRequest:
    """A pull request that the event names."""

    number: int
    head_sha: str = ""
    """The newest commit of the pull request, not the merge commit that is checked out; "" if unknown."""


@frozen
class HeadCommit:
    """A commit that the event names without a pull request, as for a workflow run of a fork.

    GitHub's API lists its pull requests.
    """

    sha: str
    repository: str = ""
    """The repository that the commit was pushed to, as `owner/name`; "" if the event does not name it."""
    branch: str = ""
    """The branch in that repository. Anyone who knows a commit can push it to a branch of their own."""


@frozen
class NoPullRequest:
    """The reason why there is no pull request to comment on."""

    reason: str


Subject: TypeAlias = PullRequest | HeadCommit | NoPullRequest


def find_subject(environ: Mapping[str, str]) -> Subject:
    """Read GITHUB_EVENT_NAME and the file GITHUB_EVENT_PATH, and return the subject of the event."""
    event = environ.get("GITHUB_EVENT_NAME", "")
    path = environ.get("GITHUB_EVENT_PATH", "")
    if not event or not path:
        return NoPullRequest(
            "GITHUB_EVENT_NAME and GITHUB_EVENT_PATH are not set: this is no job of GitHub Actions"
        )
    raw = read_event(environ)
    try:
        payload = json.loads(raw) if raw is not None else None
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        return NoPullRequest("the file GITHUB_EVENT_PATH cannot be read as an event")
    return parse_subject(event, payload)


def parse_subject(event: str, payload: Mapping[str, object]) -> Subject:
    """Return the subject of an event from its name and payload."""
    if event in _WITH_PULL_REQUEST:
        return _parse_pull_request(_get_object(payload, "pull_request")) or _build_no_pull_request(event)
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
    """Return the pull request or commit of another workflow's run; None if the payload names neither.

    For a run of a fork, the payload lists no pull requests, or those of the fork, which do not count.
    """
    sha = _parse_sha(run.get("head_sha"))
    listed = run.get("pull_requests")
    ours: list[PullRequest] = []
    for item in listed if isinstance(listed, list) else ():
        each = item if isinstance(item, dict) else {}
        base = _get_object(_get_object(each, "base"), "repo").get("id")
        if base is not None and base == repository.get("id") and (found := _parse_pull_request(each)):
            ours.append(PullRequest(found.number, found.head_sha or sha))
    # If one branch has several, the payload does not say which one was tested: `post_comment` posts to each.
    if len(ours) == 1 or (ours and not sha):
        return ours[0]
    where = (_get_object(run, "head_repository").get("full_name"), run.get("head_branch"))
    return HeadCommit(sha, *(each if isinstance(each, str) else "" for each in where)) if sha else None


def _parse_pull_request(item: Mapping[str, object]) -> PullRequest | None:
    number = item.get("number")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 2**53:
        return None
    return PullRequest(number, _parse_sha(_get_object(item, "head").get("sha")))


def _build_no_pull_request(event: str) -> NoPullRequest:
    return NoPullRequest(f"the payload of the event {event} names no pull request")


def _get_object(item: Mapping[str, object], name: str) -> Mapping[str, object]:
    found = item.get(name)
    return found if isinstance(found, dict) else {}


def _parse_sha(value: object) -> str:
    return value if isinstance(value, str) and _SHA.fullmatch(value) else ""
