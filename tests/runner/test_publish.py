"""Reports, outputs and posts of a finished run."""

import io
from pathlib import Path

import pytest

from evalgate.runner.publish import Publisher
from evalgate.system.workspace import Workspace
from tests.situations import regression


@pytest.mark.parametrize("runner", ["", "true"], ids=["elsewhere", "on GitHub"])
def test_only_githubs_runner_gets_a_summary_outputs_and_annotations(tmp_path: Path, runner: str) -> None:
    files = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), "GITHUB_OUTPUT": str(tmp_path / "output")}
    stdout = io.StringIO()
    publisher = Publisher(
        Workspace(tmp_path), "out", {**files, "GITHUB_ACTIONS": runner}, stdout, io.StringIO()
    )
    assert publisher.publish(regression()) == 1
    assert (tmp_path / "summary").exists() == (tmp_path / "output").exists() == bool(runner)
    assert ("::error " in stdout.getvalue()) == bool(runner)
