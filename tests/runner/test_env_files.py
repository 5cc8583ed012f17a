"""`--env-file`: the agent gets the variables of a file, and reports hide its secrets."""

import json
from pathlib import Path

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.documents.env_file import read_env_files
from tests.cli.test_cli import eval_set
from tests.commands import Done, evalgate

SECRET = "kX93hd7wLq20vbTT"
PYTHON = "import os\n\ndef answer(text):\n    return os.environ.get(text, 'none')\n"
PROGRAM = """\
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "hello":
        print(json.dumps({"type": "ready", "protocol": 1}), flush=True)
    if message["type"] == "turn":
        answer = os.environ.get(message["text"], "none")
        print(json.dumps({"type": "done", "session": message["session"], "response": answer}), flush=True)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".env").write_text(f"COLOUR=red\nexport APP_API_KEY='{SECRET}'\n# a comment\n", "utf-8")
    (tmp_path / "more.env").write_text('COLOUR="dark blue"\nGITHUB_OUTPUT=/tmp/x\n', "utf-8")
    (tmp_path / "s.evalset.json").write_text(eval_set("COLOUR", "APP_API_KEY", "GITHUB_OUTPUT"), "utf-8")
    (tmp_path / "agent.py").write_text(PYTHON, "utf-8")
    return tmp_path


def test_a_later_file_replaces_an_earlier_one(project: Path) -> None:
    assert read_env_files([".env", "more.env"], project) == {
        "COLOUR": "dark blue",
        "APP_API_KEY": SECRET,
        "GITHUB_OUTPUT": "/tmp/x",
    }


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path: Path) -> None:
    (tmp_path / "windows.env").write_bytes("\ufeffAPP_API_KEY=abc\r\nCOLOUR=größer\r\n".encode())
    assert read_env_files(["windows.env"], tmp_path) == {"APP_API_KEY": "abc", "COLOUR": "größer"}


@pytest.mark.parametrize(("name", "why"), [("missing.env", "No such file"), ("latin.env", "not UTF-8")])
def test_a_file_that_cannot_be_read_is_named(project: Path, name: str, why: str) -> None:
    (project / "latin.env").write_bytes(b"A=\xe9\n")
    with pytest.raises(InvalidInputError, match=f"{name}: cannot be read: .*{why}"):
        read_env_files([name], project)


def run(folder: Path, *options: str) -> tuple[Done, list[str]]:
    (folder / "test_config.json").write_text('{"criteria": {"response_match_score": 0.1}}', "utf-8")
    done = evalgate("run", "s.evalset.json", *options, cwd=folder, COLOUR="grey")
    cases = json.loads((folder / "evalgate-report/results.json").read_text("utf-8"))["cases"]
    return done, [case["runs"][0]["turns"][0]["actual"]["response"] for case in cases]


def test_an_agent_gets_the_variables_and_reports_hide_the_secrets(project: Path) -> None:
    options = ("--agent", "python:agent.py:answer")
    assert run(project, *options)[1] == ["none", "none", "none"]
    done, answers = run(project, *options, "--env-file", ".env", "--env-file", "more.env", "--html")
    assert answers[0] == "dark blue"
    assert answers[1] not in {"none", SECRET}
    assert answers[2] == "none"  # a file of the runner is never given to the agent
    assert "GITHUB_OUTPUT is never given to the agent" in done.out
    reports = [path.read_text("utf-8") for path in (project / "evalgate-report").iterdir() if path.is_file()]
    assert [text for text in (*reports, done.out, done.err) if SECRET in text] == []
    assert "--env-file .env --env-file more.env" in done.out


def test_a_program_gets_the_variables_that_the_thresholds_file_names(project: Path) -> None:
    (project / "agent.py").write_text(PROGRAM, "utf-8")
    (project / "evalgate.yaml").write_text(
        "agent: {kind: command, command: [python3, agent.py], env_file: .env}\n"
        "criteria: {response_match_score: 0.1}\n",
        "utf-8",
    )
    done, answers = run(project)
    assert answers[0] == "red", done
    (project / ".env").unlink()
    done = evalgate("validate", "s.evalset.json", cwd=project)
    assert (done.code, ".env: cannot be read" in done.err) == (2, True)


def test_every_line_that_is_no_assignment_is_named_without_its_text(tmp_path: Path) -> None:
    (tmp_path / "bad.env").write_text("GOOD=1\nBAD LINE\n\n# fine\nBARE\n=secret-value\nA=b\0C=d\n", "utf-8")
    with pytest.raises(InvalidInputError) as caught:
        read_env_files(["bad.env"], tmp_path)
    assert [(problem.file, problem.line) for problem in caught.value.problems] == [
        ("bad.env", 2),
        ("bad.env", 6),
        ("bad.env", 7),
    ]
    assert "secret-value" not in str(caught.value)
