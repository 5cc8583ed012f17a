"""A model behind an OpenAI-compatible endpoint, asked once, with its errors classified."""

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, WrapValidator

from evalgate.config.schema.budget import Tokens
from evalgate.core.errors import InvalidInput
from evalgate.core.extras import describe_install
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import one_line
from evalgate.core.types import JsonObject
from evalgate.llm.client import (
    AnswerSchema,
    ChatMessage,
    ModelAnswer,
    ModelRequest,
    TokenChoice,
    encodable,
    parameters_of,
)
from evalgate.llm.endpoint import Endpoint
from evalgate.llm.errors import FailureKind, JudgeFailed
from evalgate.throttling.rate_limiter import REAL, Clock, wanted_pause

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI
    from openai.types.chat import ChatCompletionMessageParam


@frozen
class Refusal:
    """What the provider sent instead of an answer, without the key."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    text: str


# What the body says goes before the status, because providers differ in the latter: Google sends 400 for a
# wrong key, OpenAI 429 for an empty account. Looked for in code, type and message, upper or lower case.
_BY_WORDS: Mapping[FailureKind, tuple[str, ...]] = {
    "no_credit": ("insufficient_quota", "insufficient.balance", "credit balance", "billing_hard_limit"),
    "wrong_key": ("invalid_api_key", "API key not valid", "API_KEY_INVALID", "incorrect api key"),
    "too_long": (
        "context_length_exceeded",
        "maximum context length",
        "context window",
        "prompt is too long",
        "input token count.{0,40}exceeds",
        "request_too_large",
    ),
    "refused": ("content_filter", "content_policy", "ResponsibleAIPolicy", "data_inspection_failed"),
    "unknown_model": (
        "model_not_found",
        "DeploymentNotFound",
        "model.{0,80}(does not exist|not found)",
        "invalid_model",
        "unknown model",
    ),
}
"""Patterns of `re`."""

_BY_STATUS: Mapping[int, FailureKind] = {
    401: "wrong_key",
    402: "no_credit",
    403: "wrong_key",
    404: "unknown_model",
    408: "outage",
    409: "outage",
    413: "too_long",
    425: "outage",
    429: "rate_limited",
}

_SAID: Mapping[FailureKind, str] = {
    "refused": "the provider refused to answer",
    "outage": "the provider failed",
    "rate_limited": "the provider is asked too often",
    "no_credit": "the account of the key has no credit left",
    "wrong_key": "the provider does not accept the key",
    "unknown_model": "the provider does not know the model, or has nothing at this address",
    "too_long": "the question is longer than the model can read",
    "rejected": "the provider does not accept the request",
}


def failure_of(refusal: Refusal, where: str, wall: float) -> JudgeFailed:
    """The failure that a response tells of. `where` names the model, `wall` is the time since the epoch."""
    kind = _kind(refusal)
    # What a provider says of a wrong key may repeat it in part.
    said = "" if kind == "wrong_key" else one_line(_message(refusal.text), 200)
    status = f"HTTP {refusal.status}" if refusal.status != 200 else "an error in its answer"
    message = f"{where}: {_SAID[kind]} ({status}{': ' if said else ''}{said.rstrip('.')})"
    pause = wanted_pause(refusal.headers, wall) if kind in {"outage", "rate_limited"} else None
    return JudgeFailed(kind, message, retry_after=pause)


def _kind(refusal: Refusal) -> FailureKind:
    if refusal.status >= 500:
        return "outage"
    words = _words(refusal.text)
    for kind, patterns in _BY_WORDS.items():
        # "You exceeded your current quota" is how Google says to wait a minute; only the codes are sure.
        is_possible = refusal.status != 429 or kind == "no_credit"
        if is_possible and re.search("|".join(patterns), words, re.IGNORECASE):
            return kind
    return _BY_STATUS.get(refusal.status, "rejected" if refusal.status >= 400 else "outage")


def _error(text: str) -> object:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    body = body[0] if isinstance(body, list) and body else body  # Google's endpoint sends a list
    if not isinstance(body, dict):
        return None
    return body.get("error", body)


def _message(text: str) -> str:
    error = _error(text)
    said = error.get("message") if isinstance(error, dict) else error
    return said if isinstance(said, str) else text if error is None else json.dumps(error)


def _words(text: str) -> str:
    error = _error(text)
    if not isinstance(error, dict):
        return text[:2000]
    named = [error.get(name) for name in ("code", "type", "status", "message")]
    inner = error.get("innererror")
    named.append(inner.get("code") if isinstance(inner, dict) else None)
    return " ".join(str(each) for each in named if each is not None)[:2000]


_T = TypeVar("_T")
_BYTE_ORDER_MARK = "\ufeff"
_MAX_TOKENS = 2**53


def _or_none(value: object, read: Callable[[object], _T]) -> _T | None:
    """What is no part of the answer costs nobody the answer, however a server writes it."""
    try:
        return read(value)
    except ValidationError:
        return None


_Beside = WrapValidator(_or_none)


class _Lenient(BaseModel):
    """What is read of the wire format; the rest may be as it likes, for many servers speak it loosely."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Part(_Lenient):
    type: str = ""
    text: str | None = None


class _Message(_Lenient):
    content: str | tuple[_Part, ...] | None = None
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
    message: _Message | None = None
    finish_reason: Annotated[str | None, _Beside] = None
    logprobs: Annotated[_Logprobs | None, _Beside] = None


class _Details(_Lenient):
    cached_tokens: Annotated[int | None, _Beside] = None


class _Usage(_Lenient):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Annotated[_Details | None, _Beside] = None


class _Completion(_Lenient):
    model: Annotated[str | None, _Beside] = None
    choices: tuple[_Choice, ...] | None = None
    usage: Annotated[_Usage | None, _Beside] = None
    error: object = None


def answer_in(text: str, where: str) -> ModelAnswer | JudgeFailed:
    """The answer in the response's text. `where` names the model in failures."""
    try:
        completion = _Completion.model_validate(
            json.loads(text.removeprefix(_BYTE_ORDER_MARK), object_hook=_without_surrogates)
        )
    except (ValueError, RecursionError) as error:
        what = "no JSON" if not isinstance(error, ValidationError) else "no chat completion"
        return JudgeFailed("outage", f"{where} answered with {what}: {one_line(text, 120) or 'nothing'}")
    if completion.error and not completion.choices:
        return failure_of(Refusal(200, {}, text), where, 0.0)
    tokens = _tokens(completion.usage)
    choice = completion.choices[0] if completion.choices else _Choice()
    message = choice.message or _Message()
    if trouble := _trouble(choice, message, where):
        return JudgeFailed(*trouble, tokens=tokens)
    return ModelAnswer(
        message.text,
        completion.model or "",
        tokens,
        choice.finish_reason or "stop",
        _token_choices(choice.logprobs),
    )


def _without_surrogates(found: dict[str, object]) -> dict[str, object]:
    return {name: encodable(value) if isinstance(value, str) else value for name, value in found.items()}


def _trouble(choice: _Choice, message: _Message, where: str) -> tuple[FailureKind, str] | None:
    if choice.finish_reason == "content_filter":
        return "refused", f"{where}: the provider's content filter cut the answer"
    if message.refusal:
        return "refused", f"{where} refused: {one_line(message.refusal, 160)}"
    if message.text.strip():
        return None
    if choice.finish_reason == "length":
        return "unparsable", f"{where} used all its tokens before it said anything"
    if message.tool_calls:
        return "unparsable", f"{where} called a tool instead of answering"
    return "unparsable", f"{where} gave an empty answer"


def _tokens(usage: _Usage | None) -> Tokens | None:
    """Return what was used; None if that is not known, or is no count: taken for 0, it would be free."""
    if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return None
    given, made = usage.prompt_tokens or 0, usage.completion_tokens or 0
    if not (0 <= given <= _MAX_TOKENS and 0 <= made <= _MAX_TOKENS):
        return None
    cached = (usage.prompt_tokens_details or _Details()).cached_tokens or 0
    return Tokens(given, made, min(max(cached, 0), given))


def _token_choices(logprobs: _Logprobs | None) -> tuple[TokenChoice, ...]:
    return tuple(
        TokenChoice(
            each.token, each.logprob, tuple((other.token, other.logprob) for other in each.top_logprobs or ())
        )
        for each in (logprobs and logprobs.content) or ()
    )


_NO_KEY = "none"  # the SDK wants one, local servers do not look at it


class OpenAIModel:
    """Every model of one endpoint. Neither retries nor limits: what stands before it does."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout: float,
        parameters: Mapping[str, object],
        clock: Clock = REAL,
    ) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._parameters = parameters
        self._clock = clock
        self._client = _client(endpoint)

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """The answer to one request over the wire.

        Raises:
            JudgeFailed: there is none.
        """
        where = self._endpoint.priced_as(request.model)
        sent = await self._sent(request, where)
        found = answer_in(sent, where) if isinstance(sent, str) else sent
        if isinstance(found, JudgeFailed):
            raise found
        return found

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _sent(self, request: ModelRequest, where: str) -> str | JudgeFailed:
        """The response's text, without the key, or why there is none.

        The failure is given back, not raised from here: an exception that is raised while the SDK's is
        handled would carry the SDK's, and with it the request and its key.
        """
        from openai import APIConnectionError, APIError, APIStatusError

        try:
            async with asyncio.timeout(self._timeout):
                response = await self._client.chat.completions.with_raw_response.create(
                    model=request.model or self._endpoint.model,
                    messages=[_wire(message) for message in request.messages],
                    extra_body=self._parameters_of(request),
                )
                return self._endpoint.without_key(str(response.text))
        except TimeoutError:
            return JudgeFailed("outage", f"{where} gave no whole answer within {self._timeout:g} s")
        except APIStatusError as error:
            return failure_of(self._refusal(error), where, self._clock.wall())
        except APIConnectionError as error:
            why = self._shown(error.__cause__ or error)
            return JudgeFailed("outage", f"{where} cannot be reached at {self._endpoint.base_url}: {why}")
        except (APIError, ValueError) as error:
            return JudgeFailed("outage", f"{where} cannot be understood: {self._shown(error)}")

    def _parameters_of(self, request: ModelRequest) -> dict[str, object]:
        provider = self._endpoint.provider
        parameters = parameters_of(request, self._parameters)
        if "max_tokens" in parameters and provider.length_parameter not in parameters:
            parameters[provider.length_parameter] = parameters.pop("max_tokens")
        if request.answer_schema and provider.schema == "json_schema":
            parameters["response_format"] = _response_format(request.answer_schema)
        elif request.answer_schema and provider.schema == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        return parameters

    def _refusal(self, error: "APIStatusError") -> Refusal:
        headers = {name.lower(): value for name, value in error.response.headers.items()}
        return Refusal(error.status_code, headers, self._endpoint.without_key(error.response.text))

    def _shown(self, error: BaseException) -> str:
        return self._endpoint.without_key(one_line(f"{type(error).__name__}: {error}", 200))


def check_sdk() -> None:
    """Look whether OpenAI's SDK is installed, without loading it: that takes a second.

    Raises:
        InvalidInput: it is not.
    """
    if find_spec("openai") is None:
        raise InvalidInput(f"asking a judge needs the package `openai`: {describe_install('judge')}")


def _client(endpoint: Endpoint) -> "AsyncOpenAI":
    check_sdk()
    from openai import AsyncOpenAI

    key = endpoint.key.get_secret_value() if endpoint.key else _NO_KEY
    # Retries are ours: the SDK's own would not be counted, limited or bounded. So is the time for a whole
    # answer: the SDK's is for each read.
    client = AsyncOpenAI(api_key=key, base_url=endpoint.base_url, timeout=None, max_retries=0)
    if endpoint.name != "openai":
        # The SDK takes them from OPENAI_ORG_ID and OPENAI_PROJECT_ID, which are no other provider's business.
        client.organization = client.project = None
    return client


def _wire(message: ChatMessage) -> "ChatCompletionMessageParam":
    text = encodable(message.text)
    match message.role:
        case "system":
            return {"role": "system", "content": text}
        case "user":
            return {"role": "user", "content": text}
        case "assistant":
            return {"role": "assistant", "content": text}


def _response_format(wanted: AnswerSchema) -> JsonObject:
    schema = {"name": wanted.name, "schema": wanted.schema, "strict": wanted.strict}
    return {"type": "json_schema", "json_schema": schema}
