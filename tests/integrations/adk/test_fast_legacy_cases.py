"""The fast path through a legacy case list builds the same cases as the models."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import EvalCase
from evalgate.integrations.adk.legacy_evalset import AdkLegacyFormat
from tests.integrations.reading import problems, read


def read_by_both_paths(case: dict[str, Any]) -> tuple[EvalCase | str, EvalCase | str]:
    """Read a case by the fast path, and by the models: only these know the extra key."""
    return first_of([case]), first_of([case | {"unknown": 1}])


def first_of(cases: list[dict[str, Any]]) -> EvalCase | str:
    try:
        return read(AdkLegacyFormat(), cases).cases[0]
    except InvalidInputError as error:
        return str(error)


@pytest.mark.parametrize(
    "turn",
    [
        {"query": "q"},
        {"query": "q", "expected_tool_use": [{"tool_name": "f", "tool_input": {"a": 1}}], "reference": ""},
        {"query": "q", "expected_intermediate_agent_responses": [], "reference": "r"},
        {"query": "q", "expected_intermediate_agent_responses": ["said"]},
        {"query": "q", "expected_tool_use": None, "reference": None},
        {"query": "q", "expected_tool_use": [{"tool_name": "f", "tool_input": None}]},
    ],
)
@pytest.mark.parametrize("session", [{}, {"initial_session": None}, {"initial_session": {"state": {"k": 1}}}])
def test_the_fast_path_builds_the_same_case_as_the_models(
    turn: dict[str, Any], session: dict[str, Any]
) -> None:
    short, long = read_by_both_paths({"name": "c", "data": [turn], **session})
    assert isinstance(short, EvalCase)
    assert short == long


VALUES: st.SearchStrategy[Any] = st.sampled_from([None, "", "a", 1, True, [], {}, [1], {"a": 1}, [{}]])


def objects(**known: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: each | VALUES for name, each in known.items()})


USES = objects(tool_name=st.text(max_size=2), tool_input=st.just({"a": 1}))
TURNS = objects(
    query=st.text(max_size=3),
    expected_tool_use=st.lists(USES, max_size=2),
    expected_intermediate_agent_responses=VALUES,
    reference=st.text(max_size=2),
)
SESSIONS = objects(app_name=st.text(max_size=2), user_id=st.text(max_size=2), state=VALUES)


@given(name=st.text(max_size=3) | VALUES, turns=st.lists(TURNS, max_size=2), session=SESSIONS)
def test_the_fast_path_and_the_models_accept_the_same_cases(
    name: object, turns: list[dict[str, Any]], session: dict[str, Any]
) -> None:
    short, long = read_by_both_paths({"name": name, "data": turns, "initial_session": session})
    assert short == long


def test_an_unusual_case_does_not_affect_the_others() -> None:
    unusual = {"name": "other", "data": [{"query": "q", "unknown": 1}]}
    plain = {"name": "c", "data": [{"query": "q"}]}
    assert [case.eval_id for case in read(AdkLegacyFormat(), [unusual, plain]).cases] == ["other", "c"]


def test_every_invalid_case_is_reported() -> None:
    wrong = [
        {"name": 1, "data": []},
        {"name": "c", "data": []},
        {"data": [{}]},
        None,
        {"name": "c", "data": []},
    ]
    assert [problem.partition(": ")[2] for problem in problems(AdkLegacyFormat(), json.dumps(wrong))] == [
        "`[0].name` must be text, not 1",
        "`[2].name` is missing",
        "`[2].data[0].query` is missing",
        "`[3]` must be an object, not null",
        "'c' is the id of another case already, in line 1",
    ]
