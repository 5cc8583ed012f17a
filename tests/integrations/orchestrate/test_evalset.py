"""Datasets of watsonx Orchestrate."""

import json
from typing import Any

import pytest

from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Goal,
    Journey,
    Reply,
    Scenario,
    SessionInput,
    ToolCall,
    UserMessage,
)
from evalgate.integrations.orchestrate.evalset import OrchestrateFormat
from tests.integrations.reading import problems, read, recognised

FORMAT = OrchestrateFormat()
CALL = {"type": "tool_call", "name": "t-1", "tool_name": "t", "args": {"x": 1}}


def a_dataset(**more: Any) -> dict[str, Any]:
    return {"story": "s", "goals": {"t-1": []}, "goal_details": [CALL], "starting_sentence": "hi", **more}


def test_every_field_is_read() -> None:
    goals = {"t-1": ["w", "end"], "w": [], "end": ["kb"]}
    details = [
        {**CALL, "arg_matching": {"x": "fuzzy"}},
        {"type": "interaction", "name": "w", "identifier": {"key": "k", "value": "v"}},
        {"type": "text", "name": "end", "summary": "Done", "keywords": ["done"]},
        {"type": "conversational_search", "name": "kb", "keywords": ["30 days"]},
        {"type": "assert_llm", "kind": "policy", "check": "Polite?", "scope": "response"},
    ]
    content = a_dataset(
        goals=goals, goal_details=details, agent="hr", runtime_context={"user": "u"}, tags=["a"]
    )

    assert read(FORMAT, content) == EvalSet(
        "f.json",
        (
            EvalCase(
                "f",
                (CaseTurn(UserMessage("hi"), Reply("Done", (ToolCall("t", {"x": 1}),))),),
                session=SessionInput("hr", state={"user": "u"}),
                line=1,
                journey=Journey(
                    (
                        Goal("t-1", "tool_call", "t", {"x": 1}, {"x": "fuzzy"}),
                        Goal("w", "interaction", identifier=("k", "v")),
                        Goal("end", "text", response="Done", keywords=("done",)),
                        Goal("kb", "conversational_search", keywords=("30 days",)),
                        Goal("", "check", check="Polite?", scope="response"),
                    ),
                    {"t-1": ("w", "end"), "w": (), "end": ("kb",)},
                    "s",
                ),
                native={"orchestrate": {"goal_details": details}},
                tags=("a",),
            ),
        ),
        "f.json",
    )


def test_a_script_is_read_turn_by_turn() -> None:
    (case,) = read(FORMAT, a_dataset(user_prompts=["more", "thanks"], dataset_name="d")).cases

    assert case.eval_id == "d"
    assert case.turns == tuple(CaseTurn(UserMessage(text)) for text in ("hi", "more", "thanks"))


def test_without_a_starting_sentence_the_user_is_simulated() -> None:
    (case,) = read(FORMAT, a_dataset(starting_sentence=None)).cases

    assert (case.turns, case.scenario) == ((), Scenario("", "s"))


def test_a_list_holds_several_datasets() -> None:
    cases = read(FORMAT, [a_dataset(), a_dataset(dataset_name="named"), a_dataset()]).cases

    assert [case.eval_id for case in cases] == ["f-1", "named", "f-3"]


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (a_dataset(), True),
        ([a_dataset()], True),
        ({"goals": {}, "goal_details": []}, True),
        ({"goals": {}}, False),
        ([], False),
        ({"eval_set_id": "s", "eval_cases": []}, False),
    ],
)
def test_the_format_is_recognised_by_its_goals(content: Any, answer: bool) -> None:
    assert recognised(FORMAT, content) is answer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"story": ""}, "f.json:1:11: `story` must not be empty"),
        ({"goals": {}}, "f.json:1:1: the file must name its goals in `goals`: they are empty"),
        (
            {"goals": {"t-1": ["x", "y"]}},
            "f.json:1:1: the file must describe in `goal_details` all that `goals` names: `x` and `y`",
        ),
        (
            {"goal_details": [CALL, {**CALL, "name": "x"}]},
            "f.json:1:1: the file must name in `goals` all that `goal_details` describes: `x`",
        ),
        ({"goals": {"t-1": 5}}, "f.json:1:33: `goals.t-1` must be a list of names"),
        (
            {"goal_details": [{**CALL, "arg_matching": {"y": "fuzzy"}}]},
            "`goal_details[0].tool_call` must hold in `arg_matching` paths of `args` only, not `y`",
        ),
        ({"goal_details": []}, "`goal_details` must not be empty"),
        ({"goal_details": [{"name": "t-1"}]}, "`goal_details[0]` must say its 'type'"),
        (
            {"goal_details": [CALL | {"type": "tool"}]},
            "`goal_details[0]` says 'type': 'tool', which is none of 'tool_call', 'text', 'interaction',",
        ),
    ],
)
def test_datasets_that_the_original_refuses_are_refused(change: dict[str, Any], message: str) -> None:
    (problem,) = problems(FORMAT, json.dumps(a_dataset(**change)))

    assert message in problem


def test_two_datasets_with_one_name_are_a_problem() -> None:
    text = json.dumps([a_dataset(dataset_name="d"), a_dataset(dataset_name="d")], indent=0)

    (problem,) = problems(FORMAT, text)

    assert problem.endswith("'d' is the id of another case already, in line 2")
