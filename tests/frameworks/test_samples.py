"""The samples of agents in Python, as a user runs them."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.agents.play import running
from tests.cli.test_cli import ROOT, record
from tests.commands import evalgate
from tests.frameworks.frameworks import LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI, Framework
from tests.frameworks.venvs import python_with
from tests.ports import free_port

pytestmark = pytest.mark.slow

SAMPLES = ROOT / "samples" / "agents"


def gate(name: str, python: str, folder: Path) -> None:
    shutil.copytree(SAMPLES / name, folder)
    done = evalgate("run", "--python", python, "--out", "evalgate-report", cwd=folder)

    assert done.code == 0, done.out + done.err
    assert [case["status"] for case in record(folder)["cases"]] == ["passed", "passed"]


def test_python(tmp_path: Path) -> None:
    gate("python", sys.executable, tmp_path / "sample")


def test_adk(adk: str, tmp_path: Path) -> None:
    gate("adk", adk, tmp_path / "sample")


def test_adk_behind_its_own_server(adk: str, tmp_path: Path) -> None:
    folder, port = tmp_path / "sample", free_port()
    shutil.copytree(SAMPLES / "adk", folder)
    command = (adk, "-m", "google.adk.cli", "api_server", "--port", str(port), ".")
    with running(*command, folder=folder, log=tmp_path / "log"):
        options = ("--thresholds", "api_server.yaml", "--out", "evalgate-report")
        done = evalgate("run", *options, cwd=folder, AGENT_URL=f"http://127.0.0.1:{port}")

    assert done.code == 0, done.out + done.err
    assert [case["status"] for case in record(folder)["cases"]] == ["passed", "passed"]


@pytest.mark.parametrize(
    "framework", [LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI], ids=lambda framework: framework.folder
)
def test_frameworks(framework: Framework, tmp_path: Path) -> None:
    python = python_with(framework.folder)
    gate(framework.folder, python, tmp_path / "sample")
