"""How much a run may use, and when that is spent."""

import time
from collections.abc import Callable
from dataclasses import field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict

from evalgate.frozen import frozen
from evalgate.numbers import counted
from evalgate.prices import Tokens


class Budget(BaseModel):
    """What a run may use. None: as much as it takes."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    usd: Annotated[float, Strict()] | None = Field(default=None, gt=0, allow_inf_nan=False)
    """US dollars, as far as prices are known."""
    tokens: Annotated[int, Strict()] | None = Field(default=None, ge=1)
    """Input and output tokens."""
    minutes: Annotated[float, Strict()] | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Since the run began."""


NO_BUDGET = Budget()


@frozen
class Spent:
    """What was used."""

    calls: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    usd: float = 0.0
    """Of the calls whose cost is known."""
    unpriced: int = 0
    """Calls whose cost is not known; more than 0 makes `usd` a lower bound."""
    unmetered: int = 0
    """Calls of which not even the tokens are known."""

    @classmethod
    def of_call(cls, tokens: Tokens | None, cost_usd: float | None) -> "Spent":
        """One call. `tokens` None: not known; `cost_usd` None: not known."""
        return cls(1, tokens or Tokens(), cost_usd or 0.0, int(cost_usd is None), int(tokens is None))

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.usd + other.usd,
            self.unpriced + other.unpriced,
            self.unmetered + other.unmetered,
        )

    @property
    def cost_usd(self) -> float | None:
        """US dollars in all; None unless the cost of every call is known."""
        return None if self.unpriced else self.usd


class Meter:
    """Counts what a run uses against its budget.

    Work that is under way when money or tokens are spent is counted to its end, for it is paid for: a run may
    use a little more than its budget, as much as was asked for at the same time. Whoever has conversations
    under way ends them when the `minutes` are over.
    """

    def __init__(self, budget: Budget = NO_BUDGET, now: Callable[[], float] = time.monotonic) -> None:
        self._budget = budget
        self._now = now
        self._began = now()
        self._spent = Spent()
        self.on_call: Callable[[], None] | None = None
        """Hears of every call of ours when it begins and once it is counted; what others report is none."""

    @property
    def budget(self) -> Budget:
        """What may be used."""
        return self._budget

    @property
    def spent(self) -> Spent:
        """What was used until now."""
        return self._spent

    def seconds_left(self) -> float | None:
        """Until `minutes` are over, 0 or more; None: they never are."""
        if self._budget.minutes is None:
            return None
        return max(0.0, self._began + self._budget.minutes * 60 - self._now())

    def add(self, spent: Spent) -> None:
        """Count what was used."""
        self._spent += spent
        if spent.calls and self.on_call is not None:
            self.on_call()

    def exhausted(self) -> str:
        """Why no new work may begin, as a sentence without its full stop; "" while it may."""
        budget, spent = self._budget, self._spent
        if budget.usd is not None and spent.usd >= budget.usd:
            return f"the budget of ${budget.usd:,.2f} is spent"
        if budget.tokens is not None and spent.tokens.total >= budget.tokens:
            return f"the budget of {counted(budget.tokens, 'token')} is spent"
        if budget.minutes is not None and self._now() - self._began >= budget.minutes * 60:
            return f"the budget of {budget.minutes:g} minutes is spent"
        return ""

    def blind_spots(self) -> tuple[str, ...]:
        """Sentences about limits that cannot be held, because what they count is not known of every call."""
        budget, spent = self._budget, self._spent
        blind = []
        if budget.usd is not None and spent.unpriced:
            calls = counted(spent.unpriced, "model call")
            blind.append(
                f"the cost of {calls} is not known, so the budget of ${budget.usd:,.2f} does not count "
                f"{'it' if spent.unpriced == 1 else 'them'}: add the model's price, or a budget of tokens."
            )
        if budget.tokens is not None and spent.unmetered:
            calls = counted(spent.unmetered, "model call")
            blind.append(f"the provider did not say the tokens of {calls}; the budget does not count them.")
        return tuple(blind)
