"""Google ADK's cases: the fast path builds the same case as the models, or leaves it to them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.types import EvalCase
from evalgate.integrations.adk.evalset import AdkFormat
from evalgate.integrations.adk.fast_cases import parse_simple_case
from tests.integrations.reading import read

CALL = {"id": "t1", "name": "add", "args": {"a": 2}}
RESULT = {"id": "t1", "name": "add", "response": {"sum": 5}}
TURN = {
    "invocation_id": "i",
    "user_content": {"role": "user", "parts": [{"text": "What is 2 + 3?"}]},
    "final_response": {"role": "model", "parts": [{"text": "5"}]},
    "intermediate_data": {"tool_uses": [CALL], "tool_responses": [RESULT], "intermediate_responses": []},
    "creation_timestamp": 1.5,
}
SESSION = {"app_name": "app", "user_id": "ada", "state": {"k": 1}}
CASE = {"eval_id": "c", "conversation": [TURN], "session_input": SESSION, "creation_timestamp": 2.5}

UNUSUAL: tuple[dict[str, Any], ...] = (
    {"user_content": None},
    {"user_content": {"parts": []}},
    {"user_content": {"parts": [{"text": None}]}},
    {"user_content": {"parts": [{"text": "a"}, {"text": "b"}]}},
    {"user_content": {"parts": [{"text": "a", "thought": True}]}},
    {"user_content": {"role": "model", "parts": [{"text": "a"}]}},
    {"userContent": {"parts": [{"text": "a"}]}},
    {"final_response": {"parts": None}},
    {"final_response": {"role": None, "parts": [{"text": "a"}]}},
    {"final_response": {"parts": [{"inline_data": {}}]}},
    {"intermediate_data": {"invocation_events": []}},
    {"intermediate_data": {"tool_uses": None}},
    {"intermediate_data": {"tool_uses": [CALL | {"name": None}]}},
    {"intermediate_data": {"tool_uses": [CALL | {"args": []}]}},
    {"intermediate_data": {"tool_responses": [RESULT | {"id": 1}]}},
    {"intermediate_data": {"intermediate_responses": [["eye", [{"text": "I see."}]]]}},
    {"creation_timestamp": 1},
    {"creation_timestamp": True},
    {"rubrics": []},
)
"""Members of a turn that only the models read, or refuse."""


def build_by_models(case: dict[str, Any]) -> EvalCase:
    """Read a case with pydantic's models: the fast path does not know the key `rubrics`."""
    (only,) = read(AdkFormat(), {"eval_set_id": "s", "eval_cases": [case | {"rubrics": []}]}).cases
    return only


@pytest.mark.parametrize(
    "turn",
    [
        TURN,
        {"user_content": {"parts": [{"text": ""}]}},
        TURN | {"final_response": None, "intermediate_data": None, "invocation_id": None},
        TURN | {"final_response": {"parts": [{"text": ""}]}, "intermediate_data": {}},
        TURN | {"intermediate_data": {"tool_uses": [{}, {"name": "f", "args": None, "id": None}]}},
        TURN | {"intermediate_data": {"tool_responses": [{}, {"name": "f", "response": [1]}]}},
        TURN | {"creation_timestamp": None},
    ],
)
def test_common_turns_are_built_as_by_the_models(turn: dict[str, Any]) -> None:
    case = CASE | {"conversation": [turn, TURN]}
    assert parse_simple_case(case, 1) == build_by_models(case)


@pytest.mark.parametrize(
    "case",
    [
        None,
        [],
        {},
        CASE | {"eval_id": " "},
        CASE | {"eval_id": 1},
        CASE | {"conversation": None},
        CASE | {"conversation_scenario": None},
        CASE | {"final_session_state": {}},
        CASE | {"session_input": SESSION | {"state": None}},
        CASE | {"session_input": SESSION | {"session_id": "s"}},
        CASE | {"name": "a"},
        *(CASE | {"conversation": [TURN | change]} for change in UNUSUAL),
    ],
)
def test_unusual_cases_are_left_to_the_models(case: object) -> None:
    assert parse_simple_case(case, 1) is None


VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "a", 1, 1.5, True, [], {}, [1], {"a": 1}, [None], [{}]]
)


def objects(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: each | VALUES for name, each in members.items()})


def contents(*roles: str) -> st.SearchStrategy[dict[str, Any]]:
    parts = st.lists(objects(text=st.text(max_size=3), thought=VALUES), max_size=2)
    return objects(role=st.sampled_from(roles), parts=parts)


CALLS = objects(id=st.text(max_size=1), name=st.text(max_size=2), args=VALUES)
RESULTS = objects(id=st.text(max_size=1), name=st.text(max_size=2), response=VALUES)
DATA = objects(tool_uses=st.lists(CALLS, max_size=2), tool_responses=st.lists(RESULTS, max_size=2))
TURNS = st.fixed_dictionaries(
    {"user_content": contents("user", "model")},
    optional={
        "final_response": contents("model", "user"),
        "intermediate_data": DATA,
        "invocation_id": VALUES,
    },
)
SESSIONS = objects(app_name=st.text(max_size=2), user_id=st.text(max_size=2), state=VALUES)


@given(conversation=st.lists(TURNS, max_size=2), session=SESSIONS, created=VALUES)
def test_the_fast_path_and_the_models_agree(
    conversation: list[dict[str, Any]], session: dict[str, Any], created: object
) -> None:
    case = CASE | {"conversation": conversation, "session_input": session, "creation_timestamp": created}
    found = parse_simple_case(case, 1)
    assert found is None or found == build_by_models(case)


@given(st.dictionaries(st.sampled_from(["eval_id", "conversation", "evalId", "name", "rubrics"]), VALUES))
def test_other_objects_are_left_to_the_models(case: dict[str, Any]) -> None:
    found = parse_simple_case(case, 1)
    assert found is None or found == build_by_models(case)
