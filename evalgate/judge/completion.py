"""A chat completion as it came over the wire → an answer, or why it is none."""

import json
from collections.abc import Callable
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, WrapValidator

from evalgate.hostile import one_line
from evalgate.judge.asking import ModelAnswer, TokenChoice, encodable
from evalgate.judge.failures import FailureKind, JudgeFailed
from evalgate.judge.refusals import Refusal, failure_of
from evalgate.prices import Tokens

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
