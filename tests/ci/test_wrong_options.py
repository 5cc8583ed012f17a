"""Options that are wrong, or contradict each other: the pull request says so, and shows no older verdict."""

from pathlib import Path

import pytest

from evalgate.__main__ import main
from evalgate.ci.comment_sections import format_marker
from evalgate.core.errors import InvalidInputError
from tests.ci.conftest import TOKEN
from tests.ci.test_github_pull_request import environ_of
from tests.github.server import FakeGitHub


@pytest.fixture
def pull_request(github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGitHub:
    """A job of GitHub Actions in an empty project, for a pull request."""
    environ = environ_of(github, tmp_path)
    del environ["GITHUB_ACTIONS"]  # notices go to stderr
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return github


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "--mask", "abc"], "mask 1 is shorter than 4 characters"),
        (["run", "--webhook", "ftp://example.test"], "`--webhook` must be an address"),
        (["run", "--otlp", "nowhere"], "`--otlp` must be an address"),
        (["run", "-c", "none.yaml"], "none.yaml"),
        (["run", "--base", "main"], "--base needs --affected"),
        (["merge", "--mask", "abc", "none.json"], "mask 1 is shorter than 4 characters"),
        (["merge", "--webhook", "ftp://example.test", "none.json"], "`--webhook` must be an address"),
    ],
)
def test_every_wrong_option_is_posted(pull_request: FakeGitHub, arguments: list[str], said: str) -> None:
    command, *options = arguments

    assert main([command, "--comment", *options]) == 2

    (body,) = pull_request.world.comment_bodies()
    assert said in body
    assert "a bug" not in body


@pytest.mark.parametrize("error", [InvalidInputError("it is wrong"), RuntimeError("it is wrong")])
def test_an_error_is_printed_before_it_is_posted(
    pull_request: FakeGitHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    """GitHub may not be reachable, and to find that out takes a minute."""
    printed = []

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("evalgate.runner.plan.build_plan", fail)
    monkeypatch.setattr(
        "evalgate.runner.posts.post_error", lambda *_, **__: printed.append(capsys.readouterr().err)
    )

    assert main(["run", "--comment"]) == (2 if isinstance(error, InvalidInputError) else 70)
    assert [text.count("it is wrong\n") for text in printed] == [1]
    assert "it is wrong" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TRESHOLDS", "evalgate.yaml", "the action has no input `tresholds`"),
        ("HTML", "yes", "the action's input `html` must be"),
        ("RUNS", "hidden-from-all", "Invalid value for '--runs': '***'"),
        ("MASK", "abc", "mask 1 is shorter than 4 characters"),
    ],
)
def test_a_wrong_input_of_the_action_is_posted(
    pull_request: FakeGitHub, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    inputs = {"COMMENT": "true", "CHECK": "true", "NAME": "desk", "TOKEN": TOKEN, "MASK": "hidden-from-all"}
    for each, text in {**inputs, name: value}.items():
        monkeypatch.setenv(f"INPUT_{each}", text)
    monkeypatch.delenv("GITHUB_TOKEN")

    assert main(["action"]) == 2

    (body,) = pull_request.world.comment_bodies()
    assert body.startswith(format_marker("desk"))
    assert "No verdict" in body
    (check,) = pull_request.world.check_runs.values()
    assert (check["name"], check["conclusion"]) == ("desk", "failure")
    assert said in check["output"]["title"]
    assert "hidden-from-all" not in body + str(check)


def test_masks_are_hidden_in_the_errors_of_other_options(
    pull_request: FakeGitHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/hidden-from-all/certificate")

    assert main(["run", "--comment", "--mask", "hidden-from-all", "--otlp", "https://example.test"]) == 2

    (body,) = pull_request.world.comment_bodies()
    assert "names no file: " in body
    assert "hidden-from-all" not in body + capsys.readouterr().err


def test_a_comment_that_cannot_be_posted_has_no_verdict_to_keep(
    pull_request: FakeGitHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")

    assert main(["run", "--comment", "-c", "none.yaml"]) == 2

    said = capsys.readouterr().err
    assert "The comment was not posted: " in said
    assert "The exit code stays the same." in said
    assert "verdict" not in said
