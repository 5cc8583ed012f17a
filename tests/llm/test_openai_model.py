"""One request over HTTP: every kind of answer, and every kind of failure."""

import asyncio
import json
import time
import traceback
from collections.abc import Mapping
from typing import Any

import pytest
from openai import AsyncOpenAI

from evalgate.config.schema.judge import JudgeConfig
from evalgate.config.token_prices import Tokens
from evalgate.llm import openai_client
from evalgate.llm.client import (
    AnswerSchema,
    ChatMessage,
    ModelAnswer,
    ModelRequest,
    TokenChoice,
    build_model_request,
)
from evalgate.llm.endpoint import ModelEndpoint, resolve_endpoint
from evalgate.llm.errors import FailureKind, JudgeError
from evalgate.llm.openai_client import OpenAIModel
from tests.llm.fakes import FakeTime
from tests.openai_server import (
    BrokenReply,
    Completion,
    EndlessReply,
    ErrorReply,
    NoReply,
    OpenAIServer,
    RawReply,
    ReceivedRequest,
    Reply,
)
from tests.ports import closed_port

KEY = "sk-planted-0123456789abcdef"


def a_model(url: str, provider: str = "custom", seconds: float = 120.0, **generation: Any) -> OpenAIModel:
    """A model whose key is KEY."""
    config = JudgeConfig(
        provider=provider, model="judge", base_url=url, api_key="${MY_KEY}", generation=generation
    )
    endpoint = resolve_endpoint(config, {"MY_KEY": KEY})
    return OpenAIModel(
        endpoint, timeout=seconds, parameters=config.build_parameters(), clock=FakeTime().clock
    )


async def ask(
    reply: Reply, request: ModelRequest | None = None, provider: str = "custom", **generation: Any
) -> tuple[ModelAnswer, ReceivedRequest]:
    with OpenAIServer(reply) as server:
        model = a_model(server.url, provider, **generation)
        try:
            return await model.ask(request or build_model_request("Is it right?")), server.requests[0]
        finally:
            await model.aclose()


async def failure(reply: Reply, seconds: float = 120.0) -> JudgeError:
    with OpenAIServer(reply) as server:
        model = a_model(server.url, seconds=seconds)
        try:
            with pytest.raises(JudgeError) as caught:
                await model.ask(build_model_request("Is it right?"))
        finally:
            await model.aclose()
    assert len(server.requests) == 1, "it is asked once: retries belong to another"
    return caught.value


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Completion("yes"), ModelAnswer("yes", "judge", Tokens(11, 7))),
        (Completion("yes", model="judge-2026"), ModelAnswer("yes", "judge-2026", Tokens(11, 7))),
        (Completion("yes", usage=None), ModelAnswer("yes", "judge")),
        (Completion("yes", cached_tokens=4), ModelAnswer("yes", "judge", Tokens(11, 7, 4))),
        (Completion("ye", finish="length"), ModelAnswer("ye", "judge", Tokens(11, 7), "length")),
        (Completion("東京 ✓\n"), ModelAnswer("東京 ✓\n", "judge", Tokens(11, 7))),
        (RawReply(b'{"choices": [{"message": {"content": "loose"}}]}'), ModelAnswer("loose")),
        (
            RawReply(
                b'{"choices": [{"message": {"content": [{"type": "text", "text": "pa"}, {"text": "rts"}]}}]}'
            ),
            ModelAnswer("parts"),
        ),
        (
            RawReply(b'{"choices": [{"message": {"content": "plain"}}]}', content_type="text/plain"),
            ModelAnswer("plain"),
        ),
    ],
)
async def test_answers(reply: Reply, expected: ModelAnswer) -> None:
    answer, _ = await ask(reply)

    assert answer == expected
    assert answer.is_cut_off == (expected.finish == "length")


async def test_logprobs() -> None:
    says = Completion("A", logprobs=(("A", -0.25), ("B", -1.5)))
    answer, asked = await ask(says, build_model_request("?", logprobs=True, top_logprobs=2))

    assert asked.body["top_logprobs"] == 2
    both = (("A", -0.25), ("B", -1.5))
    assert answer.choices == (TokenChoice("A", -0.25, both), TokenChoice("B", -1.5, both))


SCHEMA = AnswerSchema("verdict", {"type": "object"})


@pytest.mark.parametrize(
    ("provider", "request_", "generation", "expected"),
    [
        ("custom", build_model_request("?"), {}, {}),
        ("custom", build_model_request("?", max_tokens=9), {"top_p": 0.5}, {"max_tokens": 9, "top_p": 0.5}),
        ("custom", build_model_request("?", top_p=None), {"top_p": 0.5}, {}),
        ("custom", build_model_request("?", temperature=0), {"temperature": 1}, {"temperature": 0}),
        ("openai", build_model_request("?", max_tokens=9), {}, {"max_completion_tokens": 9}),
        ("azure", build_model_request("?"), {"max_completion_tokens": 3}, {"max_completion_tokens": 3}),
        (
            "custom",
            ModelRequest((ChatMessage("user", "?"),), answer_schema=SCHEMA),
            {},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "verdict", "schema": {"type": "object"}, "strict": True},
                }
            },
        ),
        (
            "deepseek",
            ModelRequest((ChatMessage("user", "?"),), answer_schema=SCHEMA),
            {},
            {"response_format": {"type": "json_object"}},
        ),
        ("anthropic", ModelRequest((ChatMessage("user", "?"),), answer_schema=SCHEMA), {}, {}),
        ("custom", ModelRequest((ChatMessage("user", "?"),), model="other"), {}, {"model": "other"}),
    ],
)
async def test_what_goes_over_the_wire(
    provider: str, request_: ModelRequest, generation: Mapping[str, Any], expected: Mapping[str, Any]
) -> None:
    _, asked = await ask(Completion("yes"), request_, provider, **generation)

    assert asked.body == {"model": "judge", "messages": [{"role": "user", "content": "?"}], **expected}
    assert asked.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "beside",
    [
        {"usage": "none"},
        {"usage": {"prompt_tokens": 1.5, "completion_tokens": 2}},
        {"usage": {"prompt_tokens": "many"}},
        {"usage": {"prompt_tokens": -5, "completion_tokens": 7}},
        {"usage": {"prompt_tokens": 5, "completion_tokens": -7}},
        {"usage": {"prompt_tokens": 10**400}},
        {"model": 7},
        {"created": "today", "id": 3},
    ],
)
async def test_what_stands_oddly_beside_an_answer_costs_nobody_the_answer(beside: Mapping[str, Any]) -> None:
    choice = {"message": {"content": "yes", "tool_calls": {}}, "finish_reason": 0, "logprobs": {"content": 1}}
    answer, _ = await ask(RawReply(json.dumps({"choices": [choice], **beside}).encode()))

    assert answer == ModelAnswer("yes")


async def test_a_byte_order_mark_is_no_part_of_an_answer() -> None:
    answer, _ = await ask(RawReply(b"\xef\xbb\xbf" + b'{"choices": [{"message": {"content": "yes"}}]}'))

    assert answer.text == "yes"


async def test_every_role_goes_over_the_wire() -> None:
    messages = (ChatMessage("system", "a"), ChatMessage("user", "b"), ChatMessage("assistant", "c"))

    _, asked = await ask(Completion("d"), ModelRequest(messages))

    assert [(each["role"], each["content"]) for each in asked.body["messages"]] == [
        ("system", "a"), ("user", "b"), ("assistant", "c"),
    ]  # fmt: skip


async def test_what_an_agent_said_can_always_be_sent() -> None:
    _, asked = await ask(Completion("yes"), build_model_request("a\ud800b\0 💧"))

    assert asked.body["messages"] == [{"role": "user", "content": "a\ufffdb\0 💧"}]


async def test_another_provider_does_not_learn_who_the_user_is_to_openai(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")

    _, elsewhere = await ask(Completion("yes"), provider="custom")
    _, there = await ask(Completion("yes"), provider="openai")

    assert not {"openai-organization", "openai-project"} & set(elsewhere.headers)
    assert there.headers["openai-organization"] == "org-1"
    assert there.headers["openai-project"] == "proj-1"


NO_CREDIT = ErrorReply(429, "You exceeded your current quota", "insufficient_quota", "insufficient_quota")
GOOGLES = b'[{"error": {"code": %d, "message": "%s", "status": "%s"}}]'
DATE = "Wed, 18 Nov 2026 11:07:00 GMT"  # 20 s after the fake clock's start


@pytest.mark.parametrize(
    ("reply", "kind", "pause", "words"),
    [
        (
            ErrorReply(401, f"Incorrect API key provided: {KEY}", "invalid_api_key"),
            "wrong_key",
            None,
            "HTTP 401",
        ),
        (ErrorReply(403, "not yours"), "wrong_key", None, "HTTP 403"),
        (
            RawReply(GOOGLES % (400, b"API key not valid.", b"INVALID_ARGUMENT"), 400),
            "wrong_key",
            None,
            "HTTP 400",
        ),
        (
            ErrorReply(404, "The model `x` does not exist", "model_not_found"),
            "unknown_model",
            None,
            "does not exist",
        ),
        (ErrorReply(400, "model x not found"), "unknown_model", None, "not found"),
        (RawReply(b"<html>Not Found</html>", 404, "text/html"), "unknown_model", None, "<html>Not Found"),
        (ErrorReply(400, "This is too much", "context_length_exceeded"), "too_long", None, "too much"),
        (ErrorReply(400, "prompt is too long: 9 tokens"), "too_long", None, "9 tokens"),
        (ErrorReply(413, "big", "request_too_large"), "too_long", None, "big"),
        (ErrorReply(400, "filtered", "content_filter"), "refused", None, "filtered"),
        (
            ErrorReply(400, "Unsupported value: 'temperature'", "unsupported_value"),
            "rejected",
            None,
            "'temperature'",
        ),
        (ErrorReply(422, "bad"), "rejected", None, "HTTP 422: bad"),
        (ErrorReply(402, "Insufficient Balance"), "no_credit", None, "Insufficient Balance"),
        (NO_CREDIT, "no_credit", None, "no credit left"),
        (
            RawReply(GOOGLES % (429, b"You exceeded your current quota", b"RESOURCE_EXHAUSTED"), 429),
            "rate_limited",
            None,
            "exceeded your current quota",
        ),
        (ErrorReply(429, "slow", headers={"Retry-After": "7"}), "rate_limited", 7.0, "asked too often"),
        (ErrorReply(429, "slow", headers={"Retry-After": DATE}), "rate_limited", 20.0, "asked too often"),
        (
            ErrorReply(429, "slow", headers={"retry-after-ms": "250", "Retry-After": "7"}),
            "rate_limited",
            0.25,
            "too often",
        ),
        (ErrorReply(503, "busy", headers={"Retry-After": "soon"}), "outage", None, "HTTP 503: busy"),
        (ErrorReply(529, "overloaded"), "outage", None, "HTTP 529"),
        (ErrorReply(500, "model not found"), "outage", None, "HTTP 500"),
        (ErrorReply(408, "timed out"), "outage", None, "HTTP 408"),
        (RawReply(b'{"error": {"message": "upstream down", "code": 502}}'), "outage", None, "upstream down"),
        (RawReply(b"<html>captive portal</html>"), "outage", None, "no JSON: <html>"),
        (RawReply(b'{"choices": 3}'), "outage", None, "no chat completion"),
        (RawReply(b"[]"), "outage", None, "no chat completion"),
        (RawReply(b""), "outage", None, "no JSON: nothing"),
        (RawReply(b"\xff\xfe{"), "outage", None, "no JSON"),
        (RawReply(b"[" * 100_000), "outage", None, "no JSON"),
        (BrokenReply(), "outage", None, "cannot be reached"),
        (BrokenReply(0), "outage", None, "cannot be reached"),
        (BrokenReply(40), "outage", None, "cannot be reached"),
        (RawReply(b'{"choices": []}'), "unparsable", None, "empty answer"),
        (Completion(""), "unparsable", None, "empty answer"),
        (Completion(" \n"), "unparsable", None, "empty answer"),
        (Completion("", finish="length"), "unparsable", None, "used all its tokens"),
        (Completion(tools=(("f", "{}"),), finish="tool_calls"), "unparsable", None, "called a tool"),
        (Completion(refusal="I cannot."), "refused", None, "refused: I cannot."),
        (Completion("par", finish="content_filter"), "refused", None, "content filter"),
    ],
)
async def test_failures(reply: Reply, kind: FailureKind, pause: float | None, words: str) -> None:
    found = await failure(reply)

    assert (found.kind, found.retry_after) == (kind, pause), found
    assert words in found.message
    assert str(found) == f"{found.message}. {found.advice}"
    assert "custom/judge" in found.message
    if isinstance(reply, Completion):
        assert (found.is_answer, found.tokens) == (True, Tokens(11, 7)), "they are paid for all the same"


@pytest.mark.parametrize("reply", [EndlessReply(), NoReply()])
async def test_an_answer_that_never_ends_is_left(reply: Reply) -> None:
    found = await failure(reply, seconds=5)

    assert found.kind == "outage"
    assert found.message == "custom/judge gave no whole answer within 5 s"


async def test_unreachable_cluster_is_reported() -> None:
    with closed_port() as port:
        model = a_model(f"http://127.0.0.1:{port}/v1")
        with pytest.raises(
            JudgeError, match=rf"cannot be reached at http://127\.0\.0\.1:{port}/v1: ConnectError"
        ):
            await model.ask(build_model_request("?"))
    await model.aclose()


async def test_who_stops_waiting_is_not_told_of_an_outage() -> None:
    with OpenAIServer(EndlessReply()) as server:
        model = a_model(server.url)
        waiting = asyncio.create_task(model.ask(build_model_request("?")))
        await asyncio.to_thread(server.came.wait, 20)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await model.aclose()


@pytest.mark.parametrize(
    "reply",
    [
        ErrorReply(401, f"Incorrect API key provided: {KEY}", "invalid_api_key"),
        ErrorReply(400, f"what is {KEY}?"),
        ErrorReply(500, f"{KEY} crashed"),
        RawReply(f"{KEY} <html>".encode()),
        RawReply(f'{{"error": "{KEY}"}}'.encode()),
        Completion(refusal=f"I refuse {KEY}"),
        BrokenReply(),
    ],
)
async def test_no_failure_holds_the_key(reply: Reply) -> None:
    found = await failure(reply)

    frames = traceback.TracebackException.from_exception(found, capture_locals=True).stack
    ours = [frame for frame in frames if "evalgate/llm" in frame.filename]
    assert ours
    assert not [frame for frame in ours if KEY in str(frame.locals)]
    assert KEY not in repr(found) + str(found)
    assert found.__context__ is None
    assert found.__cause__ is None


async def test_no_answer_holds_the_key() -> None:
    answer, _ = await ask(Completion(f"Your key is {KEY}."))

    assert answer.text == "Your key is [key]."


def test_nothing_shows_the_key() -> None:
    config = JudgeConfig(model="judge", base_url="http://127.0.0.1:1", api_key="${MY_KEY}")
    endpoint = resolve_endpoint(config, {"MY_KEY": KEY})

    assert KEY not in repr(endpoint) + repr(config) + str(config.model_dump()) + config.model_dump_json()


async def test_conversations_go_on_while_the_sdk_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the event loop waits for would be counted as time of the agents."""
    create, created = openai_client._create_client, list[ModelEndpoint]()

    def create_slowly(endpoint: ModelEndpoint) -> AsyncOpenAI:
        created.append(endpoint)
        time.sleep(0.5)
        return create(endpoint)

    monkeypatch.setattr(openai_client, "_create_client", create_slowly)
    with OpenAIServer(Completion("yes"), Completion("yes")) as server:

        async def ask_twice() -> list[str]:
            model = a_model(server.url)
            answers = await asyncio.gather(*(model.ask(build_model_request(each)) for each in ("1?", "2?")))
            await model.aclose()
            return [answer.text for answer in answers]

        asking = asyncio.create_task(ask_twice())
        began, longest = time.monotonic(), 0.0
        while not asking.done():
            await asyncio.sleep(0.01)
            longest, began = max(longest, time.monotonic() - began), time.monotonic()

    assert await asking == ["yes", "yes"]
    assert len(created) == 1
    assert longest < 0.4
