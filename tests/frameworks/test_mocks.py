"""Tools that are mocked: never called, in every framework that has a hook for it."""

from dataclasses import replace

import pytest

from evalgate.core.types import (
    CaseRun,
    EvalCase,
    RecordedAnswer,
    RecordedCall,
    Reply,
    SessionInput,
    ToolMock,
    ToolRecording,
    ToolResult,
)
from tests.agents.play import a_talk
from tests.frameworks import AGENTS
from tests.frameworks.frameworks import LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI, SMOLAGENTS, STRANDS, Framework
from tests.frameworks.playing import play
from tests.frameworks.venvs import python_with

pytestmark = pytest.mark.slow

with_hook = pytest.mark.parametrize(
    "framework", [LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI], ids=lambda each: each.folder
)
LOST = {"order_id": "5", "status": "lost"}


def mocking(*mocks: ToolMock, texts: tuple[str, ...] = ("Where is 5?",)) -> EvalCase:
    talk = a_talk("case", *texts, session=SessionInput(state={"shop": "Acme"}))
    return replace(talk, tool_mocks=mocks)


CALL = RecordedCall("get_order", {"order_id": "5"}, (RecordedAnswer(LOST),))


def recording(
    *calls: RecordedCall, texts: tuple[str, ...] = ("Where is 5?",), live: tuple[str, ...] = ()
) -> EvalCase:
    return replace(mocking(texts=texts), tool_recording=ToolRecording("results.json", calls, live))


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


@pytest.mark.parametrize("framework", [OPENAI_AGENTS, PYDANTIC_AI], ids=lambda each: each.folder)
async def test_a_mock_can_be_for_one_turn(framework: Framework) -> None:
    texts = ("Where is 5?", "Where is 5?")
    run = await ask(framework, mocking(ToolMock("get_order", LOST, turn=1), texts=texts))

    assert results(run) == [{"order_id": "5", "status": "shipped"}, LOST]
    assert run.final_state == {"shop": "Acme", "seen": ["5"]}


async def test_agents_that_are_handed_over_to_have_the_mocks_too() -> None:
    texts = ("Book it", "again")
    run = await ask(OPENAI_AGENTS, mocking(*MATCHING, texts=texts))

    assert run.replies[-1] == Reply("booking: You said: Book it, again")


@pytest.mark.parametrize("framework", [STRANDS], ids=lambda each: each.folder)
async def test_a_framework_without_a_hook_is_not_asked(framework: Framework) -> None:
    fixed = await ask(framework, mocking(*MATCHING))
    recorded = await ask(framework, recording(CALL))

    assert (fixed.outcome, fixed.failure and fixed.failure.kind) == ("faulted", "unsupported")
    assert (recorded.outcome, recorded.failure and recorded.failure.kind) == ("faulted", "unsupported")
    assert recorded.replies == ()


RECORDING = [LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI, SMOLAGENTS]


@pytest.mark.parametrize("framework", RECORDING, ids=lambda each: each.folder)
async def test_a_recording_answers_and_no_tool_is_called(framework: Framework) -> None:
    answered = await ask(framework, recording(CALL))
    other = await ask(framework, recording(replace(CALL, args={"order_id": "6"})))
    again = await ask(framework, recording(CALL, texts=("Where is 5?", "Where is 5?")))
    empty = await ask(framework, recording())
    live = await ask(framework, recording(live=("get_*",)))

    assert answered.failure is None
    assert results(answered) == [LOST]
    assert "seen" not in (answered.final_state or {})
    assert [(each.outcome, each.failure and each.failure.kind) for each in (other, again, empty)] == [
        ("faulted", "no_mock")
    ] * 3
    assert other.failure is not None
    assert 'differs in `order_id`: recorded "6", now "5"' in other.failure.message
    assert again.failure is not None
    assert "`get_order` was recorded once" in again.failure.message
    assert empty.failure is not None
    assert "has no call of `get_order` in this case; it has no tool call" in empty.failure.message
    assert results(live) == [{"order_id": "5", "status": "shipped"}]


async def test_no_tool_of_langgraph_is_called_for_real() -> None:
    find = RecordedCall("find_order", {"order_id": "5"}, (RecordedAnswer({"total": 7}),))
    refund = RecordedCall("refund", {"amount": 1.0}, (RecordedAnswer("refunded 1"),))
    python, folder = python_with(LANGGRAPH.folder), AGENTS / LANGGRAPH.folder
    cases = {
        "live": a_talk("live", "Refund 5"),
        "both": replace(recording(find, refund), eval_id="both"),
        "one": replace(recording(find), eval_id="one"),
        "fixed": replace(
            mocking(ToolMock("refund", "no")), eval_id="fixed", tool_recording=ToolRecording("r", (find,))
        ),
    }
    found = {
        name: (await play("python", {"entry": "mocked.py:agent"}, python, folder, [case]))[name]
        for name, case in cases.items()
    }
    said = {name: [reply and reply.response for reply in run.replies] for name, run in found.items()}

    assert said == {
        "live": ['{"total": 9}, refunded 1; called for real: find_order of 2 messages, refund'],
        "both": ['{"total": 7}, refunded 1; called for real: nothing'],
        "one": [],
        "fixed": ['{"total": 7}, no; called for real: nothing'],
    }
    assert found["one"].failure is not None
    assert (
        "has no call of `refund` in this case; it has calls of `find_order`" in found["one"].failure.message
    )


async def test_adk_answers_from_a_recording_and_hands_over(adk: str) -> None:
    booked = RecordedCall("book_flight", {"city": "Rome"}, (RecordedAnswer({"booked": "Oslo"}),))
    answered = await ask_adk(adk, recording(CALL))
    other = await ask_adk(adk, recording(replace(CALL, args={"order_id": 5})))
    handed = await ask_adk(adk, recording(booked, texts=("a flight",)), "travel")

    assert answered.failure is None
    assert results(answered) == [LOST]
    assert "seen" not in (answered.final_state or {})
    assert other.failure is not None
    assert 'differs in `order_id`: recorded 5, now "5"' in other.failure.message
    assert handed.outcome == "answered", handed.failure
    assert results(handed)[1] == {"booked": "Oslo"}


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


async def test_openai_agents_answers_tools_of_mcp_servers_and_raises_recorded_errors() -> None:
    python, folder = python_with(OPENAI_AGENTS.folder), AGENTS / OPENAI_AGENTS.folder
    find = RecordedCall("find_order", {"order_id": "5"}, (RecordedAnswer("recorded"),))
    refund = RecordedCall("refund", {}, (RecordedAnswer(error="no money then"),))
    paid = replace(refund, answers=(RecordedAnswer("paid"),))

    async def ask_shop(entry: str, *calls: RecordedCall, live: tuple[str, ...] = ()) -> CaseRun:
        case = recording(*calls, live=live)
        return (await play("python", {"entry": f"mocked.py:{entry}"}, python, folder, [case]))["case"]

    answered = await ask_shop("agent", find, paid)
    raised = await ask_shop("agent", find, refund)
    searching = await ask_shop("searching")
    allowed = await ask_shop("searching", live=("web_search*",))

    assert answered.failure is None
    assert answered.replies[0] is not None
    assert answered.replies[0].response == "['recorded', 'paid']; called: []"
    assert raised.outcome == "crashed"
    assert raised.failure is not None
    assert "no money then" in raised.failure.message
    assert (searching.outcome, searching.failure and searching.failure.kind) == ("faulted", "unsupported")
    assert allowed.failure is not None
    assert allowed.failure.kind != "unsupported"


async def test_pydantic_ai_compares_the_arguments_that_the_model_wrote() -> None:
    python, folder = python_with(PYDANTIC_AI.folder), AGENTS / PYDANTIC_AI.folder
    plan = RecordedCall("plan", {"day": "2026-11-23"}, (RecordedAnswer("free"),))
    find = RecordedCall("find", {"text": "x"}, (RecordedAnswer(["y"]),))
    entries = {
        name: (await play("python", {"entry": f"mocked.py:{name}"}, python, folder, [recording(plan, find)]))
        for name in ("agent", "searching")
    }
    answered, searching = entries["agent"]["case"], entries["searching"]["case"]

    assert answered.failure is None
    assert answered.replies[0] is not None
    assert answered.replies[0].response == "free, ['y']; called: []"
    assert (searching.outcome, searching.failure and searching.failure.kind) == ("faulted", "unsupported")


@pytest.mark.parametrize(
    ("entry", "tool", "sentence"),
    [
        ("searching", "google_search", "`google_search` of `searching` is not run with callbacks of tools"),
        ("computing", "code_executor", "the code executor of agent `computing` cannot be mocked"),
    ],
)
async def test_adk_refuses_tools_that_no_callback_can_answer(
    adk: str, entry: str, tool: str, sentence: str
) -> None:
    async def ask_entry(case: EvalCase) -> CaseRun:
        options = {"entry": f"mocked.py:{entry}"}
        return (await play("python", options, adk, AGENTS / "adk", [case]))["case"]

    refused = await ask_entry(recording())
    allowed = await ask_entry(recording(live=(tool,)))

    assert (refused.outcome, refused.failure and refused.failure.kind) == ("faulted", "unsupported")
    assert refused.failure is not None
    assert sentence in refused.failure.message
    assert allowed.failure is None or allowed.failure.kind != "unsupported"
