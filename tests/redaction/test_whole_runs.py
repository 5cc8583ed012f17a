"""Whole runs with secrets in unusual places: names, metrics, files and truncated texts."""

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.commands import evalgate

SECRET = "blue-monkey-4711/tango+x"
LINES = "line-one-9a8b7c6d\nline-two-5e4f3a2b"
KNOWN = "ghp_" + "a1B2c3D4e5F6" * 3
KEY = (
    "-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA7bq2abcdEFGHxyz\n"
    "QyNTUxOQAAACB7abcdEFGHijklmno12\n-----END PRIVATE KEY-----"
)

AGENT = f"""\
import base64, json, os, sys
from urllib.parse import quote

SECRET, LINES, KNOWN, KEY = os.environ["AGENT_TOKEN"], os.environ["AGENT_SECRET"], {KNOWN!r}, {KEY!r}
SPELT = [SECRET, json.dumps({{"k": SECRET}}), base64.b64encode(SECRET.encode()).decode(), quote(SECRET, safe=""),
         LINES, repr(LINES), json.dumps(LINES), KEY, json.dumps(KEY), KNOWN]

def answer(text, session):
    if text == "names":
        for each in SPELT:
            session.tool_call(each, {{each: each, "list": [each, {{each: [each]}}]}})
            session.tool_result(each, {{each: each, "headers": {{"X-Api-Key": "hunter2hunter2"}}}})
    if text == "kind":
        raise type("Odd_" + KNOWN, (Exception,), {{}})("boom")
    if text == "lines":
        raise ValueError("\\n".join(["several", SECRET, LINES]))
    if text == "head":
        raise ValueError("p" * 480 + " " + SECRET)
    if text == "tail":
        sys.stderr.write(SECRET + " w" * 4086)
        sys.stderr.flush()
        os._exit(9)
    if text == "exit":
        sys.exit(SECRET)
    return " ".join(SPELT)

SEEN = {SECRET!r} + " " + {KNOWN!r} + " "

def raising(case, run):
    raise ValueError("broke with " + SEEN)

def telling(case, run):
    print(SEEN)
    print(SEEN, file=sys.stderr)
    return {{"score": 0.1, "reason": "saw " + SEEN * 300}}

def odd(case, run):
    return {{"score": SEEN}}
"""
FILE = f"set of {KNOWN}.evalset.json"
CASES = ("names", "kind", "lines", "head", "tail", "exit", "says")


def _case(text: str) -> object:
    turn = {
        "user_content": {"parts": [{"text": text}]},
        "final_response": {"parts": [{"text": f"no {KNOWN}"}]},
        "intermediate_data": {"tool_uses": [{"name": SECRET, "args": {SECRET: KNOWN}}]},
    }
    session = {"app_name": "a", "user_id": SECRET, "state": {"api_key": "hunter2hunter2", "k": SECRET}}
    return {"eval_id": f"{text} {KNOWN}", "session_input": session, "conversation": [turn]}


def _project(folder: Path) -> None:
    (folder / "agent.py").write_text(AGENT, "utf-8")
    cases = {"eval_set_id": f"set {SECRET}", "eval_cases": [_case(text) for text in CASES]}
    (folder / FILE).write_text(json.dumps(cases), "utf-8")
    thresholds = {
        "version": 1,
        "eval_sets": ["*.evalset.json"],
        "agent": {"kind": "python", "entry": "agent.py:answer", "env": ["AGENT_TOKEN", "AGENT_SECRET"]},
        "custom_metrics": {name: {"entry": f"agent.py:{name}"} for name in ("raising", "telling", "odd")},
        "criteria": dict.fromkeys(
            ("tool_trajectory_avg_score", "response_match_score", "raising", "telling", "odd"), 1.0
        ),
    }
    (folder / "evalgate.json").write_text(json.dumps(thresholds), "utf-8")


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name of a sink → what commands wrote to it."""
    folder = tmp_path_factory.mktemp("project")
    _project(folder)
    files = {"GITHUB_OUTPUT": str(folder / "output.txt"), "GITHUB_STEP_SUMMARY": str(folder / "summary.md")}
    secrets = {"AGENT_TOKEN": SECRET, "AGENT_SECRET": LINES, "GITHUB_ACTIONS": "true"}
    found: dict[str, str] = {}
    for command in (
        ["run"],
        ["validate"],
        ["report", "--out", "again"],
        ["compare", "evalgate-report/results.json", "evalgate-report/results.json"],
        ["generate", "--from", "evalgate-report/results.json", "--to", "adk", "--out", "generated.json"],
        ["baseline", "save", "--allow-failing", "--to", "baseline.json"],
        ["run", f"nothing of {KNOWN}.json", "--out", "none"],
    ):
        done = evalgate(*command, cwd=folder, **files, **secrets)
        assert done.code in {0, 1, 2, 3}, done.err
        found[f"log of {' '.join(command)[:20]}"] = done.out + done.err
    inputs = {FILE, "evalgate.json", "agent.py"}
    paths = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return found | {
        str(path.relative_to(folder)): path.read_text("utf-8", "replace")
        for path in paths
        if path.name not in inputs
    }


def test_every_sink_is_looked_at(everything: dict[str, str]) -> None:
    names = ("results.json", "junit.xml", "comment.md", "gl-code-quality-report.json")
    reports = {f"{folder}/{name}" for folder in ("evalgate-report", "again") for name in names}
    assert reports | {"output.txt", "summary.md", "log of run"} <= everything.keys()
    assert all("***" in everything[name] for name in reports)
    run = json.loads(everything["evalgate-report/results.json"])["cases"]
    assert [case["runs"][0]["outcome"] for case in run] == [
        "answered",
        "crashed",
        "crashed",
        "crashed",
        "crashed",
        "crashed",
        "answered",
    ]


def _spelt(secret: str) -> set[str]:
    """As it is, and the first and last two thirds of it."""
    whole = {
        secret,
        json.dumps(secret)[1:-1],
        quote(secret, safe=""),
        base64.b64encode(secret.encode()).decode().rstrip("="),
    }
    size = len(secret) * 2 // 3
    return whole | {secret[:size], secret[-size:]}


@pytest.mark.parametrize(
    "canary", [SECRET, KNOWN, *LINES.split("\n"), *KEY.split("\n")[1:3], "hunter2hunter2"]
)
def test_no_secret_is_anywhere(everything: dict[str, str], canary: str) -> None:
    forms = _spelt(canary)
    assert {name for name, text in everything.items() if any(form in text for form in forms)} == set()
