"""Ask a model one question several times, because its answers vary.

The metrics compute one score from the samples, by a vote or a mean. The judged metrics of each framework are
in `integrations/*/judging/`, and combine the samples as the framework does.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, TypeVar

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import JsonObject
from evalgate.llm.client import ModelAnswer, ModelClient, ModelRequest
from evalgate.llm.errors import RANDOM_FAILURES, JudgeError
from evalgate.llm.sample_agreement import compute_agreement

T = TypeVar("T")

ATTEMPTS = 2
"""Most attempts at each sample: after an unusable answer the question is asked once more."""


class UnparsableAnswerError(ValueError):
    """Error for an answer that does not have the requested form. The message states the mistake."""


@frozen
class Sample(Generic[T]):
    """One sample with a usable answer."""

    number: int
    """1-based number of the sample."""
    answer: ModelAnswer
    value: T
    """Result of parsing the answer."""
    attempts: int = 1


@frozen
class FailedSample:
    """One sample without a usable answer."""

    number: int
    """1-based number of the sample."""
    failure: JudgeError
    """Failure of the last attempt."""
    text: str = ""
    """Text of the last answer; "" if there was none."""
    attempts: int = 1
    is_cached: bool = False
    """True if the unusable answer came from the cache."""


@frozen
class Samples(Generic[T]):
    """All samples of one question, in the order of their numbers."""

    good: tuple[Sample[T], ...]
    failed: tuple[FailedSample, ...] = ()

    @property
    def values(self) -> tuple[T, ...]:
        """Return the parsed values of all usable answers."""
        return tuple(sample.value for sample in self.good)

    def require_values(self, at_least: int | None = None) -> tuple[T, ...]:
        """Return the parsed values of the usable answers, or raise an error if too few answers are usable.

        Args:
            at_least: Smallest number of usable answers; None: all answers must be usable.

        Raises:
            JudgeError: fewer answers are usable. The message has the number of failed samples, and the first
                failure.
        """
        asked = len(self.good) + len(self.failed)
        # Without a failed sample there is no failure to report, even if fewer samples were taken.
        if not self.failed or (at_least is not None and len(self.good) >= at_least):
            return self.values
        first = self.failed[0].failure
        message = first.message
        if asked > 1:
            message = f"{pluralize(len(self.failed), 'sample')} of {asked} failed: {message}"
        raise JudgeError(first.kind, message, attempts=first.attempts)

    def to_rows(self, describe: Callable[[T], tuple[float | None, str]]) -> tuple[JsonObject, ...]:
        """Return a JSON object for each sample, in the order of the samples, to store in a record.

        `describe` is a function that returns the score and the reason of a value. The score of a failed
        sample is None, never 0.
        """
        rows = {sample.number: _build_row(sample, describe) for sample in self.good}
        for failed in self.failed:
            rows[failed.number] = {
                "sample": failed.number,
                "score": None,
                "failure": failed.failure.kind,
                "reason": failed.failure.message,
                "text": failed.text,
                "attempts": failed.attempts,
            }
        return tuple(row for _, row in sorted(rows.items()))

    def build_details(self, describe: Callable[[T], tuple[float | None, str]]) -> JsonObject:
        """Return a metric's details: `samples`, a JSON object for each sample, and `agreement`.

        `agreement` is the share of pairs of usable samples with equal scores, in [0, 1]. With fewer than two
        usable samples it is left out. `describe` returns the score and the reason of a sample's value.
        """
        details: dict[str, object] = {"samples": self.to_rows(describe)}
        agreed = compute_agreement([describe(value)[0] for value in self.values])
        return details if agreed is None else {**details, "agreement": agreed}


async def take_samples(
    model: ModelClient,
    request: ModelRequest,
    count: int,
    parse: Callable[[ModelAnswer], T],
    *,
    are_all_needed: bool = True,
) -> Samples[T]:
    """Ask a question `count` times concurrently, and return all samples, usable and failed.

    `parse` returns the value of an answer, or raises UnparsableAnswerError. A sample is requested once more
    after an answer that cannot be parsed, after a refusal, and after an outage that `model` did not retry.

    An unusable answer from the cache would be unusable in every later run. So a sample with such an answer is
    requested anew, until an answer is usable or does not come from the cache. If `are_all_needed` is False,
    this is done only if no sample is usable.

    JudgeError is never raised: failures are part of the result.
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
    """Request a sample anew until it is usable, or its answer does not come from the cache.

    Return the last result. If `found` is usable, or failed without an answer from the cache, return `found`.
    """
    while isinstance(found, FailedSample) and found.is_cached:
        found = await _take_sample(model, replace(request, attempt=found.attempts + 1), parse)
    return found


async def _take_sample(
    model: ModelClient, request: ModelRequest, parse: Callable[[ModelAnswer], T]
) -> Sample[T] | FailedSample:
    for attempt in range(request.attempt, request.attempt + ATTEMPTS):
        found = await _ask_once(model, replace(request, attempt=attempt), parse)
        if isinstance(found, Sample):
            break
        failure = found.failure
        # An outage after a single attempt was not retried by the model itself.
        is_unretried_outage = failure.kind == "outage" and failure.attempts == 1
        if failure.kind not in RANDOM_FAILURES and not is_unretried_outage:
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


def _build_row(sample: Sample[T], describe: Callable[[T], tuple[float | None, str]]) -> JsonObject:
    score, reason = describe(sample.value)
    answer = sample.answer
    row: dict[str, object] = {"sample": sample.number, "score": score, "reason": reason, "text": answer.text}
    row |= {"model": answer.model, "cached": answer.cached, "attempts": sample.attempts}
    if answer.tokens is not None:
        row["usage"] = {"input_tokens": answer.tokens.input, "output_tokens": answer.tokens.output}
    return row
