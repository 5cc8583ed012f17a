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

LOST = {"order_id": "5", "status": "lost"}


def mocking(*mocks: ToolMock, texts: tuple[str, ...] = ("Where is 5?",)) -> EvalCase:
    talk = a_talk("case", *texts, session=SessionInput(state={"shop": "Acme"}))
    return replace(talk, tool_mocks=mocks)


CALL = RecordedCall("get_order", {"order_id": "5"}, (RecordedAnswer(LOST),))


def recording(
    *calls: RecordedCall, texts: tuple[str, ...] = ("Where is 5?",), live: tuple[str, ...] = ()
) -> EvalCase:
    return replace(mocking(texts=texts), tool_recording=ToolRecording("results.json", calls, live))


async def ask(framework: Framework, name: str = "agent", **cases: EvalCase) -> dict[str, CaseRun]:
    """Play all cases with one process of the agent, one after the other."""
    python, folder = python_with(framework.folder), AGENTS / framework.folder
    return await play("python", {"entry": f"desk.py:{name}"}, python, folder, rename(cases), 1)


async def ask_adk(python: str, entry: str, **cases: EvalCase) -> dict[str, CaseRun]:
    return await play("adk", {"entry": entry}, python, AGENTS / "adk", rename(cases), 1)


def rename(cases: dict[str, EvalCase]) -> list[EvalCase]:
    return [replace(case, eval_id=name) for name, case in cases.items()]


def results(run: CaseRun) -> list[object]:
    events = [event for reply in run.replies for event in (reply.events if reply else ())]
    return [event.result for event in events if isinstance(event, ToolResult)]


MATCHING = (ToolMock("get_order", None, {"order_id": "6"}), ToolMock("get_order", LOST, {"order_id": "5"}))
MISSING = ToolMock("get_order", LOST, {"order_id": "6"})


TWICE = ("Where is 5?", "Where is 5?")


@pytest.mark.parametrize(
    "framework", [LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI, SMOLAGENTS], ids=lambda each: each.folder
)
async def test_mocks_and_recordings_answer(framework: Framework) -> None:
    runs = await ask(
        framework,
        matching=mocking(*MATCHING),
        missing=mocking(MISSING),
        second=mocking(ToolMock("get_order", LOST, turn=1), texts=TWICE),
        answered=recording(CALL),
        other=recording(replace(CALL, args={"order_id": "6"})),
        again=recording(CALL, texts=TWICE),
        empty=recording(),
        live=recording(live=("get_*",)),
    )

    check_mocks(runs, has_state=framework is not SMOLAGENTS)
    check_recording(runs)
    if framework in {OPENAI_AGENTS, PYDANTIC_AI}:
        assert results(runs["second"]) == [{"order_id": "5", "status": "shipped"}, LOST]
        assert runs["second"].final_state == {"shop": "Acme", "seen": ["5"]}


def check_mocks(runs: dict[str, CaseRun], *, has_state: bool) -> None:
    """The first mock that matches answers; a call that none answers is no fault of the agent."""
    matching, missing = runs["matching"], runs["missing"]
    assert matching.failure is None
    assert results(matching) == [LOST]
    assert not has_state or matching.final_state == {"shop": "Acme"}
    assert missing.outcome == "faulted"
    assert missing.failure is not None
    assert (missing.failure.kind, missing.failure.message) == (
        "no_mock",
        "`get_order` is mocked, and no mock of it answers the arguments {'order_id': '5'}",
    )


def check_recording(runs: dict[str, CaseRun]) -> None:
    """A recording answers in place of the tool, and a call that it does not hold is named."""
    answered, other, again, empty = (runs[name] for name in ("answered", "other", "again", "empty"))
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
    assert results(runs["live"]) == [{"order_id": "5", "status": "shipped"}]


async def test_agents_that_are_handed_over_to_have_the_mocks_too() -> None:
    runs = await ask(OPENAI_AGENTS, handed=mocking(*MATCHING, texts=("Book it", "again")))

    assert runs["handed"].replies[-1] == Reply("booking: You said: Book it, again")


async def test_a_framework_without_a_hook_is_not_asked() -> None:
    runs = await ask(STRANDS, fixed=mocking(*MATCHING), recorded=recording(CALL))

    assert [(run.outcome, run.failure and run.failure.kind) for run in runs.values()] == [
        ("faulted", "unsupported")
    ] * 2
    assert runs["recorded"].replies == ()


async def test_no_tool_of_langgraph_is_called_for_real() -> None:
    find = RecordedCall("find_order", {"order_id": "5"}, (RecordedAnswer({"total": 7}),))
    refund = RecordedCall("refund", {"amount": 1.0}, (RecordedAnswer("refunded 1"),))
    python, folder = python_with(LANGGRAPH.folder), AGENTS / LANGGRAPH.folder
    cases = {
        "both": recording(find, refund),
        "one": recording(find),
        "fixed": replace(mocking(ToolMock("refund", "no")), tool_recording=ToolRecording("r", (find,))),
        "live": a_talk("live", "Refund 5"),
    }
    found = await play("python", {"entry": "mocked.py:agent"}, python, folder, rename(cases), 1)
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


async def test_arguments_that_langgraph_adds_are_no_arguments_of_the_model() -> None:
    """The model's arguments alone are compared with the recorded ones, whatever the tool's schema is made of."""
    python, folder = python_with(LANGGRAPH.folder), AGENTS / LANGGRAPH.folder
    names = ("by_schema", "without_properties", "by_model", "by_alias", "by_old_model")
    cases = {}
    for name in names:
        args = {"orderId" if name == "by_alias" else "order_id": "5"}
        call = RecordedCall(name, args, (RecordedAnswer("lost"),))
        cases[name] = recording(call, texts=(name,))
        cases[f"live {name}"] = recording(texts=(name,), live=(name,))
    found = await play("python", {"entry": "mocked.py:injecting"}, python, folder, rename(cases), 1)

    assert {name: run.failure for name, run in found.items()} == dict.fromkeys(cases)
    assert {name: results(run) for name, run in found.items()} == {
        name: ["found" if name.startswith("live") else "lost"] for name in cases
    }


async def test_adk_answers_from_mocks_and_recordings(adk: str) -> None:
    runs = await ask_adk(
        adk,
        "desk",
        matching=mocking(*MATCHING),
        missing=mocking(MISSING),
        answered=recording(CALL),
        other=recording(replace(CALL, args={"order_id": 5})),
    )
    matching, missing, answered, other = (runs[name] for name in ("matching", "missing", "answered", "other"))

    assert matching.failure is None
    assert results(matching) == [LOST]
    assert matching.replies[0] is not None
    assert matching.replies[0].response == "Order 5 has lost."
    assert matching.final_state is not None
    assert "seen" not in matching.final_state
    assert missing.outcome == "faulted"
    assert missing.failure is not None
    assert missing.failure.kind == "no_mock"
    assert answered.failure is None
    assert results(answered) == [LOST]
    assert "seen" not in (answered.final_state or {})
    assert other.failure is not None
    assert 'differs in `order_id`: recorded 5, now "5"' in other.failure.message


async def test_adk_sub_agents_have_the_mocks_too(adk: str) -> None:
    booked = RecordedCall("book_flight", {"city": "Rome"}, (RecordedAnswer({"booked": "Oslo"}),))
    texts = ("a flight",)
    runs = await ask_adk(
        adk,
        "travel",
        mocked=mocking(ToolMock("book_flight", {"booked": "Oslo"}), texts=texts),
        recorded=recording(booked, texts=texts),
    )

    assert runs["recorded"].outcome == "answered", runs["recorded"].failure
    assert [results(run)[1] for run in runs.values()] == [{"booked": "Oslo"}] * 2
    assert runs["mocked"].replies[0] is not None
    assert runs["mocked"].replies[0].response == "Your flight to Oslo is booked."


async def test_openai_agents_answers_tools_of_mcp_servers_and_raises_recorded_errors() -> None:
    python, folder = python_with(OPENAI_AGENTS.folder), AGENTS / OPENAI_AGENTS.folder
    find = RecordedCall("find_order", {"order_id": "5"}, (RecordedAnswer("recorded"),))
    refund = RecordedCall("refund", {}, (RecordedAnswer(error="no money then"),))
    paid = replace(refund, answers=(RecordedAnswer("paid"),))

    async def ask_shop(entry: str, **cases: EvalCase) -> tuple[CaseRun, ...]:
        found = await play("python", {"entry": f"mocked.py:{entry}"}, python, folder, rename(cases), 1)
        return tuple(found[name] for name in cases)

    answered, raised = await ask_shop("agent", answered=recording(find, paid), raised=recording(find, refund))
    searching, allowed = await ask_shop(
        "searching", searching=recording(), allowed=recording(live=("web_search*",))
    )

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
    cases = {"refused": recording(), "allowed": recording(live=(tool,))}
    options = {"entry": f"mocked.py:{entry}"}
    runs = await play("python", options, adk, AGENTS / "adk", rename(cases), 1)
    refused, allowed = runs["refused"], runs["allowed"]

    assert (refused.outcome, refused.failure and refused.failure.kind) == ("faulted", "unsupported")
    assert refused.failure is not None
    assert sentence in refused.failure.message
    assert allowed.failure is None or allowed.failure.kind != "unsupported"


PAID = ToolMock("pay_back", "mocked")


@pytest.mark.parametrize(
    ("framework", "texts"),
    [(OPENAI_AGENTS, ("ask", "ask_by_code")), (PYDANTIC_AI, ("ask", "ask_more"))],
    ids=lambda each: getattr(each, "folder", None),
)
async def test_tools_of_an_agent_that_a_tool_asks_are_mocked(
    framework: Framework, texts: tuple[str, ...]
) -> None:
    """Not only those of the agent that evalgate itself asks: no tool is called by accident."""
    python, folder = python_with(framework.folder), AGENTS / framework.folder
    mocks = (PAID, ToolMock("pay_more", "mocked"))
    cases = {text: mocking(*mocks, texts=(text,)) for text in texts}
    cases["live"] = mocking(texts=(texts[0],))
    options = {"entry": "mocked.py:delegating"}
    runs = await play("python", options, python, folder, rename(cases), 1)

    said = {name: [reply and reply.response for reply in run.replies] for name, run in runs.items()}
    assert said == {**{text: ["mocked"] for text in texts}, "live": ["paid"]}


@pytest.mark.parametrize("framework", [OPENAI_AGENTS, PYDANTIC_AI], ids=lambda each: each.folder)
async def test_a_tool_of_the_provider_that_a_nested_agent_has_is_refused(framework: Framework) -> None:
    """The tool that asks this agent hides the error."""
    python, folder = python_with(framework.folder), AGENTS / framework.folder
    case = mocking(ToolMock("web_search", "mocked"), texts=("ask_searcher",))
    run = (await play("python", {"entry": "mocked.py:delegating"}, python, folder, [case]))["case"]

    assert run.failure is not None
    assert (run.outcome, run.failure.kind) == ("faulted", "unsupported")
    assert run.failure.message == "`web_search` is a tool of the model's provider, which cannot be mocked"


@pytest.mark.parametrize(
    ("entry", "asked", "mock", "said"),
    [
        ("delegating", "refunder", PAID, "mocked"),
        ("isolating", "lone", PAID, "`pay_back` of `lone` is not run with callbacks of tools"),
        (
            "finding",
            "searching",
            ToolMock("google_search", "mocked"),
            "`google_search` of `searching` is not run with callbacks of tools",
        ),
    ],
)
async def test_tools_of_an_agent_that_a_tool_of_adk_asks_are_mocked_or_refused(
    adk: str, entry: str, asked: str, mock: ToolMock, said: str
) -> None:
    case = mocking(mock, texts=(asked,))
    run = (await play("adk", {"entry": f"mocked.py:{entry}"}, adk, AGENTS / "adk", [case]))["case"]

    if said == "mocked":
        assert run.failure is None
        assert [reply and reply.response for reply in run.replies] == ["mocked"]
    else:
        assert run.failure is not None
        assert (run.outcome, run.failure.kind) == ("faulted", "unsupported")
        assert run.failure.message.startswith(said)
