"""Which pull request an event of GitHub Actions is about. Nothing in a payload is taken for granted."""

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
    """The event names it."""

    number: int
    head_sha: str = ""
    """Its newest commit, which is not what a merge build checks out; "" when the event does not say."""


@frozen
class HeadCommit:
    """The event names the commit only, as that of a fork's workflow run: GitHub knows the pull request."""

    sha: str
    repository: str = ""
    """Where it was pushed, as `owner/name`; "" when the event does not say."""
    branch: str = ""
    """Its branch there. Whoever knows a commit can push it to a branch of their own."""


@frozen
class NoPullRequest:
    """There is none to comment on."""

    reason: str


Subject: TypeAlias = PullRequest | HeadCommit | NoPullRequest


def find_subject(environ: Mapping[str, str]) -> Subject:
    """What the event that started this job is about: GITHUB_EVENT_NAME and the file GITHUB_EVENT_PATH."""
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
    """What an event is about, from its payload."""
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
    """The pull request of another workflow's run; a run of a fork names none, or those of the fork."""
    sha = _parse_sha(run.get("head_sha"))
    listed = run.get("pull_requests")
    ours: list[PullRequest] = []
    for item in listed if isinstance(listed, list) else ():
        each = item if isinstance(item, dict) else {}
        base = _get_object(_get_object(each, "base"), "repo").get("id")
        if base is not None and base == repository.get("id") and (found := _parse_pull_request(each)):
            ours.append(PullRequest(found.number, found.head_sha or sha))
    # Of several from one branch the payload does not say which one the run tested: see `post_comment`.
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
