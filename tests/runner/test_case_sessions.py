"""Sessions that cases start with: the file of old lists of turns, and the names of app and user."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.config.schema.agent import SessionConfig
from evalgate.core.errors import InvalidInputError
from evalgate.core.plugin_registry import get_formats
from evalgate.core.types import EvalSet, SessionInput
from evalgate.datasets.loading import load_eval_sets
from evalgate.runner.case_sessions import complete_sessions
from tests.commands import Done, evalgate

TURNS = [{"query": "Hi", "reference": "home", "expected_tool_use": []}]
NEW = {
    "eval_set_id": "new",
    "eval_cases": [
        {
            "eval_id": "named",
            "session_input": {"app_name": "shop", "user_id": "ann", "state": {"page": "own"}},
            "conversation": [{"user_content": {"parts": [{"text": "Hi"}]}}],
        },
        {"eval_id": "bare", "conversation": [{"user_content": {"parts": [{"text": "Hi"}]}}]},
    ],
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files: dict[str, Any] = {
        "old.test.json": TURNS,
        "new.evalset.json": NEW,
        "session.json": {"app_name": "site", "user_id": "bob", "state": {"page": "home"}},
        "test_config.json": {"criteria": {"response_match_score": 1.0}},
    }
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value), "utf-8")
    (tmp_path / "agent.py").write_text(
        "def answer(text, session):\n    return session.state['page']\n", "utf-8"
    )
    return tmp_path


def load(folder: Path, *names: str) -> tuple[EvalSet, ...]:
    return load_eval_sets(names, get_formats(), folder=folder)


def complete(folder: Path, *names: str, is_part: bool = False, **keys: str) -> list[SessionInput]:
    config = SessionConfig.model_validate(keys)
    found = complete_sessions(load(folder, *names), config, folder, is_part=is_part)
    return [case.session for eval_set in found for case in eval_set.cases]


def test_an_initial_session_is_for_old_lists_of_turns_alone(project: Path) -> None:
    assert complete(project, "old.test.json", "new.evalset.json", file="session.json") == [
        SessionInput("site", "bob", {"page": "home"}),
        SessionInput("shop", "ann", {"page": "own"}),
        SessionInput(),
    ]


def test_a_file_that_no_eval_set_can_take_is_refused(project: Path) -> None:
    with pytest.raises(
        InvalidInputError, match=r"session.json: an initial session is for old lists of turns"
    ):
        complete(project, "new.evalset.json", file="session.json")
    assert complete(project, "new.evalset.json:bare", file="session.json", is_part=True) == [SessionInput()]


def test_names_are_for_cases_without_their_own(project: Path) -> None:
    assert complete(project, "new.evalset.json", app_name="app", user_id="me") == [
        SessionInput("shop", "ann", {"page": "own"}),
        SessionInput("app", "me"),
    ]


def run(folder: Path, *options: str) -> Done:
    return evalgate("run", "old.test.json", "--agent", "python:agent.py:answer", *options, cwd=folder)


def test_a_run_starts_with_the_session(project: Path) -> None:
    done = run(project, "--initial-session", "session.json")
    assert (done.code, "Traceback" in done.err) == (0, False)


def test_a_thresholds_file_names_the_session(project: Path) -> None:
    (project / "evalgate.yaml").write_text(
        "session: {file: session.json, app_name: x}\ncriteria: {response_match_score: 1.0}\n", "utf-8"
    )
    assert run(project).code == 0
    done = evalgate("validate", "old.test.json", cwd=project)
    assert done.code == 0
    (project / "session.json").write_text('{"state": []}', "utf-8")
    done = evalgate("validate", "old.test.json", cwd=project)
    assert (done.code, "session.json:1:11" in done.err) == (2, True)


@pytest.mark.parametrize("command", ["validate", "run"])
def test_old_files_are_named_once_with_the_command_that_converts_them(project: Path, command: str) -> None:
    (project / "second list.test.json").write_text(json.dumps(TURNS), "utf-8")
    (project / "agent.py").write_text("def answer(text):\n    return 'home'\n", "utf-8")
    options = ["--agent", "python:agent.py:answer"] if command == "run" else []
    done = evalgate(
        command, "second list.test.json", "old.test.json", "new.evalset.json", *options, cwd=project
    )
    assert done.out.count("Google ADK read them before eval sets") == 1
    assert "second list.test.json and 1 other file: " in done.out
    assert "`evalgate convert 'second list.test.json' --to adk --out 'second list.evalset.json'`" in done.out


def test_the_command_that_converts_an_old_file_names_its_session(project: Path) -> None:
    (project / "agent.py").write_text("def answer(text):\n    return 'home'\n", "utf-8")
    done = run(project, "--initial-session", "session.json")
    assert (
        "`evalgate convert old.test.json --to adk --out old.evalset.json --initial-session session.json`"
        in done.out
    )
