"""Agents of every framework but Google ADK, with the real packages and scripted models."""

import asyncio
from collections.abc import Mapping
from functools import cache

import pytest

from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    EvalCase,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from tests.agents.play import a_talk
from tests.frameworks import AGENTS
from tests.frameworks.frameworks import (
    AGENT_FRAMEWORK,
    AUTOGEN,
    FRAMEWORKS,
    LANGGRAPH,
    LLAMA_INDEX,
    OPENAI_AGENTS,
    PYDANTIC_AI,
    SMOLAGENTS,
    STRANDS,
    Framework,
)
from tests.frameworks.playing import play
from tests.frameworks.venvs import python_with

pytestmark = pytest.mark.slow

every = pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda each: each.folder)


ACME = SessionInput(state={"shop": "Acme"})
EARLIER = ({"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"})
CASES = (
    a_talk("talk", "hi", "Where is 5?", "bye", session=ACME),
    a_talk("order", "Where is 5?", session=ACME),
    a_talk("boom", "Where is 5?", "boom", session=ACME),
    EvalCase("asked", (CaseTurn(UserMessage("so")),), context_messages=EARLIER),
    EvalCase("shown", (CaseTurn(UserMessage("see", ({"inline_data": {}},))),)),
)


@cache  # to import a framework takes seconds
def answer_cases(framework: Framework) -> Mapping[str, CaseRun]:
    """Return what became of each of CASES, which one process of the agent answers side by side."""
    python, folder = python_with(framework.folder), AGENTS / framework.folder
    return asyncio.run(play("python", {"entry": "desk.py:agent"}, python, folder, CASES))


async def ask(framework: Framework, name: str, *texts: str, case: EvalCase | None = None) -> CaseRun:
    case = case or a_talk("case", *texts, session=ACME)
    python = python_with(framework.folder)
    folder = AGENTS / framework.folder
    return (await play("python", {"entry": f"desk.py:{name}"}, python, folder, [case]))["case"]


def looked_up(framework: Framework) -> Reply:
    author, call_id = framework.author, framework.call_id
    return Reply(
        "Order 5 has shipped.",
        (
            Message("Let me look.", author),
            ToolCall("get_order", {"order_id": "5"}, call_id, author),
            ToolResult("get_order", {"order_id": "5", "status": "shipped"}, call_id, author),
        ),
    )


@pytest.mark.parametrize(
    "framework", [LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI, STRANDS, AUTOGEN], ids=lambda each: each.folder
)
async def test_a_trace_has_model_calls_with_requests_and_tool_calls(framework: Framework) -> None:
    python, folder = python_with(framework.folder), AGENTS / framework.folder
    case = a_talk("case", "Where is 5?", session=ACME)
    played = await play("python", {"entry": "desk.py:agent"}, python, folder, [case], trace=True)
    root, first, tool, second = played["case"].trace

    assert (root.kind, root.request, root.response) == ("agent", "Where is 5?", "Order 5 has shipped.")
    assert [(step.kind, step.parent_id) for step in (first, tool, second)] == [
        ("model", root.id),
        ("tool", root.id),
        ("model", root.id),
    ]
    assert "Where is 5?" in str(first.request)
    assert "Let me look." in str(first.response)
    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.output_tokens) == (10, 4)
    assert (tool.name, tool.request) == ("get_order", {"order_id": "5"})
    assert "shipped" in str(tool.response)
    assert not any(step.error for step in played["case"].trace)


@pytest.mark.parametrize("framework", [PYDANTIC_AI, STRANDS, AUTOGEN], ids=lambda each: each.folder)
async def test_a_failed_call_of_a_model_is_in_the_trace(framework: Framework) -> None:
    python, folder = python_with(framework.folder), AGENTS / framework.folder
    played = await play(
        "python", {"entry": "desk.py:agent"}, python, folder, [a_talk("case", "boom")], trace=True
    )
    root, model = played["case"].trace
    assert (root.kind, model.kind, model.request is not None) == ("agent", "model", True)
    assert "no model" in root.error
    assert "no model" in model.error


@pytest.mark.parametrize(
    "framework", [SMOLAGENTS, AGENT_FRAMEWORK, LLAMA_INDEX], ids=lambda each: each.folder
)
async def test_the_trace_of_other_frameworks_has_the_turn(framework: Framework) -> None:
    """Their models here ask no server, whose requests a trace would have."""
    python, folder = python_with(framework.folder), AGENTS / framework.folder
    played = await play(
        "python", {"entry": "desk.py:agent"}, python, folder, [a_talk("case", "Where is 5?")], trace=True
    )
    [turn] = played["case"].trace
    assert (turn.kind, turn.request, turn.response) == ("agent", "Where is 5?", "Order 5 has shipped.")


@every
def test_conversation_with_a_tool_and_memory(framework: Framework) -> None:
    run = answer_cases(framework)["talk"]

    assert run.failure is None
    # A tool of LangChain answers under its own name.
    assert run.replies == (
        Reply("You said: hi"),
        looked_up(framework),
        Reply("You said: hi, Where is 5?, bye"),
    )
    assert run.usage == Usage(4 * 10, 4 * 4, None)


@pytest.mark.parametrize("concurrency", [1, 16])
@every
async def test_sessions_do_not_mix(framework: Framework, concurrency: int) -> None:
    cases = [a_talk(str(index), f"one {index}", f"two {index}") for index in range(12)]
    python = python_with(framework.folder)
    runs = await play(
        "python", {"entry": "desk.py:agent"}, python, AGENTS / framework.folder, cases, concurrency
    )

    for index, case in enumerate(cases):
        assert runs[case.eval_id].replies[-1] == Reply(f"You said: one {index}, two {index}")


@pytest.mark.parametrize(
    ("framework", "name", "answer"),
    [
        (LANGGRAPH, "with_memory", "one {}, two {}"),
        (LLAMA_INDEX, "workflow", "You said: one {}, two {}"),
        (AGENT_FRAMEWORK, "make_agent", "You said: one {}, two {}"),
    ],
    ids=lambda each: getattr(each, "folder", None),
)
async def test_no_other_object_mixes_sessions(framework: Framework, name: str, answer: str) -> None:
    cases = [a_talk(str(index), f"one {index}", f"two {index}") for index in range(5)]
    python = python_with(framework.folder)
    runs = await play("python", {"entry": f"desk.py:{name}"}, python, AGENTS / framework.folder, cases)

    for index, case in enumerate(cases):
        reply = runs[case.eval_id].replies[-1]
        assert reply is not None
        assert reply.response == answer.format(index, index)


@every
def test_a_model_that_raises_is_a_crash(framework: Framework) -> None:
    run = answer_cases(framework)["boom"]

    assert run.outcome == "crashed"
    assert run.failure is not None
    assert (run.failure.kind, run.failure.message) == ("exception", "the agent raised RuntimeError: no model")
    assert run.replies == (looked_up(framework),)


@every
def test_earlier_messages_are_known_or_refused_and_attachments_refused(framework: Framework) -> None:
    runs = answer_cases(framework)

    refused = [runs["shown"]]
    if framework.told_earlier:
        assert runs["asked"].replies == (Reply("You said: hello, so"),)
    else:
        refused.append(runs["asked"])
    for run in refused:
        assert (run.outcome, run.failure and run.failure.kind) == ("faulted", "unsupported")


@pytest.mark.parametrize("framework", [OPENAI_AGENTS, PYDANTIC_AI, STRANDS], ids=lambda each: each.folder)
def test_state_reaches_tools_and_comes_back(framework: Framework) -> None:
    assert answer_cases(framework)["order"].final_state == {"shop": "Acme", "seen": ["5"]}


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


async def test_tools_that_code_calls_are_told() -> None:
    (reply,) = (await ask(SMOLAGENTS, "coding", "Where is 5?")).replies

    assert reply is not None
    said, called, answered = reply.events
    assert isinstance(said, Message)
    assert called == ToolCall("get_order", {"order_id": "5"})
    assert answered == ToolResult("get_order", {"order_id": "5", "status": "shipped"})
    assert reply.response == "shipped"


async def test_each_conversation_has_a_team_of_its_own() -> None:
    run = await ask(AUTOGEN, "team", "hi")

    assert run.replies == (Reply("You said: hi, You said: hi", (Message("You said: hi", "clerk"),)),)


async def test_a_workflow_of_agents_remembers() -> None:
    run = await ask(LLAMA_INDEX, "workflow", "hi", "Where is 5?", "bye")

    assert run.replies == (
        Reply("You said: hi"),
        looked_up(LLAMA_INDEX),
        Reply("You said: hi, Where is 5?, bye"),
    )


async def test_an_agent_that_cannot_be_copied_is_refused() -> None:
    run = await ask(STRANDS, "made", "hi")

    assert run.outcome == "not_run"
    assert run.failure is not None
    assert run.failure.message == (
        "cannot load the agent `desk.py:made`: each conversation needs an `Agent` of its own, and this one "
        "cannot be copied (TypeError: cannot pickle '_thread.lock' object): name a function without parameters "
        "that makes one (`agent.entry: desk.py:make_agent`); else one user would be answered with what another "
        "one said"
    )


@pytest.mark.parametrize(
    ("framework", "name", "why"),
    [
        (STRANDS, "swarm", "a graph or swarm of Strands keeps what was said: name a function that makes one"),
        (AGENT_FRAMEWORK, "workflow", "name a function without parameters that builds it"),
        (LLAMA_INDEX, "engine", "an engine of LlamaIndex is no agent: name a function that asks it"),
    ],
    ids=lambda each: getattr(each, "folder", None),
)
async def test_what_is_no_agent_is_refused(framework: Framework, name: str, why: str) -> None:
    run = await ask(framework, name, "hi")

    assert run.outcome == "not_run"
    assert run.failure is not None
    assert why in run.failure.message
