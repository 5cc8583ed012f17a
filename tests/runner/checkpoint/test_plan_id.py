"""Which changes make a plan another one, and which do not."""

import hashlib
import json
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from pydantic import BaseModel

from evalgate.config.cli_overrides import Overrides
from evalgate.config.schema.agent import AgentConfig
from evalgate.config.schema.gate import GateConfig
from evalgate.core.types import PlanId
from evalgate.runner.checkpoint import plan_id as identity
from evalgate.runner.checkpoint.plan_id import compute_local_plan_id, compute_plan_id
from evalgate.runner.plan import build_plan
from tests.cli.test_cli import eval_set
from tests.forbidden_folders import make_forbidden_folder

RULES = """\
version: 1
eval_sets: [demo.evalset.json]
agent: {kind: python, entry: "agent.py:answer", concurrency: 4}
criteria: {response_match_score: 0.8}
user: {model: gpt-4.1-mini}
budget: {tokens: 1000}
"""
_GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "core.hooksPath=/dev/null")


def git(folder: Path, *words: str) -> None:
    subprocess.run([*_GIT, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text("from helper import answer\n")
    (tmp_path / "helper.py").write_text("def answer(text):\n    return text\n")
    (tmp_path / "demo.evalset.json").write_text(eval_set("hello"))
    (tmp_path / "evalgate.yaml").write_text(RULES)
    return tmp_path


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "as it is")


@pytest.fixture(params=["committed", "not added to git", "without git"])
def kept(request: pytest.FixtureRequest, project: Path) -> Path:
    """The project, known to git or not."""
    if request.param != "without git":
        git(project, "init", "-q")
        (project / "README").write_text("")
        git(project, "add", "README")
        git(project, "commit", "-q", "-m", "first")
    if request.param == "committed":
        commit(project)
    return project


def found(folder: Path, said: Overrides | None = None) -> PlanId:
    return compute_local_plan_id(
        build_plan(said or Overrides(), thresholds_file=None, folder=folder, environ={})
    )


def rewrite(name: str, old: str, new: str) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new))

    return change


@pytest.mark.parametrize(
    ("change", "other"),
    [
        (rewrite("evalgate.yaml", "tokens: 1000", "tokens: 2000"), set()),
        (rewrite("evalgate.yaml", "concurrency: 4", "concurrency: 8"), set()),
        (rewrite("evalgate.yaml", "0.8", "0.7"), {"thresholds"}),
        (rewrite("evalgate.yaml", "4.1-mini", "5"), {"thresholds"}),
        (rewrite("evalgate.yaml", "concurrency: 4", "setup: make"), {"agent"}),
        (rewrite("agent.py", "answer", "answer  "), {"agent"}),
        (rewrite("helper.py", "return text", "return text + text"), {"agent"}),
        (lambda folder: (folder / "helper.py").unlink(), {"agent"}),
        (lambda folder: (folder / "asked.log").write_text("what an agent writes down"), set()),
    ],
    ids=["budget", "pace", "threshold", "user", "setup", "agent", "helper", "removed", "log"],
)
def test_only_what_decides_makes_another_run(
    kept: Path, change: Callable[[Path], object], other: set[str]
) -> None:
    before = asdict(found(kept))
    change(kept)
    after = asdict(found(kept))
    assert {name for name, value in after.items() if before[name] != value} == other


def test_a_budget_that_is_raised_by_a_commit_keeps_the_run(project: Path) -> None:
    git(project, "init", "-q")
    commit(project)
    before = found(project)
    rewrite("evalgate.yaml", "tokens: 1000", "tokens: 2000")(project)
    commit(project)
    assert found(project) == before
    rewrite("helper.py", "return text", "return ''")(project)
    commit(project)
    assert found(project) != before


def test_a_model_for_the_users_on_the_command_line_counts(project: Path) -> None:
    assert found(project, Overrides(simulated_user="openai/gpt-5")) != found(project)


def test_a_recording_that_is_replayed_counts(project: Path) -> None:
    said = Overrides(agent="replay:said.json")
    (project / "said.json").write_text(eval_set("hello"))
    before = found(project, said)
    (project / "said.json").write_text(eval_set("goodbye"))
    assert found(project, said) != before


def test_another_python_counts_here_and_not_for_a_shard(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = build_plan(Overrides(), thresholds_file=None, folder=project, environ={})
    here, everywhere = compute_local_plan_id(plan), compute_plan_id(plan)
    monkeypatch.setattr(identity, "python_version_tuple", lambda: ("3", "99", "1"))
    assert compute_local_plan_id(plan) != here
    assert compute_plan_id(plan) == everywhere


def test_folders_and_links_that_cannot_be_looked_into_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("")
    before = identity.hash_code_state(tmp_path)
    make_forbidden_folder(tmp_path / "data")
    (tmp_path / "loop.py").symlink_to("loop.py")
    assert identity.hash_code_state(tmp_path) == before


def test_cases_are_hashed_as_lines_of_json(project: Path) -> None:
    (project / "demo.evalset.json").write_text(eval_set("hello").replace("case_0", r"é \"quoted\""))
    plan = build_plan(Overrides(), thresholds_file=None, folder=project, environ={})
    (suite,) = plan.suites
    assert suite.eval_set.cases[0].eval_id == 'é "quoted"'
    rows = [
        ["demo", case.eval_id, fingerprint]
        for case, fingerprint in zip(suite.eval_set.cases, suite.fingerprints, strict=True)
    ]
    lines = [json.dumps(row, ensure_ascii=False) for row in [plan.runs, *rows]]
    expected = hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()[:16]
    assert compute_plan_id(plan).eval_sets == expected


@pytest.mark.parametrize(
    "gate",
    [
        {},
        {"anchor": "a.json@v1", "control": "all", "max_regression": 0, "statistics": {"alpha": 0.01}},
        {"control": {"mode": "all", "url": "http://x"}, "quarantine": "q.yaml", "max_failed_cases": 2},
    ],
)
def test_the_settings_of_the_gate_are_those_that_pydantic_writes(gate: dict[str, object]) -> None:
    assert_listed(GateConfig.model_validate(gate))


@pytest.mark.parametrize(
    "agent",
    [
        {},
        {"kind": "python", "entry": "a.py:b", "memory": "64m", "env": ["A*"], "timeout": 3, "trace": True},
        {"kind": "http", "url": "http://x", "headers": {"A": "b"}, "dialect": None, "ports": [1, 2.5]},
    ],
)
def test_the_settings_of_the_agent_are_those_that_pydantic_writes(agent: dict[str, object]) -> None:
    assert_listed(AgentConfig.model_validate(agent))


def assert_listed(section: BaseModel) -> None:
    assert json.dumps(identity._list_settings(section)) == json.dumps(section.model_dump(mode="json"))
