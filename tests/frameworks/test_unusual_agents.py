"""Agents of frameworks whose messages, tools or state are unusual, and that work for their users nevertheless."""

import pytest

from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    EvalCase,
    Reply,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from tests.agents.play import a_talk
from tests.frameworks import AGENTS
from tests.frameworks.frameworks import (
    AUTOGEN,
    LANGGRAPH,
    LLAMA_INDEX,
    OPENAI_AGENTS,
    PYDANTIC_AI,
    SMOLAGENTS,
    Framework,
)
from tests.frameworks.playing import play, without_ids
from tests.frameworks.venvs import python_with

pytestmark = pytest.mark.slow


async def ask(framework: Framework, name: str, *texts: str, case: EvalCase | None = None) -> CaseRun:
    case = case or a_talk("case", *texts)
    python, folder = python_with(framework.folder), AGENTS / framework.folder
    return (await play("python", {"entry": f"unusual.py:{name}"}, python, folder, [case]))["case"]


async def test_a_message_that_a_middleware_of_langchain_replaces_counts_as_it_became() -> None:
    redacted = await ask(LANGGRAPH, "redacting", "hi", "again")
    edited = await ask(LANGGRAPH, "editing", "repeat_it")

    assert redacted.replies == (Reply("Write to [REDACTED_EMAIL]."),) * 2
    call = ToolCall("repeat_it", {"word": "edited"}, "call-1")
    assert edited.replies == (Reply("It is edite.", (call, ToolResult("repeat_it", "edited", "call-1"))),)


async def test_a_graph_without_a_reducer_of_messages_answers_with_what_is_new() -> None:
    run = await ask(LANGGRAPH, "replacing", "one", "two")

    first, second = (reply.response if reply else None for reply in run.replies)
    assert first is not None
    assert first.startswith("of 1: ")
    assert "one" in first
    assert second is not None
    assert second.startswith("of 2: ")
    assert "two" in second


async def test_a_state_that_json_cannot_hold_becomes_its_text() -> None:
    kept, circular = await ask(LANGGRAPH, "keeping", "hi"), await ask(LANGGRAPH, "circular", "hi")

    assert kept.replies == circular.replies == (Reply("kept"),)
    assert kept.final_state == {"found": "{('a', 1): [[...]], 'b': {2}}"}
    assert circular.final_state == {"found": "[[...]]"}


async def test_a_result_that_looks_like_deep_json_is_a_text() -> None:
    (reply,) = (await ask(LANGGRAPH, "plain", "nest_it")).replies

    assert reply is not None
    assert reply.events[-1] == ToolResult("nest_it", "[" * 200_000, "call-1")
    assert reply.response == "It is [[[[[."


async def test_a_failed_tool_of_a_runnable_has_its_error_as_result() -> None:
    (reply,) = (await ask(LANGGRAPH, "catching", "5")).replies

    call = ToolCall("break_it", {"word": "5"})
    assert without_ids(reply) == Reply("caught", (call, ToolResult("break_it", {"error": "broken"})))


@pytest.mark.parametrize(
    ("framework", "name", "text", "result"),
    [
        (OPENAI_AGENTS, "agent", "tuples", "{(1, 2): 'x'}"),
        (OPENAI_AGENTS, "agent", "circle", "[[...]]"),
        (PYDANTIC_AI, "odd", "hi", "{(1, 2): 'x'}"),
    ],
    ids=["openai_agents-tuples", "openai_agents-circle", "pydantic_ai"],
)
async def test_a_result_that_json_cannot_hold_becomes_its_text(
    framework: Framework, name: str, text: str, result: str
) -> None:
    run = await ask(framework, name, text)

    assert run.failure is None
    (reply,) = run.replies
    assert reply is not None
    assert [event.result for event in reply.events if isinstance(event, ToolResult)] == [result]


@pytest.mark.parametrize(
    ("framework", "name"),
    [(LANGGRAPH, "plain"), (LANGGRAPH, "catching"), (OPENAI_AGENTS, "agent")],
    ids=["graph", "runnable", "openai_agents"],
)
async def test_a_context_message_of_an_unknown_role_is_no_fault_of_the_agent(
    framework: Framework, name: str
) -> None:
    earlier = ({"role": "robot", "content": "x"},)
    case = EvalCase("case", (CaseTurn(UserMessage("repeat_it")),), context_messages=earlier)
    run = await ask(framework, name, case=case)

    assert run.failure is not None
    assert (run.outcome, run.failure.kind) == ("faulted", "unsupported")
    assert run.failure.message.startswith("a context message of role 'robot' with a content of type str")


async def test_calls_that_a_processor_of_the_history_drops_are_recorded() -> None:
    run = await ask(PYDANTIC_AI, "forgetting", "count", "count")
    counted = [
        event
        for number in range(1, 5)
        for event in (
            ToolCall("count", {"number": number}, f"call-{number}"),
            ToolResult("count", number, f"call-{number}"),
        )
    ]

    assert run.replies == (Reply("Four calls.", tuple(counted)),) * 2
    assert run.usage == Usage(10 * 10, 10 * 4, None)


async def test_usage_of_an_agent_that_a_tool_of_pydantic_ai_asks_counts() -> None:
    run = await ask(PYDANTIC_AI, "delegating", "hi")

    call, result = ToolCall("ask", {}, "call-1"), ToolResult("ask", "Four calls.", "call-1")
    assert run.replies == (Reply("Four calls.", (call, result)),)
    assert run.usage == Usage(7 * 10, 7 * 4, None)


async def test_calls_at_the_same_time_have_the_order_of_the_model() -> None:
    (reply,) = (await ask(SMOLAGENTS, "sharing", "wait 3 wait 0")).replies

    assert reply is not None
    assert reply.events == (
        ToolCall("wait", {"seconds": 3}),
        ToolResult("wait", "waited 3"),
        ToolCall("wait", {"seconds": 0}),
        ToolResult("wait", "waited 0"),
    )


async def test_a_tool_that_two_agents_share_is_recorded_once_and_by_its_caller() -> None:
    run = await ask(SMOLAGENTS, "sharing", "helper 1")

    assert run.failure is None
    assert run.replies[0] is not None
    assert run.replies[0].events == (
        ToolCall("wait", {"seconds": 1}, author="helper"),
        ToolResult("wait", "waited 1", author="helper"),
    )
    assert run.usage == Usage(4 * 10, 4 * 4, None)


async def test_an_answer_that_is_an_object_of_python_is_its_text() -> None:
    run = await ask(SMOLAGENTS, "answering", "decimal", "tuples", "set")

    assert run.failure is None
    assert [reply and reply.response for reply in run.replies] == ["1.50", "{(1, 2): 'x'}", "{1}"]


async def test_a_tool_of_llama_index_whose_result_is_the_answer() -> None:
    (reply,) = (await ask(LLAMA_INDEX, "agent", "Where is 5?")).replies

    assert reply is not None
    assert reply.events[-1] == ToolResult("get_order", "Order 5 is lost.", "call-1", "desk")
    assert reply.response == "Order 5 is lost."


async def test_the_texts_of_a_message_with_pictures_are_the_answer() -> None:
    assert (await ask(AUTOGEN, "drawing", "hi")).replies == (Reply("A picture\nof it."),)


async def test_a_text_that_is_no_json_but_a_literal_of_python_stays_a_text() -> None:
    (reply,) = (await ask(AUTOGEN, "agent", "Where is 5?")).replies

    assert reply is not None
    assert reply.events[-1] == ToolResult("get_order", "{(1,2): 'x'}", "call-1", "desk")
