"""Define requests to models, their answers, and the protocol that all models implement."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from evalgate.config.token_prices import Tokens
from evalgate.core.frozen import frozen
from evalgate.core.types import JsonObject

Role: TypeAlias = Literal["system", "user", "assistant"]


@frozen
class ChatMessage:
    """One message of the conversation that is sent to a model."""

    role: Role
    text: str


@frozen
class AnswerSchema:
    """The JSON Schema that an answer must fit, for providers with structured output."""

    name: str
    """Name of the schema, of letters, digits, `_` and `-`."""
    schema: JsonObject
    strict: bool = True
    """Value of `strict` in the request. True: the provider must enforce every rule of the schema."""


@frozen
class ModelRequest:
    """One request to a model. Equal requests may get the same answer, from a cache."""

    messages: tuple[ChatMessage, ...]
    model: str = ""
    """Name of the model; "" for the model that the client is configured with."""
    parameters: JsonObject = field(default_factory=dict)
    """Parameters of the API, such as `temperature`, `max_tokens` and `top_p`; they override the client's."""
    answer_schema: AnswerSchema | None = None
    prompt_version: str = ""
    """Hash of the prompt's template, so that a cache returns no answers to an older template."""
    sample: int = 1
    """1-based number among the samples, if a question is asked several times. A cache stores every sample."""
    attempt: int = 1
    """1-based number of the attempt at this sample; above 1 after an unusable answer."""
    embeds: bool = False
    """True: an embedding of the only message is requested. The answer's text is a JSON list of numbers."""


def build_model_request(text: str, *, system: str = "", **more: object) -> ModelRequest:
    """Build a request with the user message `text`; the system message `system`, if not "", precedes it.

    `more` are parameters of the API, such as `temperature`.
    """
    instructions = (ChatMessage("system", system),) if system else ()
    return ModelRequest((*instructions, ChatMessage("user", text)), parameters=more)


@frozen
class TokenChoice:
    """One token of an answer, and the most likely tokens at its position."""

    token: str
    logprob: float
    """Natural logarithm of the token's probability."""
    alternatives: tuple[tuple[str, float], ...] = ()
    """(token, logprob) of the most likely tokens, as many as the request asked for."""


@frozen
class ModelAnswer:
    """Usable answer of a model: its text, the used tokens and the finish reason."""

    text: str
    """Never empty."""
    model: str = ""
    """Name of the model as the provider reports it; "" if the provider reports none."""
    tokens: Tokens | None = None
    """Tokens of the call; None if the provider does not report them."""
    finish: str = "stop"
    """The provider's finish reason, such as `length` for an answer that was cut off at `max_tokens`."""
    choices: tuple[TokenChoice, ...] = ()
    """The tokens of the answer, if the request has the parameter `logprobs`; else ()."""
    cached: bool = False
    """True for an answer from the cache, which cost nothing this time."""

    @property
    def is_cut_off(self) -> bool:
        """Return True if the answer was cut off at the limit of tokens."""
        return self.finish == "length"


class ModelClient(Protocol):
    """A model that answers requests: a provider's client, a wrapper such as a cache, or a fake in a test."""

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """Return the answer to a request.

        Raises:
            JudgeError: the model gave no answer.
        """
        ...


def merge_parameters(request: ModelRequest, defaults: Mapping[str, object]) -> dict[str, object]:
    """Return the API parameters of a request: `defaults`, overridden by those of `request`.

    Parameters with the value None are left out.
    """
    merged = {**defaults, **request.parameters}
    return {name: value for name, value in merged.items() if value is not None}
