"""`run --trace`: what the record keeps, and what it must not show."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

import evalgate
from tests import commands

SECRET = "blue-monkey-4711-tango"
AGENT = """
import base64, json

def answer(text, session):
    key = "blue-monkey-4711-tango"
    session.tool_call("charge", {"headers": {"Authorization": "Bearer " + key}, "order": "7"})
    session.tool_result("charge", {"log": base64.b64encode(("key=" + key).encode()).decode(), "ok": True})
    session.tool_call("note", {"body": json.dumps({"inner": json.dumps({"value": key})}), "long": "x" * 200_000})
    return "Done."
"""
CASE = {"eval_id": "refund", "conversation": [{"user_content": {"parts": [{"text": "Refund 7"}]}}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "a.evalset.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": [CASE]}))
    thresholds = {"criteria": {"response_match_score": 0.0}, "agent": {"entry": "agent.py:answer"}}
    (tmp_path / "evalgate.json").write_text(json.dumps({"version": 1, **thresholds}))
    return tmp_path


def run(folder: Path, *options: str) -> tuple[str, dict[str, Any]]:
    done = commands.evalgate(
        "run", "a.evalset.json", "--env", "A_TOKEN", *options, cwd=folder, A_TOKEN=SECRET
    )
    assert "Traceback" not in done.err
    text = (folder / "evalgate-report/results.json").read_text("utf-8")
    return text, json.loads(text)["cases"][0]["runs"][0]


def test_a_trace_is_kept_when_it_is_asked_for_and_shows_no_secret(folder: Path) -> None:
    text, with_trace = run(folder, "--trace")
    root, charge, note = with_trace["trace"]

    assert (root["kind"], root["request"], root["response"]) == ("agent", "Refund 7", "Done.")
    assert (charge["name"], charge["parent_id"]) == ("charge", root["id"])
    assert charge["request"]["order"] == "7"
    assert charge["response"]["ok"] is True
    # It reports no result, which it need not, and is no failure.
    assert (note.get("error", ""), note["duration_s"]) == ("", 0)
    assert note["attributes"] == {"result": "not reported"}
    assert note["request"]["long"].startswith("xxx")
    assert note["request"]["long"].endswith("more characters")
    assert SECRET not in text
    assert base64.b64encode(SECRET.encode()).decode()[4:-4] not in text
    assert "***" in json.dumps(charge)
    assert "***" in json.dumps(note)

    plain, without_trace = run(folder)
    assert '"trace"' not in plain
    assert {**without_trace, "duration_s": 0} == {
        **{key: value for key, value in with_trace.items() if key != "trace"},
        "duration_s": 0,
    }


def test_the_thresholds_file_and_the_library_ask_for_a_trace_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    file = json.loads(Path("evalgate.json").read_text("utf-8"))
    file["agent"]["trace"] = True
    Path("evalgate.json").write_text(json.dumps(file))
    by_file = evalgate.evaluate(["a.evalset.json"], thresholds="evalgate.json")
    given = evalgate.evaluate(
        ["a.evalset.json"], lambda _: "Done.", criteria={"response_match_score": 0.0}, trace=True
    )

    assert [step.name for step in by_file.cases[0].runs[0].trace] == ["agent", "charge", "note"]
    assert [step.request for step in given.cases[0].runs[0].trace] == ["Refund 7"]
