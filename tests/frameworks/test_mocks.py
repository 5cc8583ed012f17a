"""Tools that are mocked: never called, in every framework that has a hook for it."""

from dataclasses import replace

import pytest

from evalgate.core.types import CaseRun, EvalCase, Reply, SessionInput, ToolMock, ToolResult
from tests.agents.play import a_talk
from tests.frameworks import AGENTS
from tests.frameworks.frameworks import LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI, SMOLAGENTS, Framework
from tests.frameworks.playing import play
from tests.frameworks.venvs import python_with

pytestmark = pytest.mark.slow

with_hook = pytest.mark.parametrize("framework", [OPENAI_AGENTS, PYDANTIC_AI], ids=lambda each: each.folder)
LOST = {"order_id": "5", "status": "lost"}


def mocking(*mocks: ToolMock, texts: tuple[str, ...] = ("Where is 5?",)) -> EvalCase:
    talk = a_talk("case", *texts, session=SessionInput(state={"shop": "Acme"}))
    return replace(talk, tool_mocks=mocks)


async def ask(framework: Framework, case: EvalCase, name: str = "agent") -> CaseRun:
    python = python_with(framework.folder)
    folder = AGENTS / framework.folder
    return (await play("python", {"entry": f"desk.py:{name}"}, python, folder, [case]))["case"]


async def ask_adk(python: str, case: EvalCase, entry: str = "desk") -> CaseRun:
    return (await play("adk", {"entry": entry}, python, AGENTS / "adk", [case]))["case"]


def results(run: CaseRun) -> list[object]:
    events = [event for reply in run.replies for event in (reply.events if reply else ())]
    return [event.result for event in events if isinstance(event, ToolResult)]


MATCHING = (ToolMock("get_order", None, {"order_id": "6"}), ToolMock("get_order", LOST, {"order_id": "5"}))
MISSING = ToolMock("get_order", LOST, {"order_id": "6"})


@with_hook
async def test_the_first_mock_that_matches_answers(framework: Framework) -> None:
    run = await ask(framework, mocking(*MATCHING))

    assert run.failure is None
    assert results(run) == [LOST]
    assert run.final_state == {"shop": "Acme"}


@with_hook
async def test_what_no_mock_answers_is_nobodys_answer(framework: Framework) -> None:
    run = await ask(framework, mocking(MISSING))

    assert run.outcome == "faulted"
    assert run.failure is not None
    assert (run.failure.kind, run.failure.message) == (
        "no_mock",
        "`get_order` is mocked, and no mock of it answers the arguments {'order_id': '5'}",
    )


@with_hook
async def test_a_mock_can_be_for_one_turn(framework: Framework) -> None:
    texts = ("Where is 5?", "Where is 5?")
    run = await ask(framework, mocking(ToolMock("get_order", LOST, turn=1), texts=texts))

    assert results(run) == [{"order_id": "5", "status": "shipped"}, LOST]
    assert run.final_state == {"shop": "Acme", "seen": ["5"]}


async def test_agents_that_are_handed_over_to_have_the_mocks_too() -> None:
    texts = ("Book it", "again")
    run = await ask(OPENAI_AGENTS, mocking(*MATCHING, texts=texts))

    assert run.replies[-1] == Reply("booking: You said: Book it, again")


async def test_langgraph_has_no_hook() -> None:
    run = await ask(LANGGRAPH, mocking(*MATCHING))

    assert run.outcome == "faulted"
    assert run.failure is not None
    assert run.failure.kind == "unsupported"


async def test_adk_tools_are_mocked(adk: str) -> None:
    run = await ask_adk(adk, mocking(*MATCHING))

    assert run.failure is None
    assert results(run) == [LOST]
    assert run.replies[0] is not None
    assert run.replies[0].response == "Order 5 has lost."
    assert run.final_state is not None
    assert "seen" not in run.final_state


async def test_adk_sub_agents_have_the_mocks_too(adk: str) -> None:
    mock = ToolMock("book_flight", {"booked": "Oslo"})
    run = await ask_adk(adk, mocking(mock, texts=("a flight",)), "travel")

    assert results(run)[1] == {"booked": "Oslo"}
    assert run.replies[0] is not None
    assert run.replies[0].response == "Your flight to Oslo is booked."


async def test_adk_calls_that_no_mock_answers(adk: str) -> None:
    run = await ask_adk(adk, mocking(MISSING))

    assert run.outcome == "faulted"
    assert run.failure is not None
    assert run.failure.kind == "no_mock"


async def test_smolagents_tools_are_mocked() -> None:
    matching = await ask(SMOLAGENTS, mocking(*MATCHING))
    missing = await ask(SMOLAGENTS, mocking(MISSING))

    assert results(matching) == [LOST]
    assert (missing.outcome, missing.failure and missing.failure.kind) == ("faulted", "no_mock")
