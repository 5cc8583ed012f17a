"""The local server speaks OpenAI's wire format: OpenAI's own SDK reads it, strictly."""

import json
from collections.abc import AsyncIterator

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.openai_server import BrokenReply, Completion, ErrorReply, OpenAIServer, Reply, completion

SAYINGS = [
    Completion("Yes."),
    Completion("", usage=None),
    Completion("Ünïcode 東京 \n\n data: no"),
    Completion("cut o", finish="length", usage=(3, 9), cached_tokens=2),
    Completion(refusal="I cannot judge that."),
    Completion(finish="tool_calls", tools=(("get_weather", '{"city": "Paris"}'), ("now", "{}"))),
    Completion("A", finish="content_filter"),
    Completion("AB", logprobs=(("A", -0.1), ("B", -2.5))),
]


@pytest.mark.parametrize("says", SAYINGS)
def test_a_completion_is_one_for_the_sdk(says: Completion) -> None:
    wire = completion(says, {"model": "judge", "top_logprobs": 1})

    read = ChatCompletion.model_validate_json(json.dumps(wire), strict=True)

    assert not _unknown(read)
    assert read.choices[0].message.content == says.text
    assert read.choices[0].finish_reason == says.finish


def _unknown(value: object) -> list[str]:
    """Names on the wire that the SDK's models do not have."""
    found = [] if not isinstance(value, openai.BaseModel) else list(value.model_extra or {})
    children = (
        vars(value).values()
        if isinstance(value, openai.BaseModel)
        else value
        if isinstance(value, list)
        else ()
    )
    return found + [name for child in children for name in _unknown(child)]


@pytest.mark.parametrize("says", SAYINGS)
async def test_a_stream_holds_what_the_whole_does(says: Completion) -> None:
    with OpenAIServer(says) as server:
        async with AsyncOpenAI(api_key="k", base_url=server.url, max_retries=0) as client:
            chunks = [
                ChatCompletionChunk.model_validate(chunk.model_dump(), strict=True)
                async for chunk in await _streamed(client)
            ]

    assert not [name for chunk in chunks for name in _unknown(chunk)]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == (says.text or "")
    assert [call.function.name for delta in deltas for call in delta.tool_calls or () if call.function] == [
        name for name, _ in says.tools
    ]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == says.finish
    totals = [chunk.usage.total_tokens for chunk in chunks if chunk.usage]
    assert totals == ([sum(says.usage)] if says.usage else [])


async def _streamed(client: AsyncOpenAI) -> AsyncIterator[ChatCompletionChunk]:
    return await client.chat.completions.create(
        model="judge",
        messages=[{"role": "user", "content": "?"}],
        stream=True,
        stream_options={"include_usage": True},
    )


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (ErrorReply(400, "bad", "context_length_exceeded"), openai.BadRequestError),
        (ErrorReply(401, "Incorrect API key provided", "invalid_api_key"), openai.AuthenticationError),
        (ErrorReply(404, "no such model", "model_not_found"), openai.NotFoundError),
        (
            ErrorReply(429, "slow down", "rate_limit_exceeded", headers={"Retry-After": "2"}),
            openai.RateLimitError,
        ),
        (ErrorReply(503, "overloaded", type="server_error"), openai.InternalServerError),
        (BrokenReply(), openai.APIConnectionError),
        (BrokenReply(10), openai.APIConnectionError),
    ],
)
async def test_the_sdk_knows_the_errors(reply: Reply, kind: type[openai.APIError]) -> None:
    with OpenAIServer(reply) as server:
        async with AsyncOpenAI(api_key="k", base_url=server.url, max_retries=0) as client:
            with pytest.raises(kind) as caught:
                await client.chat.completions.create(
                    model="judge", messages=[{"role": "user", "content": "?"}]
                )

    if isinstance(reply, ErrorReply) and isinstance(caught.value, openai.APIStatusError):
        assert caught.value.code == reply.code
        assert caught.value.status_code == reply.status
        assert reply.message in str(caught.value)
        for name, value in reply.headers.items():
            assert caught.value.response.headers[name] == value


async def test_requests_are_kept_and_other_addresses_are_not_found() -> None:
    with OpenAIServer(script=lambda body: Completion(body["messages"][0]["content"] * 2)) as server:
        async with AsyncOpenAI(api_key="k-1", base_url=server.url, max_retries=0) as client:
            answer = await client.chat.completions.create(
                model="judge", messages=[{"role": "user", "content": "ab"}], temperature=0.5
            )
            with pytest.raises(openai.NotFoundError):
                await client.moderations.create(input="x")

    assert answer.choices[0].message.content == "abab"
    assert server.bodies == [
        {"model": "judge", "messages": [{"role": "user", "content": "ab"}], "temperature": 0.5}
    ]
    assert server.requests[0].headers["authorization"] == "Bearer k-1"
