"""Every kind of agent, the same five cases: the same record, and nothing is left running."""

import json
import shutil
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import get_args

import pytest

from evalgate.agents.containers.ownership import LABEL
from evalgate.agents.http.options import DialectName
from evalgate.core.plugin_registry import AGENTS
from tests.agents.containers.test_docker import connect_client
from tests.agents.matrix import FOLDER, KINDS, RECORD, Kind, extract_results
from tests.agents.play import MARK, left, running
from tests.cli.test_cli import record
from tests.commands import Done, evalgate
from tests.frameworks.venvs import python_with
from tests.ports import free_port

CRITERIA = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(FOLDER, tmp_path / "agent", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "agent"


@pytest.fixture
def mark(tmp_path: Path) -> dict[str, str]:
    return {MARK: uuid.uuid4().hex, "TMPDIR": str(tmp_path)}


def gate(folder: Path, agent: Mapping[str, object], environ: Mapping[str, str]) -> Done:
    section = {"env": [MARK], **agent}
    config = {"version": 1, "eval_sets": "matrix.evalset.json", "agent": section, "criteria": CRITERIA}
    (folder / "evalgate.yaml").write_text(json.dumps(config))
    return evalgate("run", "--out", "evalgate-report", cwd=folder, **environ)


@contextmanager
def served(kind: Kind, python: str, folder: Path) -> Iterator[dict[str, str]]:
    """While the agent's server runs, where it is; nothing for an agent without one."""
    if kind.serves is None:
        yield {}
        return
    port = free_port()
    with running(*kind.serves(python, port), folder=folder, log=folder / "server.log"):
        yield {"AGENT_URL": f"http://127.0.0.1:{port}"}


def check(done: Done, folder: Path) -> None:
    assert done.code == 1, done.out + done.err
    assert "The agent crashed or timed out in 2 of 5 cases (crash, hang)." in done.out
    assert extract_results(record(folder)) == RECORD


def play(kind: Kind, folder: Path, mark: dict[str, str]) -> None:
    framework = kind.framework
    python = python_with(framework.folder) if framework else sys.executable
    own = {"python": python} if framework and kind.serves is None else {}
    with served(kind, python, folder) as where:
        done = gate(folder, {**kind.agent, **own, "timeout": kind.turn_s}, {**mark, **where})
    check(done, folder)
    assert left(mark) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if not kind.needs_docker], ids=lambda kind: kind.name
)
def test_kind(kind: Kind, folder: Path, mark: dict[str, str]) -> None:
    play(kind, folder, mark)


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.needs_docker], ids=lambda kind: kind.name)
def test_container(kind: Kind, folder: Path, mark: dict[str, str]) -> None:
    with closing(connect_client()) as client:
        play(kind, folder, mark)
        found = client.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
    assert [each.name for each in found if f"{MARK}={mark[MARK]}" in each.attrs["Config"]["Env"]] == []


def test_replay(folder: Path, mark: dict[str, str]) -> None:
    play(KINDS[0], folder, mark)
    (folder / "evalgate-report" / "results.json").rename(folder / "recorded.json")

    check(gate(folder, {"kind": "replay", "path": "recorded.json"}, mark), folder)


def test_no_kind_is_missing() -> None:
    sections = [kind.agent for kind in KINDS]
    assert {section["kind"] for section in sections} | {"replay"} == set(AGENTS)
    assert {section.get("dialect") for section in sections} - {None} == set(get_args(DialectName))
