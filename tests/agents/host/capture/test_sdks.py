"""Capture of tool calls and usage of agents that use the SDKs of OpenAI and Anthropic."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from evalgate.agents.adapters.python import build_python_agent
from evalgate.agents.workers.pool import WorkerPool
from evalgate.core.types import CaseRun, Message, Reply, ToolCall, ToolResult, Usage
from tests.agents.host.capture.provider import GIVEN, MADE, Provider
from tests.agents.play import PATIENT_S, a_talk, environment, outcomes

HERE = Path(__file__).parent
TWICE = Usage(2 * GIVEN, 2 * MADE, None, models=("small-2026",))


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as found:
        yield found


def agent(name: str, provider: Provider, *, capture: bool = True) -> WorkerPool:
    env = {**environment(), "PROVIDER_URL": provider.url}
    entry = f"{HERE / 'sdk_agents.py'}:{name}"
    return build_python_agent(
        entry=entry,
        cwd=HERE,
        env=env,
        timeout=PATIENT_S,
        start_timeout=PATIENT_S,
        threads=16,
        capture=capture,
    )


async def played(name: str, provider: Provider, *texts: str) -> CaseRun:
    run = (await outcomes(lambda _: agent(name, provider), [a_talk("one", *texts)]))["one"]
    assert run.outcome == "answered", run.failure
    return run


def without_ids(reply: Reply | None) -> list[ToolCall | ToolResult | Message]:
    """Return the events without ids, after checking that each result has the id of its call."""
    assert reply is not None
    calls = [event.id for event in reply.events if isinstance(event, ToolCall)]
    assert all(event.id in calls for event in reply.events if isinstance(event, ToolResult))
    return [
        ToolCall(event.name, event.args)
        if isinstance(event, ToolCall)
        else ToolResult(event.name, event.result)
        if isinstance(event, ToolResult)
        else event
        for event in reply.events
    ]


def looked_up(*cities: str) -> list[ToolCall | ToolResult | Message]:
    calls = [ToolCall("get_forecast", {"city": city}) for city in cities]
    results = [ToolResult("get_forecast", {"city": city, "sky": "sunny"}) for city in cities]
    return [Message("Let me look."), *calls, *results]


SYNC = (
    *("chat", "chat_with_raw_response", "chat_parse", "chat_stream", "chat_in_pool", "chat_in_thread"),
    *("responses", "messages"),
)
ASYNC = (
    *("async_chat", "async_chat_stream_helper", "chat_in_executor", "async_responses_stream"),
    *("async_messages", "async_messages_stream"),
)


@pytest.mark.parametrize(("entry", "variants"), [("sync_variant", SYNC), ("async_variant", ASYNC)])
async def test_each_conversation_gets_its_own_calls_results_usage_and_model(
    entry: str, variants: tuple[str, ...], provider: Provider
) -> None:
    """Every way to call a model, 16 conversations at a time in one process, two turns each."""
    cases = [
        a_talk(
            f"{name} {number}",
            f"{name}: the weather of A{number} and the weather of B{number}",
            f"{name}: ok",
        )
        for number in range(6)
        for name in variants
    ]
    runs = await outcomes(lambda _: agent(entry, provider), cases, concurrency=16)
    for number in range(6):
        for name in variants:
            run = runs[f"{name} {number}"]
            assert run.outcome == "answered", run.failure
            assert [without_ids(reply) for reply in run.replies] == [
                looked_up(f"A{number}", f"B{number}"),
                [],
            ]
            assert run.usage == Usage(3 * GIVEN, 3 * MADE, None, models=("small-2026",)), name
    off = await outcomes(
        lambda _: agent(entry, provider, capture=False), cases[: len(variants)], concurrency=16
    )
    for case, run in off.items():
        # Nothing but what is captured differs: the SDKs work as they do without.
        assert run.replies == tuple(Reply(reply.response) for reply in runs[case].replies if reply)
        assert run.usage is None


@pytest.mark.parametrize(
    "variant", ["sync_variant chat", "sync_variant messages", "async_variant async_chat"]
)
async def test_a_trace_has_each_request_to_a_model_with_its_answer(variant: str, provider: Provider) -> None:
    entry, _, name = variant.partition(" ")
    case = a_talk("one", f"{name}: the weather of Rome")
    run = (await outcomes(lambda _: agent(entry, provider), [case], trace=True))["one"]

    root, first, tool, second = run.trace
    assert (root.kind, root.parent_id) == ("agent", "")
    assert [(step.kind, step.parent_id) for step in (first, tool, second)] == [
        ("model", root.id),
        ("tool", root.id),
        ("model", root.id),
    ]
    request, response = cast("Any", first.request), cast("Any", first.response)
    assert "the weather of Rome" in str(request["messages"])
    assert "get_forecast" in str(request["tools"])
    assert "get_forecast" in str(response)
    assert first.usage == Usage(GIVEN, MADE, None, models=("small-2026",))
    assert (tool.name, tool.request) == ("get_forecast", {"city": "Rome"})
    assert tool.response == {"city": "Rome", "sky": "sunny"}
    assert first.start_s + first.duration_s <= tool.start_s + 1e-4
    assert tool.start_s + tool.duration_s <= second.start_s + 1e-4
    assert run.usage == TWICE


async def test_reported_calls_take_precedence_over_captured_ones(provider: Provider) -> None:
    run = await played("reports_itself", provider, "the weather of Paris")
    assert without_ids(run.replies[0]) == [
        ToolCall("own_name", {"for": "the weather of Paris"}),
        ToolResult("own_name", "own result"),
    ]
    assert run.usage == Usage(1, 2, None)


async def test_empty_list_of_calls_overrides_the_capture(provider: Provider) -> None:
    run = await played("says_that_there_were_none", provider, "the weather of Paris")
    assert run.replies[0] is not None
    assert run.replies[0].events == ()
    assert run.usage == TWICE


async def test_forced_call_without_a_result_is_structured_output(provider: Provider) -> None:
    run = await played("structured", provider, "hi")
    assert run.replies == (Reply("hi"),)
    assert run.usage == Usage(GIVEN, MADE, None, models=("small-2026",))


async def test_results_of_earlier_turns_are_not_repeated(provider: Provider) -> None:
    run = await played("remembers", provider, "the weather of Paris", "the weather of Rome", "thanks")
    assert [without_ids(reply) for reply in run.replies] == [looked_up("Paris"), looked_up("Rome"), []]


async def test_retried_request_counts_once() -> None:
    with Provider(busy_first=True) as provider:
        run = await played("chat", provider, "the weather of Paris")
        assert len(provider.bodies) == 3
    assert without_ids(run.replies[0]) == looked_up("Paris")
    assert run.usage == TWICE


async def test_usage_of_a_failed_turn_counts(provider: Provider) -> None:
    runs = await outcomes(lambda _: agent("fails", provider), [a_talk("one", "the weather of Paris")])
    assert runs["one"].outcome == "crashed"
    assert runs["one"].usage == TWICE
