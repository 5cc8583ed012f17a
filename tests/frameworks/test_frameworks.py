"""Agents of LangGraph, the OpenAI Agents SDK and Pydantic AI, with the real packages and scripted models."""

import pytest

from evalgate.model import (
    CaseRun,
    EvalCase,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    UserMessage,
)
from tests.agents.play import a_talk
from tests.frameworks import AGENTS
from tests.frameworks.frameworks import FRAMEWORKS, LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI, Framework
from tests.frameworks.playing import play
from tests.frameworks.venvs import python_with

pytestmark = pytest.mark.slow

every = pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda each: each.folder)


async def ask(framework: Framework, name: str, *texts: str, case: EvalCase | None = None) -> CaseRun:
    case = case or a_talk("case", *texts, session=SessionInput(state={"shop": "Acme"}))
    python = python_with(framework.folder, *framework.requirements)
    folder = AGENTS / framework.folder
    return (await play("python", {"entry": f"desk.py:{name}"}, python, folder, [case]))["case"]


def looked_up(author: str | None) -> Reply:
    return Reply(
        "Order 5 has shipped.",
        (
            Message("Let me look.", author),
            ToolCall("get_order", {"order_id": "5"}, "call-1", author),
            ToolResult("get_order", {"order_id": "5", "status": "shipped"}, "call-1", author),
        ),
    )


@every
async def test_conversation_with_a_tool_and_memory(framework: Framework) -> None:
    run = await ask(framework, "agent", "hi", "Where is 5?", "bye")

    assert run.failure is None
    # A tool of LangChain answers under its own name.
    assert run.replies == (
        Reply("You said: hi"),
        looked_up(framework.author),
        Reply("You said: hi, Where is 5?, bye"),
    )
    assert run.usage == Usage(4 * 10, 4 * 4)


@every
async def test_sessions_do_not_mix(framework: Framework) -> None:
    cases = [a_talk(str(index), f"one {index}", f"two {index}") for index in range(12)]
    python = python_with(framework.folder, *framework.requirements)
    runs = await play("python", {"entry": "desk.py:agent"}, python, AGENTS / framework.folder, cases)

    for index, case in enumerate(cases):
        assert runs[case.eval_id].replies[-1] == Reply(f"You said: one {index}, two {index}")


@every
async def test_a_model_that_raises_is_a_crash(framework: Framework) -> None:
    run = await ask(framework, "agent", "Where is 5?", "boom")

    assert run.outcome == "crashed"
    assert run.failure is not None
    assert (run.failure.kind, run.failure.message) == ("exception", "the agent raised RuntimeError: no model")
    assert run.replies == (looked_up(framework.author),)


@every
async def test_earlier_messages_are_known_and_attachments_refused(framework: Framework) -> None:
    earlier = ({"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"})
    asked = EvalCase("case", (Turn(UserMessage("so")),), context_messages=earlier)
    shown = EvalCase("case", (Turn(UserMessage("see", ({"inline_data": {}},))),))

    told = await ask(framework, "agent", case=asked)
    refused = await ask(framework, "agent", case=shown)

    assert told.replies == (Reply("You said: hello, so"),)
    assert (refused.outcome, refused.failure and refused.failure.kind) == ("faulted", "unsupported")


@pytest.mark.parametrize("framework", [OPENAI_AGENTS, PYDANTIC_AI], ids=lambda each: each.folder)
async def test_state_reaches_tools_and_comes_back(framework: Framework) -> None:
    assert (await ask(framework, "agent", "Where is 5?")).final_state == {"shop": "Acme", "seen": ["5"]}


@pytest.mark.parametrize("framework", [OPENAI_AGENTS, PYDANTIC_AI], ids=lambda each: each.folder)
async def test_an_output_with_a_type_is_told_as_json(framework: Framework) -> None:
    assert (await ask(framework, "typed", "hi")).replies == (Reply('{"city": "Rome"}'),)


async def test_a_tool_that_hands_the_output_over_may_have_any_name() -> None:
    assert (await ask(PYDANTIC_AI, "named", "hi")).replies == (Reply('{"city": "Rome"}'),)


async def test_arguments_that_are_no_json_are_not_made_up() -> None:
    (reply,) = (await ask(PYDANTIC_AI, "agent", "scrawl")).replies

    assert reply is not None
    assert reply.tool_calls == (ToolCall("get_order", None, "call-1"),)


async def test_who_took_over_answers_the_next_turn() -> None:
    run = await ask(OPENAI_AGENTS, "agent", "Book it", "again")

    assert run.replies == (
        Reply(
            "Booked.",
            (
                ToolCall("transfer_to_booking", {}, "call-1", "desk"),
                ToolResult("transfer_to_booking", '{"assistant": "booking"}', "call-1", "desk"),
            ),
        ),
        Reply("booking: You said: Book it, again"),
    )


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("remembering", "You said: one, two"),
        ("model", "You said: one, two"),
        ("chain", "You said: two"),
        ("plain", "TWO"),
    ],
)
async def test_whatever_langchain_can_run(name: str, reply: str) -> None:
    run = await ask(LANGGRAPH, name, "one", "two")

    assert run.replies[-1] == Reply(reply)


async def test_a_tool_inside_a_runnable_is_told() -> None:
    reply = (await ask(LANGGRAPH, "with_tool", "5")).replies[0]

    assert reply is not None
    call, result = reply.events
    assert isinstance(call, ToolCall)
    assert isinstance(result, ToolResult)
    assert (call.name, call.args) == ("get_order", {"order_id": "5"})
    assert (result.name, result.result) == ("get_order", {"order_id": "5", "status": "shipped"})
    assert reply.response == "shipped"


async def test_a_graph_begins_with_the_state_of_the_case() -> None:
    case = a_talk("case", "one", "two", session=SessionInput(state={"count": 5, "other": 1}))
    run = await ask(LANGGRAPH, "counting", case=case)

    assert run.replies == (Reply("count was 5"), Reply("count was 6"))
    assert run.final_state == {"count": 7, "other": 1}


async def test_a_graph_that_asks_back_goes_on_with_the_answer() -> None:
    run = await ask(LANGGRAPH, "asking", "A ticket", "5A", "yes", "And back")

    begun = Reply("Which seat?", (Message("Let me book."),))
    assert run.replies == (begun, Reply('{"sure": "5A"}'), Reply("5A: yes"), begun)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("not_compiled", "it is a graph that is not compiled: name what `compile()` gives"),
        ("two_inputs", "it takes place, question, and which of them is what the user says cannot be told"),
    ],
)
async def test_what_cannot_be_asked(name: str, why: str) -> None:
    run = await ask(LANGGRAPH, name, "hi")

    assert run.outcome == "not_run"
    assert run.failure is not None
    assert why in run.failure.message
