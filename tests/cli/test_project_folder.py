"""A command typed in a folder of the repository works in the thresholds file's, and typed paths keep their meaning."""

import json
import subprocess
from pathlib import Path

import pytest

from evalgate.cli.project_folder import _find_trusted_project, _join_path, find_project
from evalgate.runner.base_branch import Policy
from tests.cli.test_cli import AGENT, eval_set
from tests.commands import evalgate

CONFIG = """\
version: 1
eval_sets: ["evals/*.evalset.json"]
agent: {entry: "agents/agent.py:answer"}
criteria: {response_match_score: 0.8}
gate: {baseline: .evalgate/baseline.json}
"""
PYPROJECT = """\
[tool.evalgate]
version = 1
eval_sets = ["evals/*.evalset.json"]
agent = {entry = "agents/agent.py:answer"}
criteria = {response_match_score = 0.8}
gate = {baseline = ".evalgate/baseline.json"}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    for folder in (".git", "evals", "agents", "deep/er"):
        (root / folder).mkdir(parents=True)
    (root / "agents/agent.py").write_text(AGENT)
    (root / "evals/demo.evalset.json").write_text(eval_set("hello there", "good bye"))
    return root


@pytest.mark.parametrize(
    ("value", "joined"),
    [
        ("a.json", "sub/a.json"),
        (".//evals/a.json", "sub/evals/a.json"),
        ("..//evals/a.json", "evals/a.json"),
        ("/a.json", "/a.json"),
    ],
)
def test_a_slash_too_many_makes_no_absolute_path(value: str, joined: str) -> None:
    assert _join_path(Path("sub"), value) == joined


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("evalgate.yaml", CONFIG),
        ("pyproject.toml", PYPROJECT),
        ("evalgate.toml", PYPROJECT.replace("[tool.evalgate]\n", "")),
    ],
)
def test_a_run_in_a_subfolder_is_the_run_of_the_repository(repository: Path, name: str, text: str) -> None:
    (repository / name).write_text(text)
    done = evalgate("run", cwd=repository / "deep/er")
    assert done.code == 0, done.err
    assert f"Working in {repository}, which contains {name}." in done.err
    assert (repository / "evalgate-report/results.json").is_file()
    assert list((repository / "deep/er").iterdir()) == []

    saved = evalgate("baseline", "save", cwd=repository / "evals")
    assert saved.code == 0, saved.err
    assert (repository / ".evalgate/baseline.json").is_file()
    assert evalgate("baseline", "show", cwd=repository / "deep").out.startswith(".evalgate/baseline.json")
    assert evalgate("report", cwd=repository / "deep").code == 0


@pytest.mark.parametrize(
    ("typed_in", "arguments", "files"),
    [
        ("evals", ["run", "demo.evalset.json"], ["evalgate-report"]),
        ("evals", ["run", "./*.evalset.json", "--out", "here"], ["evals/here"]),
        ("evals", ["run", "demo.evalset.json:case_1", "--agent", "python:../agents/agent.py:answer"], []),
        ("agents", ["run", "--agent", "python:agent.py:answer", "../evals"], []),
        ("deep/er", ["run", "../../evals/demo.evalset.json"], []),
        ("agents", ["run", "evals/demo.evalset.json:case_0"], []),  # as a report prints it
        ("evals", ["validate", "demo.evalset.json"], []),
    ],
)
def test_paths_are_relative_to_the_folder_they_were_typed_in(
    repository: Path, typed_in: str, arguments: list[str], files: list[str]
) -> None:
    (repository / "evalgate.yaml").write_text(CONFIG)
    done = evalgate(*arguments, cwd=repository / typed_in)
    assert done.code == 0, done.err
    assert [each for each in files if not (repository / each).is_dir()] == []
    results = repository / "evalgate-report/results.json"
    if results.is_file():
        cases = json.loads(results.read_text())["cases"]
        assert {case["file"] for case in cases if "file" in case} <= {"evals/demo.evalset.json"}


def test_stored_files_are_named_from_where_one_is(repository: Path) -> None:
    (repository / "evalgate.yaml").write_text(CONFIG)
    assert evalgate("run", cwd=repository).code == 0
    saved = evalgate("baseline", "save", "--to", "mine.json", cwd=repository / "deep")
    assert (saved.code, saved.err.count("\n")) == (0, 1), saved.err
    assert (repository / "deep/mine.json").is_file()
    results = "../evalgate-report/results.json"
    assert evalgate("compare", "mine.json", results, cwd=repository / "deep").code == 0
    assert evalgate("run", "--baseline", "mine.json", cwd=repository / "deep").code == 0


def test_the_line_that_a_report_prints_names_no_folder_of_the_moment(repository: Path) -> None:
    (repository / "evalgate.yaml").write_text(CONFIG)
    evalgate("run", "--agent", "python:agents/agent.py:wrong", cwd=repository / "deep")
    found = json.loads((repository / "evalgate-report/results.json").read_text())
    assert "-C" not in found.get("options", [])


def test_a_named_folder_is_never_left(repository: Path) -> None:
    (repository / "evalgate.yaml").write_text(CONFIG)
    done = evalgate("run", "-C", ".", cwd=repository / "deep")
    assert done.code == 2
    assert "Working in" not in done.err


def test_a_named_thresholds_file_moves_nothing(repository: Path) -> None:
    (repository / "evalgate.yaml").write_text(CONFIG)
    done = evalgate("validate", "-c", "../evalgate.yaml", "../evals", cwd=repository / "deep")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("files", "start", "expected"),
    [
        (["evalgate.yaml"], "deep/er", ("", "evalgate.yaml")),
        (["evalgate.yaml", "deep/evalgate.json"], "deep/er", ("deep", "evalgate.json")),
        ([".evalgate/baseline.json"], "deep/er", ("", ".evalgate")),
        (["evalgate.yaml", "deep/.evalgate/x"], "deep/er", ("", "evalgate.yaml")),
        (["../evalgate.yaml"], "deep/er", ("deep/er", "")),  # beyond the repository
        (["pyproject.toml"], "deep", ("deep", "")),  # without our table
        ([], "deep", ("deep", "")),
    ],
)
def test_the_nearest_thresholds_file_of_the_repository_counts(
    repository: Path, files: list[str], start: str, expected: tuple[str, str]
) -> None:
    for name in files:
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("")
    found = find_project(repository / start)
    assert (found.folder, found.found) == (repository / expected[0], expected[1])


def test_outside_a_repository_only_the_folder_itself_counts(repository: Path) -> None:
    (repository / ".git").rmdir()
    (repository / "evalgate.yaml").write_text("")
    assert find_project(repository / "deep").folder == repository / "deep"
    assert find_project(repository).found == "evalgate.yaml"


@pytest.mark.parametrize(
    ("policy", "expected"), [(None, "deep"), ("base", "deep"), ("head", "")], ids=["default", "base", "head"]
)
def test_a_change_that_removes_its_thresholds_file_keeps_its_folder(
    repository: Path, policy: Policy | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the thresholds file of a folder above would gate it."""
    (repository / ".git").rmdir()
    for folder in (repository, repository / "deep"):
        (folder / "evalgate.yaml").write_text(CONFIG)
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "rules"]):
        who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com")
        subprocess.run(["git", *who, *words], cwd=repository, check=True)
    for words in (["update-ref", "refs/remotes/origin/main", "HEAD"], ["rm", "-q", "deep/evalgate.yaml"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    for start in ("deep", "deep/er"):
        project = _find_trusted_project(repository / start, policy)
        assert (project.folder, project.found) == (repository / expected, "evalgate.yaml")


@pytest.mark.parametrize(
    ("policy", "is_tracked", "expected"),
    [(None, True, ""), ("base", True, ""), ("head", True, "deep"), (None, False, "deep")],
)
def test_a_change_cannot_bring_a_nearer_thresholds_file(
    repository: Path, policy: Policy | None, is_tracked: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could be a softer one. A file that git does not track is of an earlier step of the job."""
    (repository / ".git").rmdir()
    (repository / "evalgate.yaml").write_text(CONFIG)
    commit = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.com", "commit", "-q", "-m", "rules")
    for words in (["init", "-q"], ["add", "."], commit, ["update-ref", "refs/remotes/origin/main", "HEAD"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    (repository / "deep/evalgate.yaml").write_text(CONFIG)
    if is_tracked:
        for words in (["add", "."], commit):
            subprocess.run(["git", *words], cwd=repository, check=True)
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    project = _find_trusted_project(repository / "deep/er", policy)
    assert (project.folder, project.found) == (repository / expected, "evalgate.yaml")
