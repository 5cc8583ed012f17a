"""Reports, outputs and posts of a finished run."""

import io
from pathlib import Path

import pytest

from evalgate.core.types import Verdict
from evalgate.runner.publish import Publisher
from evalgate.system.workspace import Workspace
from tests.builders import a_case_result, a_record, a_reply, a_run_result, a_turn_result
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


def test_an_agent_that_announces_parts_of_the_reports_removes_none(tmp_path: Path) -> None:
    said = "@everyone ![gate open](https://example.com/open.png)"
    announced = ("```diff%0A- It is", "GATE CLOSED")
    reply = a_reply("\n".join([said, *(f"::add-mask::{part}" for part in announced)]))
    run = a_run_result(a_turn_result("How is the weather?", a_reply("It is sunny."), reply))
    files = {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), "GITHUB_OUTPUT": str(tmp_path / "output")}
    stdout = io.StringIO()
    publisher = Publisher(
        Workspace(tmp_path), "out", {**files, "GITHUB_ACTIONS": "true"}, stdout, io.StringIO()
    )

    publisher.publish(a_record(a_case_result("weather", "failed", runs=(run,)), verdict=Verdict("fail", 1)))

    summary = (tmp_path / "summary").read_text("utf-8").strip()
    assert summary == (tmp_path / "out/comment.md").read_text("utf-8").strip()
    assert f"```diff\n- It is sunny.\n+ {said}\n" in summary
    assert "GATE CLOSED" in stdout.getvalue()
