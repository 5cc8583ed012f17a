"""What is asked of a model, and what it answers."""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, Protocol, TypeAlias

from evalgate.config.schema.budget import Tokens
from evalgate.core.frozen import frozen
from evalgate.core.types import JsonObject

Role: TypeAlias = Literal["system", "user", "assistant"]


@frozen
class ChatMessage:
    """One message of the conversation that the model sees."""

    role: Role
    text: str


@frozen
class AnswerSchema:
    """The JSON that the answer should be, for providers that can promise it."""

    name: str
    """Letters, digits, `_` and `-`."""
    schema: JsonObject
    """A JSON Schema."""
    strict: bool = True


@frozen
class ModelRequest:
    """One question to a model. Two that are equal may get one answer."""

    messages: tuple[ChatMessage, ...]
    model: str = ""
    """"": the model that the client was opened for."""
    parameters: JsonObject = field(default_factory=dict)
    """Of the wire format (`temperature`, `max_tokens`, `top_p`, `seed`, …); before the client's own."""
    answer_schema: AnswerSchema | None = None
    prompt_version: str = ""
    """Changes whenever the prompt's template does, so that no answer to an older one is taken for it."""
    sample: int = 1
    """1-based number among the answers that are asked for to one question."""
    attempt: int = 1
    """1-based: more when an answer of no use is asked for again."""


def build_model_request(text: str, *, system: str = "", **more: object) -> ModelRequest:
    """A request with one user message. `more`: parameters of the wire format."""
    instructions = (ChatMessage("system", system),) if system else ()
    return ModelRequest((*instructions, ChatMessage("user", text)), parameters=more)


@frozen
class TokenChoice:
    """One token of an answer and what could have stood there."""

    token: str
    logprob: float
    """Natural logarithm of its probability."""
    alternatives: tuple[tuple[str, float], ...] = ()
    """Tokens and their logprobs, as many as were asked for."""


@frozen
class ModelAnswer:
    """What the model said."""

    text: str
    """Never empty."""
    model: str = ""
    """As the provider reports it; "" when it does not."""
    tokens: Tokens | None = None
    """None: the provider does not say."""
    finish: str = "stop"
    """Why it ended, in the provider's word: `length` when it was cut off at `max_tokens`."""
    choices: tuple[TokenChoice, ...] = ()
    """With the parameter `logprobs`."""
    cached: bool = False
    """It comes from the cache of answers, and cost nothing now."""

    @property
    def is_cut_off(self) -> bool:
        """Whether the model had more to say than it was allowed to."""
        return self.finish == "length"


class ModelClient(Protocol):
    """Whoever answers: a provider, a cache before it, a script in a test."""

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """The answer.

        Raises:
            JudgeError: there is none.
        """
        ...


def merge_parameters(request: ModelRequest, defaults: Mapping[str, object]) -> dict[str, object]:
    """The parameters that a request is sent with: its own before the defaults; None takes a default away."""
    merged = {**defaults, **request.parameters}
    return {name: value for name, value in merged.items() if value is not None}


def replace_surrogates(text: str) -> str:
    """`text` with U+FFFD for every lone surrogate, which no wire, file or record can hold."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
