"""Count the usage of models (calls, tokens and cost) in a block of code, and in a run."""

from contextvars import ContextVar, Token
from dataclasses import field
from typing import Self

from evalgate.config.token_prices import Tokens
from evalgate.core.frozen import frozen
from evalgate.core.types import ModelUsage, Usage


class UsageTally:
    """Context manager that counts the model usage in its block, and in tasks that the block starts."""

    __slots__ = ("_token", "usage")

    def __init__(self) -> None:
        self.usage: ModelUsage | None = None
        """Usage so far; None: no usage was counted."""
        self._token: Token[UsageTally | None] | None = None

    def __enter__(self) -> Self:
        self._token = _TALLY.set(self)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._token is not None:
            _TALLY.reset(self._token)


_TALLY: ContextVar[UsageTally | None] = ContextVar("tally", default=None)


def count_model_usage(usage: ModelUsage) -> None:
    """Add usage to the innermost `UsageTally` around the caller; do nothing outside of a `UsageTally`."""
    if (tally := _TALLY.get()) is not None:
        tally.usage = usage if tally.usage is None else tally.usage + usage


# Budget and journal need figures that `ModelUsage`, the type in records, lacks: the tokens that the provider
# had cached, which have a lower price, and the number of calls without known tokens, for a notice.
@frozen
class MeteredUsage:
    """Usage that counts against the budget, and the numbers of calls without known cost or tokens."""

    calls: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    usd: float = 0.0
    """US dollars of the calls with a known cost."""
    unpriced: int = 0
    """Number of calls with an unknown cost; more than 0 makes `usd` a lower bound."""
    calls_without_tokens: int = 0
    """Number of calls with unknown tokens, and therefore an unknown cost."""

    @classmethod
    def from_call(cls, tokens: Tokens | None, cost_usd: float | None) -> "MeteredUsage":
        """Return the usage of one call; None stands for unknown tokens or an unknown cost."""
        return cls(1, tokens or Tokens(), cost_usd or 0.0, int(cost_usd is None), int(tokens is None))

    def __add__(self, other: "MeteredUsage") -> "MeteredUsage":
        return MeteredUsage(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.usd + other.usd,
            self.unpriced + other.unpriced,
            self.calls_without_tokens + other.calls_without_tokens,
        )

    def to_paid_usage(self) -> ModelUsage:
        """Return a `ModelUsage` that counts these calls as sent to a provider and paid."""
        return ModelUsage(self.calls, self.tokens.input, self.tokens.output, self.usd, self.unpriced)

    def to_spared_usage(self) -> ModelUsage:
        """Return a `ModelUsage` that counts these calls as answered by a cache, and their cost as saved."""
        given, made = self.tokens.input, self.tokens.output
        known_usd, cost_usd = (self.usd, None) if self.unpriced else (0.0, self.usd)
        return ModelUsage(spared=self.calls, spared_usage=Usage(given, made, cost_usd, known_usd=known_usd))


@frozen
class RunUsage:
    """Usage of one run of evalgate, including failed and repeated work, and the work before a `--resume`."""

    judge_usage: ModelUsage = field(default_factory=ModelUsage)
    """Usage of judges."""
    spent: MeteredUsage = field(default_factory=MeteredUsage)
    """Usage that the budget counts: of agent, judges and simulated users."""
