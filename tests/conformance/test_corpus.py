"""Files as teams keep them: each is read, or refused for the reason that it should be."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalgate.config.loader import load_thresholds
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.datasets.loading import load_eval_sets
from evalgate.documents.strict_json import read_json
from evalgate.integrations.orchestrate.recordings import ENDING, read_conversation
from evalgate.integrations.recordings import read_recording
from tests.conformance import shared_folder

ASKED = {"role": "user", "content": "Hi"}
TURN = {"userContent": ASKED, "finalResponse": {"role": "assistant", "content": "Hello"}}
OURS: dict[str, Any] = {
    "adk/a.test.json": {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [{"user_content": {"parts": [{"text": "Hi", "thought": None}]}}]}]},
    "adk/b.test.json": [{"query": "Hi", "reference": "Hello", "expected_tool_use": []}],
    "adk/test_config.json": {"criteria": {"response_match_score": 0.5}},
    "adk/initial.session.json": {"id": "i", "app_name": "a", "user_id": "u", "state": {}},
    "adkrs/a.evalset.json": {"id": "s", "eval_cases": [{"id": "c", "conversation": [{"user_content": {"role": "user", "parts": [{"text": "Hi"}]}}]}]},
    "trpc/a.evalset.json": {"evalSetId": "s", "evalCases": [{"evalId": "c", "sessionInput": {}, "conversation": [TURN]}]},
    "trpc/a.metrics.json": [{"metricName": "tool_trajectory_avg_score", "threshold": 1, "criterion": {"toolTrajectory": {}}}],
    "trpc/judged.metrics.json": [{"metricName": "llm_verifier_pairwise", "criterion": {"llmJudge": {"judgeModel": {"apiKey": "${EVALGATE_UNSET_KEY}"}}}}],
    "trpc/a.evalset_result.json": {"evalSetId": "s", "evalCaseResults": [{"evalId": "c", "evalMetricResultPerInvocation": [{"actualInvocation": TURN}]}]},
    "wxo/a.json": {"story": "s", "starting_sentence": "Hi", "goals": {"g": []}, "goal_details": [{"type": "text", "name": "g", "response": "Hello"}]},
    "wxo/quick.json": {"story": "s", "goals": {}, "goal_details": []},
    "wxo/results/a.messages.json": [{"role": "user", "type": "text", "content": "Hi"}, {"role": "assistant", "type": "text", "content": "Hello"}],
}  # fmt: skip
WITHOUT_GOALS = re.compile("quick")
NEEDS_CODE = "no judging model is configured|is no evaluator of tRPC-Agent-Go's own|environment variable `.*`, which is not set"


def _ours(folder: Path) -> Iterator[Path]:
    for name, content in OURS.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content), "utf-8")
        yield path


def _theirs() -> list[Path]:
    folder = shared_folder()
    return sorted(path for path in (folder / "corpus").rglob("*.json") if path.is_file()) if folder else []


@pytest.mark.parametrize("path", _theirs(), ids=lambda path: path.name)
def test_a_real_file(path: Path) -> None:
    _is_read_or_refused_for_its_reason(path)


def test_files_of_every_kind(tmp_path: Path) -> None:
    for path in _ours(tmp_path):
        _is_read_or_refused_for_its_reason(path)


def _is_read_or_refused_for_its_reason(path: Path) -> None:
    name, parts = path.name, path.parts
    if "results" in parts:
        if name.endswith(ENDING):
            assert read_conversation(read_json(path, name))
        else:
            _is_no_eval_set(path)
    elif name.endswith((".metrics.json", "test_config.json")):
        _holds_thresholds(path)
    elif name.endswith("_result.json"):
        assert read_recording(path, name)
    elif name.endswith(".session.json") or ("wxo" in parts and WITHOUT_GOALS.search(name)):
        _is_no_eval_set(path)
    else:
        (eval_set,) = load_eval_sets([name], plugin_registry.get_formats(), folder=path.parent)
        assert eval_set.cases
        assert all(case.turns or case.scenario for case in eval_set.cases)
        assert all(case.line for case in eval_set.cases)


def _is_no_eval_set(path: Path) -> None:
    with pytest.raises(
        InvalidInputError, match=r"no eval set of a format|goal_details|`NaN` is no JSON number"
    ):
        load_eval_sets([path.name], plugin_registry.get_formats(), folder=path.parent)


def _holds_thresholds(path: Path) -> None:
    """All problems are that something must be called which is not at hand here."""
    try:
        criteria = load_thresholds(path, path.name).criteria
    except InvalidInputError as error:
        for problem in error.problems:
            assert re.search(NEEDS_CODE, problem.message)
            assert problem.line
    else:
        assert criteria
