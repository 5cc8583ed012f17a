"""Ask OpenAI-compatible endpoints: send one request per call, and parse the answer."""

import asyncio
import json
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, WrapValidator

from evalgate.config.token_prices import Tokens
from evalgate.core.errors import InvalidInputError
from evalgate.core.installation import describe_install
from evalgate.core.sanitize import replace_lone_surrogates, to_one_line
from evalgate.llm.client import (
    ChatMessage,
    ModelAnswer,
    ModelRequest,
    TokenChoice,
    merge_parameters,
)
from evalgate.llm.endpoint import ModelEndpoint
from evalgate.llm.error_responses import ErrorResponse, build_judge_error
from evalgate.llm.errors import FailureKind, JudgeError
from evalgate.system.throttling.backoff import REAL_CLOCK, Clock

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletionMessageParam


_T = TypeVar("_T")
_BYTE_ORDER_MARK = "\ufeff"
_MAX_TOKENS = 2**53


def _read_or_none(value: object, read: Callable[[object], _T]) -> _T | None:
    """Return the parsed value of an optional field, or None if the value is malformed."""
    try:
        return read(value)
    except ValidationError:
        return None


_InvalidAsNone = WrapValidator(_read_or_none)


class _Lenient(BaseModel):
    """Base class of parsed responses. Unknown keys are ignored, because many servers deviate from the API."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _ContentPart(_Lenient):
    type: str = ""
    text: str | None = None


class _ResponseMessage(_Lenient):
    content: str | tuple[_ContentPart, ...] | None = None
    refusal: str | None = None
    tool_calls: object = None

    @property
    def text(self) -> str:
        if isinstance(self.content, tuple):
            return "".join(part.text or "" for part in self.content)
        return self.content or ""


class _Alternative(_Lenient):
    token: str
    logprob: float


class _Logprob(_Alternative):
    top_logprobs: tuple[_Alternative, ...] | None = None


class _Logprobs(_Lenient):
    content: tuple[_Logprob, ...] | None = None


class _Choice(_Lenient):
    message: _ResponseMessage | None = None
    finish_reason: Annotated[str | None, _InvalidAsNone] = None
    logprobs: Annotated[_Logprobs | None, _InvalidAsNone] = None


class _Details(_Lenient):
    cached_tokens: Annotated[int | None, _InvalidAsNone] = None


class _Usage(_Lenient):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Annotated[_Details | None, _InvalidAsNone] = None


class _Completion(_Lenient):
    model: Annotated[str | None, _InvalidAsNone] = None
    choices: tuple[_Choice, ...] | None = None
    usage: Annotated[_Usage | None, _InvalidAsNone] = None
    error: object = None


def parse_completion(text: str, where: str) -> ModelAnswer | JudgeError:
    """Parse the JSON text of a chat completion. Return the answer, or a JudgeError without raising it.

    `where` names the model in the error's message.
    """
    try:
        completion = _Completion.model_validate(
            json.loads(
                text.removeprefix(_BYTE_ORDER_MARK),
                object_hook=lambda found: {
                    name: replace_lone_surrogates(value) if isinstance(value, str) else value
                    for name, value in found.items()
                },
            )
        )
    except (ValueError, RecursionError) as error:
        what = "no JSON" if not isinstance(error, ValidationError) else "no chat completion"
        return JudgeError("outage", f"{where} answered with {what}: {to_one_line(text, 120) or 'nothing'}")
    if completion.error and not completion.choices:
        return build_judge_error(ErrorResponse(200, {}, text), where, 0.0)
    tokens = _read_tokens(completion.usage)
    choice = completion.choices[0] if completion.choices else _Choice()
    message = choice.message or _ResponseMessage()
    if failure := _find_failure(choice, message, where):
        return JudgeError(*failure, is_answer=True, tokens=tokens)
    return ModelAnswer(
        message.text,
        completion.model or "",
        tokens,
        choice.finish_reason or "stop",
        _build_token_choices(choice.logprobs),
    )


class _Embedding(_Lenient):
    embedding: tuple[float, ...]


class _Embeddings(_Lenient):
    model: Annotated[str | None, _InvalidAsNone] = None
    data: tuple[_Embedding, ...]
    usage: _Usage | None = None


def parse_embedding(text: str, where: str) -> ModelAnswer | JudgeError:
    """Parse the JSON text of a response with an embedding. Return the answer, or a JudgeError.

    The error is not raised. The answer's text is a JSON list of numbers. `where` names the model in the
    error's message.
    """
    try:
        found = _Embeddings.model_validate_json(text.removeprefix(_BYTE_ORDER_MARK))
    except ValidationError:
        return JudgeError(
            "outage", f"{where} answered with no embedding: {to_one_line(text, 120) or 'nothing'}"
        )
    if not found.data or not found.data[0].embedding:
        return JudgeError("unparsable", f"{where} gave an empty embedding")
    return ModelAnswer(json.dumps(found.data[0].embedding), found.model or "", _read_tokens(found.usage))


def _find_failure(choice: _Choice, message: _ResponseMessage, where: str) -> tuple[FailureKind, str] | None:
    if choice.finish_reason == "content_filter":
        return "refused", f"{where}: the provider's content filter cut the answer"
    if message.refusal:
        return "refused", f"{where} refused: {to_one_line(message.refusal, 160)}"
    if message.text.strip():
        return None
    if choice.finish_reason == "length":
        return "unparsable", f"{where} used all its tokens before it said anything"
    if message.tool_calls:
        return "unparsable", f"{where} called a tool instead of answering"
    return "unparsable", f"{where} gave an empty answer"


def _read_tokens(usage: _Usage | None) -> Tokens | None:
    """Return the used tokens; None, not 0, if they are unknown or out of range: 0 would count as free."""
    if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return None
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    if not (0 <= prompt <= _MAX_TOKENS and 0 <= completion <= _MAX_TOKENS):
        return None
    cached = (usage.prompt_tokens_details or _Details()).cached_tokens or 0
    return Tokens(prompt, completion, min(max(cached, 0), prompt))


def _build_token_choices(logprobs: _Logprobs | None) -> tuple[TokenChoice, ...]:
    return tuple(
        TokenChoice(
            each.token, each.logprob, tuple((other.token, other.logprob) for other in each.top_logprobs or ())
        )
        for each in (logprobs and logprobs.content) or ()
    )


_NO_KEY = "none"  # the SDK requires a key, and local servers ignore it


class OpenAIModel:
    """Client for all models of one endpoint. `RetryingModel` and `LimitedModel` add retries and limits."""

    def __init__(
        self,
        endpoint: ModelEndpoint,
        *,
        timeout: float,
        parameters: Mapping[str, object],
        clock: Clock = REAL_CLOCK,
    ) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._parameters = parameters
        self._clock = clock
        check_sdk()
        self._client: AsyncOpenAI | None = None
        self._creating = asyncio.Lock()

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """Send one request, and return the answer.

        Raises:
            JudgeError: the request failed, or the response holds no usable answer.
        """
        where = self._endpoint.get_price_name(request.model)
        response = await self._send_request(request, where)
        parse = parse_embedding if request.embeds else parse_completion
        answer = parse(response, where) if isinstance(response, str) else response
        if isinstance(answer, JudgeError):
            raise answer
        return answer

    async def aclose(self) -> None:
        """Close the connections to the endpoint."""
        if self._client is not None:
            await self._client.close()

    async def _get_client(self) -> "AsyncOpenAI":
        """Return the SDK's client. The first call creates it in a thread."""
        # Importing the SDK takes seconds. Outside a thread, running agents would wait and time out.
        async with self._creating:
            if self._client is None:
                self._client = await asyncio.to_thread(_create_client, self._endpoint)
        return self._client

    async def _send_request(self, request: ModelRequest, where: str) -> str | JudgeError:
        """Send a request. Return the text of the response without the API key, or a JudgeError.

        The error is not raised, because its context would be the SDK's exception with the request and key.
        """
        client = await self._get_client()
        from openai import APIConnectionError, APIError, APIStatusError

        try:
            async with asyncio.timeout(self._timeout):
                return self._endpoint.redact_key(await self._fetch_response(client, request))
        except TimeoutError:
            return JudgeError("outage", f"{where} gave no whole answer within {self._timeout:g} s")
        except APIStatusError as error:
            headers = {name.lower(): value for name, value in error.response.headers.items()}
            body = self._endpoint.redact_key(error.response.text)
            return build_judge_error(
                ErrorResponse(error.status_code, headers, body), where, self._clock.wall()
            )
        except APIConnectionError as error:
            why = self._format_error(error.__cause__ or error)
            return JudgeError("outage", f"{where} cannot be reached at {self._endpoint.base_url}: {why}")
        except (APIError, ValueError) as error:
            return JudgeError("outage", f"{where} cannot be understood: {self._format_error(error)}")

    async def _fetch_response(self, client: "AsyncOpenAI", request: ModelRequest) -> str:
        model = request.model or self._endpoint.model
        if request.embeds:
            text = "\n".join(replace_lone_surrogates(message.text) for message in request.messages)
            embeddings = client.embeddings.with_raw_response
            return str((await embeddings.create(model=model, input=text, encoding_format="float")).text)
        response = await client.chat.completions.with_raw_response.create(
            model=model,
            messages=[_to_message_param(message) for message in request.messages],
            extra_body=self._build_parameters(request),
        )
        return str(response.text)

    def _build_parameters(self, request: ModelRequest) -> dict[str, object]:
        provider = self._endpoint.provider
        parameters = merge_parameters(request, self._parameters)
        if "max_tokens" in parameters and provider.length_parameter not in parameters:
            parameters[provider.length_parameter] = parameters.pop("max_tokens")
        wanted = request.answer_schema
        if wanted and provider.schema == "json_schema":
            schema = {"name": wanted.name, "schema": wanted.schema, "strict": wanted.strict}
            parameters["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif wanted and provider.schema == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        return parameters

    def _format_error(self, error: BaseException) -> str:
        return self._endpoint.redact_key(to_one_line(f"{type(error).__name__}: {error}", 200))


def check_sdk() -> None:
    """Check that OpenAI's SDK is installed. The SDK is not imported, because that takes a second.

    Raises:
        InvalidInputError: the package `openai` is not installed.
    """
    if find_spec("openai") is None:
        raise InvalidInputError(f"asking a judge needs the package `openai`: {describe_install('judge')}")


def _create_client(endpoint: ModelEndpoint) -> "AsyncOpenAI":
    from openai import AsyncOpenAI

    key = endpoint.key.get_secret_value() if endpoint.key else _NO_KEY
    # `RetryingModel` retries: the SDK's own retries would not be counted, limited or bounded. `_send_request`
    # limits the time of a whole answer: the SDK's timeout is for each read.
    client = AsyncOpenAI(api_key=key, base_url=endpoint.base_url, timeout=None, max_retries=0)
    if endpoint.name != "openai":
        # The SDK takes both from OPENAI_ORG_ID and OPENAI_PROJECT_ID, which no other provider should see.
        client.organization = client.project = None
    _ = client.chat  # imports half of the SDK
    return client


def _to_message_param(message: ChatMessage) -> "ChatCompletionMessageParam":
    text = replace_lone_surrogates(message.text)
    match message.role:
        case "system":
            return {"role": "system", "content": text}
        case "user":
            return {"role": "user", "content": text}
        case "assistant":
            return {"role": "assistant", "content": text}
