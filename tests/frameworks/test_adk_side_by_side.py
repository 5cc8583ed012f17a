"""The same agents, eval sets and test_config.json, through `adk eval` and through evalgate: the same scores."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.commands import evalgate
from tests.frameworks import AGENTS

pytestmark = pytest.mark.slow

Scores: TypeAlias = Mapping[str, Mapping[str, float | None]]
"""Case → metric → score. A case that crashed has none."""


@pytest.mark.parametrize("name", ["desk", "travel"])
def test_same_scores(adk: str, name: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(AGENTS / "adk", project, ignore=shutil.ignore_patterns("__pycache__"))

    ours, theirs = scores_of_evalgate(adk, project, name), scores_of_adk(adk, project, name)

    assert ours == theirs
    assert len(ours) > 1
    assert len({score for case in ours.values() for score in case.values()}) > 1


def scores_of_adk(python: str, project: Path, name: str) -> Scores:
    argv = [str(Path(python).with_name("adk")), "eval", name, f"{name}.evalset.json"]
    argv += ["--config_file_path", "test_config.json"]
    env = {**os.environ, "PYTHONPATH": str(project)}
    done = subprocess.run(argv, cwd=project, env=env, capture_output=True, text=True, check=False)
    written = list((project / name / ".adk/eval_history").glob("*.json"))
    assert len(written) == 1, done.stdout + done.stderr
    return {
        case["eval_id"]: {
            metric["metric_name"]: metric["score"]
            for metric in case["overall_eval_metric_results"]
            if metric["metric_name"] in METRICS
        }
        for case in json.loads(written[0].read_text())["eval_case_results"]
    }


METRICS = ("tool_trajectory_avg_score", "response_match_score")
# Later releases add metrics of their own that nobody asked for.


def scores_of_evalgate(python: str, project: Path, name: str) -> Scores:
    release = _release(python)
    argv = ["run", f"{name}.evalset.json", "--agent", f"adk:{name}", "--python", python, "--out", "out"]
    done = evalgate(*argv, "--adk-version", release, cwd=project)
    assert done.code in (0, 1), done.out + done.err
    return {
        case["eval_id"]: {
            metric["name"]: metric["score"]
            for metric in case["metrics"]
            if case["runs"][0]["outcome"] == "answered"
        }
        for case in json.loads((project / "out/results.json").read_text())["cases"]
    }


def _release(python: str) -> str:
    said = "from importlib.metadata import version; print(version('google-adk'))"
    version = subprocess.run([python, "-c", said], capture_output=True, text=True, check=True).stdout
    return ".".join(version.strip().split(".")[:2])
