"""Datasets of watsonx Orchestrate through the whole gate: found in a folder, replayed, scored, decided."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.config.cli_overrides import Overrides
from evalgate.documents.strict_json import read_json
from evalgate.runner.validation import check_files
from tests.commands import evalgate

DATASET = {
    "agent": "hr",
    "story": "You want to know your days off.",
    "starting_sentence": "My days off?",
    "goals": {"find": ["tell"], "tell": []},
    "goal_details": [
        {"type": "tool_call", "name": "find", "tool_name": "days_off", "args": {"year": "2025"}},
        {"type": "text", "name": "tell", "response": "You have 5 days.", "keywords": ["5 days"]},
    ],
}
THRESHOLDS = """\
eval_sets: [datasets]
agent: {kind: replay, path: recorded}
criteria:
  orchestrate/journey_success: 1.0
  orchestrate/tool_call_precision: 0.5
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "evalgate.yaml").write_text(THRESHOLDS)
    (tmp_path / "datasets/hr").mkdir(parents=True)
    (tmp_path / "datasets/hr/days.json").write_text(json.dumps(DATASET))
    (tmp_path / "datasets/package.json").write_text('{"goals": "none of ours"}')
    (tmp_path / "recorded").mkdir()
    return tmp_path


def record(project: Path, *messages: Any) -> None:
    said = [{"role": "user", "type": "text", "content": "My days off?"}, *messages]
    (project / "recorded/days.messages.json").write_text(json.dumps(said))


def call(year: Any) -> dict[str, Any]:
    return {"role": "assistant", "type": "tool_call", "name": "days_off", "args": {"year": year}, "id": "c"}


ANSWER = {"role": "assistant", "type": "text", "content": "There are **5 days** left."}


@pytest.mark.parametrize(
    ("messages", "code", "scores"),
    [
        ((call(2025), ANSWER), 0, [1.0, 1.0]),
        ((call(2024), call(2025), ANSWER), 0, [1.0, 0.5]),
        ((call(2024), ANSWER), 1, [0.0, 0.0]),
        (({"role": "assistant", "content": "Which year?"}, {"role": "user", "content": "2025"}, call(2025), ANSWER), 0, [1.0, 1.0]),
    ],
)  # fmt: skip
def test_a_recorded_conversation_is_gated(
    project: Path, messages: tuple[Any, ...], code: int, scores: list[float]
) -> None:
    record(project, *messages)

    done = evalgate("run", cwd=project)

    assert done.code == code, done.out + done.err
    found: Any = read_json(project / "evalgate-report/results.json", "results.json").value
    assert [metric["score"] for metric in found["metrics"]] == scores
    assert found["cases"][0]["eval_id"] == "days"


def test_a_simulated_story_is_replayed_as_recorded(project: Path) -> None:
    story = {key: value for key, value in DATASET.items() if key != "starting_sentence"}
    (project / "datasets/hr/days.json").write_text(json.dumps(story))
    record(project, {"role": "user", "type": "text", "content": "This year."}, call(2025), ANSWER)

    done = evalgate("run", cwd=project)

    assert done.code == 0, done.out + done.err
    found: Any = read_json(project / "evalgate-report/results.json", "results.json").value
    (run,) = found["cases"][0]["runs"]
    assert [turn["user"] for turn in run["turns"]] == ["My days off?", "This year."]


def checked(project: Path, pattern: str) -> list[str]:
    return list(check_files(Overrides(eval_sets=(pattern,)), thresholds_file=None, folder=project))


@pytest.mark.parametrize(
    "pattern", ["datasets", "datasets/hr", "datasets/**/d*.json", "datasets/hr/days.json"]
)
def test_datasets_are_found(project: Path, pattern: str) -> None:
    first, *_ = checked(project, pattern)

    assert first.startswith("datasets/hr/days.json: 1 case, scored with orchestrate/journey_success")


def test_validate_reports_journeys_that_cannot_succeed(project: Path) -> None:
    goals = {"tell": ["find"], "find": []}
    (project / "datasets/hr/days.json").write_text(json.dumps({**DATASET, "goals": goals}))

    _, sentence, _ = checked(project, "datasets")

    assert sentence == (
        "datasets/hr/days.json:1: days: the order `tell` before `find` can never hold: "
        "a goal of type text counts after every tool_call"
    )
