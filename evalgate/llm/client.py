"""Requests to a model, its answers, and the protocol that all models implement."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from evalgate.config.schema.prices import Tokens
from evalgate.core.frozen import frozen
from evalgate.core.types import JsonObject

Role: TypeAlias = Literal["system", "user", "assistant"]


@frozen
class ChatMessage:
    """One message of the conversation that is sent to the model."""

    role: Role
    text: str


@frozen
class AnswerSchema:
    """The JSON Schema of the answer, for providers with structured output."""

    name: str
    """Letters, digits, `_` and `-`."""
    schema: JsonObject
    """A JSON Schema."""
    strict: bool = True


@frozen
class ModelRequest:
    """One request to a model. Equal requests may share one answer."""

    messages: tuple[ChatMessage, ...]
    model: str = ""
    """Name of the model; "" for the client's own."""
    parameters: JsonObject = field(default_factory=dict)
    """Parameters of the API (`temperature`, `max_tokens`, `top_p`, …); they override the client's."""
    answer_schema: AnswerSchema | None = None
    prompt_version: str = ""
    """Hash of the prompt's template, so that a cache returns no answer to an older template."""
    sample: int = 1
    """1-based number among the samples of one question."""
    attempt: int = 1
    """1-based number of the attempt; above 1 after an unusable answer."""
    embeds: bool = False
    """True: the answer's text is the embedding of the only message, a JSON list of numbers."""


def build_model_request(text: str, *, system: str = "", **more: object) -> ModelRequest:
    """Return a request with one user message. `more` are parameters of the API."""
    instructions = (ChatMessage("system", system),) if system else ()
    return ModelRequest((*instructions, ChatMessage("user", text)), parameters=more)


@frozen
class TokenChoice:
    """One token of an answer with its most likely alternatives."""

    token: str
    logprob: float
    """Natural logarithm of its probability."""
    alternatives: tuple[tuple[str, float], ...] = ()
    """Tokens and their logprobs, as many as the request asked for."""


@frozen
class ModelAnswer:
    """An answer of a model."""

    text: str
    """The text; never empty."""
    model: str = ""
    """Name of the model as the provider reports it; "" if it does not."""
    tokens: Tokens | None = None
    """Tokens of the call; None if the provider does not report them."""
    finish: str = "stop"
    """The provider's finish reason: `length` for an answer that was cut off at `max_tokens`."""
    choices: tuple[TokenChoice, ...] = ()
    """The tokens; filled only with the parameter `logprobs`."""
    cached: bool = False
    """True for an answer from the cache, which cost nothing now."""

    @property
    def is_cut_off(self) -> bool:
        """Return True for an answer that reached the limit of tokens."""
        return self.finish == "length"


class ModelClient(Protocol):
    """A source of answers: a provider, a wrapper such as a cache, or a script in a test."""

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """Return the answer to a request.

        Raises:
            JudgeError: the model gave no answer.
        """
        ...


def merge_parameters(request: ModelRequest, defaults: Mapping[str, object]) -> dict[str, object]:
    """Return the request's parameters merged over the defaults; None removes a default."""
    merged = {**defaults, **request.parameters}
    return {name: value for name, value in merged.items() if value is not None}
