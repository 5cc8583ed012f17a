"""`--format` and `format`: what an eval set is read as, whatever it looks like."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evalgate.cli.main import convert, validate
from evalgate.cli.run import run
from evalgate.config.cli_overrides import Overrides
from evalgate.core.errors import InvalidInputError
from evalgate.core.plugin_registry import FORMATS
from evalgate.runner.plan import build_plan
from evalgate.runner.validation import check_files

TURN = {"user_content": {"parts": [{"text": "Hi"}]}, "final_response": {"parts": [{"text": "Ho"}]}}
CASE = {"eval_id": "c", "conversation": [TURN], "session_input": {"app_name": "a"}}
ADK = {"eval_set_id": "s", "eval_cases": [CASE]}
CRITERIA = '{"version": 1, "criteria": {"response_match_score": 0.5}}'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "s.json").write_text(json.dumps(ADK, indent=1))
    (tmp_path / "evalgate.json").write_text(CRITERIA)
    return tmp_path


def found(project: Path, **said: Any) -> list[str]:
    """What `validate` says, or every problem."""
    try:
        return list(
            check_files(Overrides(**{"eval_sets": ("s.json",), **said}), thresholds_file=None, folder=project)
        )
    except InvalidInputError as error:
        return [str(problem) for problem in error.problems]


def test_a_file_is_read_in_the_named_format(project: Path) -> None:
    adk = build_plan(
        Overrides(eval_sets=("s.json",), agent="python:a.py:f", format="adk"),
        thresholds_file=None,
        folder=project,
        environ={},
    )
    trpc = build_plan(
        Overrides(eval_sets=("s.json",), agent="python:a.py:f", format="trpc"),
        thresholds_file=None,
        folder=project,
        environ={},
    )

    assert adk.suites[0].eval_set.cases[0].turns == trpc.suites[0].eval_set.cases[0].turns
    assert found(project)[-1] == "1 eval set: no problem found."


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("adk-legacy", "s.json:1:1: the file must be a list, not an object"),
        ("orchestrate", "s.json:1:1: `story` is missing"),
        ("adk-rs", "s.json:8:22: `eval_cases[0].conversation[0].user_content.role` is missing"),
        ("trcp", "'trcp' is not a format of eval sets. Did you mean 'trpc'?"),
    ],
)
def test_the_wrong_format_reports_problems_with_positions(project: Path, name: str, problem: str) -> None:
    assert problem in found(project, format=name)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_refuses_what_is_no_eval_set_at_a_place(project: Path, name: str) -> None:
    for text in ("[1]", "{}", '"text"', "null"):
        (project / "s.json").write_text(text)
        problems = found(project, format=name)
        assert problems
        assert all(problem.startswith("s.json:1:") for problem in problems), problems


def test_the_format_option_overrides_the_thresholds_file(project: Path) -> None:
    thresholds: Mapping[str, Any] = {**json.loads(CRITERIA), "format": "adk-legacy"}
    (project / "evalgate.json").write_text(json.dumps(thresholds))

    assert found(project) == ["s.json:1:1: the file must be a list, not an object"]
    assert found(project, format="adk")[-1] == "1 eval set: no problem found."


@pytest.mark.parametrize("command", [run, validate, convert], ids=lambda command: str(command.name))
def test_the_help_names_every_format(command: Any) -> None:
    option = next(each for each in command.params if "--format" in each.opts)

    assert [name for name in FORMATS if name not in option.help] == []
