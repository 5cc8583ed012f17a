"""Asking the same question several times, because one answer of a model is one opinion."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import JsonObject
from evalgate.llm.client import ModelAnswer, ModelClient, ModelRequest
from evalgate.llm.errors import RANDOM_FAILURES, JudgeError

T = TypeVar("T")

ATTEMPTS = 2
"""An answer of no use is asked for once more."""


class UnparsableAnswerError(ValueError):
    """An answer is not in the form that was asked for; the text says what is missing."""


@frozen
class Sample(Generic[T]):
    """One answer that could be read."""

    number: int
    """1-based."""
    answer: ModelAnswer
    value: T
    """What the answer says."""
    attempts: int = 1


@frozen
class FailedSample:
    """One answer that never came, or never in form."""

    number: int
    failure: JudgeError
    text: str = ""
    """What the model said last, if anything."""
    attempts: int = 1
    is_cached: bool = False
    """It comes from the cache of answers."""


@frozen
class Samples(Generic[T]):
    """The answers to one question, in the order of their numbers."""

    good: tuple[Sample[T], ...]
    failed: tuple[FailedSample, ...] = ()

    @property
    def values(self) -> tuple[T, ...]:
        """What the answers say."""
        return tuple(sample.value for sample in self.good)

    def require_values(self, at_least: int | None = None) -> tuple[T, ...]:
        """What the answers say, when there are enough of them; None: all of them.

        Raises:
            JudgeError: there are fewer. Says how many, and why the first of the others is missing.
        """
        asked = len(self.good) + len(self.failed)
        if not self.failed or (at_least is not None and len(self.good) >= at_least):
            return self.values
        first = self.failed[0].failure
        message = first.message
        if asked > 1:
            message = f"{pluralize(len(self.failed), 'sample')} of {asked} failed: {message}"
        raise JudgeError(first.kind, message, attempts=first.attempts)

    def to_rows(self, tell: Callable[[T], tuple[float | None, str]]) -> tuple[JsonObject, ...]:
        """Every sample for the record. `tell` gives the score and the reason of a value.

        A failed sample has no score: never 0.
        """
        rows = [(sample.number, _build_row(sample, tell)) for sample in self.good]
        rows += [(sample.number, _build_failed_row(sample)) for sample in self.failed]
        return tuple(row for _, row in sorted(rows, key=lambda row: row[0]))


async def take_samples(
    model: ModelClient,
    request: ModelRequest,
    count: int,
    parse: Callable[[ModelAnswer], T],
    *,
    are_all_needed: bool = True,
) -> Samples[T]:
    """`count` answers to one question, asked for at the same time.

    `parse` raises Unparsable for an answer that it cannot read. Such an answer, a refusal, and an outage that
    was not retried before, are asked for once more. Where too few are good then, and the others come from the
    cache, these are asked for anew: a run that is made again would fail again for ever. Never raises
    JudgeFailed: what failed is in the result.
    """
    requests = [replace(request, sample=number) for number in range(1, count + 1)]
    taken = await asyncio.gather(*(_take_sample(model, each, parse) for each in requests))
    if are_all_needed or not any(isinstance(sample, Sample) for sample in taken):
        taken = await asyncio.gather(
            *(
                _replace_cached_failure(model, each, parse, sample)
                for each, sample in zip(requests, taken, strict=True)
            )
        )
    return Samples(
        tuple(sample for sample in taken if isinstance(sample, Sample)),
        tuple(sample for sample in taken if isinstance(sample, FailedSample)),
    )


async def _replace_cached_failure(
    model: ModelClient,
    request: ModelRequest,
    parse: Callable[[ModelAnswer], T],
    found: Sample[T] | FailedSample,
) -> Sample[T] | FailedSample:
    """What was found, unless that is of no use and was kept: then the first that is good or was not kept."""
    while isinstance(found, FailedSample) and found.is_cached:
        found = await _take_sample(model, replace(request, attempt=found.attempts + 1), parse)
    return found


async def _take_sample(
    model: ModelClient, request: ModelRequest, parse: Callable[[ModelAnswer], T]
) -> Sample[T] | FailedSample:
    for attempt in range(request.attempt, request.attempt + ATTEMPTS):
        found = await _ask_once(model, replace(request, attempt=attempt), parse)
        if isinstance(found, Sample) or not _is_worth_another(found.failure):
            break
    return found


async def _ask_once(
    model: ModelClient, request: ModelRequest, parse: Callable[[ModelAnswer], T]
) -> Sample[T] | FailedSample:
    try:
        answer = await model.ask(request)
    except JudgeError as failure:
        return FailedSample(request.sample, failure, attempts=request.attempt)
    try:
        return Sample(request.sample, answer, parse(answer), request.attempt)
    except UnparsableAnswerError as error:
        cut = "; it was cut off at max_tokens" if answer.is_cut_off else ""
        failed = JudgeError("unparsable", f"the judge's answer cannot be read: {error}{cut}")
        return FailedSample(request.sample, failed, answer.text, request.attempt, answer.cached)


def _is_worth_another(failure: JudgeError) -> bool:
    return failure.kind in RANDOM_FAILURES or (failure.kind == "outage" and failure.attempts == 1)


def _build_row(sample: Sample[T], tell: Callable[[T], tuple[float | None, str]]) -> JsonObject:
    score, reason = tell(sample.value)
    answer = sample.answer
    row: dict[str, object] = {"sample": sample.number, "score": score, "reason": reason, "text": answer.text}
    row |= {"model": answer.model, "cached": answer.cached, "attempts": sample.attempts}
    if answer.tokens is not None:
        row["usage"] = {"input_tokens": answer.tokens.input, "output_tokens": answer.tokens.output}
    return row


def _build_failed_row(sample: FailedSample) -> JsonObject:
    failure = sample.failure
    row = {"sample": sample.number, "score": None, "failure": failure.kind, "reason": failure.message}
    return {**row, "text": sample.text, "attempts": sample.attempts}
