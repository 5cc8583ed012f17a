"""A command that ends without a verdict: no old one stays at the pull request."""

import json
from pathlib import Path

import pytest

from evalgate.ci.comment_sections import read_sections
from tests.ci.test_github_pull_request import AGENT, EVAL_SET, THRESHOLDS, environ_of
from tests.commands import evalgate
from tests.github.server import FakeGitHub

SECRET = "hunter2-planted-secret"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "a.evalset.json").write_text(json.dumps(EVAL_SET))
    return tmp_path


def configure(project: Path, **changes: object) -> None:
    (project / "evalgate.json").write_text(json.dumps({**THRESHOLDS, **changes}))


def posted(github: FakeGitHub) -> str:
    (body,) = github.world.comment_bodies()
    (section,) = read_sections(body).values()
    return section.text


def test_wrong_input_replaces_the_verdict_of_another_commit(github: FakeGitHub, project: Path) -> None:
    environ = environ_of(github, project)
    configure(project, criteria={"response_match_score": 0.0})
    first = evalgate("run", "--comment", "--check", "--html", cwd=project, **environ)
    assert first.code == 0, first.err
    assert posted(github).startswith("### ✅ Gate open")
    assert "`report.html`" in posted(github)

    configure(project, criteria={"respons_match_score": 1.0}, runs="many")
    environ["GITHUB_RUN_ID"] = "18"
    second = evalgate("run", "--comment", "--check", cwd=project, **environ)
    assert second.code == 2
    assert second.err.startswith("evalgate.json:1:124: `respons_match_score` is not a metric")
    assert second.err.count("respons_match_score") == 1
    assert "\nThe comment is updated: " in second.err
    text = posted(github)
    assert text.startswith("### ⚠️ No verdict: evalgate.json:1:")
    assert "many" in text
    assert "report.html" not in text
    assert "baseline" not in text
    assert "agent" not in text
    check = list(github.world.check_runs.values())[-1]
    assert (check["conclusion"], "evalgate.json:1:" in check["output"]["title"]) == ("failure", True)


def test_the_post_lists_every_problem_and_no_secret(github: FakeGitHub, project: Path) -> None:
    configure(project, **{SECRET: 1, "other": 2})
    done = evalgate(
        "run", "--comment", "--check", "--mask", SECRET, cwd=project, **environ_of(github, project)
    )
    assert done.code == 2
    text = posted(github)
    assert text.startswith("### ⚠️ No verdict")
    assert "other" in text
    assert SECRET not in text
    (check,) = github.world.check_runs.values()
    assert "***" in check["output"]["title"]
    assert SECRET not in str(check)


def test_an_unreadable_baseline_is_posted(github: FakeGitHub, project: Path) -> None:
    configure(project, gate={"baseline": "sftp://127.0.0.1:1/evals"})
    done = evalgate("run", "--comment", cwd=project, **environ_of(github, project))
    assert done.code == 2
    text = posted(github)
    assert text.startswith("### ⚠️ No verdict: ")
    assert "needs a driver that is not installed" in text


def test_a_failed_merge_is_posted(github: FakeGitHub, project: Path) -> None:
    configure(project)
    done = evalgate("merge", "missing.json", "--comment", cwd=project, **environ_of(github, project))
    assert done.code == 2
    assert "missing.json" in posted(github)


def test_without_the_option_nothing_is_posted(github: FakeGitHub, project: Path) -> None:
    configure(project, runs="many")
    assert evalgate("run", cwd=project, **environ_of(github, project)).code == 2
    assert github.exchanges == []


def test_an_impossible_post_changes_no_exit_code(github: FakeGitHub, project: Path) -> None:
    configure(project, runs="many")
    environ = environ_of(github, project) | {"GITHUB_TOKEN": ""}
    done = evalgate("run", "--comment", cwd=project, **environ)
    assert done.code == 2
    assert "The comment was not posted: there is no token" in done.out
    assert "evalgate.json:1:" in done.err
