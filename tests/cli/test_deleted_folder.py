"""The folder that evalgate works in, removed before or while it works: a sentence and exit code 2."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CASE = {
    "eval_id": "c",
    "conversation": [
        {"user_content": {"parts": [{"text": "x"}]}, "final_response": {"parts": [{"text": "hi"}]}},
    ],
}


def evalgate(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "evalgate", *words]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "agent.py").write_text(
        f"import shutil\n\ndef answer(_):\n    shutil.rmtree({str(folder)!r})\n    return ANSWER\n"
    )
    (folder / "a.evalset.json").write_text(json.dumps({"eval_set_id": "s", "eval_cases": [CASE]}))
    (folder / "evalgate.json").write_text(
        json.dumps({"version": 1, "eval_sets": ["a.evalset.json"], "criteria": {"response_match_score": 0.8}})
    )
    return folder


@pytest.mark.parametrize(("answer", "code"), [("hi", 2), ("no", 1)])
@pytest.mark.parametrize("inside", [True, False])
def test_an_agent_that_removes_the_folder(project: Path, inside: bool, answer: str, code: int) -> None:
    agent = project / "agent.py"
    agent.write_text(agent.read_text().replace("ANSWER", repr(answer)))
    words = ("run", "--agent", "python:agent.py:answer")
    run = evalgate(project, *words) if inside else evalgate(project.parent, *words, "-C", "project")
    assert run.returncode == code, run.stderr
    assert (
        f"The folder '{project}' was deleted while the run went on, so no report can be written" in run.stderr
    )
    assert "Traceback" not in run.stderr
    assert not project.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "x"],
        ["run"],
        ["convert", "x", "--to", "adk"],
        ["comment"],
        ["results", "list"],
        ["results", "show"],
    ],
)
def test_a_folder_that_is_gone_before(tmp_path: Path, words: list[str]) -> None:
    shell = f'cd gone && rmdir ../gone && exec "{sys.executable}" -m evalgate {" ".join(words)}'
    (tmp_path / "gone").mkdir()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.run(
        ["/bin/sh", "-c", shell],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 2, run.stderr
    assert "Traceback" not in run.stderr
    assert (
        "cannot work there: No such file" in run.stderr
        or "was deleted: change into an existing folder" in run.stderr
    )
