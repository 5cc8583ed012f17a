"""OpenAI's chat completions: whole and streamed, with tool results from the case."""

import json
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

from evalgate.agents.http.chat_completions import CompletionAssembler
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Event,
    Failure,
    JsonObject,
    Message,
    RecordedAnswer,
    RecordedCall,
    Reply,
    ToolCall,
    ToolMock,
    ToolRecording,
    ToolResult,
    Usage,
    UserMessage,
)
from tests.agents.host.streams import STREAMS, Call, Pieces
from tests.agents.http.server import Handler, ReceivedRequest, run_case, scripted, serving, sse
from tests.agents.play import a_talk
from tests.openai_server import Completion, _stream, completion

NOT_RECORDED = {"error": "no result is recorded for this call"}
CHAT = {"dialect": "openai", "model": "agent-1"}


def answer_with(*answers: Completion) -> Handler:
    """Return each completion once, streamed on request; requests and answers have OpenAI's schema."""
    rest = iter(answers)

    async def answer(received: ReceivedRequest) -> web.StreamResponse:
        assert received.path == "/v1/chat/completions"
        request = {key: value for key, value in received.body.items() if key != "stream"}
        TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(request)
        current = next(rest)
        if not received.body.get("stream"):
            body = completion(current, received.body)
            ChatCompletion.model_validate(body)
            return web.json_response(body)
        chunks = [*_stream(current, received.body)]
        for chunk in chunks[:-1]:
            ChatCompletionChunk.model_validate_json(chunk)
        return await sse(*chunks)(received)

    return answer


def a_recorded_case(*events: Event) -> EvalCase:
    return EvalCase("case", (CaseTurn(UserMessage("Rain in Paris?"), Reply("No.", events)),))


FORECAST = (ToolCall("forecast", {"city": "Paris"}, "x"), ToolResult("forecast", {"sky": "clear"}, "x"))


@pytest.mark.parametrize("stream", [False, True])
async def test_tool_calls_get_the_results_of_the_case_in_several_rounds(stream: bool) -> None:
    case = a_recorded_case(
        ToolCall("forecast", {"city": "Oslo"}),
        ToolResult("forecast", "snow"),
        *FORECAST,
    )
    answers = answer_with(
        Completion(
            "Let me see.",
            tools=(("forecast", '{"city":"Paris"}'), ("forecast", '{"city":"Rome"}')),
            finish="tool_calls",
        ),
        Completion(tools=(("search", ""),), finish="tool_calls"),
        Completion("No, it is clear."),
    )
    options = {**CHAT, "stream": stream, "instructions": "Be brief.", "body": {"temperature": 0}}
    async with serving(answers) as server:
        run = await run_case({**options, "url": f"{server.url}/v1", "health": "/"}, case)
    assert run.failure is None
    assert run.replies == (
        Reply(
            "No, it is clear.",
            (
                Message("Let me see."),
                ToolCall("forecast", {"city": "Paris"}, "call_0"),
                ToolCall("forecast", {"city": "Rome"}, "call_1"),
                ToolResult("forecast", {"sky": "clear"}, "call_0"),
                ToolResult("forecast", "snow", "call_1"),
                ToolCall("search", {}, "call_0"),
                ToolResult("search", NOT_RECORDED, "call_0"),
            ),
        ),
    )
    assert run.usage == Usage(33, 21, None)
    last = server.posts[-1]
    assert (last["model"], last["temperature"]) == ("agent-1", 0)
    assert [message["role"] for message in last["messages"]] == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "tool")
    ]
    assert [message["content"] for message in last["messages"] if message["role"] == "tool"] == [
        '{"sky": "clear"}',
        "snow",
        json.dumps(NOT_RECORDED),
    ]


async def test_mocks_take_precedence_over_recorded_results() -> None:
    mocks = (
        ToolMock("forecast", {"sky": "mocked"}, {"city": "Paris"}),
        ToolMock("search", ["late"], turn=1),
    )
    events = (*FORECAST, ToolCall("search", {}), ToolResult("search", "recorded"))
    case = replace(a_recorded_case(*events), tool_mocks=mocks)
    calls = (("forecast", '{"city":"Paris"}'), ("forecast", "{"), ("search", "{}"))
    answers = answer_with(Completion(tools=calls, finish="tool_calls"), Completion("No."))
    async with serving(answers) as server:
        run = await run_case({**CHAT, "url": f"{server.url}/v1", "health": "/"}, case)
    assert run.failure is None
    assert [each.result for each in (run.replies[0] or Reply()).events if isinstance(each, ToolResult)] == [
        {"sky": "mocked"},
        {"error": "the arguments are not a JSON object"},
        "recorded",
    ]


async def test_a_recording_answers_all_tools_but_live_ones() -> None:
    answers = (RecordedAnswer({"sky": "recorded"}), RecordedAnswer(error="no sky"))
    recording = ToolRecording(
        "tools.json", (RecordedCall("forecast", {"city": "Paris"}, answers),), live=("search",)
    )
    events = (*FORECAST, ToolCall("search", {}), ToolResult("search", "of the case"))
    case = replace(a_recorded_case(*events), tool_recording=recording)
    calls = (("forecast", '{"city":"Paris"}'), ("forecast", '{"city":"Paris"}'), ("search", "{}"))
    async with serving(
        answer_with(Completion(tools=calls, finish="tool_calls"), Completion("No."))
    ) as server:
        run = await run_case({**CHAT, "url": f"{server.url}/v1", "health": "/"}, case)
    assert run.failure is None
    assert [each.result for each in (run.replies[0] or Reply()).events if isinstance(each, ToolResult)] == [
        {"sky": "recorded"},
        {"error": "no sky"},
        "of the case",
    ]
    async with serving(answer_with(Completion(tools=(("pay", "{}"),), finish="tool_calls"))) as server:
        run = await run_case({**CHAT, "url": f"{server.url}/v1", "health": "/"}, case)
    assert (run.outcome, run.failure and run.failure.kind) == ("faulted", "no_mock")


async def test_call_without_a_matching_mock_is_faulted() -> None:
    case = replace(a_recorded_case(*FORECAST), tool_mocks=(ToolMock("forecast", 1, {"city": "Oslo"}),))
    async with serving(
        answer_with(Completion(tools=(("forecast", '{"city":"Paris"}'),), finish="tool_calls"))
    ) as server:
        run = await run_case({**CHAT, "url": f"{server.url}/v1", "health": "/"}, case)
    sentence = "`forecast` is mocked, and no mock of it answers the arguments {'city': 'Paris'} (turn 1)"
    assert (run.outcome, run.failure, run.usage) == (
        "faulted",
        Failure("no_mock", sentence),
        Usage(11, 7, None),
    )


async def test_other_dialects_leave_tools_to_the_server() -> None:
    case = replace(a_talk("case", "hi"), tool_mocks=(ToolMock("forecast", 1),))
    async with serving(scripted()) as server:
        run = await run_case({"url": server.url}, case)
    sentence = "the case mocks `forecast`, and mocks cannot be applied to this kind of agent"
    assert (run.outcome, run.failure) == ("faulted", Failure("unsupported", sentence))


async def test_each_request_sends_the_whole_conversation() -> None:
    case = EvalCase(
        "case",
        (
            CaseTurn(
                UserMessage("What is this?", ({"inline_data": {"mime_type": "image/png", "data": "AA=="}},))
            ),
            CaseTurn(
                UserMessage("And this?", ({"fileData": {"mimeType": "image/gif", "fileUri": "https://x/y"}},))
            ),
        ),
        context_messages=({"role": "assistant", "content": "Hello."},),
    )
    async with serving(answer_with(Completion("A dot."), Completion("A line."))) as server:
        run = await run_case({**CHAT, "url": f"{server.url}/v1", "health": "/"}, case)
    assert [reply and reply.response for reply in run.replies] == ["A dot.", "A line."]

    def shown(url: str) -> JsonObject:
        return {"type": "image_url", "image_url": {"url": url}}

    def build_message(text: str, url: str) -> JsonObject:
        return {"role": "user", "content": [{"type": "text", "text": text}, shown(url)]}

    assert server.posts[-1]["messages"] == [
        {"role": "assistant", "content": "Hello."},
        build_message("What is this?", "data:image/png;base64,AA=="),
        {"role": "assistant", "content": "A dot."},
        build_message("And this?", "https://x/y"),
    ]


async def test_attachment_that_cannot_be_sent_is_faulted() -> None:
    part = {"inline_data": {"mime_type": "video/mp4", "data": "AA=="}}
    case = EvalCase("case", (CaseTurn(UserMessage("See?", (part,))),))
    async with serving(answer_with()) as server:
        run = await run_case({**CHAT, "url": f"{server.url}/v1", "health": "/"}, case)
    sentence = "chat completions take images, and the case attaches 'video/mp4' (turn 1)"
    assert (run.outcome, run.failure) == ("faulted", Failure("unsupported", sentence))


async def test_endless_tool_calls_are_stopped() -> None:
    looping = [Completion(tools=(("f", "{}"),)) for _ in range(3)]
    async with serving(answer_with(*looping)) as server:
        options = {**CHAT, "url": f"{server.url}/v1", "health": "/", "max_rounds": 3}
        run = await run_case(options, a_recorded_case())
    sentence = "the agent still calls tools after 3 rounds: raise `max_rounds` if it should (turn 1)"
    assert (run.outcome, run.failure, run.usage) == (
        "crashed",
        Failure("rounds", sentence),
        Usage(33, 21, None),
    )


@pytest.mark.parametrize("arguments", ['{"city":', "[1]"])
async def test_arguments_that_are_no_object_count_as_a_wrong_call(arguments: str) -> None:
    async with serving(answer_with(Completion(tools=(("f", arguments),)), Completion("ok"))) as server:
        run = await run_case({**CHAT, "url": f"{server.url}/v1", "health": "/"}, a_recorded_case())
    reply = run.replies[0]
    assert reply is not None
    other = [1] if arguments == "[1]" else arguments
    assert reply.tool_calls == (ToolCall("f", None, "call_0", other_args=other),)


async def test_refusal_is_the_response() -> None:
    async with serving(answer_with(Completion(None, refusal="I will not."))) as server:
        run = await run_case({**CHAT, "url": f"{server.url}/v1", "health": "/"}, a_talk("case", "hi"))
    assert run.replies == (Reply("I will not."),)


@pytest.mark.parametrize(("chunks", "calls"), STREAMS.values(), ids=STREAMS)
def test_the_streamed_calls_of_a_provider(chunks: list[Pieces], calls: list[Call]) -> None:
    assembler = CompletionAssembler()
    for pieces in chunks:
        assembler.add_event(json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": pieces}}]}))
    assembler.add_event("[DONE]")
    found = assembler.build_completion().read_calls()
    assert [(each.id, each.name, each.args) for each in found] == calls


@pytest.mark.parametrize("index", [{"index": 0}, {}])
async def test_streamed_calls_with_one_index_are_separated_by_id(index: dict[str, int]) -> None:
    def piece(id_: str | None, name: str | None, arguments: str) -> dict[str, Any]:
        call = {**index, "id": id_, "function": {"name": name, "arguments": arguments}}
        return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}

    calls = sse(
        piece("x", "forecast", '{"city":'),
        piece("other", None, '"Paris"'),
        piece(None, None, "}"),
        piece("y", "forecast", '{"city":"Rome"}'),
        "[DONE]",
    )
    done = sse({"choices": [{"delta": {"content": "No."}, "finish_reason": "stop"}]})
    async with serving(scripted(calls, done)) as server:
        run = await run_case({**CHAT, "url": server.url, "stream": True}, a_recorded_case(*FORECAST))
        answered = [each["tool_call_id"] for each in server.posts[1]["messages"] if each["role"] == "tool"]
    assert run.replies == (
        Reply(
            "No.",
            (
                ToolCall("forecast", {"city": "Paris"}, "x"),
                ToolCall("forecast", {"city": "Rome"}, "y"),
                ToolResult("forecast", {"sky": "clear"}, "x"),
                ToolResult("forecast", NOT_RECORDED, "y"),
            ),
        ),
    )
    assert answered == ["x", "y"]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_signature_of_a_call_is_sent_back(stream: bool) -> None:
    """Gemini answers 400, "Function call is missing a thought_signature", to a request without it."""
    function = {"name": "forecast", "arguments": '{"city":"Paris"}'}
    call = {
        "id": "x",
        "type": "function",
        "function": function,
        "extra_content": {"google": {"thought_signature": "EocDCoQD"}},
    }
    said = {"content": "No."}
    if stream:
        pieces = [
            {**call, "function": {**function, "arguments": ""}},
            {"function": {"arguments": function["arguments"]}},
        ]
        deltas = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
        answers = scripted(
            sse(*deltas, "[DONE]"), sse({"choices": [{"delta": said, "finish_reason": "stop"}]})
        )
    else:
        answers = scripted(
            *({"choices": [{"message": message}]} for message in ({"tool_calls": [call]}, said))
        )
    async with serving(answers) as server:
        run = await run_case({**CHAT, "url": server.url, "stream": stream}, a_recorded_case(*FORECAST))
        (sent,) = [message for message in server.posts[1]["messages"] if message["role"] == "assistant"]
    assert run.failure is None
    assert sent["tool_calls"] == [call]


CHUNK: dict[str, Any] = {"choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"error": {"message": "no"}}, "the agent's answer is no chat completion: it has no `choices`"),
        ({"choices": []}, "the chat completion holds no message"),
        (sse(CHUNK), "the agent's stream ended before its answer did"),
        (sse(CHUNK, {"error": {"message": "overloaded"}}), "the agent broke its answer off with an error"),
        (
            {"choices": [{"message": {"tool_calls": [{"type": "custom"}]}}]},
            "the completion calls a tool that is not a function with a name",
        ),
    ],
)
async def test_refuses(answer: object, sentence: str) -> None:
    async with serving(scripted(answer)) as server:
        run = await run_case({**CHAT, "url": server.url}, a_talk("case", "hi"))
    assert run.outcome == "crashed"
    assert run.failure is not None
    assert (run.failure.kind, run.failure.message) == ("protocol", f"{sentence} (turn 1)")


@pytest.mark.parametrize(
    "message",
    [{"tool_calls": "f"}, {"tool_calls": ["f"]}, {"tool_calls": [{"type": "custom"}]}, {"content": 1}],
)
async def test_malformed_completion_counts_with_its_usage(message: dict[str, Any]) -> None:
    usage = {"prompt_tokens": 11, "completion_tokens": 7}
    async with serving(scripted({"choices": [{"message": message}], "usage": usage})) as server:
        run = await run_case({**CHAT, "url": server.url}, a_talk("case", "hi"))
    assert (run.failure and run.failure.kind, run.usage) == ("protocol", Usage(11, 7, None))


@pytest.mark.parametrize("reported", [(True, False), (False, True), (True, False, True)])
async def test_usage_of_a_turn_is_the_sum_of_what_completions_report(reported: tuple[bool, ...]) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [{"tool_calls": [call]} for _ in reported[1:]] + [{"content": "ok"}]
    usage = {"usage": {"prompt_tokens": 11, "completion_tokens": 7}}
    answers = [
        {"choices": [{"message": message}], **(usage if is_known else {})}
        for message, is_known in zip(messages, reported, strict=True)
    ]
    async with serving(scripted(*answers)) as server:
        run = await run_case({**CHAT, "url": server.url, "health": "/"}, a_recorded_case())
    known = sum(reported)
    assert (run.failure, run.usage) == (None, Usage(11 * known, 7 * known, None))


async def test_query_of_the_address_stays_at_its_end() -> None:
    async with serving(scripted(completion(Completion("ok"), {"model": "agent-1"}))) as server:
        url = f"{server.url}/deployments/d/?api-version=2026-01-01"
        run = await run_case({"url": url, "health": "/", **CHAT}, a_recorded_case())
        request = server.received[-1].request
    assert run.replies == (Reply("ok"),)
    assert request.path_qs == "/deployments/d/chat/completions?api-version=2026-01-01"
