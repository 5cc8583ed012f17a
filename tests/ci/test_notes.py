"""One sticky note under a merge request, posted to a real server."""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from evalgate.ci.comment_sections import CommentSection, format_marker, read_sections
from evalgate.ci.gitlab import MergeRequest, find_merge_request, post_note
from evalgate.ci.posting import NoPullRequest, PostResult, PostTimeouts
from evalgate.core.extras import describe_install
from tests.ci.conftest import QUICK, patience_of_many
from tests.github.faults import Fault
from tests.gitlab.server import HOME, MERGE_REQUEST, PROJECT, FakeGitLab, Member

TOKEN = "glpat-writer"


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    with FakeGitLab().running() as running:
        yield running


def note(
    gitlab: FakeGitLab,
    text: str = "All good.",
    *,
    gate: str = "main",
    key: str = "",
    run: int = 1,
    token: str = TOKEN,
    patience: PostTimeouts = QUICK,
    shorter: Callable[[int], str] | None = None,
    shared: bool = False,
) -> PostResult:
    request = find_merge_request(gitlab.environ(), token)
    section = CommentSection(key, text, run, 12345678901)
    return post_note(request, gate, section, timeouts=patience, shorter=shorter, shared=shared)


def texts(gitlab: FakeGitLab) -> list[dict[str, str]]:
    return [{key: section.text for key, section in read_sections(body).items()} for body in gitlab.bodies()]


def test_first_it_is_posted_then_updated_then_left_alone(gitlab: FakeGitLab) -> None:
    assert note(gitlab, "one").kind == "posted"
    assert note(gitlab, "two", run=2) == PostResult("updated", "", f"{HOME}/-/merge_requests/7#note_1001")
    assert note(gitlab, "two", run=2).kind == "unchanged"
    assert note(gitlab, "old").reason == "a newer run has already reported"
    assert texts(gitlab) == [{"": "two"}]
    assert [method for method, _ in gitlab.asked if method != "GET"] == ["POST", "PUT"]


def test_gates_have_notes_of_their_own_and_jobs_sections(gitlab: FakeGitLab) -> None:
    for gate, key in (("main", "linux"), ("main", "mac"), ("nightly", "")):
        note(gitlab, f"{gate} {key}".strip(), gate=gate, key=key, shared=True)
    assert texts(gitlab) == [{"linux": "main linux", "mac": "main mac"}, {"": "nightly"}]


def test_the_note_is_found_on_any_page_behind_any_address() -> None:
    with FakeGitLab(prefix="/git/lab", page_size=10).running() as gitlab:
        for number in range(35):
            gitlab.add_note(f"chat {number}", "mallory")
        gitlab.add_note(f"{format_marker('main')}\n\nold")
        assert note(gitlab).kind == "updated"
        assert len(gitlab.notes) == 36


@pytest.mark.parametrize("system", [False, True])
def test_a_note_of_somebody_else_is_never_touched(gitlab: FakeGitLab, *, system: bool) -> None:
    author = "project_4711_bot_a1b2c3" if system else "mallory"
    theirs = gitlab.add_note(f"{format_marker('main')}\n\nold", author, system=system)
    assert note(gitlab).kind == "posted"
    assert note(gitlab, "more", run=2).kind == "updated"
    assert theirs.edits == 0


def test_duplicates_are_merged_and_deleted_ones_posted_again(gitlab: FakeGitLab) -> None:
    note(gitlab, "on linux", key="linux")
    gitlab.add_note(gitlab.bodies()[0].replace("linux", "mac"))
    note(gitlab, "on windows", key="windows", run=2)
    assert texts(gitlab) == [{"linux": "on linux", "mac": "on mac", "windows": "on windows"}]
    gitlab.notes.clear()
    assert note(gitlab, "again", run=3).kind == "posted"


def test_a_note_that_is_deleted_meanwhile_is_posted_again(gitlab: FakeGitLab) -> None:
    note(gitlab, "one")
    gitlab.faults.append(Fault("PUT", then=gitlab.notes.clear))
    assert note(gitlab, "two", run=2).kind == "posted"
    assert texts(gitlab) == [{"": "two"}]


def test_what_is_too_long_is_shortened(gitlab: FakeGitLab) -> None:
    assert note(gitlab, "a line\n" * 200_000).kind == "posted"
    assert 900_000 < len(gitlab.bodies()[0]) <= 1_000_000
    gitlab.faults.append(Fault("PUT", status=413, message="Request Entity Too Large", times=2))
    assert note(gitlab, "a longer line\n" * 100_000, run=2).kind == "updated"
    assert len(gitlab.bodies()[0]) < 600_000


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(status=502, times=3),
        Fault(status=503, method="GET"),
        Fault(status=429, headers={"Retry-After": "0"}, message="Retry later"),
        Fault("POST", status=429, headers={"Retry-After": "1"}),
        Fault(cut="before"),
        Fault(cut="after"),
        Fault("POST", cut="after"),
        Fault(body=b"<html>bad gateway</html>"),
        Fault(body=b'[{"id": 1}]'),
        Fault("POST", body=b"\xff\xfe"),
        Fault("POST", body=b"{}"),
        Fault("GET", delay_s=1.3),
    ],
    ids=repr,
)
def test_a_fault_that_passes_leaves_one_note(fault: Fault) -> None:
    patience = replace(QUICK, request_s=1) if fault.delay_s else QUICK
    with FakeGitLab(faults=[replace(fault)]).running() as gitlab:
        assert note(gitlab, patience=patience).kind in {"posted", "updated", "unchanged"}
        assert texts(gitlab) == [{"": "All good."}]


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (
            Fault("POST", status=403, message="403 Forbidden"),
            PostResult(
                "skipped",
                "GitLab answered 403: 403 Forbidden (the token may not write here: it needs the scope `api`)",
            ),
        ),
        (
            Fault(status=404, message="404 Not found"),
            PostResult(
                "failed", "GitLab answered 404: 404 Not found (is it there, and may the token see it?)"
            ),
        ),
        (
            Fault(status=401, message="401 Unauthorized"),
            PostResult(
                "failed",
                "GitLab answered 401: 401 Unauthorized "
                "(the token is wrong or has expired; CI_JOB_TOKEN cannot write notes)",
            ),
        ),
        (Fault("POST", status=422, message="No."), PostResult("failed", "GitLab answered 422: No.")),
        (
            Fault(status=429, message="Retry later"),
            PostResult(
                "failed",
                "GitLab answered 429: Retry later (given up at once: the next attempt may be made in 60 s)",
            ),
        ),
        (
            Fault("POST", status=400, message="note is too long", times=99),
            PostResult("failed", "GitLab accepts no comment, however short"),
        ),
        (
            Fault("POST", status=403, message=f"no {TOKEN} \x1b[31m::set-output name=x::y"),
            PostResult(
                "skipped",
                "GitLab answered 403: no *** ::set-output name=x::y "
                "(the token may not write here: it needs the scope `api`)",
            ),
        ),
    ],
    ids=lambda value: value.message[:20] if isinstance(value, Fault) else "",
)
def test_a_fault_that_lasts_is_told(fault: Fault, outcome: PostResult) -> None:
    with FakeGitLab(faults=[replace(fault)]).running() as gitlab:
        assert note(gitlab) == outcome
        assert gitlab.bodies() == []


def test_tokens_that_cannot_post(gitlab: FakeGitLab) -> None:
    gitlab.members["reader"] = Member("reader", writes=False)
    assert note(gitlab, token="reader").kind == "skipped"
    assert note(gitlab, token="").reason == "there is no token"
    assert note(gitlab, token="glcbt-of-the-job").reason.endswith("CI_JOB_TOKEN cannot write notes)")


def test_nobody_listens() -> None:
    request = MergeRequest(TOKEN, "http://127.0.0.1:9", PROJECT, MERGE_REQUEST)
    outcome = post_note(request, "main", CommentSection("", "x"), timeouts=replace(QUICK, total_s=1.5))
    assert outcome.kind == "failed"
    assert outcome.reason.startswith("GitLab cannot be reached (ConnectionError) (given up a")


NO_REQUEST = "this pipeline is not for a merge request: run the job for merge_request_event"
NOT_AS_SET = "CI_API_V4_URL, CI_PROJECT_ID or CI_MERGE_REQUEST_IID is not as GitLab sets it"
API = "https://gitlab.example.com/sub/api/v4"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, NoPullRequest(NO_REQUEST)),
        ({"CI_API_V4_URL": API, "CI_PROJECT_ID": "1"}, NoPullRequest(NO_REQUEST)),
        (
            {"CI_API_V4_URL": API, "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "2"},
            MergeRequest("t", "https://gitlab.example.com/sub", 1, 2),
        ),
        (
            {
                "CI_API_V4_URL": API,
                "CI_PROJECT_ID": "99",
                "CI_MERGE_REQUEST_PROJECT_ID": "1",
                "CI_MERGE_REQUEST_IID": "2",
                "CI_MERGE_REQUEST_PROJECT_URL": HOME,
            },
            MergeRequest("t", "https://gitlab.example.com/sub", 1, 2, f"{HOME}/-/merge_requests/2"),
        ),
        *(
            (
                {"CI_API_V4_URL": API, "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "2"} | wrong,
                NoPullRequest(NOT_AS_SET),
            )
            for wrong in (
                {"CI_API_V4_URL": "ftp://x/api/v4"},
                {"CI_API_V4_URL": "https://u:p@x/api/v4"},
                {"CI_API_V4_URL": "https://x/api/v5"},
                {"CI_PROJECT_ID": "../1"},
                {"CI_MERGE_REQUEST_IID": "2/../3"},
            )
        ),
    ],
)
def test_which_merge_request(environ: dict[str, str], expected: MergeRequest | NoPullRequest) -> None:
    assert find_merge_request(environ, "t") == expected


def test_the_token_is_in_no_log_and_no_text(gitlab: FakeGitLab, caplog: pytest.LogCaptureFixture) -> None:
    token = "glpat-a1B2c3D4e5F6g7H8i9J0"
    with caplog.at_level(logging.DEBUG):
        outcome = note(gitlab, token=token)
    assert outcome.kind == "failed"
    assert token not in f"{outcome} {caplog.text} {find_merge_request(gitlab.environ(), token)!r}"


def test_only_posting_loads_the_client() -> None:
    code = "import sys, evalgate.ci.gitlab; sys.exit('gitlab' in sys.modules or 'requests' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_client_it_is_told(gitlab: FakeGitLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gitlab", None)
    assert note(gitlab) == PostResult("failed", f"this needs python-gitlab: {describe_install('gitlab')}")


@pytest.mark.slow
def test_ten_jobs_end_in_one_note_with_all_sections(gitlab: FakeGitLab) -> None:
    gitlab.page_size = 5
    with FakeGitLab().running() as another:
        patience = patience_of_many(10, lambda: note(another))

    def job(number: int) -> PostResult:
        return note(gitlab, f"text of {number}", key=f"leg {number}", shared=True, patience=patience)

    with ThreadPoolExecutor(10) as pool:
        outcomes = list(pool.map(job, range(10)))
    assert {outcome.kind for outcome in outcomes} <= {"posted", "updated"}
    assert texts(gitlab) == [{f"leg {number}": f"text of {number}" for number in range(10)}]
