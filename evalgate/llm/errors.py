"""Define the failures of models: their kinds, the advice for each, and the exception."""

from typing import Literal, TypeAlias

from evalgate.config.token_prices import Tokens
from evalgate.core.protocols import NoScoreError

FailureKind: TypeAlias = Literal[
    "unparsable",
    "refused",
    "outage",
    "rate_limited",
    "no_credit",
    "wrong_key",
    "unknown_model",
    "too_long",
    "rejected",
    "budget_spent",
]

ADVICE: dict[FailureKind, str] = {
    "unparsable": "Look at the samples; a stronger model, or a larger max_tokens, usually answers in form.",
    "refused": "Reword the case, or take a model or a content filter that allows to judge such text.",
    "outage": "Run again later, or raise `timeout` or `retries`.",
    "rate_limited": "Lower `concurrency`, or set `requests_per_minute` and `tokens_per_minute`.",
    "no_credit": "Add credit to the account of the key, or use another provider.",
    "wrong_key": "Check that the variable holds a key of this provider that may use the model.",
    "unknown_model": "Check `model` and `base_url`.",
    "too_long": "Take a model with a longer context, or judge shorter conversations.",
    "rejected": "Check the model's parameters (`temperature`, `max_tokens`, `generation`).",
    "budget_spent": "Raise the budget, or run fewer cases or samples.",
}

RETRYABLE_FAILURES: frozenset[FailureKind] = frozenset({"outage", "rate_limited"})
"""Failures that may be over after a pause, so that the same request is sent again."""

RANDOM_FAILURES: frozenset[FailureKind] = frozenset({"unparsable", "refused"})
"""Failures of a single random answer: another sample of the same question may not have them."""


class JudgeError(NoScoreError):
    """Error for a model that returned no usable answer. The message has the cause and what to do next.

    The message never contains an API key.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        retry_after: float | None = None,
        is_answer: bool = False,
        tokens: Tokens | None = None,
        attempts: int = 1,
    ) -> None:
        super().__init__(f"{message}. {ADVICE[kind]}")
        self.kind: FailureKind = kind
        self.message = message
        """A description of the failure without a full stop."""
        self.retry_after = retry_after
        """Seconds of the pause that the provider asks for; None if it asks for none."""
        self.is_answer = is_answer
        """True if the model did answer, but with nothing usable; such a call is paid like any other."""
        self.tokens = tokens
        """Tokens that the failed call used; None if they are not known."""
        self.attempts = attempts
        """Number of times that the request was sent."""

    @property
    def advice(self) -> str:
        """Return sentences that tell the user how to mend the failure."""
        return ADVICE[self.kind]
