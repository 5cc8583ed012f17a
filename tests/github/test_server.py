"""The fake GitHub itself: a test against it is worth what it is worth."""

import base64
import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conformance import shared_folder
from tests.github import contract, cut
from tests.github.faults import Fault, limit_used_up, slow_down
from tests.github.server import FakeGitHub
from tests.github.world import HEAD_SHA, Artifact, Grant, Run

REPO = "/repos/acme/demo"
COMMENTS = f"{REPO}/issues/7/comments"


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub().running() as running:
        yield running


def ask(
    github: FakeGitHub, method: str, path: str, body: object = None, token: str = "ghs_writer", url: str = ""
) -> tuple[int, Any, Mapping[str, str]]:
    place = urlsplit(url or github.url)
    connection = http.client.HTTPConnection(f"{place.hostname}:{place.port}", timeout=5)
    try:
        connection.request(
            method,
            place.path + path + (f"?{place.query}" if place.query else ""),
            json.dumps(body) if body is not None else None,
            {"Authorization": f"Bearer {token}", "User-Agent": "tests", "Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        raw = answer.read()
        return answer.status, json.loads(raw) if raw else None, dict(answer.headers)
    finally:
        connection.close()


def test_a_comment_lives_and_dies(github: FakeGitHub) -> None:
    status, made, _ = ask(github, "POST", COMMENTS, {"body": "first"})
    assert (status, made["body"], made["user"]["login"]) == (201, "first", "github-actions[bot]")
    path = f"{REPO}/issues/comments/{made['id']}"
    assert ask(github, "PATCH", path, {"body": "second"})[1]["body"] == "second"
    assert ask(github, "GET", path)[1]["body"] == "second"
    assert [each["body"] for each in ask(github, "GET", COMMENTS)[1]] == ["second"]
    assert ask(github, "DELETE", path)[:2] == (204, None)
    for method, body in (("GET", None), ("PATCH", {"body": "x"}), ("DELETE", None)):
        assert ask(github, method, path, body)[0] == 404
    assert ask(github, "GET", COMMENTS)[1] == []


def test_a_list_comes_in_pages_that_name_the_next(github: FakeGitHub) -> None:
    for number in range(5):
        github.world.add_comment(f"{number}")
    url, seen = f"{github.url}{COMMENTS}?per_page=2", []
    while url:
        _, items, headers = ask(github, "GET", "", url=url)
        seen.append([each["body"] for each in items])
        following = [link for link in headers.get("Link", "").split(", ") if 'rel="next"' in link]
        url = following[0].split(">")[0].removeprefix("<") if following else ""
    assert seen == [["0", "1"], ["2", "3"], ["4"]]


@pytest.mark.parametrize(
    ("method", "path", "body", "token", "status", "message"),
    [
        ("POST", COMMENTS, {"body": "x"}, "ghs_stranger", 401, "Bad credentials"),
        ("POST", COMMENTS, {"body": "x"}, "ghs_reader", 403, "Resource not accessible by integration"),
        (
            "POST",
            f"{REPO}/git/blobs",
            {"content": "x"},
            "ghs_reader",
            403,
            "Resource not accessible by integration",
        ),
        ("GET", COMMENTS, None, "ghs_reader", 200, ""),
        ("GET", f"{REPO}/issues/8/comments", None, "ghs_writer", 404, "Not Found"),
        ("GET", "/repos/acme/other/issues/7/comments", None, "ghs_writer", 404, "Not Found"),
        ("GET", f"{REPO}/pulls/8", None, "ghs_writer", 404, "Not Found"),
        ("POST", COMMENTS, {"body": "x" * 65_537}, "ghs_writer", 422, "Validation Failed"),
        ("POST", COMMENTS, {"body": " "}, "ghs_writer", 422, "Validation Failed"),
        ("POST", COMMENTS, {"body": "x" * 65_536}, "ghs_writer", 201, ""),
    ],
)
def test_what_is_allowed(
    github: FakeGitHub, method: str, path: str, body: object, token: str, status: int, message: str
) -> None:
    github.world.grants["ghs_reader"] = Grant(writes=frozenset())
    got, answer, _ = ask(github, method, path, body, token)
    assert got == status
    assert not message or answer["message"] == message


@pytest.mark.parametrize(
    ("method", "path", "body", "violation"),
    [
        ("POST", COMMENTS, {"text": "x", "body": "y"}, "unknown property 'text' of the body"),
        ("GET", f"{COMMENTS}?per_page=many", None, "query per_page"),
        ("GET", f"{COMMENTS}?sort=up", None, "unknown query parameter 'sort'"),
        ("GET", f"{REPO}/issues/x/comments", None, "path issue_number"),
        ("GET", "/nowhere", None, "no such endpoint"),
        (
            "POST",
            f"{REPO}/check-runs",
            {"name": "x", "head_sha": HEAD_SHA, "status": "completed", "conclusion": "broken"},
            "body",
        ),
        (
            "PATCH",
            f"{REPO}/check-runs/1001",
            {"output": {"title": "t", "summary": "s", "annotations": [{}] * 51}},
            "body",
        ),
    ],
)
def test_what_github_does_not_document_is_noticed(
    method: str, path: str, body: object, violation: str
) -> None:
    github = FakeGitHub()
    github.world.check_runs[1001] = {"name": "x", "head_sha": HEAD_SHA, "annotations": []}
    with pytest.raises(AssertionError), github.running():
        ask(github, method, path, body)
    assert any(violation in each for each in github.violations), github.violations


def test_an_answer_that_github_would_not_give_is_noticed() -> None:
    asked = contract.operation("GET", COMMENTS)
    assert asked is not None
    assert contract.answer_problems(asked, 200, []) == []
    assert contract.answer_problems(asked, 418, {"message": "x"}) == ["undescribed status 418"]
    assert contract.answer_problems(asked, 200, [{"id": "1"}])
    assert contract.answer_problems(asked, 500, {"error": "x"}) == []


def test_check_runs_collect_annotations(github: FakeGitHub) -> None:
    note = {"path": "a", "start_line": 1, "end_line": 1, "annotation_level": "failure", "message": "m"}
    output = {"title": "t", "summary": "s", "annotations": [note]}
    body = {"name": "x", "head_sha": HEAD_SHA, "status": "in_progress", "output": output}
    status, made, _ = ask(github, "POST", f"{REPO}/check-runs", body)
    assert status == 201
    path = f"{REPO}/check-runs/{made['id']}"
    done = {"status": "completed", "conclusion": "failure", "output": output}
    assert ask(github, "PATCH", path, done)[1]["conclusion"] == "failure"
    assert ask(github, "GET", path)[1]["status"] == "completed"
    assert github.world.check_runs[made["id"]]["annotations"] == [note, note]


def test_pull_requests_are_found_by_number_and_commit(github: FakeGitHub) -> None:
    assert ask(github, "GET", f"{REPO}/pulls/7")[1]["head"]["sha"] == HEAD_SHA
    assert [each["number"] for each in ask(github, "GET", f"{REPO}/commits/{HEAD_SHA}/pulls")[1]] == [7]
    assert ask(github, "GET", f"{REPO}/commits/{'0' * 40}/pulls")[1] == []
    assert ask(github, "GET", REPO)[1]["default_branch"] == "main"


def test_a_branch_is_written_by_compare_and_swap(github: FakeGitHub) -> None:
    def commit(text: str, *parents: str) -> str:
        encoded = base64.b64encode(text.encode()).decode()
        blob = ask(github, "POST", f"{REPO}/git/blobs", {"content": encoded, "encoding": "base64"})[1]["sha"]
        entry = {"path": "a/b.json", "mode": "100644", "type": "blob", "sha": blob}
        tree = ask(github, "POST", f"{REPO}/git/trees", {"tree": [entry]})[1]["sha"]
        body = {"message": text, "tree": tree, "parents": list(parents)}
        made = ask(github, "POST", f"{REPO}/git/commits", body)[1]
        return str(ask(github, "GET", f"{REPO}/git/commits/{made['sha']}")[1]["sha"])

    assert ask(github, "GET", f"{REPO}/git/ref/heads/data")[0] == 404
    first = commit("one")
    assert ask(github, "POST", f"{REPO}/git/refs", {"ref": "refs/heads/data", "sha": first})[0] == 201
    assert ask(github, "POST", f"{REPO}/git/refs", {"ref": "refs/heads/data", "sha": first})[0] == 422
    ours, theirs = commit("two", first), commit("three", first)
    assert ask(github, "PATCH", f"{REPO}/git/refs/heads/data", {"sha": theirs, "force": False})[0] == 200
    assert ask(github, "PATCH", f"{REPO}/git/refs/heads%2Fdata", {"sha": ours, "force": False})[0] == 422
    assert ask(github, "GET", f"{REPO}/git/ref/heads/data")[1]["object"]["sha"] == theirs
    content = ask(github, "GET", f"{REPO}/contents/a/b.json?ref=data")[1]
    assert base64.b64decode(content["content"]) == b"three"
    assert ask(github, "GET", f"{REPO}/contents/a/b.json?ref=other")[0] == 404


def test_a_file_is_written_by_compare_and_swap(github: FakeGitHub) -> None:
    github.world.git.write("refs/heads/main", "a.json", b"1", "first")
    held = ask(github, "GET", f"{REPO}/contents/a.json")[1]["sha"]
    body = {"message": "m", "content": base64.b64encode(b"2").decode()}
    assert ask(github, "PUT", f"{REPO}/contents/a.json", body)[0] == 409
    assert ask(github, "PUT", f"{REPO}/contents/a.json", {**body, "sha": held})[0] == 200
    assert ask(github, "PUT", f"{REPO}/contents/new.json", body)[0] == 201
    assert ask(github, "PUT", f"{REPO}/contents/a.json", {**body, "branch": "none"})[0] == 404


def test_runs_are_found_by_branch_event_and_outcome(github: FakeGitHub) -> None:
    github.world.runs += [
        Run(1),
        Run(2, event="pull_request"),
        Run(3, branch="next"),
        Run(4, conclusion="failure"),
        Run(5, conclusion=None),
        Run(6, workflow="other.yml"),
        Run(7),
    ]
    runs = f"{REPO}/actions/workflows/evalgate.yml/runs"
    listed = ask(github, "GET", f"{runs}?branch=main&event=push&status=success")[1]
    assert [each["id"] for each in listed["workflow_runs"]] == [7, 1]
    assert ask(github, "GET", f"{runs}?status=completed&per_page=1")[1]["total_count"] == 5
    assert ask(github, "GET", f"{REPO}/actions/workflows/none.yml/runs")[0] == 404


def test_an_artifact_is_elsewhere_where_no_token_belongs(github: FakeGitHub) -> None:
    github.world.runs.append(Run(1))
    github.world.artifacts += [Artifact(8, "a", b"[1]", run=1), Artifact(9, "a", run=1, expired=True)]
    mine = ask(github, "GET", f"{REPO}/actions/runs/1/artifacts")[1]
    assert [each["id"] for each in mine["artifacts"]] == [9, 8]
    assert ask(github, "GET", f"{REPO}/actions/artifacts/9/zip")[0] == 410
    status, nothing, headers = ask(github, "GET", f"{REPO}/actions/artifacts/8/zip")
    assert (status, nothing) == (302, None)
    place = urlsplit(headers["Location"])
    assert place.hostname == "localhost"
    assert ask(github, "GET", place.path)[1] == [1]
    assert github.violations == ["a token was sent to the storage of artifacts"]
    github.violations.clear()


def test_artifacts_are_listed_newest_first(github: FakeGitHub) -> None:
    github.world.artifacts += [Artifact(1, "a"), Artifact(2, "b"), Artifact(3, "a")]
    listed = ask(github, "GET", f"{REPO}/actions/artifacts?name=a&per_page=1")[1]
    assert (listed["total_count"], [each["id"] for each in listed["artifacts"]]) == (2, [3])


def test_faults_befall_what_they_are_meant_for(github: FakeGitHub) -> None:
    github.faults += [
        Fault("POST", "comments", status=502),
        slow_down("7"),
        limit_used_up(),
        Fault("GET", body=b"<html>"),
        Fault("GET", then=lambda: github.world.add_comment("in between")),
    ]
    assert ask(github, "POST", COMMENTS, {"body": "x"})[0] == 502
    status, answer, headers = ask(github, "GET", COMMENTS)
    assert (status, headers["Retry-After"], "secondary" in answer["message"]) == (403, "7", True)
    assert ask(github, "GET", COMMENTS)[2]["X-RateLimit-Remaining"] == "0"
    with pytest.raises(json.JSONDecodeError):
        ask(github, "GET", COMMENTS)
    assert [each["body"] for each in ask(github, "GET", COMMENTS)[1]] == ["in between"]


@pytest.mark.parametrize(("cut_at", "posted"), [("before", []), ("after", ["x"]), ("halfway", ["x"])])
def test_a_cut_connection_leaves_what_was_done(cut_at: Any, posted: list[str]) -> None:
    with FakeGitHub().running() as github:
        github.faults.append(Fault(cut=cut_at))
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            ask(github, "POST", COMMENTS, {"body": "x"})
        assert github.world.comment_bodies() == posted


def test_what_is_read_can_be_old(github: FakeGitHub) -> None:
    made = github.world.add_comment("old")
    github.world.lag_s = 1000
    assert ask(github, "GET", COMMENTS)[1] == []
    assert ask(github, "PATCH", f"{REPO}/issues/comments/{made.number}", {"body": "new"})[1]["body"] == "new"


def test_an_enterprise_server_has_its_api_below_a_path() -> None:
    with FakeGitHub(prefix="/api/v3").running() as github:
        github.world.add_comment("x")
        assert github.url.endswith("/api/v3")
        assert len(ask(github, "GET", COMMENTS)[1]) == 1


def test_the_committed_description_is_github_s_own() -> None:
    folder = shared_folder()
    path = folder / "tools/github_api/github-sliced.json" if folder else None
    committed = json.loads(contract.DESCRIPTION.read_text(encoding="utf-8"))
    source = json.loads(path.read_text(encoding="utf-8")) if path and path.is_file() else committed
    # A source may itself be a cut that lacks some of the operations.
    known = {path: methods for path, methods in cut.OPERATIONS.items() if path in source["paths"]}
    assert len(known) > 10
    assert cut.cut(source, known) == cut.cut(committed, known)
    assert cut.cut(committed) == committed
    assert cut.written(committed) == contract.DESCRIPTION.read_text(encoding="utf-8")
