"""Posting to a merge request of GitLab: reports, errors, tokens and variables of the pipeline."""

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import certifi
import pytest

from evalgate.ci.comment_sections import CommentSection, format_marker, read_sections
from evalgate.ci.gitlab import MergeRequest, find_merge_request, post_note
from evalgate.ci.posting import NoPullRequest, PostNotice, PostOptions, PostResult
from evalgate.cli.comment import post_stored_record
from evalgate.core.types import Record
from evalgate.datasets.results_io import dump_record
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.runner.posts import post_record
from tests.agents.http.test_connection import certificate, serves_tls
from tests.ci.conftest import measure_timeouts
from tests.ci.hosts import QUICK, GitLabHost
from tests.commands import evalgate
from tests.faulty_server import serving
from tests.github.faults import Fault
from tests.gitlab.quickactions import quick_actions
from tests.gitlab.server import HOME, MERGE_REQUEST, PROJECT, FakeGitLab, Member
from tests.situations import GOLDEN, green, hostile, huge, regression

__all__ = ["certificate"]


@pytest.fixture
def gitlab() -> Iterator[FakeGitLab]:
    with FakeGitLab().running() as running:
        yield running


def post_report(record: Record, options: PostOptions, environ: Mapping[str, str]) -> list[PostNotice]:
    notices: list[PostNotice] = []
    post_record(record, options, CommentReport(), notices.append, environ=environ, timeouts=QUICK)
    return notices


def test_the_note_contains_the_report(gitlab: FakeGitLab) -> None:
    (notice,) = post_report(regression(), PostOptions(comment=True), gitlab.environ())
    assert notice == PostNotice("info", f"The note is posted: {HOME}/-/merge_requests/7#note_1001")
    (section,) = read_sections(gitlab.bodies()[0]).values()
    assert (section.key, section.run, section.attempt) == ("", 900, 12345678901)
    assert section.text.startswith("### ❌ Gate closed: ")


def test_a_repeated_job_replaces_the_report_and_an_older_pipeline_does_not(gitlab: FakeGitLab) -> None:
    posting = PostOptions(comment=True)
    post_report(regression(), posting, gitlab.environ())
    post_report(green(), posting, gitlab.environ(CI_JOB_ID="12345678902"))
    (notice,) = post_report(
        regression(), posting, gitlab.environ(CI_PIPELINE_ID="899", CI_JOB_ID="99999999999")
    )
    assert notice.sentence == (
        "The note was not posted: a newer run has already reported. The verdict stands."
    )
    assert "Gate open" in gitlab.bodies()[0]


def test_legs_of_a_matrix_share_the_note_of_their_gate(gitlab: FakeGitLab) -> None:
    for leg, record in {"gpt": green(), "claude": regression()}.items():
        post_report(record, PostOptions(comment=True, name="support", section=leg), gitlab.environ())
    post_report(huge(3000), PostOptions(comment=True, name="billing"), gitlab.environ())
    assert [list(read_sections(body)) for body in gitlab.bodies()] == [["claude", "gpt"], [""]]


@pytest.mark.parametrize(
    ("job_id", "begins", "gate"),
    [
        ("12345678902", "The note is updated: ", "Gate open"),
        (
            "12345678900",
            "The note was not posted: another job of this run reported in its place",
            "Gate closed",
        ),
    ],
    ids=["a later leg", "an earlier leg"],
)
def test_legs_without_a_section_are_warned(gitlab: FakeGitLab, job_id: str, begins: str, gate: str) -> None:
    post_report(regression(), PostOptions(comment=True), gitlab.environ(CI_JOB_NAME="gate: [gpt]"))
    leg = gitlab.environ(CI_JOB_ID=job_id, CI_JOB_NAME="gate: [claude]")
    (notice,) = post_report(green(), PostOptions(comment=True), leg)
    assert notice.level == "warning"
    assert notice.sentence.startswith(begins)
    assert 'a section of its own, for example `--section "$CI_JOB_NAME"`' in notice.sentence
    assert gate in gitlab.bodies()[0]


@pytest.mark.parametrize(
    ("more", "level", "reason"),
    [
        ({"GITLAB_TOKEN": "reader"}, "notice", "403"),
        ({"GITLAB_TOKEN": ""}, "notice", "there is no token"),
        ({"GITLAB_TOKEN": "gone"}, "warning", "401"),
        ({"EVALGATE_GITLAB_TOKEN": "gone"}, "warning", "401"),
        ({"CI_MERGE_REQUEST_IID": ""}, "notice", "not for a merge request"),
    ],
)
def test_a_post_that_is_impossible_is_reported(
    gitlab: FakeGitLab, more: dict[str, str], level: str, reason: str
) -> None:
    gitlab.members["reader"] = Member("reader", writes=False)
    (notice,) = post_report(regression(), PostOptions(comment=True), gitlab.environ(**more))
    assert notice.level == level
    assert reason in notice.sentence
    assert notice.sentence.endswith("The verdict stands.")


def test_the_token_is_read_from_the_chosen_variable(gitlab: FakeGitLab) -> None:
    environ = gitlab.environ(GITLAB_TOKEN="gone", BOT="glpat-writer")
    (notice,) = post_report(green(), PostOptions(comment=True, token_env="BOT"), environ)
    assert notice.level == "info"


def test_gitlab_has_no_check_runs(gitlab: FakeGitLab) -> None:
    (notice,) = post_report(green(), PostOptions(check=True), gitlab.environ())
    assert notice.level == "notice"
    assert "Code Quality" in notice.sentence


@pytest.mark.parametrize("situation", GOLDEN.values(), ids=list(GOLDEN))
def test_no_report_triggers_a_quick_action(gitlab: FakeGitLab, situation: object) -> None:
    assert callable(situation)
    record = situation()
    post_report(record, PostOptions(comment=True), gitlab.environ())
    assert gitlab.executed == []
    assert quick_actions(CommentReport().render(record)) == []
    assert not re.search("(?m)^/", gitlab.bodies()[0])


def test_the_command_posts_a_stored_record_and_never_fails(gitlab: FakeGitLab, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(dump_record(hostile()), encoding="utf-8")
    posting = PostOptions(comment=True)
    notices: list[PostNotice] = []
    post_stored_record(
        "results.json", posting, notices.append, folder=tmp_path, environ=gitlab.environ(), timeouts=QUICK
    )
    (notice,) = notices
    assert notice.level == "info"
    assert "Reported by a run of the pull request's own code" in gitlab.bodies()[0]
    done = evalgate("comment", "results.json", cwd=tmp_path, **gitlab.environ(GITLAB_TOKEN="gone"))
    assert done.code == 0, done.err
    assert "The note was not posted: GitLab answered 401" in done.err
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["schema_version"]


@pytest.mark.parametrize("system", [False, True])
def test_a_note_of_another_account_is_never_edited(gitlab: FakeGitLab, *, system: bool) -> None:
    author = "project_4711_bot_a1b2c3" if system else "mallory"
    theirs = gitlab.add_note(f"{format_marker('main')}\n\nold", author, system=system)
    assert GitLabHost(gitlab).post().kind == "posted"
    assert GitLabHost(gitlab).post("more", run=2).kind == "updated"
    assert theirs.edits == 0


def test_a_stricter_limit_than_documented_is_kept(gitlab: FakeGitLab) -> None:
    GitLabHost(gitlab).post("short")
    gitlab.faults.append(Fault("PUT", status=413, message="Request Entity Too Large", times=2))
    assert GitLabHost(gitlab).post("a longer line\n" * 100_000, run=2).kind == "updated"
    assert len(gitlab.bodies()[0]) < 600_000


@pytest.mark.parametrize(
    ("fault", "result"),
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
            Fault("POST", status=403, message="no glpat-writer \x1b[31m::set-output name=x::y"),
            PostResult(
                "skipped",
                "GitLab answered 403: no *** ::set-output name=x::y "
                "(the token may not write here: it needs the scope `api`)",
            ),
        ),
    ],
    ids=lambda value: value.message[:20] if isinstance(value, Fault) else "",
)
def test_a_lasting_fault_is_reported(fault: Fault, result: PostResult) -> None:
    with FakeGitLab(faults=[replace(fault)]).running() as gitlab:
        assert GitLabHost(gitlab).post() == result
        assert gitlab.bodies() == []


def test_an_unusable_token_is_reported(gitlab: FakeGitLab) -> None:
    gitlab.members["reader"] = Member("reader", writes=False)
    assert GitLabHost(gitlab).post(token="reader").kind == "skipped"
    assert GitLabHost(gitlab).post(token=" ").reason == "there is no token"
    assert (
        GitLabHost(gitlab).post(token="glcbt-of-the-job").reason.endswith("CI_JOB_TOKEN cannot write notes)")
    )


def test_an_unreachable_server_is_reported() -> None:
    request = MergeRequest("glpat-writer", "http://127.0.0.1:9", PROJECT, MERGE_REQUEST)
    result = post_note(request, "main", CommentSection("", "x"), timeouts=replace(QUICK, total_s=1.5))
    assert result.kind == "failed"
    assert result.reason.startswith("GitLab cannot be reached (ConnectionError) (given up a")


@pytest.mark.parametrize(
    ("runner_knows", "user_trusts", "expected"),
    [
        (True, False, PostResult("posted", "", f"{HOME}/-/merge_requests/7#note_1001")),
        (False, True, PostResult("posted", "", f"{HOME}/-/merge_requests/7#note_1001")),
        (
            False,
            False,
            PostResult(
                "failed",
                "GitLab's certificate is not trusted: name the file of its authority in REQUESTS_CA_BUNDLE",
            ),
        ),
    ],
)
def test_a_server_with_a_certificate_of_its_own(
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    *,
    runner_knows: bool,
    user_trusts: bool,
    expected: PostResult,
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    if user_trusts:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate[0]))
    ca_file = {"CI_SERVER_TLS_CA_FILE": str(certificate[0] if runner_knows else certifi.where())}
    server = FakeGitLab()
    with serving(server, serves_tls(certificate)) as port:
        environ = server.environ(CI_API_V4_URL=f"https://127.0.0.1:{port}/api/v4", **ca_file)
        request = find_merge_request(environ, "glpat-writer")
        assert post_note(request, "main", CommentSection("", "x"), timeouts=QUICK) == expected


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
def test_the_merge_request_of_a_pipeline_is_found(
    environ: dict[str, str], expected: MergeRequest | NoPullRequest
) -> None:
    assert find_merge_request(environ, "t") == expected


@pytest.mark.slow
def test_ten_jobs_end_in_one_note_with_all_sections(gitlab: FakeGitLab) -> None:
    gitlab.page_size = 5
    with FakeGitLab().running() as another:
        timeouts = measure_timeouts(10, lambda: GitLabHost(another).post())

    def job(number: int) -> PostResult:
        return GitLabHost(gitlab).post(
            f"text of {number}", key=f"leg {number}", shared=True, timeouts=timeouts
        )

    with ThreadPoolExecutor(10) as pool:
        results = list(pool.map(job, range(10)))
    assert {result.kind for result in results} <= {"posted", "updated"}
    assert GitLabHost(gitlab).texts() == [{f"leg {number}": f"text of {number}" for number in range(10)}]
