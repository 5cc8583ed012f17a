"""Which pull request an event is about, hostile payloads included."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.ci.github_event import HeadCommit, PullRequest, find_subject, parse_subject
from evalgate.ci.posting import NoPullRequest

SHA = "5f" * 20
HEAD = {"number": 7, "head": {"sha": SHA}}
REPOSITORY = {"id": 11}


def run_of(**fields: object) -> dict[str, Any]:
    return {"repository": REPOSITORY, "workflow_run": {"head_sha": SHA, **fields}}


def pull_in(repository: object, number: object = 7, sha: str = SHA) -> dict[str, Any]:
    return {"number": number, "head": {"sha": sha}, "base": {"repo": {"id": repository}}}


@pytest.mark.parametrize(
    ("event", "payload", "subject"),
    [
        ("pull_request", {"pull_request": HEAD}, PullRequest(7, SHA)),
        ("pull_request", {"pull_request": {"number": 7}}, PullRequest(7)),
        ("pull_request_target", {"pull_request": HEAD}, PullRequest(7, SHA)),
        ("pull_request_review", {"pull_request": HEAD}, PullRequest(7, SHA)),
        ("issue_comment", {"issue": {"number": 7, "pull_request": {"url": "x"}}}, PullRequest(7)),
        ("workflow_run", run_of(pull_requests=[pull_in(11)]), PullRequest(7, SHA)),
        ("workflow_run", run_of(pull_requests=[]), HeadCommit(SHA)),
        ("workflow_run", run_of(), HeadCommit(SHA)),
        (
            "workflow_run",
            run_of(head_repository={"full_name": "eve/demo"}, head_branch="change"),
            HeadCommit(SHA, "eve/demo", "change"),
        ),
        ("workflow_run", run_of(head_repository=None, head_branch=["x"]), HeadCommit(SHA)),
        # the run of a fork may name a pull request of the fork
        ("workflow_run", run_of(pull_requests=[pull_in(99, 3)]), HeadCommit(SHA)),
        ("workflow_run", run_of(pull_requests=[pull_in(99, 3), pull_in(11)]), PullRequest(7, SHA)),
        ("workflow_run", run_of(pull_requests=["x", 1, None, {}]), HeadCommit(SHA)),
        # a commit was pushed while the run tested the one before it
        (
            "workflow_run",
            run_of(
                pull_requests=[pull_in(11, sha="a7" * 20)],
                head_repository={"full_name": "acme/demo"},
                head_branch="change",
            ),
            HeadCommit(SHA, "acme/demo", "change"),
        ),
        # two from one branch: the payload names both and does not say which one the run tested
        ("workflow_run", run_of(pull_requests=[pull_in(11), pull_in(11, 8)]), HeadCommit(SHA)),
        (
            "workflow_run",
            {"workflow_run": {"pull_requests": [pull_in(None)], "head_sha": SHA}},
            HeadCommit(SHA),
        ),
    ],
)
def test_the_pull_request_of_an_event(event: str, payload: dict[str, Any], subject: object) -> None:
    assert parse_subject(event, payload) == subject


NO_NUMBER = "the payload of the event {} names no pull request"


@pytest.mark.parametrize(
    ("event", "payload", "reason"),
    [
        ("push", {"pull_request": HEAD}, "an event of this kind has no pull request: 'push'"),
        ("schedule", {}, "an event of this kind has no pull request: 'schedule'"),
        (
            "merge_group",
            {"merge_group": {"head_ref": "refs/heads/gh-readonly-queue/main/pr-7-x"}},
            "a merge queue tests several pull requests at once: there is none to comment on",
        ),
        ("issue_comment", {"issue": {"number": 7}}, NO_NUMBER.format("issue_comment")),
        ("workflow_run", run_of(head_sha="../../x"), NO_NUMBER.format("workflow_run")),
        ("workflow_run", {"workflow_run": []}, NO_NUMBER.format("workflow_run")),
        *(
            ("pull_request", {"pull_request": {"number": number}}, NO_NUMBER.format("pull_request"))
            for number in ("7", 7.0, True, None, 0, -7, 2**60, [7], {"n": 7})
        ),
        ("pull_request", {"pull_request": [HEAD]}, NO_NUMBER.format("pull_request")),
        ("pull_request", {}, NO_NUMBER.format("pull_request")),
    ],
)
def test_an_event_without_a_pull_request(event: str, payload: dict[str, Any], reason: str) -> None:
    assert parse_subject(event, payload) == NoPullRequest(reason)


@pytest.mark.parametrize("sha", ["", "x", SHA.upper(), f"{SHA}\n", 5, None, "a" * 41])
def test_an_invalid_commit_id_is_ignored(sha: object) -> None:
    payload = {"pull_request": {"number": 7, "head": {"sha": sha}}}
    assert parse_subject("pull_request", payload) == PullRequest(7, "")


@pytest.mark.parametrize(
    ("content", "subject"),
    [
        (json.dumps({"pull_request": HEAD}), PullRequest(7, SHA)),
        ("", NoPullRequest("the file GITHUB_EVENT_PATH cannot be read as an event")),
        ("[1]", NoPullRequest("the file GITHUB_EVENT_PATH cannot be read as an event")),
        ("[" * 100_000, NoPullRequest("the file GITHUB_EVENT_PATH cannot be read as an event")),
        ('"\ud800"', NoPullRequest("the file GITHUB_EVENT_PATH cannot be read as an event")),
    ],
    ids=["event", "empty", "list", "deep", "no text"],
)
def test_the_event_is_read_from_its_file(tmp_path: Path, content: str, subject: object) -> None:
    path = tmp_path / "event.json"
    path.write_text(content, encoding="utf-8", errors="surrogatepass")
    environ = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": str(path)}
    assert find_subject(environ) == subject


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({}, "GITHUB_EVENT_NAME and GITHUB_EVENT_PATH are not set: this is no job of GitHub Actions"),
        (
            {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": "/nowhere/event.json"},
            "the file GITHUB_EVENT_PATH cannot be read as an event",
        ),
    ],
)
def test_without_an_event_there_is_no_pull_request(environ: dict[str, str], reason: str) -> None:
    assert find_subject(environ) == NoPullRequest(reason)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "pull_request",
                    "number",
                    "head",
                    "sha",
                    "issue",
                    "workflow_run",
                    "pull_requests",
                    "base",
                    "repo",
                ]
            ),
            inner,
        )
    ),
)


@given(
    st.sampled_from(["pull_request", "issue_comment", "workflow_run", "merge_group", "push"]),
    st.dictionaries(st.sampled_from(["pull_request", "issue", "workflow_run", "repository"]), JSON),
)
def test_any_payload_has_a_subject(event: str, payload: dict[str, Any]) -> None:
    assert isinstance(parse_subject(event, payload), PullRequest | HeadCommit | NoPullRequest)
