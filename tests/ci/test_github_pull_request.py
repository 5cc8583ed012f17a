"""A record at the pull request, through a real server."""

import io
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from evalgate.ci.comment_sections import read_sections, strip_markers
from evalgate.ci.posting import PostNotice, PostOptions
from evalgate.cli.comment import post_stored_record
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import Record
from evalgate.datasets.results_io import dump_record
from evalgate.reporting.comment.reporter import CommentReport
from evalgate.runner.posts import post_record
from evalgate.runner.publish import Publisher, PublishOptions
from evalgate.system.workspace import Workspace
from tests.ci.conftest import TOKEN
from tests.ci.hosts import QUICK
from tests.commands import evalgate
from tests.github.server import FakeGitHub
from tests.github.world import HEAD_SHA, PULL, REPOSITORY, Grant
from tests.situations import green, hostile, huge, regression


def environ_of(github: FakeGitHub, folder: Path, **more: str) -> dict[str, str]:
    event = folder / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": PULL, "head": {"sha": HEAD_SHA}}}))
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": github.url,
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ID": "17",
        "GITHUB_RUN_ATTEMPT": "2",
        "GITHUB_TOKEN": TOKEN,
        **more,
    }


def post_report(
    record: Record, options: PostOptions, environ: Mapping[str, str], folder: str = ""
) -> list[PostNotice]:
    notices: list[PostNotice] = []
    post_record(
        record, options, CommentReport(), notices.append, environ=environ, folder=folder, timeouts=QUICK
    )
    return notices


def test_the_comment_contains_the_report(github: FakeGitHub, tmp_path: Path) -> None:
    environ = environ_of(github, tmp_path)
    (notice,) = post_report(regression(), PostOptions(comment=True), environ)
    assert notice.level == "info"
    assert notice.sentence.startswith(
        "The comment is posted: https://github.com/acme/demo/pull/7#issuecomment-"
    )
    (body,) = github.world.comment_bodies()
    (section,) = read_sections(body).values()
    assert (section.key, section.run, section.attempt) == ("", 17, 2)
    assert section.text.startswith("### ❌ Gate closed: ")


@pytest.mark.parametrize("html", [False, True], ids=["alone", "next to a page"])
def test_the_summary_and_the_post_are_the_comment_file(
    github: FakeGitHub, tmp_path: Path, *, html: bool
) -> None:
    summary = tmp_path / "summary"
    environ = environ_of(
        github, tmp_path, GITHUB_STEP_SUMMARY=str(summary), GITHUB_OUTPUT=str(tmp_path / "output")
    )
    streams = io.StringIO(), io.StringIO()
    posting = PostOptions(comment=True)
    Publisher(
        Workspace(tmp_path),
        "out",
        environ,
        *streams,
        options=PublishOptions(["html"] * html, post_options=posting),
    ).publish(regression())

    comment = (tmp_path / "out/comment.md").read_text()
    assert ("`report.html`" in comment) == html
    assert summary.read_text() == comment
    (body,) = github.world.comment_bodies()
    (section,) = read_sections(body).values()
    assert section.text.startswith(strip_markers(comment))


@pytest.mark.parametrize(
    ("variables", "page"),
    [
        ({"GITHUB_SERVER_URL": "https://github.com"}, "https://github.com/acme/demo/actions/runs/17/attempts/2"),
        ({"GITHUB_SERVER_URL": "https://ghes.example:8443/"}, "https://ghes.example:8443/acme/demo/actions/runs/17/attempts/2"),
        ({"GITHUB_SERVER_URL": "https://github.com", "GITHUB_RUN_ATTEMPT": ""}, "https://github.com/acme/demo/actions/runs/17"),
        ({"GITHUB_SERVER_URL": "javascript:alert(1)//"}, ""),
        ({}, ""),
    ],
)  # fmt: skip
def test_the_comment_names_its_commit_and_its_run(
    github: FakeGitHub, tmp_path: Path, variables: Mapping[str, str], page: str
) -> None:
    post_report(huge(3000), PostOptions(comment=True), {**environ_of(github, tmp_path), **variables})
    (body,) = github.world.comment_bodies()
    (section,) = read_sections(body).values()
    link = f" · [run 17]({page})" if page else ""
    assert section.text.endswith(f"</sub>\n\n<sub>commit <code>{HEAD_SHA[:12]}</code>{link}</sub>")


def test_legs_of_a_matrix_share_the_comment_of_their_gate(github: FakeGitHub, tmp_path: Path) -> None:
    environ = environ_of(github, tmp_path)
    for leg, record in {"gpt": green(), "claude": regression()}.items():
        post_report(record, PostOptions(comment=True, name="support", section=leg), environ)
    post_report(green(), PostOptions(comment=True, name="billing"), environ)
    assert [list(read_sections(body)) for body in github.world.comment_bodies()] == [["claude", "gpt"], [""]]


def test_a_huge_report_fits(github: FakeGitHub, tmp_path: Path) -> None:
    (notice,) = post_report(huge(3000), PostOptions(comment=True), environ_of(github, tmp_path))
    assert notice.level == "info"
    (body,) = github.world.comment_bodies()
    assert "more failing cases: see `results.json`." in body


@pytest.mark.parametrize(
    ("token", "level", "reason"),
    [("ghs_reader", "notice", "may only read"), ("", "notice", "no token"), ("gone", "warning", "401")],
)
def test_a_post_that_is_impossible_is_reported(
    github: FakeGitHub, tmp_path: Path, token: str, level: str, reason: str
) -> None:
    github.world.grants["ghs_reader"] = Grant(writes=frozenset())
    environ = environ_of(github, tmp_path, GITHUB_TOKEN=token)
    notices = post_report(regression(), PostOptions(comment=True, check=True), environ)
    assert [each.level for each in notices] == [level, level]
    assert all(reason in each.sentence and "The verdict stands." in each.sentence for each in notices)


@pytest.mark.parametrize(
    ("record", "conclusion", "notes"), [(green(), "success", 0), (regression(), "failure", 2)]
)
def test_the_check_run_has_an_annotation_on_the_line_of_each_failing_case(
    github: FakeGitHub, tmp_path: Path, record: Record, conclusion: str, notes: int
) -> None:
    posting = PostOptions(check=True, name="support", section="gpt")
    (notice,) = post_report(record, posting, environ_of(github, tmp_path), folder="agents/desk")
    assert notice.level == "info"
    (check,) = github.world.check_runs.values()
    assert (check["name"], check["conclusion"], check["head_sha"]) == ("support / gpt", conclusion, HEAD_SHA)
    (made,) = (each.body for each in github.exchanges if each.method == "POST")
    annotations = made["output"].get("annotations", [])
    assert [each["path"] for each in annotations] == ["agents/desk/evals/travel.evalset.json"] * notes


def test_a_stored_record_is_posted_as_untrusted(github: FakeGitHub, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(dump_record(hostile()), "utf-8")
    posting, environ = PostOptions(comment=True), environ_of(github, tmp_path)
    notices: list[PostNotice] = []
    post_stored_record(
        "results.json", posting, notices.append, folder=tmp_path, environ=environ, timeouts=QUICK
    )
    (notice,) = notices
    assert notice.level == "info"
    (body,) = github.world.comment_bodies()
    assert list(read_sections(body)) == [""]
    assert "Reported by a run of the pull request's own code" in body
    assert "evalgate run" not in body


def test_a_stored_record_links_to_the_run_that_made_it(github: FakeGitHub, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(dump_record(green()), "utf-8")
    environ = environ_of(
        github, tmp_path, GITHUB_EVENT_NAME="workflow_run", GITHUB_SERVER_URL="https://github.com"
    )
    tested = {"id": 12, "run_attempt": 3, "head_sha": HEAD_SHA}
    (tmp_path / "event.json").write_text(json.dumps({"workflow_run": tested}))
    posting = PostOptions(comment=True)
    post_stored_record("results.json", posting, print, folder=tmp_path, environ=environ, timeouts=QUICK)
    (body,) = github.world.comment_bodies()
    (section,) = read_sections(body).values()
    assert section.run == 17
    page = f"https://github.com/{REPOSITORY}/actions/runs/12/attempts/3"
    assert section.text.endswith(f"<sub>commit <code>{HEAD_SHA[:12]}</code> · [run 12]({page})</sub>")


@pytest.mark.parametrize(
    ("posting", "heading"),
    [
        (PostOptions(comment=True), ""),
        (PostOptions(comment=True, section="orders"), "## orders\n\n"),
        (PostOptions(comment=True, name="desk"), "## desk\n\n"),
        (PostOptions(comment=True, name="desk", section="gpt *5*"), "## desk / gpt \\*5\\*\n\n"),
    ],
)
def test_a_heading_names_the_gate_and_the_section(
    github: FakeGitHub, tmp_path: Path, posting: PostOptions, heading: str
) -> None:
    (tmp_path / "results.json").write_text(dump_record(green()), "utf-8")
    environ = environ_of(github, tmp_path)
    post_stored_record("results.json", posting, print, folder=tmp_path, environ=environ, timeouts=QUICK)
    (body,) = github.world.comment_bodies()
    (section,) = read_sections(body).values()
    assert section.text.startswith(f"{heading}### ✅ Gate open")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "cannot be read: No such file"),
        ("[]", "no schema_version"),
        ('{"schema_version": 1}', "Field required"),
        (dump_record(replace(regression(), verdict=green().verdict)), "although a metric failed"),
    ],
)
def test_a_record_that_cannot_be_used_replaces_an_earlier_verdict(
    github: FakeGitHub, tmp_path: Path, text: str | None, problem: str
) -> None:
    posting, environ = PostOptions(comment=True), environ_of(github, tmp_path)
    (tmp_path / "results.json").write_text(dump_record(green()), "utf-8")
    post_stored_record("results.json", posting, print, folder=tmp_path, environ=environ, timeouts=QUICK)
    if text is None:
        (tmp_path / "results.json").unlink()
    else:
        (tmp_path / "results.json").write_text(text, "utf-8")
    with pytest.raises(InvalidInputError, match=problem):
        post_stored_record("results.json", posting, print, folder=tmp_path, environ=environ, timeouts=QUICK)
    (body,) = github.world.comment_bodies()
    (section,) = read_sections(body).values()
    assert section.text.startswith("### ⚠️ No verdict: the run kept no record that can be posted")
    assert not re.search(problem, body)


def plant_link(folder: Path) -> None:
    (folder / "elsewhere").write_text(dump_record(green()), "utf-8")
    (folder / "work/results.json").symlink_to(folder / "elsewhere")


def plant_folder_link(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/results.json").write_text(dump_record(green()), "utf-8")
    (folder / "work/sub").symlink_to(folder / "elsewhere")


def plant_pipe(folder: Path) -> None:
    os.mkfifo(folder / "work/results.json")


@pytest.mark.parametrize(
    ("plant", "results", "problem"),
    [
        (plant_link, "results.json", "is a link"),
        (plant_folder_link, "sub/results.json", "is outside of the working folder"),
        (plant_pipe, "results.json", "is not a regular file"),
        (plant_folder_link, "../elsewhere/results.json", "is outside of the working folder"),
    ],
)
def test_links_and_pipes_in_an_artifact_are_not_read(
    tmp_path: Path, plant: Callable[[Path], None], results: str, problem: str
) -> None:
    (tmp_path / "work").mkdir()
    plant(tmp_path)
    with pytest.raises(InvalidInputError, match=problem):
        post_stored_record(results, PostOptions(comment=True), print, folder=tmp_path / "work", environ={})


def test_a_record_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalgate.cli.comment.LARGEST_RECORD", 10)
    (tmp_path / "results.json").write_text(dump_record(green()), "utf-8")
    with pytest.raises(InvalidInputError, match="larger than 10 bytes"):
        post_stored_record("results.json", PostOptions(comment=True), print, folder=tmp_path, environ={})


def test_the_command_posts_and_never_fails_for_it(github: FakeGitHub, tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text(dump_record(regression()), "utf-8")
    environ = environ_of(github, tmp_path, GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    posted = evalgate("comment", "results.json", cwd=tmp_path, **environ)
    assert (posted.code, posted.out) == (0, "")
    assert "The comment is posted: " in posted.err
    without = evalgate("comment", "results.json", cwd=tmp_path, **environ | {"GITHUB_TOKEN": ""})
    assert without.code == 0
    assert without.out.startswith("::notice title=evalgate::The comment was not posted: there is no token")
    assert "The comment was not posted" in (tmp_path / "summary.md").read_text()


AGENT = "def answer(text):\n    return 'Hi'\n"
EVAL_SET = {
    "eval_set_id": "greetings",
    "eval_cases": [
        {
            "eval_id": "hello",
            "conversation": [
                {
                    "user_content": {"parts": [{"text": "Hello"}]},
                    "final_response": {"parts": [{"text": "Good morning"}]},
                }
            ],
        }
    ],
}
THRESHOLDS = {
    "version": 1,
    "eval_sets": ["a.evalset.json"],
    "agent": {"entry": "agent.py:answer"},
    "criteria": {"response_match_score": 1.0},
}


def test_a_run_posts_its_comment_and_check_and_keeps_its_verdict(github: FakeGitHub, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "a.evalset.json").write_text(json.dumps(EVAL_SET))
    (tmp_path / "evalgate.json").write_text(json.dumps(THRESHOLDS))
    files = {"GITHUB_STEP_SUMMARY": str(tmp_path / "s.md"), "GITHUB_OUTPUT": str(tmp_path / "o.txt")}
    environ = environ_of(github, tmp_path, **files)
    done = evalgate("run", "--comment", "--check", "--name", "greeter", cwd=tmp_path, **environ)
    assert done.code == 1, done.err
    assert "The comment is posted: " in done.err
    assert "The check run is posted: " in done.err
    (body,) = github.world.comment_bodies()
    assert body.startswith("<!-- evalgate:v1 gate=greeter -->")
    assert "greetings/hello" in body
