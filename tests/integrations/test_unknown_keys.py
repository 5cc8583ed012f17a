"""A key that is not read is an error if its owner refuses it, and reported if its owner ignores it."""

import copy
import json
from typing import Any

import pytest

from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import EvalSet
from evalgate.datasets.large.large_json import read_large_json
from evalgate.documents.strict_json import parse_json
from tests.commands import evalgate

CALL = {"name": "find", "args": {"query": "shoes"}, "id": "1"}
TURN: dict[str, Any] = {
    "user_content": {"role": "user", "parts": [{"text": "Hi"}]},
    "final_response": {"role": "model", "parts": [{"text": "Hello", "thought": True}]},
    "intermediate_data": {"tool_uses": [CALL], "tool_responses": [{"name": "find", "response": {}}]},
}
EVENTS = {"invocation_events": [{"author": "a", "content": {"parts": [{"function_call": CALL}]}}]}
CASE: dict[str, Any] = {
    "eval_id": "c",
    "conversation": [TURN],
    "session_input": {"app_name": "a", "user_id": "u", "state": {"anything": 1}},
    "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "Is kind."}}],
}
ADK = {"eval_set_id": "s", "eval_cases": [CASE]}
PERSONA = {"id": "p", "description": "d", "behaviors": []}
SCENARIO = {"starting_prompt": "Hi", "conversation_plan": "Ask.", "user_persona": PERSONA}
PLAYED = {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation_scenario": SCENARIO}]}
WITH_EVENTS = {
    "eval_set_id": "s",
    "eval_cases": [{**CASE, "conversation": [{**TURN, "intermediate_data": EVENTS}]}],
}
MESSAGE = {"role": "user", "content": "Hi"}
TRPC = {
    "evalSetId": "s",
    "evalCases": [
        {
            "evalId": "c",
            "sessionInput": {},
            "conversation": [{"userContent": MESSAGE, "tools": [{"name": "f", "arguments": {}}]}],
        }
    ],
}
OLD_TRPC = {
    "evalSetId": "s",
    "evalCases": [
        {
            "evalId": "c",
            "sessionInput": {},
            "conversation": [
                {"userContent": MESSAGE, "intermediateData": {"toolUses": [{"name": "f", "args": {}}]}}
            ],
        }
    ],
}
RS = {
    "id": "s",
    "eval_cases": [
        {
            "id": "c",
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": "Hi"}]},
                    "intermediate_data": {"tool_uses": [CALL]},
                }
            ],
        }
    ],
}
LEGACY = [{"query": "Hi", "reference": "Hello", "expected_tool_use": [{"tool_name": "f", "tool_input": {}}]}]
CASES = [{"name": "c", "data": LEGACY}]
WXO = {
    "story": "s",
    "starting_sentence": "Hi",
    "goals": {"g": []},
    "goal_details": [{"type": "tool_call", "name": "g", "tool_name": "f", "args": {}}],
}
PLACES = {
    "turn": ("eval_cases", 0, "conversation", 0),
    "part": ("eval_cases", 0, "conversation", 0, "user_content", "parts", 0),
    "data": ("eval_cases", 0, "conversation", 0, "intermediate_data"),
    "call": ("eval_cases", 0, "conversation", 0, "intermediate_data", "tool_uses", 0),
}  # fmt: skip


def changed(document: Any, place: tuple[str | int, ...], *, without: str = "", **members: object) -> Any:
    document = copy.deepcopy(document)
    at = document
    for part in place:
        at = at[part]
    at.pop(without, None)
    at.update(members)
    return document


def read(document: Any, name: str) -> EvalSet:
    return plugin_registry.get_formats()[name].read_eval_set(
        parse_json(json.dumps(document).encode(), "f.json")
    )


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (changed(ADK, PLACES["turn"], intermediate_dta={"tool_uses": [CALL]}), "`eval_cases[0].conversation[0].intermediate_dta` is not a known key. Did you mean `intermediate_data`?"),
        (changed(ADK, PLACES["turn"], expected_tool_use=[CALL]), "`eval_cases[0].conversation[0].expected_tool_use` is not a known key. Write `intermediate_data`."),
        (changed(ADK, PLACES["data"], without="tool_uses", tool_use=[CALL]), "`eval_cases[0].conversation[0].intermediate_data.tool_use` is not a known key. Did you mean `tool_uses`?"),
        (changed(ADK, PLACES["call"], without="args", arguments={}), "`eval_cases[0].conversation[0].intermediate_data.tool_uses[0].arguments` is not a known key. Did you mean `args`?"),
        (changed(ADK, PLACES["call"], without="args", parameters={"x": 1}), "`eval_cases[0].conversation[0].intermediate_data.tool_uses[0].parameters` is not a known key. Known here: `id`, `name`, `args`, `partial_args` and `will_continue`."),
        (changed(ADK, PLACES["call"], argz={"x": 1}), "`eval_cases[0].conversation[0].intermediate_data.tool_uses[0].argz` is not a known key. Did you mean `args`?"),
        (changed(ADK, PLACES["part"], without="text", txt="Hi"), "`eval_cases[0].conversation[0].user_content.parts[0].txt` is not a known key. Did you mean `text`?"),
        (changed(ADK, (*PLACES["turn"], "final_response"), without="parts", part=[{"text": "x"}]), "`eval_cases[0].conversation[0].final_response.part` is not a known key. Did you mean `parts`?"),
        (changed(ADK, (*PLACES["turn"], "final_response", "parts", 0), without="text", content="x"), "`eval_cases[0].conversation[0].final_response.parts[0].content` is not a known key."),
        (changed(ADK, (*PLACES["data"], "tool_responses", 0), without="response", result=1), "`eval_cases[0].conversation[0].intermediate_data.tool_responses[0].result` is not a known key. Known here: "),
        (changed(WITH_EVENTS, PLACES["data"], tool_usez=[CALL]), "`eval_cases[0].conversation[0].intermediate_data.tool_usez` is not a known key. Did you mean `tool_uses`?"),
        (changed(WITH_EVENTS, (*PLACES["data"], "invocation_events", 0, "content", "parts", 0, "function_call"), arg={"x": 1}), "function_call.arg` is not a known key. Did you mean `args`?"),
        (changed(ADK, ("eval_cases", 0, "rubrics", 0), typ="X"), "`eval_cases[0].rubrics[0].typ` is not a known key. Did you mean `type`?"),
        (changed(PLAYED, ("eval_cases", 0, "conversation_scenario"), persona="EXPERT"), "`eval_cases[0].conversation_scenario.persona` is not a known key. Did you mean `user_persona`?"),
    ],
)  # fmt: skip
def test_a_key_that_google_adk_refuses_is_an_error(document: Any, problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read(document, "adk")

    (found,) = caught.value.problems
    assert problem in str(found)
    assert (found.file, found.line) == ("f.json", 1)
    name = found.message.split("`")[1].rpartition(".")[2]
    assert json.dumps(document)[found.column - 1 :].startswith(json.dumps(at_name(document, name)))


def at_name(value: Any, name: str) -> Any:
    """What stands under that key, which is in the document once."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        value = list(value.values())
    found = [at_name(item, name) for item in value] if isinstance(value, list) else []
    return next((item for item in found if item is not None), None)


def test_camel_case_is_checked_too() -> None:
    turn = {"userContent": TURN["user_content"], "intermediateDta": {"toolUses": [CALL]}}

    with pytest.raises(InvalidInputError, match="Did you mean `intermediate_data`"):
        read({"eval_set_id": "s", "evalCases": [{"evalId": "c", "conversation": [turn]}]}, "adk")


@pytest.mark.parametrize(
    ("name", "document", "told"),
    [
        ("adk", changed(ADK, (), nam="x"), "1 key of f.json is read by nothing: `nam` (line 1; did you mean `name`?)."),
        ("adk", changed(ADK, ("eval_cases", 0), final_sesion_state={"a": 1}), "`final_sesion_state` (line 1; did you mean `final_session_state`?)"),
        ("adk", changed(ADK, ("eval_cases", 0, "session_input"), color="red"), "`color` (line 1)"),
        ("adk", changed(ADK, PLACES["part"], brand_new=1), "`brand_new` (line 1)"),
        ("adk", changed(ADK, PLACES["call"], brand_new=1), "`brand_new` (line 1)"),
        ("adk", changed(WITH_EVENTS, (*PLACES["data"], "invocation_events", 0), mood=1), "`mood` (line 1)"),
        ("adk", changed(PLAYED, ("eval_cases", 0, "conversation_scenario", "user_persona"), behaviours=["x"]), "`behaviours` (line 1; did you mean `behaviors`?)"),
        ("adk-rs", changed(RS, PLACES["turn"], intermediate_dta={"x": 1}), "`intermediate_dta` (line 1; did you mean `intermediate_data`?)"),
        ("adk-rs", changed(RS, PLACES["call"], without="args", arguments={"x": 1}), "`arguments` (line 1; did you mean `args`?)"),
        ("trpc", changed(TRPC, ("evalCases", 0, "conversation", 0), tolls=[{"name": "g"}]), "`tolls` (line 1; did you mean `tools`?)"),
        ("trpc", changed(TRPC, ("evalCases", 0, "conversation", 0, "tools", 0), args={"x": 1}), "`args` (line 1; did you mean `arguments`?)"),
        ("trpc", changed(OLD_TRPC, ("evalCases", 0, "conversation", 0, "intermediateData"), toolUse=[{"name": "f"}]), "`toolUse` (line 1; did you mean `tool_uses`?)"),
        ("trpc", changed(OLD_TRPC, ("evalCases", 0, "conversation", 0, "intermediateData", "toolUses", 0), parameters={"x": 1}), "`parameters` (line 1; did you mean `arguments`?)"),
        ("adk-legacy", changed(LEGACY, (0,), expected_tool_uses=[{"tool_name": "g"}]), "`expected_tool_uses` (line 1; did you mean `expected_tool_use`?)"),
        ("adk-legacy", changed(CASES, (0, "data", 0), refrence="x"), "`refrence` (line 1; did you mean `reference`?)"),
        ("orchestrate", changed(WXO, (), user_prompt=["x"]), "`user_prompt` (line 1; did you mean `user_prompts`?)"),
        ("orchestrate", changed(WXO, ("goal_details", 0), arguments={"x": 1}), "`arguments` (line 1"),
    ],
)  # fmt: skip
def test_keys_that_the_owner_ignores_are_reported(name: str, document: Any, told: str) -> None:
    (notice,) = read(document, name).notices

    assert told in notice
    assert notice.startswith("1 key of f.json is read by nothing: ")


@pytest.mark.parametrize(
    ("name", "document"),
    [("adk", ADK), ("adk", PLAYED), ("adk", WITH_EVENTS), ("adk-rs", RS), ("trpc", TRPC), ("trpc", OLD_TRPC), ("adk-legacy", LEGACY), ("adk-legacy", CASES), ("orchestrate", WXO)],
)  # fmt: skip
def test_known_keys_are_not_reported(name: str, document: Any) -> None:
    assert read(document, name).notices == ()


def test_null_and_empty_values_are_not_reported() -> None:
    document = changed(ADK, PLACES["turn"], brand_new=None, newer=None)
    document = changed(document, ("eval_cases", 0), newest=[])

    assert read(document, "adk").notices == ()


def test_a_mistake_in_every_case_is_reported_ten_times(tmp_path: Any) -> None:
    turns = [changed(ADK, PLACES["turn"], intermediate_dta={"x": 1})["eval_cases"][0] for _ in range(50)]
    cases = [{**case, "eval_id": f"c{number}"} for number, case in enumerate(turns)]
    path = tmp_path / "f.json"
    path.write_text(json.dumps({"eval_set_id": "s", "eval_cases": cases}))

    for document in (read_large_json(path, "f.json", step=1), read_large_json(path, "f.json")):
        with pytest.raises(InvalidInputError) as caught:
            plugin_registry.get_formats()["adk"].read_eval_set(document)
        messages = [problem.message for problem in caught.value.problems]
        assert len(messages) == 11
        assert "`intermediate_dta` is unknown in 40 more places" in messages


def test_a_large_set_is_checked_once(tmp_path: Any) -> None:
    path = tmp_path / "f.json"
    cases = [{**CASE, "eval_id": f"c{number}", "mood": 1} for number in range(30)]
    path.write_text(json.dumps({"eval_set_id": "s", "eval_cases": cases}))

    found = plugin_registry.get_formats()["adk"].read_eval_set(read_large_json(path, "f.json", step=1))

    assert found.notices == ("30 keys of f.json are read by nothing: `mood` (30 times, first in line 1).",)
    assert [case.eval_id for case in found.cases] == [f"c{number}" for number in range(30)]


AGENT = "def answer(message):\n    return 'Hello'\n"


def test_validate_and_the_report_show_ignored_keys(tmp_path: Any) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "s.evalset.json").write_text(json.dumps(changed(ADK, ("eval_cases", 0), mood={"a": 1})))
    (tmp_path / "t.yaml").write_text("version: 1\ncriteria: {response_match_score: 0.5}\n")
    told = "1 key of s.evalset.json is read by nothing: `mood` (line 1)."

    checked = evalgate("validate", "s.evalset.json", "-c", "t.yaml", cwd=tmp_path)
    done = evalgate(
        "run", "s.evalset.json", "-c", "t.yaml", "--agent", "python:agent.py:answer", cwd=tmp_path
    )

    assert checked.code == 0
    assert told in checked.out
    assert "1 eval set: 1 warning, no error." in checked.out
    assert f"Note: {told}" in done.out
    assert told in json.loads((tmp_path / "evalgate-report" / "results.json").read_text())["notices"]
