"""The budget of a run, its usage, and the prices of tokens, each price with its date and source.

The cost of a model without a price is unknown, never 0.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import ModelUsage, Usage

_PER = 1_000_000

Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@frozen
class Tokens:
    """Numbers of tokens that a model used."""

    input: int = 0
    output: int = 0
    cached_input: int = 0
    """Part of the `input` tokens that the provider read from its own prompt cache."""

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cached_input + other.cached_input,
        )

    @property
    def total(self) -> int:
        """Return the sum of input and output tokens."""
        return self.input + self.output


class Price(BaseModel):
    """One price of one model, in US dollars for a million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    input: Usd
    """US dollars for a million tokens of input."""
    output: Usd
    """US dollars for a million tokens of output."""
    cached_input: Usd | None = None
    """US dollars for a million tokens of input from the provider's prompt cache; None: the price `input`."""
    up_to_input_tokens: int | None = Field(default=None, ge=1)
    """The longest prompt that this price is for; None: any."""
    until: date | None = None
    """The last day of this price; None: until it is changed here."""
    as_of: str | None = None
    """The day, or the month, in which `source` said so."""
    source: str | None = None
    """Address of the page that names the price."""
    note: str = ""
    """Anything that a reader of the price should know."""

    @model_validator(mode="after")
    def _require_cached_discount(self) -> Self:
        if self.cached_input is not None and self.cached_input > self.input:
            raise ValueError("has a `cached_input` above its `input`")
        return self

    def matches_call(self, tokens: Tokens, day: date) -> bool:
        """Return True if the price applies to a call of that size on that day."""
        is_valid = self.until is None or day <= self.until
        return is_valid and (self.up_to_input_tokens is None or tokens.input <= self.up_to_input_tokens)

    def compute_usd(self, tokens: Tokens) -> float:
        """Return the cost of these tokens in US dollars."""
        cached = min(tokens.cached_input, tokens.input)
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = (tokens.input - cached) * self.input
        return (fresh + cached * cached_price + tokens.output * self.output) / _PER


PriceTable: TypeAlias = Mapping[str, tuple[Price, ...]]
"""Prices by `provider/model`; the first price that applies to a call counts."""


def compute_cost_usd(table: PriceTable, model: str, tokens: Tokens, day: date) -> float | None:
    """Return the cost in US dollars of one call to `provider/model` on `day`; None if no price applies."""
    found = next((price for price in table.get(model, ()) if price.matches_call(tokens, day)), None)
    return None if found is None else found.compute_usd(tokens)


@cache
def load_known_prices() -> PriceTable:
    """Load the price table that comes with evalgate."""
    from pydantic import TypeAdapter

    text = Path(__file__).with_name("prices.json").read_text("utf-8")
    adapter = TypeAdapter(dict[str, tuple[Price, ...]])
    return adapter.validate_python(json.loads(text)["prices"])


def merge_own_prices(own: Mapping[str, Price]) -> PriceTable:
    """Return the known prices, overridden by the user's."""
    return {**load_known_prices(), **{name: (price,) for name, price in own.items()}}


class Budget(BaseModel):
    """Limits of a run's usage. None: no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    usd: Annotated[float, Strict()] | None = Field(default=None, gt=0, allow_inf_nan=False)
    """US dollars, as far as prices are known."""
    tokens: Annotated[int, Strict()] | None = Field(default=None, ge=1)
    """Input and output tokens."""
    minutes: Annotated[float, Strict()] | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Minutes since the run began."""


NO_BUDGET = Budget.model_construct()


# A record has only `ModelUsage`. Budget and journal also need the tokens that the provider had cached,
# because they lower the price, and the calls without figures, because a notice names what was not counted.
@frozen
class MeteredUsage:
    """Usage that counts against the budget, with the number of calls that could not be counted."""

    calls: int = 0
    tokens: Tokens = field(default_factory=Tokens)
    usd: float = 0.0
    """US dollars of the calls with a known cost."""
    unpriced: int = 0
    """Calls with an unknown cost; more than 0 makes `usd` a lower bound."""
    unmetered: int = 0
    """Calls of which not even the tokens are known."""

    @classmethod
    def from_call(cls, tokens: Tokens | None, cost_usd: float | None) -> "MeteredUsage":
        """Return the usage of one call. None: the tokens, or the cost, are not known."""
        return cls(1, tokens or Tokens(), cost_usd or 0.0, int(cost_usd is None), int(tokens is None))

    def __add__(self, other: "MeteredUsage") -> "MeteredUsage":
        return MeteredUsage(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.usd + other.usd,
            self.unpriced + other.unpriced,
            self.unmetered + other.unmetered,
        )

    def to_paid_usage(self) -> ModelUsage:
        """Return a `ModelUsage` that counts these calls as sent to a provider."""
        return ModelUsage(self.calls, self.tokens.input, self.tokens.output, self.usd, self.unpriced)

    def to_spared_usage(self) -> ModelUsage:
        """Return a `ModelUsage` that counts these calls as answered by a cache, and their cost as saved."""
        given, made = self.tokens.input, self.tokens.output
        known_usd, cost_usd = (self.usd, None) if self.unpriced else (0.0, self.usd)
        return ModelUsage(spared=self.calls, spared_usage=Usage(given, made, cost_usd, known_usd=known_usd))


class UsageMeter:
    """Counter of a run's usage, compared with its budget.

    Running conversations are ended when any limit is reached. Requests of evalgate's own models that are
    under way are still counted, because they are paid for: a run may exceed its budget by them.
    """

    def __init__(self, budget: Budget = NO_BUDGET, now: Callable[[], float] = time.monotonic) -> None:
        self._budget = budget
        self._now = now
        self._began = now()
        self._spent = MeteredUsage()
        self.on_call: Callable[[], None] | None = None
        """Function that is called when a call of one of evalgate's own models begins, and when it is
        counted. Usage that an agent reports does not call the function. None: there is no listener."""

    @property
    def budget(self) -> Budget:
        """Return the limits of this run."""
        return self._budget

    @property
    def spent(self) -> MeteredUsage:
        """Return the usage so far."""
        return self._spent

    def get_seconds_left(self) -> float | None:
        """Return the seconds until `minutes` are over, at least 0; None if there is no such limit."""
        if self._budget.minutes is None:
            return None
        return max(0.0, self._began + self._budget.minutes * 60 - self._now())

    def add_usage(self, spent: MeteredUsage) -> None:
        """Add `spent` to the usage so far; if `spent` contains calls, then call `on_call`."""
        self._spent += spent
        if spent.calls:
            self.notify_listener()

    def notify_listener(self) -> None:
        """Call `on_call`, if there is a listener."""
        if self.on_call is not None:
            self.on_call()

    def explain_exhaustion(self) -> str:
        """Return the limit that is reached, as a sentence without its full stop; "" if new work may begin."""
        budget, spent = self._budget, self._spent
        if budget.usd is not None and spent.usd >= budget.usd:
            return f"the budget of ${budget.usd:,.2f} is spent"
        if budget.tokens is not None and spent.tokens.total >= budget.tokens:
            return f"the budget of {pluralize(budget.tokens, 'token')} is spent"
        if budget.minutes is not None and self._now() - self._began >= budget.minutes * 60:
            return f"the budget of {budget.minutes:g} minutes is spent"
        return ""

    def describe_uncounted_usage(self) -> tuple[str, ...]:
        """Return sentences about limits that cannot be enforced because some calls are not counted."""
        budget, spent = self._budget, self._spent
        blind = []
        if budget.usd is not None and spent.unpriced:
            calls = pluralize(spent.unpriced, "model call")
            blind.append(
                f"the cost of {calls} is not known, so the budget of ${budget.usd:,.2f} does not count "
                f"{'it' if spent.unpriced == 1 else 'them'}: add the model's price, or a budget of tokens."
            )
        if budget.tokens is not None and spent.unmetered:
            calls = pluralize(spent.unmetered, "model call")
            blind.append(f"the provider did not say the tokens of {calls}; the budget does not count them.")
        return tuple(blind)
