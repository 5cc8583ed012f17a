"""What tokens cost: a table with the date and source of every price.

The cost of what is not in it is not known; it is never 0.
"""

import json
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evalgate.frozen import frozen

_PER = 1_000_000

Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@frozen
class Tokens:
    """Tokens that were used."""

    input: int = 0
    output: int = 0
    cached_input: int = 0
    """Those of `input` that the provider had in its own prompt cache."""

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cached_input + other.cached_input,
        )

    @property
    def total(self) -> int:
        """Input and output."""
        return self.input + self.output


class Price(BaseModel):
    """One price of one model, in US dollars for a million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    input: Usd
    """US dollars for a million tokens of input."""
    output: Usd
    """US dollars for a million tokens of output."""
    cached_input: Usd | None = None
    """None: as `input`."""
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
    def _is_no_more_when_cached(self) -> Self:
        if self.cached_input is not None and self.cached_input > self.input:
            raise ValueError("has a `cached_input` above its `input`")
        return self

    def covers(self, tokens: Tokens, day: date) -> bool:
        """Whether this is the price of a call of that size on that day."""
        is_valid = self.until is None or day <= self.until
        return is_valid and (self.up_to_input_tokens is None or tokens.input <= self.up_to_input_tokens)

    def of(self, tokens: Tokens) -> float:
        """US dollars."""
        cached = min(tokens.cached_input, tokens.input)
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = (tokens.input - cached) * self.input
        return (fresh + cached * cached_price + tokens.output * self.output) / _PER


PriceTable: TypeAlias = Mapping[str, tuple[Price, ...]]
"""`provider/model` → its prices; the first that covers a call is the one."""


def cost_usd(table: PriceTable, model: str, tokens: Tokens, day: date) -> float | None:
    """US dollars of one call to `provider/model` on `day`; None when the table does not know."""
    found = next((price for price in table.get(model, ()) if price.covers(tokens, day)), None)
    return None if found is None else found.of(tokens)


@cache
def known_prices() -> PriceTable:
    """The table that comes with evalgate."""
    from pydantic import TypeAdapter

    text = Path(__file__).with_suffix(".json").read_text("utf-8")
    adapter = TypeAdapter(dict[str, tuple[Price, ...]])
    return adapter.validate_python(json.loads(text)["prices"])


def with_own_prices(own: Mapping[str, Price]) -> PriceTable:
    """The known prices, with the user's before them: a model that the user names has the user's price."""
    return {**known_prices(), **{name: (price,) for name, price in own.items()}}
