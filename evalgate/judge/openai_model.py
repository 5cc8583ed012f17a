"""A model behind an OpenAI-compatible endpoint, asked once: through OpenAI's own SDK."""

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from evalgate.errors import InvalidInput
from evalgate.extras import describe_install
from evalgate.hostile import one_line
from evalgate.judge.asking import (
    AnswerSchema,
    ChatMessage,
    ModelAnswer,
    ModelRequest,
    encodable,
    parameters_of,
)
from evalgate.judge.completion import answer_in
from evalgate.judge.endpoint import Endpoint
from evalgate.judge.failures import JudgeFailed
from evalgate.judge.refusals import Refusal, failure_of
from evalgate.model import JsonObject
from evalgate.pacing.clock import REAL, Clock

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI
    from openai.types.chat import ChatCompletionMessageParam

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
