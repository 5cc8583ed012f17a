"""The page about posting keeps its word."""

import json
from pathlib import Path

import pytest

from tests.ci.conftest import TOKEN
from tests.github.server import FakeGitHub
from tests.github.world import PULL, REPOSITORY
from tests.test_readme import ROOT, blocks


def test_the_example_in_the_docs_posts(
    github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": PULL}}), encoding="utf-8")
    environ = {
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_API_URL": github.url,
        "GITHUB_RUN_ID": "12",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(event),
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    (program,) = blocks((ROOT / "docs" / "github.md").read_text("utf-8"), "python")
    exec(program, {})
    assert capsys.readouterr().out.startswith("posted  https://")
    assert "**The gate is open.**" in github.world.comment_bodies()[0]
