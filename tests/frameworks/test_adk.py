"""Google ADK's agents, with Google's own package and a scripted model."""

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from evalgate.agents import host
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    EvalCase,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    TraceSpan,
    Usage,
    UserMessage,
)
from tests.agents.play import a_talk, environment
from tests.frameworks import AGENTS
from tests.frameworks.playing import play, without_ids

pytestmark = pytest.mark.slow
FOLDER = AGENTS / "adk"
HOST = Path(host.__file__).with_name("__main__.py")


async def ask(python: str, entry: str, *texts: str, **options: object) -> CaseRun:
    case = a_talk("case", *texts, session=SessionInput("shop", "ada", {"shop": "Acme"}))
    return (await play("adk", {"entry": entry, **options}, python, FOLDER, [case]))["case"]


def order(number: str) -> dict[str, object]:
    return {"order_id": number, "status": "shipped"}


async def test_conversation_with_tools_and_state(adk: str) -> None:
    run = await ask(adk, "desk", "hi", "Where is 5?", "Both")

    assert run.failure is None
    assert [without_ids(reply) for reply in run.replies] == [
        Reply("Hello, how can I help? (1)"),
        Reply(
            "Order 5 has shipped.",
            (
                Message("Let me look.", "desk"),
                ToolCall("get_order", {"order_id": "5"}, author="desk"),
                ToolResult("get_order", order("5"), author="desk"),
            ),
        ),
        Reply(
            "Order 1 has shipped.; Order 2 has shipped.",
            (
                ToolCall("get_order", {"order_id": "1"}, author="desk"),
                ToolCall("get_order", {"order_id": "2"}, author="desk"),
                ToolResult("get_order", order("1"), author="desk"),
                ToolResult("get_order", order("2"), author="desk"),
            ),
        ),
    ]
    assert run.usage == Usage(5 * 10, 5 * 4, None)
    assert run.final_state == {
        "shop": "Acme",
        "turns": 3,
        "seen": ["5", "1", "2"],
        "answer": "Order 1 has shipped.; Order 2 has shipped.",
    }


async def trace_turns(python: str, entry: str, *texts: str) -> list[tuple[TraceSpan, ...]]:
    """The traces of one conversation for each text."""
    cases = [a_talk(text, text, session=SessionInput("shop", "ada", {"shop": "Acme"})) for text in texts]
    runs = await play("adk", {"entry": entry}, python, FOLDER, cases, trace=True)
    traces = [runs[text].trace for text in texts]
    assert all(0 <= span.start_s <= span.start_s + span.duration_s for each in traces for span in each)
    return traces


async def test_a_trace_has_what_the_model_was_asked_and_what_it_answered(adk: str) -> None:
    answered, crashed = await trace_turns(adk, "desk", "Where is 5?", "Cancel it")
    agent, first, tool, second = answered

    assert (agent.name, agent.kind, agent.parent_id) == ("desk", "agent", "")
    assert (agent.request, agent.response) == ("Where is 5?", "Order 5 has shipped.")
    assert [(span.kind, span.parent_id, span.author) for span in (first, tool, second)] == [
        ("model", agent.id, "desk"),
        ("tool", agent.id, "desk"),
        ("model", agent.id, "desk"),
    ]
    assert (tool.name, tool.request, tool.response) == ("get_order", {"order_id": "5"}, order("5"))
    request, response = cast("Any", first.request), cast("Any", first.response)
    assert request["contents"] == [{"parts": [{"text": "Where is 5?"}], "role": "user"}]
    assert request["config"]["system_instruction"].startswith("You answer for Acme.")
    declared = request["config"]["tools"][0]["function_declarations"]
    assert [each["name"] for each in declared] == ["get_order", "cancel_order"]
    assert response["content"]["parts"][0] == {"text": "Let me look."}
    assert first.usage == Usage(10, 4, None, models=(first.name,))
    assert first.start_s <= tool.start_s <= second.start_s

    *_, model, failed = crashed
    assert (model.kind, model.error) == ("model", "")
    assert (failed.name, failed.error) == ("cancel_order", "the backend for 7 is down")


async def test_a_trace_shows_which_agent_handed_over_to_which(adk: str) -> None:
    [spans] = await trace_turns(adk, "travel", "an essay")

    names = {span.id: span.name for span in spans}
    assert [(span.name, names.get(span.parent_id)) for span in spans if span.kind == "agent"] == [
        ("travel", None),
        ("writers", "travel"),
        ("outline", "writers"),
        ("draft", "writers"),
    ]
    assert not any(span.error for span in spans)


async def test_an_answer_of_a_tool_that_ends_the_turn_is_not_lost(adk: str) -> None:
    run = await ask(adk, "verbatim.py", "What is there?")

    (reply,) = run.replies
    called = ToolCall("get_menu", {"day": "Monday"}, author="verbatim")
    answered = ToolResult("get_menu", {"menu": "soup on Monday"}, author="verbatim")
    assert without_ids(reply) == Reply("", (called, answered))


async def test_sub_agents_speak_under_their_names(adk: str) -> None:
    flight = await ask(adk, "travel", "a flight")
    essay = await ask(adk, "travel", "an essay")

    assert [without_ids(reply) for reply in (*flight.replies, *essay.replies)] == [
        Reply(
            "Your flight to Rome is booked.",
            (
                ToolCall("transfer_to_agent", {"agent_name": "booking"}, author="travel"),
                ToolResult("transfer_to_agent", {"result": None}, author="travel"),
                ToolCall("book_flight", {"city": "Rome"}, author="booking"),
                ToolResult("book_flight", {"booked": "Rome"}, author="booking"),
            ),
        ),
        Reply(
            "An essay on Rome, Oslo",
            (
                Message("I ask the writers.", "travel"),
                ToolCall("transfer_to_agent", {"agent_name": "writers"}, author="travel"),
                ToolResult("transfer_to_agent", {"result": None}, author="travel"),
                Message("Rome, Oslo", "outline"),
            ),
        ),
    ]
    assert essay.final_state == {"shop": "Acme", "outline": "Rome, Oslo", "draft": "An essay on Rome, Oslo"}


@pytest.mark.parametrize(
    ("text", "kind", "sentence"),
    [
        ("boom", "exception", "the agent raised RuntimeError: no model"),
        ("Cancel it", "exception", "the agent raised RuntimeError: the backend for 7 is down"),
        ("filtered", "model", "the model of `desk` gave the error SAFETY: not that"),
    ],
)
async def test_failures_are_no_answers(adk: str, text: str, kind: str, sentence: str) -> None:
    run = await ask(adk, "desk", text)

    assert run.outcome == "crashed"
    assert run.failure is not None
    assert (run.failure.kind, run.failure.message) == (kind, sentence)


async def test_an_empty_answer_is_one(adk: str) -> None:
    assert (await ask(adk, "desk", "silence")).replies == (Reply(""),)


def ask_forked_hosts(python: str, agents: Iterable[tuple[str, str | None]]) -> list[dict[str, str]]:
    """Say "hi" to agents, which are an entry and the name of an agent below it, and return the last messages."""
    hosts = [{"entry": entry, "adk": True, "agent": name, "threads": 1} for entry, name in agents]
    done = subprocess.run(
        [python, "-P", Path(__file__).with_name("forked_hosts.py")],
        cwd=FOLDER,
        env=environment(),
        input=json.dumps({"program": str(HOST), "text": "hi", "hosts": hosts}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    messages: list[dict[str, str]] = json.loads(done.stdout)
    return messages


ANSWERS = {
    ("desk", None): "Hello",
    ("desk/", None): "Hello",
    ("desk/agent.py", None): "Hello",
    ("desk.agent", None): "Hello",
    ("desk.agent:root_agent", None): "Hello",
    ("travel", None): "Where to?",
    ("bare", None): "bare",
    ("later", None): "made later",
    ("later.py:get_agent_async", None): "made later",
    ("travel.agent:outline", None): "Rome, Oslo",
    ("travel", "booking"): "Your flight to Rome is booked.",
    ("inspector.py", None): "user:hi",
    ("inspector", "other"): "the other one",
    ("written", None): "written",
    ("written/root_agent.yaml", None): "written",
    ("written/clerk.yaml", None): "the clerk",
    ("written", "clerk"): "the clerk",
}
"""Entry and name of the agent → the start of its answer."""


def test_where_an_agent_is_found(adk: str) -> None:
    messages = ask_forked_hosts(adk, ANSWERS)

    starts = [
        message.get("response", "")[: len(start)]
        for message, start in zip(messages, ANSWERS.values(), strict=True)
    ]
    assert dict(zip(ANSWERS, starts, strict=True)) == ANSWERS


async def test_an_agent_that_is_written_in_a_file_calls_its_tools(adk: str) -> None:
    run = await ask(adk, "written", "Where is my order?")

    called = ToolCall("get_order", {"order_id": "5"}, author="written")
    assert [without_ids(reply) for reply in run.replies] == [
        Reply("It is shipped.", (called, ToolResult("get_order", order("5"), author="written")))
    ]


REFUSALS = {
    ("nothing", None): "there is no module `nothing` in ",
    ("./nothing", None): "there is no folder ./nothing in ",
    ("desk", "clerk"): "there is no agent `clerk` in it; there are: desk",
    ("travel", "clerk"): "there are: travel, booking, writers, outline, draft",
    ("scripted", None): "neither `scripted` nor its `agent` has one of app, root_agent, get_agent_async",
    ("written/other.yaml", None): "there is no file written/other.yaml in ",
    ("spoilt", None): "spoilt/root_agent.yaml is no agent of Google ADK: ",
    ("inspector.py:not_an_agent", None): "it is of type int, not an agent or app of Google ADK",
}
"""Entry and name of the agent → why there is none."""


def test_what_is_no_agent(adk: str) -> None:
    messages = ask_forked_hosts(adk, REFUSALS)

    for message, (agent, why) in zip(messages, REFUSALS.items(), strict=True):
        kind = "entry" if "there " in why else "import"
        assert (message["type"], message.get("kind")) == ("fatal", kind), agent
        assert why in message["message"], agent


async def test_an_entry_without_an_agent_is_not_run(adk: str) -> None:
    run = await ask(adk, "nothing", "hi")

    assert run.outcome == "not_run"
    assert run.failure is not None
    assert run.failure.kind == "entry"


async def test_sessions_are_fresh_and_interleave(adk: str) -> None:
    cases = [a_talk(str(index), f"Where is {index}?", "hi") for index in range(24)]
    runs = await play("adk", {"entry": "desk"}, adk, FOLDER, cases)

    for index, case in enumerate(cases):
        run = runs[case.eval_id]
        assert run.final_state is not None
        assert (run.final_state["seen"], run.final_state["turns"]) == ([str(index)], 2)


async def test_an_app_keeps_its_plugins_for_whichever_agent_is_asked(adk: str) -> None:
    for name, met in ((None, "inspector"), ("other", "other")):
        run = await ask(adk, "inspector", "hi", agent_name=name)
        assert run.final_state == {"shop": "Acme", "user:met": met}


async def test_attachments_and_earlier_messages_reach_the_model(adk: str) -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    case = EvalCase(
        "case",
        (CaseTurn(UserMessage("look", (image,))),),
        context_messages=({"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}),
    )
    runs = await play("adk", {"entry": "inspector"}, adk, FOLDER, [case])

    assert runs["case"].replies == (Reply("user:hi | model:ho | user:look,image/png"),)


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        (
            EvalCase("case", (CaseTurn(UserMessage("look", ({"what": 1},))),)),
            "an attachment is no part that Google ADK knows: `what`: Extra inputs are not permitted",
        ),
        (
            EvalCase(
                "case", (CaseTurn(UserMessage("hi")),), context_messages=({"role": "tool", "content": "5"},)
            ),
            "a context message cannot be told to a Google ADK agent: its role must be user or assistant",
        ),
    ],
    ids=["attachment", "context message"],
)
async def test_what_adk_cannot_be_given_is_no_fault_of_the_agent(
    adk: str, case: EvalCase, sentence: str
) -> None:
    run = (await play("adk", {"entry": "inspector"}, adk, FOLDER, [case]))["case"]

    assert run.failure is not None
    assert (run.outcome, run.failure.kind) == ("faulted", "unsupported")
    assert run.failure.message.startswith(sentence)


async def test_values_that_json_cannot_hold_become_their_text(adk: str) -> None:
    run = await ask(adk, "unusual.py:inner", "odd")

    result = ToolResult("odd", {"odd": "{(1, 2): 'x'}", "even": 2}, author="inner")
    called = ToolCall("odd", {}, author="inner")
    assert [without_ids(reply) for reply in run.replies] == [Reply("Done.", (called, result))]
    assert run.final_state == {"shop": "Acme", "odd": "{(1, 2): 'x'}"}


async def test_the_usage_of_an_agent_that_a_tool_asks_counts(adk: str) -> None:
    run = await ask(adk, "unusual.py:outer", "inner")

    assert run.failure is None
    assert run.usage == Usage(4 * 10, 4 * 4, None)


async def test_the_parts_of_a_streamed_answer_are_no_messages(adk: str) -> None:
    assert (await ask(adk, "unusual.py:streaming", "hi")).replies == (Reply("Hello"),)


async def test_the_python_kind_knows_such_agents_too(adk: str) -> None:
    case = a_talk("case", "Where is 5?")
    runs = await play("python", {"entry": "desk/agent.py:root_agent"}, adk, FOLDER, [case])

    assert runs["case"].final_state is not None
    assert runs["case"].final_state["seen"] == ["5"]


async def test_dotenv_fills_in_what_the_environment_does_not_say(adk: str, tmp_path: Path) -> None:
    for name in ("scripted.py", "dotenv_agent.py"):
        shutil.copy(FOLDER / name, tmp_path)
    (tmp_path / ".env").write_text("FROM_DOTENV=file\nPATH=file\n")
    runs = await play("adk", {"entry": "dotenv_agent.py"}, adk, tmp_path, [a_talk("case", "hi")])

    assert runs["case"].replies == (Reply("file None"),)
