"""Eval sets of tRPC-Agent-Go."""

import json
from typing import Any

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.core.plugin_registry import get_formats
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Message,
    Reply,
    Rubric,
    Scenario,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.documents.strict_json import parse_json, read_json
from evalgate.integrations.trpc.evalset import TrpcFormat
from tests.conformance import shared_folder
from tests.integrations.reading import problems, read, recognised

FORMAT = TrpcFormat()
SESSION = {"appName": "app", "userId": "ada", "state": {"k": 1}}
ASKED = {"role": "user", "content": "What is 2 + 3?"}
ANSWERED = {"role": "assistant", "content": "5"}
TOOL = {"id": "t1", "name": "add", "arguments": {"a": 2, "b": 3}, "result": 5}
TURN = {"userContent": ASKED, "finalResponse": ANSWERED, "tools": [TOOL]}
OURS = Reply("5", (ToolCall("add", {"a": 2, "b": 3}, "t1"), ToolResult("add", 5, "t1")))


def a_set(*cases: dict[str, Any]) -> dict[str, Any]:
    whole = [{"evalId": f"c{at}", "sessionInput": SESSION, **case} for at, case in enumerate(cases)]
    return {"evalSetId": "s", "name": "n", "description": "d", "evalCases": whole}


def a_case(**case: Any) -> EvalCase:
    return read(FORMAT, a_set(case)).cases[0]


def reply(**turn: Any) -> Reply:
    return a_case(conversation=[{"userContent": ASKED, **turn}]).turns[0].expected


def test_a_whole_file_is_read() -> None:
    context = [{"role": "system", "content": "You add."}]
    content = a_set({"contextMessages": context, "conversation": [TURN]})

    assert read(FORMAT, content) == EvalSet(
        "s",
        (
            EvalCase(
                "c0",
                (CaseTurn(UserMessage("What is 2 + 3?"), OURS),),
                session=SessionInput("app", "ada", {"k": 1}),
                line=1,
                context_messages=({"role": "system", "content": "You add."},),
            ),
        ),
        "f.json",
        "n",
        "d",
    )


def test_parts_that_are_not_the_text_are_attachments() -> None:
    part = {"type": "image", "image": {"url": "https://example.com/a.png"}}
    case = a_case(conversation=[{"userContent": {"role": "user", "content_parts": [part]}}])

    assert case.turns == (CaseTurn(UserMessage("", (part,)), Reply()),)


@pytest.mark.parametrize(
    ("tool", "events"),
    [
        ({"name": "f"}, [ToolCall("f", None, "1")]),
        ({"name": "f", "arguments": None, "result": None}, [ToolCall("f", None, "1")]),
        ({"name": "f", "arguments": {}}, [ToolCall("f", {}, "1")]),
        ({"name": "f", "arguments": "a=1"}, [ToolCall("f", None, "1", other_args="a=1")]),
        ({"name": "f", "arguments": 0}, [ToolCall("f", None, "1", other_args=0)]),
        ({"name": "f", "result": False}, [ToolCall("f", None, "1"), ToolResult("f", False, "1")]),
    ],
)
def test_values_of_a_tool_are_kept_unchanged(tool: Any, events: Any) -> None:
    assert reply(tools=[tool]) == Reply(None, tuple(events))


def test_missing_or_repeated_call_ids_are_replaced_by_numbers() -> None:
    tools = [{"id": "1", "name": "f"}, {"id": "1", "name": "f", "result": 2}]

    assert reply(tools=tools).events == (
        ToolCall("f", None, "1"),
        ToolCall("f", None, "2"),
        ToolResult("f", 2, "2"),
    )


def test_intermediate_responses_are_kept() -> None:
    assert reply(intermediateResponses=[{"role": "assistant", "content": "Let me see."}]).events == (
        Message("Let me see."),
    )


@pytest.mark.parametrize("spell", [str.upper, str.lower, str])
def test_keys_are_read_in_any_case(spell: Any) -> None:
    def spelled(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                spell(key) if key not in {"a", "b", "k"} else key: spelled(each)
                for key, each in value.items()
            }
        return [spelled(each) for each in value] if isinstance(value, list) else value

    assert read(FORMAT, spelled(a_set({"conversation": [TURN]}))) == read(
        FORMAT, a_set({"conversation": [TURN]})
    )


OLD_SNAKE = {
    "eval_set_id": "s",
    "eval_cases": [
        {
            "eval_id": "c0",
            "session_input": {"app_name": "app", "user_id": "ada", "state": {"k": 1}},
            "conversation": [
                {
                    "user_content": {"role": "user", "parts": [{"text": "What is 2 + 3?"}]},
                    "final_response": {"parts": [{"text": "5"}]},
                    "intermediate_data": {
                        "tool_uses": [{"id": "t1", "name": "add", "args": {"a": 2, "b": 3}}],
                        "tool_responses": [{"id": "t1", "name": "add", "response": 5}],
                        "intermediate_responses": [["agent", [{"text": "hm"}]]],
                    },
                }
            ],
        }
    ],
}
OLD_CAMEL = {
    "toolUses": [{"name": "add", "args": {"a": 2, "b": 3}}],
    "toolResponses": [{"name": "add", "response": 5}],
}
OLD_CALLS = {
    "toolCalls": [
        {"id": "t1", "type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 3}}}
    ],
    "toolResponses": [{"role": "tool", "toolId": "t1", "toolName": "add", "content": 5}],
}


def test_files_of_the_first_release_are_converted() -> None:
    (case,) = read(FORMAT, OLD_SNAKE).cases

    assert case.turns == (
        CaseTurn(UserMessage("What is 2 + 3?"), Reply("5", (*OURS.events, Message("hm", "agent")))),
    )
    assert case.session == SessionInput("app", "ada", {"k": 1})


@pytest.mark.parametrize("data", [OLD_CAMEL, OLD_CALLS])
def test_separate_calls_and_answers_are_joined(data: Any) -> None:
    (call, result) = reply(intermediateData=data).events

    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert (call.name, call.args, result.result) == ("add", {"a": 2, "b": 3}, 5)
    assert call.id == result.id


def test_a_trace_alone_is_compared_with_nothing() -> None:
    for key in ("conversation", "actualConversation"):
        case = a_case(evalMode="trace", **{key: [TURN]})

        assert case.turns == (CaseTurn(UserMessage("What is 2 + 3?"), Reply()),)
        assert case.recorded == (OURS,)


def test_a_trace_is_compared_with_its_conversation() -> None:
    case = a_case(evalMode="trace", conversation=[TURN], actualConversation=[{"userContent": ASKED}])

    assert case.turns == (CaseTurn(UserMessage("What is 2 + 3?"), OURS),)
    assert case.recorded == (Reply(),)


def test_a_rubric_without_an_id_is_named_after_its_number() -> None:
    named = {
        "metricName": "m",
        "id": "a",
        "content": {"text": "It is kind."},
        "type": "T",
        "description": "d",
    }
    case = a_case(
        conversation=[TURN], rubrics=[named, {"metricName": "n", "content": {"text": "It is short."}}]
    )

    assert case.rubrics == (
        Rubric("a", "It is kind.", "T", "d", "m"),
        Rubric("case_rubric_2", "It is short.", metric="n"),
    )
    assert case.rubric_metrics == ("m", "n")


def test_a_recorded_turn_keeps_its_execution_trace() -> None:
    trace = {"Steps": [{"NodeID": "a"}]}
    traced = {**TURN, "executionTrace": trace}

    recorded = a_case(evalMode="trace", conversation=[TURN], actualConversation=[traced])
    alone = a_case(evalMode="trace", conversation=[traced])
    expected = a_case(conversation=[traced])

    assert [case.turns[0].execution for case in (recorded, alone, expected)] == [trace, trace, None]


def test_the_user_message_of_a_trace_is_the_recorded_one() -> None:
    spoken = {"userContent": {"role": "user", "content": "2 + 3?"}}

    case = a_case(evalMode="trace", conversation=[TURN], actualConversation=[spoken])

    assert case.turns[0].user == UserMessage("2 + 3?")
    assert case.turns[0].native["trpc"]["userContent"] == ASKED


@pytest.mark.parametrize(
    ("limits", "signal", "turns"),
    [
        ({}, None, None),
        ({"stopSignal": "x"}, "x", None),
        ({"stopSignal": "x", "maxAllowedInvocations": 0}, "x", -1),
        ({"maxAllowedInvocations": 3}, "", 3),
    ],
)
def test_a_scenario(limits: dict[str, Any], signal: str | None, turns: int | None) -> None:
    case = a_case(
        conversationScenario={
            "startingPrompt": "Hi",
            "conversationPlan": "Buy.",
            "driver": "actual",
            **limits,
        }
    )

    assert case.scenario == Scenario("Hi", "Buy.", None, signal, turns, "actual")


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ({"conversation": [TURN], "sessionInput": None}, "`evalCases[0].sessionInput` is missing"),
        ({}, "`evalCases[0]` holds neither a conversation nor a scenario"),
        (
            {"conversation": [{"finalResponse": ANSWERED}]},
            "`evalCases[0]` has a turn without `userContent`",
        ),
        (
            {"conversation": [TURN], "actualConversation": [TURN]},
            '`evalCases[0]` has an `actualConversation`, which only a case with "evalMode": "trace" may have',
        ),
        (
            {"evalMode": "trace", "conversation": [TURN, TURN], "actualConversation": [TURN]},
            "`evalCases[0]` expects 2 turns and holds a trace of 1",
        ),
        ({"evalMode": "trace"}, "`evalCases[0]` is a trace without a conversation"),
        (
            {"evalMode": "trace", "conversation": [TURN], "conversationScenario": {"conversationPlan": "x"}},
            "`evalCases[0]` is a trace and a scenario: a trace holds what was said",
        ),
        (
            {"conversation": [TURN], "contextMessages": [None]},
            "`evalCases[0].contextMessages[0]` must be an object, not null",
        ),
        (
            {"conversation": [{**TURN, "tools": [None]}]},
            "`evalCases[0].conversation[0].tools[0]` must be an object, not null",
        ),
        (
            {"conversation": [{**TURN, "intermediateData": OLD_CALLS}]},
            "`evalCases[0].conversation[0]` must hold `tools` or the older `intermediateData`, not both",
        ),
        (
            {
                "conversation": [
                    {"userContent": ASKED, "intermediateData": {"toolResponses": [{"name": "f"}]}}
                ]
            },
            "`evalCases[0].conversation[0]` holds an answer of `f` that no tool call asked for",
        ),
        (
            {"conversation": [{"userContent": ASKED, "intermediateData": {"toolUses": True}}]},
            "`evalCases[0].conversation[0]` must hold tool calls and answers as lists",
        ),
        (
            {"conversation": [{"userContent": ASKED, "intermediateData": {"toolResponses": 5}}]},
            "`evalCases[0].conversation[0]` must hold tool calls and answers as lists",
        ),
        (
            {"conversation": [TURN, {"userContent": {"parts": ["hi"]}}]},
            "`evalCases[0].conversation[1].userContent` must hold `parts` as objects whose `text` is a text",
        ),
        (
            {"conversation": [TURN, {"userContent": {"parts": [{"text": 5}]}}]},
            "`evalCases[0].conversation[1].userContent` must hold `parts` as objects whose `text` is a text",
        ),
        (
            {"conversation": [{"userContent": ASKED, "usercontent": ASKED}]},
            "`evalCases[0].conversation[0]` holds `userContent` twice, in two spellings",
        ),
        (
            {"conversation": [{"userContent": {"content": 5}}]},
            "`evalCases[0].conversation[0].userContent.content` must be text, not 5",
        ),
        ({"conversation": [TURN], "evalId": " "}, "`evalCases[0].evalId` must not be empty"),
    ],
)
def test_a_problem_is_reported_with_its_position(case: dict[str, Any], problem: str) -> None:
    (found,) = problems(FORMAT, json.dumps(a_set(case)))

    assert found.startswith("f.json:1:")
    assert found.endswith(f": {problem}")


def test_a_repeated_id_is_a_problem() -> None:
    content = a_set({"conversation": [TURN]}, {"conversation": [TURN], "evalId": "c0"})

    (found,) = problems(FORMAT, json.dumps(content, indent=1))
    assert found.endswith("'c0' is the id of another case already, in line 7")


PARTS = {"parts": [{"text": "hi"}], "role": "user"}


@pytest.mark.parametrize(
    ("content", "is_trpc"),
    [
        (a_set({"conversation": [TURN]}), True),
        (a_set({"conversation": [{"userContent": ASKED}]}), True),
        (a_set({"evalMode": "trace", "conversation": []}), True),
        (a_set({"conversationScenario": {"conversationPlan": "x", "stopSignal": "done"}}), True),
        (a_set({"conversationScenario": {"conversationPlan": "x", "startingPrompt": "y"}}), False),
        (a_set({"conversation": [{"userContent": PARTS}]}), False),
        (a_set({"conversation": [{"userContent": PARTS, "appDetails": {}}], "rubrics": []}), False),
        (a_set({"conversation": []}), False),
        ({"evalSetId": "s"}, False),
        (a_set(), False),
        ([], False),
    ],
)
def test_the_shape_of_messages_distinguishes_the_format_from_google_adk(content: Any, is_trpc: bool) -> None:
    assert recognised(FORMAT, content) is is_trpc
    document = parse_json(json.dumps(content).encode(), "f.json")
    first = next((name for name, each in get_formats().items() if each.matches_document(document)), None)
    assert (first == "trpc") is is_trpc


def test_every_real_eval_set_is_read_and_none_is_empty() -> None:
    folder = shared_folder()
    for path in sorted((folder / "corpus").glob("trpc*/*.evalset.json")) if folder else []:
        document = read_json(path, path.name)
        name, eval_format = next((n, f) for n, f in get_formats().items() if f.matches_document(document))
        eval_set = eval_format.read_eval_set(document)

        assert name == ("adk" if '"parts"' in path.read_text() else "trpc"), path.name
        assert all(case.turns or case.scenario for case in eval_set.cases), path.name
        expects_tools = any(
            word in path.read_text() for word in ('"tools"', '"toolCalls"', 'ool_uses"', 'oolUses"')
        )
        calls = [call for case in eval_set.cases for turn in case.turns for call in turn.expected.tool_calls]
        recorded = [call for case in eval_set.cases for one in case.recorded or () for call in one.tool_calls]
        assert bool(calls or recorded) == expects_tools, path.name
        assert FORMAT.read_eval_set(document).eval_set_id == eval_set.eval_set_id


def test_a_file_of_another_shape_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        read(FORMAT, "[]")
