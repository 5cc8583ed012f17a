"""`--thresholds FOLDER`: each eval set takes its criteria from the folder, by its id."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands import evalgate

OPTIONS = ("evals", "--thresholds", "metrics", "--agent", "python:agent.py:answer")


def metrics(threshold: float) -> list[dict[str, Any]]:
    rule = {"ignore": False, "matchStrategy": "exact"}
    return [
        {
            "metricName": "final_response_avg_score",
            "threshold": threshold,
            "criterion": {"finalResponse": {"text": rule}},
        }
    ]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("evals", "metrics"):
        (tmp_path / folder).mkdir()
    for name, expected in (("one", "Hello"), ("two", "Goodbye")):
        case = {
            "evalId": "c",
            "conversation": [
                {
                    "invocationId": "1",
                    "userContent": {"role": "user", "content": "Hi"},
                    "finalResponse": {"role": "assistant", "content": expected},
                }
            ],
            "sessionInput": {"appName": "app", "userId": "u", "state": {}},
        }
        eval_set = {"evalSetId": name, "name": name, "evalCases": [case]}
        (tmp_path / f"evals/{name}.evalset.json").write_text(json.dumps(eval_set), "utf-8")
        # Next to the set: not read if a folder is named.
        (tmp_path / f"evals/{name}.metrics.json").write_text("[]", "utf-8")
    (tmp_path / "metrics/one.metrics.json").write_text(json.dumps(metrics(1.0)), "utf-8")
    (tmp_path / "metrics/two.metrics.json").write_text(json.dumps(metrics(0.0)), "utf-8")
    (tmp_path / "agent.py").write_text("def answer(text):\n    return 'Hello'\n", "utf-8")
    return tmp_path


def test_each_eval_set_has_its_own_criteria(project: Path) -> None:
    done = evalgate("run", *OPTIONS, cwd=project)
    record = json.loads((project / "evalgate-report/results.json").read_text("utf-8"))
    found = {
        case["eval_set_id"]: (case["status"], [metric["threshold"] for metric in case["metrics"]])
        for case in record["cases"]
    }
    assert found == {"one": ("passed", [1.0]), "two": ("passed", [0.0])}, done
    assert done.code == 0


@pytest.mark.parametrize("command", ["run", "validate"])
def test_an_eval_set_without_criteria_in_the_folder_is_refused(project: Path, command: str) -> None:
    (project / "metrics/two.metrics.json").unlink()
    done = evalgate(command, *(OPTIONS if command == "run" else OPTIONS[:3]), cwd=project)
    assert done.code == 2
    sentence = "evals/two.evalset.json: no thresholds. The folder metrics has no two.metrics.json"
    assert sentence in done.err


def test_a_folder_without_a_file_for_any_set_is_refused(project: Path) -> None:
    done = evalgate("run", "evals", "--thresholds", "evals/..", *OPTIONS[3:], cwd=project)
    assert (done.code, "has no one.metrics.json" in done.err) == (2, True)


def test_the_other_sections_of_the_thresholds_file_apply(project: Path) -> None:
    sections = {
        "agent": {"entry": "agent.py:answer"},
        "criteria": {"response_match_score": 1.0},
        "custom_metrics": {"own": "own.py:judge"},
    }
    (project / "evalgate.json").write_text(json.dumps(sections), "utf-8")
    (project / "own.py").write_text("def judge(case, run):\n    return 0.5\n", "utf-8")
    own = [{"metricName": "own", "threshold": 0.5}]
    (project / "metrics/one.metrics.json").write_text(json.dumps(own), "utf-8")
    done = evalgate("run", *OPTIONS[:3], cwd=project)
    record = json.loads((project / "evalgate-report/results.json").read_text("utf-8"))
    found = {
        case["eval_set_id"]: {metric["name"]: metric["score"] for metric in case["metrics"]}
        for case in record["cases"]
    }
    assert (done.code, found) == (0, {"one": {"own": 0.5}, "two": {"final_response_avg_score": 0.0}})
