"""Whole commands with a large eval set: the record equals that of the same set in memory."""

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from evalgate.config.cli_overrides import Overrides
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import EvalCase, Record, RunResult
from evalgate.datasets import loading
from evalgate.datasets.large import large_json
from evalgate.datasets.large.large_json import read_large_json
from evalgate.datasets.large.stored_cases import StoredCases
from evalgate.datasets.results_io import dump_record
from evalgate.integrations.adk import cases
from evalgate.runner.pipeline import NO_OPTIONS, RunOptions, run_gate
from evalgate.runner.plan import build_plan
from evalgate.runner.validation import check_files

AGENT = """
from pathlib import Path

async def answer(text, session):
    if text == "spoil" and Path("../armed").exists():
        file = Path("s.json")
        file.write_text(file.read_text().replace("question", "QUESTION"))
    session.tool_call("find", {"text": text})
    session.state["done"] = True
    return text.upper()
"""
ENVIRON = {"PATH": "/usr/bin:/bin"}


class Nobody:
    """Watches no run."""

    def on_runs_planned(self, runs: int) -> None:
        """Nothing."""

    def on_run_finished(self, eval_set_id: str, eval_id: str, result: RunResult) -> None:
        """Nothing."""


def adk_case(number: int) -> dict[str, Any]:
    text = f"question {number % 5}"  # some stand twice
    turn = {
        "user_content": {"parts": [{"text": text}]},
        "final_response": {"parts": [{"text": text if number % 3 else "no"}]},
        "intermediate_data": {"tool_uses": [{"name": "find", "args": {"text": text}}]},
    }
    state = {"done": True} if number == 4 else None
    return {"eval_id": f"ü/{number}", "conversation": [turn], "final_session_state": state}


def adk_rs_case(number: int) -> dict[str, Any]:
    text = f"question {number % 5}"
    said = {"user_content": {"role": "user", "parts": [{"text": text}]}}
    expected = {"final_response": {"role": "model", "parts": [{"text": text}]}}
    return {"id": f"case {number}", "conversation": [{**said, **expected}]}


def trpc_case(number: int) -> dict[str, Any]:
    text = f"question {number % 5}"
    said = {"userContent": {"role": "user", "content": text}, "finalResponse": {"content": text}}
    return {
        "evalId": f"case {number}",
        "conversation": [{"invocationId": "i", **said}],
        "sessionInput": {"appName": "a"},
    }


def story(number: int) -> dict[str, Any]:
    goal = {"type": "text", "name": "said", "keywords": ["QUESTION"]}
    said = {"story": "You ask.", "starting_sentence": f"question {number}"}
    return {"dataset_name": f"d{number}", **said, "goals": {"said": []}, "goal_details": [goal]}


FILES: dict[str, Any] = {
    "adk": {"eval_set_id": "s", "eval_cases": [adk_case(number) for number in range(12)]},
    "adk-rs": {
        "id": "s",
        "eval_cases": [adk_rs_case(number) for number in range(12)],
    },
    "trpc": {"evalSetId": "s", "evalCases": [trpc_case(number) for number in range(12)]},
    "adk-legacy": [
        {"name": f"case {number}", "data": [{"query": "question", "reference": "QUESTION"}]}
        for number in range(12)
    ],
    "orchestrate": [story(number) for number in range(12)],
}
RULES: dict[str, Any] = {
    "eval_sets": ["s.json"],
    "agent": {"entry": "agent.py:answer"},
    "criteria": {"response_match_score": 0.8},
}
MORE: dict[str, Any] = {
    "runs": 2,
    "cases": [
        {"ids": ["*1*"], "tag": ["some"], "weight": 2.0},
        {"tags": ["some"], "criteria": {"response_match_score": 0.1}},
    ],
    "tool_mocks": [{"ids": ["*"], "tool": "other", "result": 1}],
}


def project(folder: Path, content: Any, **more: Any) -> Path:
    (folder / "agent.py").write_text(AGENT)
    (folder / "s.json").write_text(json.dumps(content))
    (folder / "evalgate.yaml").write_text(yaml.safe_dump({**RULES, **more}))
    return folder


def gated(folder: Path, *eval_sets: str, options: RunOptions = NO_OPTIONS) -> Record:
    said = Overrides(eval_sets=eval_sets, concurrency=3)
    return run_gate(
        build_plan(said, thresholds_file=None, folder=folder, environ=ENVIRON), Nobody(), run_options=options
    )


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_times(each) for key, each in value.items() if key not in _TIMES}
    return [without_times(each) for each in value] if isinstance(value, list) else value


_TIMES = {"duration_s", "created_at"}


def as_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read every file as if it were large."""
    monkeypatch.setattr(loading, "LARGE_FILE", 1)
    monkeypatch.setattr(large_json, "read_large_json", partial(read_large_json, step=60))


@pytest.mark.parametrize("format_name", FILES)
@pytest.mark.parametrize("more", [{}, MORE])
def test_a_run_has_the_same_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str, more: dict[str, Any]
) -> None:
    folder = project(tmp_path, FILES[format_name], **more)
    held = json.loads(dump_record(gated(folder)))
    lines = list(check_files(Overrides(), thresholds_file=None, folder=folder))
    as_large(monkeypatch)
    (found,) = loading.load_eval_sets(["s.json"], plugin_registry.get_formats(), folder=folder)
    assert isinstance(found.cases, StoredCases)
    record = gated(folder)

    assert without_times(json.loads(dump_record(record))) == without_times(held)
    assert list(check_files(Overrides(), thresholds_file=None, folder=folder)) == lines
    assert all(
        run.turns[0].expected is case.runs[0].turns[0].expected for case in record.cases for run in case.runs
    )


def test_the_size_of_the_file_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path, FILES["adk"])
    size = (folder / "s.json").stat().st_size
    as_large(monkeypatch)
    for limit, expected in ((size + 1, tuple), (size, StoredCases)):
        monkeypatch.setattr(loading, "LARGE_FILE", limit)
        (found,) = loading.load_eval_sets(["s.json"], plugin_registry.get_formats(), folder=folder)
        assert type(found.cases) is expected


def test_a_selection_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project(tmp_path, FILES["adk"])
    held = json.loads(dump_record(gated(folder, "s.json:ü/7,ü/3")))
    as_large(monkeypatch)
    assert without_times(json.loads(dump_record(gated(folder, "s.json:ü/7,ü/3")))) == without_times(held)


def test_each_case_is_made_once_to_check_it_and_once_for_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Counter[str] = Counter()
    make = cases.build_adk_case

    def counted(wire: Any, line: int, raw: object) -> EvalCase:
        made[wire.eval_id] += 1
        return make(wire, line, raw)

    folder = project(tmp_path, FILES["adk"], runs=2)
    as_large(monkeypatch)
    monkeypatch.setattr(cases, "build_adk_case", counted)
    gated(folder, options=RunOptions(journal_folder=folder / "out"))
    assert set(made.values()) == {3}


def test_whatever_is_wrong_is_told_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [adk_case(0), {"eval_id": "b"}, adk_case(0), adk_case(3), {"eval_id": 5, "conversation": []}]
    folder = project(tmp_path, {"eval_set_id": "s", "eval_cases": cases})
    as_large(monkeypatch)
    with pytest.raises(InvalidInputError) as caught:
        gated(folder)
    assert [problem.message for problem in caught.value.problems] == [
        "`eval_cases[1]` must hold a conversation or a conversation_scenario, but holds neither",
        "'ü/0' is the id of another case already, in line 1",
        "`eval_cases[4].eval_id` must be text, not 5",
    ]


def test_a_set_that_the_agent_changes_ends_the_run_which_goes_on_when_it_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [adk_case(number) for number in range(30)]
    cases[1]["conversation"][0]["user_content"]["parts"][0]["text"] = "spoil"
    (tmp_path / "project").mkdir()
    folder = project(tmp_path / "project", {"eval_set_id": "s", "eval_cases": cases})
    whole, written = json.loads(dump_record(gated(folder))), (folder / "s.json").read_bytes()
    as_large(monkeypatch)
    (tmp_path / "armed").touch()
    with pytest.raises(InvalidInputError, match=r"s\.json: was changed while evalgate worked with it"):
        gated(folder, options=RunOptions(journal_folder=folder / "out"))
    (tmp_path / "armed").unlink()
    (folder / "s.json").write_bytes(written)
    resumed = gated(folder, options=RunOptions(journal_folder=folder / "out", resume=True))
    assert without_times(json.loads(dump_record(resumed))) == without_times(whole)
