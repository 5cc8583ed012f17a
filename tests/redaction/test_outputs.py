"""Secrets planted in any input appear in no output of the gate."""

import base64
import json
from pathlib import Path

import pytest

from evalgate.config.cli_overrides import Overrides
from evalgate.core.types import CaseMetric, Failure, ToolCall, ToolResult
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.redaction.redactor import Redactor
from evalgate.runner.checkpoint.checkpoint import Checkpoint
from evalgate.runner.plan import build_plan
from tests.builders import a_case_result, a_record, a_reply, a_run_result, a_turn_result
from tests.commands import evalgate
from tests.runner.test_base_branch import PULL_REQUEST, git

OF_ENVIRONMENT = "blue-monkey-4711-tango"
ASKED_FOR = "my dog is called Rex"
ANNOUNCED = "zebra-crossing-77-alpha"
WELL_KNOWN = "ghp_" + "a1B2c3D4e5F6" * 3
BESIDE_ITS_NAME = "hunter2hunter2"

CANARIES = (OF_ENVIRONMENT, ASKED_FOR, ANNOUNCED, WELL_KNOWN, BESIDE_ITS_NAME)

AGENT = f"""\
import os, sys

KEY = os.environ["AGENT_TOKEN"]

def answer(text, session):
    print("stderr says", KEY, "::add-mask::" + "{ANNOUNCED}", file=sys.stderr)
    session.tool_call("login", {{"user": KEY, "password": "{BESIDE_ITS_NAME}", "nested": [{{"deep": KEY}}]}})
    session.tool_result("login", {{"said": "welcome " + KEY, "body": "{WELL_KNOWN}"}})
    if text == "crash":
        raise ValueError("cannot log in with " + KEY + " nor {WELL_KNOWN}")
    if text == "exit":
        print("last words:", KEY, "{ASKED_FOR}", file=sys.stderr, flush=True)
        os._exit(7)
    if text == "announce":
        return "::add-mask::{ANNOUNCED}"
    return f"{{KEY[:5]}}\\u200b{{KEY[5:]}} {{KEY}} {WELL_KNOWN} {ANNOUNCED} {ASKED_FOR}"

def judge(case, run):
    return {{"score": 0.25, "reason": "the judge saw " + "{ANNOUNCED} {WELL_KNOWN} {ASKED_FOR}"}}
"""


def eval_set() -> str:
    names = {f"case {OF_ENVIRONMENT}": "tell", "crash": "crash", "exit": "exit", "announce": "announce"}
    cases = [
        {
            "eval_id": eval_id,
            "conversation": [
                {
                    "user_content": {"parts": [{"text": text}]},
                    "final_response": {"parts": [{"text": f"Not {WELL_KNOWN}, please."}]},
                    "intermediate_data": {"tool_uses": [{"name": "login", "args": {"user": ASKED_FOR}}]},
                }
            ],
        }
        for eval_id, text in names.items()
    ]
    return json.dumps({"eval_set_id": f"set {WELL_KNOWN}", "eval_cases": cases})


THRESHOLDS = {
    "version": 1,
    "eval_sets": ["a.evalset.json"],
    "agent": {"kind": "python", "entry": "agent.py:answer", "env": ["AGENT_TOKEN"]},
    "criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 1.0},
}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name of a sink → all that a run with failing, crashing and dying cases wrote to it."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "agent.py").write_text(AGENT)
    (folder / "a.evalset.json").write_text(eval_set())
    (folder / "evalgate.json").write_text(json.dumps(THRESHOLDS))
    ours = {
        "AGENT_TOKEN": OF_ENVIRONMENT,
        "GITHUB_ACTIONS": "true",
        "GITHUB_OUTPUT": str(folder / "output.txt"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
    }
    done = evalgate("run", "--html", "--mask", ASKED_FOR, cwd=folder, **ours)
    assert done.code in {1, 3}, done.err
    saved = evalgate("baseline", "save", "--allow-failing", "--to", "baseline.json", cwd=folder, **ours)
    again = evalgate("report", "--out", "again", cwd=folder, **ours)
    files = {
        str(path.relative_to(folder)): path.read_text("utf-8")
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"} and path.name not in INPUTS
    }
    logs = {"log": done.out + done.err, "log of save": saved.out + saved.err}
    return {**files, **logs, "log of report": again.out + again.err}


INPUTS = ("a.evalset.json", "evalgate.json")


def test_every_sink_is_looked_at(everything: dict[str, str]) -> None:
    reports = ("results.json", "junit.xml", "comment.md", "gl-code-quality-report.json", "report.html")
    expected = {f"evalgate-report/{name}" for name in reports} | {f"again/{name}" for name in reports}
    assert expected | {"output.txt", "summary.md", "log"} <= everything.keys()
    assert "::error" in everything["log"]
    assert all("***" in everything[name] for name in [*expected, "summary.md", "log"])


@pytest.mark.parametrize("canary", CANARIES)
def test_no_secret_is_anywhere(everything: dict[str, str], canary: str) -> None:
    spelt = {canary, json.dumps(canary)[1:-1], base64.b64encode(canary.encode()).decode()}
    assert {name for name, text in everything.items() if any(each in text for each in spelt)} == set()


def test_the_text_of_judges_and_tools_is_hidden_wherever_it_stands_in_a_record() -> None:
    told = f"I saw {WELL_KNOWN} and {OF_ENVIRONMENT}"
    turn = a_turn_result(
        told, a_reply(told), a_reply(told, ToolCall(told, {told: told}), ToolResult("t", told))
    )
    run = a_run_result(turn, outcome="crashed", failure=Failure("exception", told, told))
    metric = CaseMetric("rubric", 0.0, 1.0, "failed", f"{told} ::add-mask::")
    record = a_record(a_case_result(told, "failed", metrics=(metric,), runs=(run,)), notices=(told,))
    hidden = str(LiveRedactor(Redactor.from_environment({"A_TOKEN": OF_ENVIRONMENT})).redact_tree(record))
    assert WELL_KNOWN not in hidden
    assert OF_ENVIRONMENT not in hidden


def test_a_journal_that_is_left_behind_holds_no_secret(tmp_path: Path) -> None:
    (tmp_path / "a.evalset.json").write_text(eval_set())
    (tmp_path / "evalgate.json").write_text(json.dumps(THRESHOLDS))
    environ = {"AGENT_TOKEN": OF_ENVIRONMENT}
    said = Overrides(mask=(ASKED_FOR,))
    plan = build_plan(said, thresholds_file=None, folder=tmp_path, environ=environ)
    told = f"{OF_ENVIRONMENT} {WELL_KNOWN} {ASKED_FOR} said"
    with Checkpoint(plan, tmp_path / "out", resume=False) as journaling:
        journaling.begin_run()
        journaling.add_runs([(0, a_run_result(a_turn_result(told, a_reply(told))))])
    (kept,) = (path.read_text("utf-8") for path in (tmp_path / "out").iterdir())
    assert "*** *** *** said" in kept
    assert not [canary for canary in CANARIES if canary in kept]


def test_a_secret_that_is_new_is_hidden_in_the_runs_of_an_old_journal(tmp_path: Path) -> None:
    (tmp_path / "a.evalset.json").write_text(eval_set())
    (tmp_path / "evalgate.json").write_text(json.dumps(THRESHOLDS))
    before = build_plan(Overrides(), thresholds_file=None, folder=tmp_path, environ={})
    with Checkpoint(before, tmp_path / "out", resume=False) as journaling:
        journaling.begin_run()
        journaling.add_runs([(0, a_run_result(a_turn_result(f"{OF_ENVIRONMENT} said")))])
    after = build_plan(
        Overrides(), thresholds_file=None, folder=tmp_path, environ={"AGENT_TOKEN": OF_ENVIRONMENT}
    )
    with Checkpoint(after, tmp_path / "out", resume=True) as journaling:
        ((run,),) = journaling.finished.values()
    assert run.turns[0].user == "*** said"


def test_an_agent_cannot_hide_that_its_change_edits_the_eval_sets(tmp_path: Path) -> None:
    agent = "def answer(text):\n    return '::add-mask::The change brought its own: a.evalset.json'\n"
    (tmp_path / "agent.py").write_text(agent)
    (tmp_path / "evalgate.json").write_text(json.dumps(THRESHOLDS))
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "Base")
    git(tmp_path, "update-ref", "refs/remotes/origin/main", "HEAD")
    (tmp_path / "a.evalset.json").write_text(eval_set())
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "Change")

    for command in ("run", "report"):
        evalgate(command, cwd=tmp_path, AGENT_TOKEN=OF_ENVIRONMENT, **PULL_REQUEST)
        comment = (tmp_path / "evalgate-report/comment.md").read_text("utf-8")
        assert "The change brought its own: a.evalset.json." in comment, command
