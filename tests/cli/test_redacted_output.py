"""Output of commands that quotes files of other people."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from evalgate.core.sanitize import strip_invisible
from evalgate.datasets.results_io import dump_record
from tests.builders import a_case_result, a_record, a_reply, a_run_result, a_turn_result
from tests.commands import evalgate

SECRET = "blue-monkey-4711-tango"
KNOWN = "ghp_" + "a1B2c3D4e5F6" * 3
HOSTILE = f"\u202egnp.exe ##[add-mask]e ##vso[task.complete] ##teamcity[x] {SECRET} {KNOWN}"
FILE = f"e ##[group]g\n::error::{KNOWN}.evalset.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    turn = {"user_content": {"parts": [{"text": HOSTILE}]}, "final_response": {"parts": [{"text": HOSTILE}]}}
    cases = [
        {"eval_id": f"::set-output name=v::pass {HOSTILE}{n}", "conversation": [turn, turn]} for n in range(2)
    ]
    (tmp_path / FILE).write_text(json.dumps({"eval_set_id": HOSTILE, "eval_cases": cases}), "utf-8")
    thresholds = {
        "version": 1,
        "eval_sets": ["*.evalset.json"],
        "agent": {"kind": "python", "entry": "agent.py:answer"},
        "criteria": {"tool_trajectory_avg_score": 1.0},
    }
    (tmp_path / "evalgate.json").write_text(json.dumps(thresholds), "utf-8")
    turns = (a_turn_result(HOSTILE, a_reply(HOSTILE), a_reply(HOSTILE)),)
    crashed_runs = tuple(a_run_result(run=number, outcome="crashed") for number in (1, 2, 3))
    crashed = a_case_result(f"::error::{HOSTILE}2", "errored", runs=crashed_runs)
    answered = a_case_result(
        f"::error::{HOSTILE}", runs=tuple(a_run_result(*turns, run=number) for number in (1, 2, 3))
    )
    (tmp_path / "results.json").write_text(dump_record(a_record(answered, crashed)), "utf-8")
    return tmp_path


COMMANDS: Mapping[str, list[str]] = {
    "validate": ["validate"],
    "convert": ["convert", FILE, "--to", "orchestrate", "--out", "out"],
    "generate": ["generate", "--from", "results.json", "--to", "adk", "--out", "generated.json"],
    "review": ["review", FILE],
    "compare": ["compare", "results.json", "results.json"],
    "aa": ["aa", "results.json"],
    "save": ["baseline", "save", "results.json", "--to", f"{HOSTILE[:40]}.json", "--allow-pull-request"],
    "report": ["report", "results.json"],
    "wrong file": ["validate", f"no::error::x\n::error::{HOSTILE}"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_no_command_prints_a_runner_command_a_secret_or_invisible_text(
    folder: Path, command: list[str]
) -> None:
    done = evalgate(*command, cwd=folder, A_TOKEN=SECRET)
    said = done.out + done.err

    assert said
    assert "Traceback" not in done.err
    assert not re.search(r"(?m)^\s*::|##(?:\[|vso\[|teamcity\[)", said)
    assert strip_invisible(said) == said
    assert SECRET not in said
    assert KNOWN not in said
