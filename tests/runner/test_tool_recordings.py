"""`tool_mocks: {from: …}`: what is read from a recording, and whole runs of docs/tool-mocks.md."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalgate.__main__ import main
from evalgate.config.cli_overrides import Overrides
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    RecordedAnswer,
    RecordedCall,
    Reply,
    ToolCall,
    ToolRecording,
    ToolResult,
    UserMessage,
)
from evalgate.datasets.fingerprint import compute_case_fingerprint
from evalgate.runner.plan import build_plan
from evalgate.runner.tool_mocks import RecordedCases
from evalgate.runner.validation import check_files

PAGE = (Path(__file__).parents[2] / "docs/tool-mocks.md").read_text("utf-8")
SNIPPET = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]  # type: ignore[index]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    (tmp_path / "agent.py").write_text(SNIPPET)
    cases = [
        {"eval_id": name, "conversation": [{"user_content": {"parts": [{"text": f"Where is {name}"}]}}]}
        for name in ("A-1", "A-2")
    ]
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals/a.evalset.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": cases}))
    write_rules(tmp_path, "{from: evals/tools.json}")
    return tmp_path


def write_rules(folder: Path, mocks: str) -> None:
    (folder / "evalgate.yaml").write_text(
        "version: 1\neval_sets: evals/a.evalset.json\nagent: {kind: python, entry: 'agent.py:answer'}\n"
        f"criteria: {{response_match_score: 0.0}}\ntool_mocks: {mocks}\n"
    )


def read_results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "evalgate-report/results.json").read_text("utf-8"))
    return found


def read_responses(folder: Path) -> list[object]:
    return [
        case["runs"][0]["turns"][0]["actual"] and case["runs"][0]["turns"][0]["actual"]["response"]
        for case in read_results(folder)["cases"]
    ]


def find_problems(folder: Path) -> list[str]:
    with pytest.raises(InvalidInputError) as error:
        list(check_files(Overrides(), thresholds_file=None, folder=folder))
    return [str(problem) for problem in error.value.problems]


def test_the_page_records_and_answers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--live-tools"]) == 0
    assert read_responses(folder) == ["Your order has shipped."] * 2
    recording = read_results(folder)
    assert not any("answered from" in notice for notice in recording.get("notices", ()))
    text = json.dumps(recording).replace('"shipped"', '"lost"')
    (folder / "evals/tools.json").write_text(text)
    main(["baseline", "save"])

    assert main(["run"]) == 0
    results = read_results(folder)
    assert read_responses(folder) == ["Your order has lost."] * 2
    [notice] = [each for each in results["notices"] if "answered from" in each]
    assert notice.startswith("The calls of tools were answered from evals/tools.json (recording ")
    assert results["comparison"]["unchanged"] == 0  # a run with a recording is not one without

    agent = (folder / "agent.py").read_text()
    (folder / "agent.py").write_text(agent.replace("text.split()[-1]", "text"))
    assert main(["run"]) == 3
    failure = read_results(folder)["cases"][0]["runs"][0]["failure"]
    assert failure["kind"] == "no_mock"
    assert 'differs in `order_id`: recorded "A-1", now "Where is A-1"' in failure["message"]

    write_rules(folder, "{from: evalgate-report/results.json}")
    capsys.readouterr()
    assert main(["run"]) == 2
    assert "would write its results over results.json" in capsys.readouterr().err


def test_an_agent_whose_tools_cannot_be_replaced_is_not_asked(folder: Path) -> None:
    main(["run", "--live-tools"])
    (folder / "evalgate-report/results.json").rename(folder / "evals/tools.json")
    (folder / "agent.py").write_text("def answer(text):\n    open('called', 'w').close()\n    return text\n")

    assert main(["run"]) == 3
    assert not (folder / "called").exists()
    failure = read_results(folder)["cases"][0]["runs"][0]["failure"]
    assert failure["kind"] == "unsupported"
    assert "the OpenAI Agents SDK, Pydantic AI" in failure["message"]


def test_a_recording_that_cannot_be_used_is_an_error_at_its_line(folder: Path) -> None:
    missing = (
        "there is no recording evals/tools.json. Run once with `--live-tools`, and copy the results.json of "
        "that run there"
    )
    assert find_problems(folder) == [f"evalgate.yaml:5:14: {missing}"]
    write_rules(folder, "\n  - {tool: get_order, result: 1}\n  - {from: evals/tools.json, ids: 'A-*'}")
    assert find_problems(folder) == [f"evalgate.yaml:7:6: {missing}"]
    write_rules(folder, "{form: evals/tools.json}")
    assert find_problems(folder) == [
        "evalgate.yaml:5:1: `tool_mocks.from` is missing",
        "evalgate.yaml:5:14: `tool_mocks.form` is not a known key. Did you mean `from`?",
    ]
    write_rules(folder, "[{from: evals/tools.json, result: 1}]")
    assert find_problems(folder) == [
        "evalgate.yaml:5:14: `tool_mocks[0]` has `from` and `result`: a fixed result is an entry of its own"
    ]
    (folder / "evals/tools.json").write_text(
        json.dumps({"eval_set_id": "b", "eval_cases": [{"eval_id": "no", "conversation": []}]})
    )
    write_rules(folder, "{from: evals/tools.json}")
    assert find_problems(folder) == ["evalgate.yaml:5:14: evals/tools.json has no run of any of the cases"]


def test_validate_names_what_a_recording_lacks(folder: Path) -> None:
    responses = [{"name": "get_order", "response": {"token": "***"}}]
    uses = [{"name": "get_order", "args": {"order_id": "A-1"}}]
    turn = {
        "user_content": {"parts": [{"text": "Where is A-1"}]},
        "intermediate_data": {"tool_uses": uses, "tool_responses": responses},
    }
    case = {"eval_id": "A-1", "conversation": [turn]}
    (folder / "tools.evalset.json").write_text(json.dumps({"eval_set_id": "renamed", "eval_cases": [case]}))
    write_rules(folder, "{from: tools.evalset.json, live: 'calc*'}")

    found = list(check_files(Overrides(), thresholds_file=None, folder=folder))

    assert found[1:3] == [
        (
            "tools.evalset.json has no run of 1 case (`A-2`): each call of a tool ends the case without a score. "
            "Record again with `--live-tools`."
        ),
        (
            "tools.evalset.json has redacted results (`***`) of `get_order`, which are not used: a call that needs "
            "one ends the case without a score. Add a fixed result to `tool_mocks`."
        ),
    ]
    plan = build_plan(Overrides(), thresholds_file=None, folder=folder, environ={})
    first, second = plan.suites[0].eval_set.cases
    assert first.tool_recording is not None
    assert first.tool_recording.calls[0].answers == (RecordedAnswer(lost="its result is redacted (`***`)"),)
    assert second.tool_recording is not None
    assert (second.tool_recording.calls, second.tool_recording.live) == ((), ("calc*",))
    live = build_plan(Overrides(live_tools=True), thresholds_file=None, folder=folder, environ={})
    assert live.suites[0].eval_set.cases[0].tool_recording is None


def make_case(*events: ToolCall | ToolResult) -> EvalCase:
    return EvalCase("one", (CaseTurn(UserMessage("hi"), Reply("ho", events)),))


def extract(*cases: EvalCase) -> tuple[RecordedCall, ...] | None:
    eval_set = EvalSet("a", cases)
    return RecordedCases(eval_set).find_calls(eval_set, cases[0])


def test_results_belong_to_the_call_with_their_id_else_to_the_next_of_the_tool() -> None:
    calls = extract(
        make_case(
            ToolCall("get", {"n": 1}, "x"),
            ToolCall("get", {"n": 2}, "y"),
            ToolCall("put", {}),
            ToolResult("get", "second", "y"),
            ToolResult("get", "first", "x"),
            ToolResult("put", {"error": "no", "raised": "OSError"}),
            ToolCall("get", {"n": 1.0}),
        )
    )

    lost = RecordedAnswer(lost="no result of it: the tool raised an error, or the run ended there")
    assert calls == (
        RecordedCall("get", {"n": 1.0}, (RecordedAnswer("first"), lost)),
        RecordedCall("get", {"n": 2}, (RecordedAnswer("second"),)),
        RecordedCall("put", {}, (RecordedAnswer(error="no", error_type="OSError"),)),
    )


def test_of_several_runs_each_call_has_the_answers_of_the_run_with_most_of_them() -> None:
    first = make_case(ToolCall("get", {}), ToolResult("get", 1), ToolCall("put", {}), ToolResult("put", 2))
    second = make_case(ToolCall("get", {}), ToolResult("get", 3), ToolCall("get", {}), ToolResult("get", 4))

    assert extract(first, second) == (
        RecordedCall("get", {}, (RecordedAnswer(3), RecordedAnswer(4))),
        RecordedCall("put", {}, (RecordedAnswer(2),)),
    )


def test_the_recorded_calls_are_part_of_a_case_and_their_file_is_not() -> None:
    plain = make_case()
    recordings = (
        None,
        ToolRecording("a.json"),
        ToolRecording("a.json", (RecordedCall("get", {}, (RecordedAnswer(1),)),)),
        ToolRecording("a.json", (RecordedCall("get", {}, (RecordedAnswer(2),)),)),
        ToolRecording("a.json", live=("get",)),
    )
    found = [compute_case_fingerprint(replace(plain, tool_recording=each)) for each in recordings]

    assert len(set(found)) == len(recordings)
    moved = ToolRecording("b.json", digest="other")
    assert compute_case_fingerprint(replace(plain, tool_recording=moved)) == found[1]
