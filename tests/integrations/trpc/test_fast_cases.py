"""tRPC-Agent-Go's cases: the fast path builds the same case as the models, or leaves it to them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.types import EvalCase
from evalgate.integrations.trpc.evalset import TrpcFormat
from evalgate.integrations.trpc.fast_cases import parse_simple_case
from tests.integrations.reading import problems, read

SESSION = {"appName": "app", "userId": "ada", "state": {"k": 1}}
TOOL = {"id": "t1", "name": "add", "arguments": {"a": 2}, "result": 5}
TURN = {
    "invocationId": "i",
    "userContent": {"role": "user", "content": "What is 2 + 3?"},
    "finalResponse": {"role": "assistant", "content": "5"},
    "tools": [TOOL],
    "creationTimestamp": 1.5,
}
CASE = {"evalId": "c", "conversation": [TURN], "sessionInput": SESSION}

UNUSUAL: tuple[dict[str, Any], ...] = (
    {"userContent": None},
    {"finalResponse": None},
    {"finalResponse": {"parts": [{"text": "5"}]}},
    {"finalResponse": {"role": "critic", "content": "5"}},
    {"finalResponse": {"role": "assistant", "content": 5}},
    {"finalResponse": {"role": [], "content": "5"}},
    {"tools": None},
    {"tools": [TOOL | {"Name": "add"}]},
    {"tools": [TOOL | {"name": None}]},
    {"creationTimestamp": True},
    {"contextMessages": []},
)
"""Members of a turn that only the models read, or refuse."""


def build_by_models(case: dict[str, Any]) -> EvalCase:
    """Read a case with pydantic's models: the fast path does not know the key `rubrics`."""
    (only,) = read(TrpcFormat(), {"evalSetId": "s", "evalCases": [case | {"rubrics": []}]}).cases
    return only


@pytest.mark.parametrize(
    "turn",
    [
        TURN,
        {"userContent": {"content": "hi"}, "finalResponse": {"role": "model", "content": ""}},
        TURN | {"tools": []},
        TURN | {"tools": [TOOL, TOOL]},
        TURN | {"tools": [{"name": "f", "arguments": [1], "result": None}, {"name": "g", "result": ""}]},
        TURN | {"tools": [{"id": "a", "name": "f"}, {"id": "b", "name": "f", "arguments": None}]},
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
        CASE | {"evalId": " "},
        CASE | {"evalId": 1},
        CASE | {"evalMode": "trace"},
        CASE | {"conversation": []},
        CASE | {"conversation": None},
        CASE | {"sessionInput": None},
        CASE | {"sessionInput": SESSION | {"state": None}},
        CASE | {"sessionInput": SESSION | {"userID": "bob"}},
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


ROLES = st.sampled_from(["user", "assistant", "model", "", "critic"])
MESSAGES = objects(role=ROLES, content=st.text(max_size=3))
TOOLS = objects(id=st.text(max_size=1), name=st.text(max_size=2), arguments=VALUES, result=VALUES)
TURNS = objects(userContent=MESSAGES, finalResponse=MESSAGES, tools=st.lists(TOOLS, max_size=3))
SESSIONS = objects(appName=st.text(max_size=2), userId=st.text(max_size=2), state=VALUES)


@given(conversation=st.lists(TURNS, min_size=1, max_size=2), session=SESSIONS)
def test_the_fast_path_and_the_models_agree(
    conversation: list[dict[str, Any]], session: dict[str, Any]
) -> None:
    case = {"evalId": "c", "conversation": conversation, "sessionInput": session}
    found = parse_simple_case(case, 1)
    assert found is None or found == build_by_models(case)


def test_an_unusual_case_does_not_affect_the_others() -> None:
    unusual = {"eval_id": "another", "conversation": [TURN], "session_input": SESSION}
    found = read(TrpcFormat(), {"evalSetId": "s", "evalCases": [unusual, CASE]}).cases
    assert [(case.eval_id, case.turns) for case in found] == [
        ("another", build_by_models(CASE).turns),
        ("c", build_by_models(CASE).turns),
    ]


def test_problems_of_every_case_and_of_the_set_are_reported() -> None:
    cases = [CASE | {"evalId": 1}, CASE, CASE | {"evalId": "d", "conversation": "hi"}, None, CASE]
    found = problems(TrpcFormat(), json.dumps({"EvalCases": cases}, indent=0))
    assert [problem.partition(": ")[2] for problem in found] == [
        "`evalSetId` is missing",
        "`evalCases[0].evalId` must be text, not 1",
        "`evalCases[2].conversation` must be a list, not 'hi'",
        "`evalCases[3]` must be an object, not null",
        "'c' is the id of another case already, in line 38",
    ]
