"""Prices of tokens by model, each with its date and source, and the cost of a call.

The cost of a model without a price is unknown, never 0.
"""

import json
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from evalgate.core.frozen import frozen

_PER = 1_000_000

Usd = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@frozen
class Tokens:
    """Numbers of tokens that calls of a model used."""

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
    """US dollars for a million tokens of input from the provider's prompt cache; `input` when absent."""
    up_to_input_tokens: int | None = Field(default=None, ge=1)
    """Longest prompt in tokens that has this price; any length when absent."""
    until: date | None = None
    """Last day of this price; no end when absent."""
    as_of: str | None = None
    """Day or month in which `source` named this price."""
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
        """Return True if the price applies on `day` to a call with these tokens."""
        is_valid = self.until is None or day <= self.until
        return is_valid and (self.up_to_input_tokens is None or tokens.input <= self.up_to_input_tokens)

    def compute_usd(self, tokens: Tokens) -> float:
        """Return the cost of `tokens` in US dollars."""
        cached = min(tokens.cached_input, tokens.input)
        cached_price = self.input if self.cached_input is None else self.cached_input
        fresh = (tokens.input - cached) * self.input
        return (fresh + cached * cached_price + tokens.output * self.output) / _PER


PriceTable: TypeAlias = Mapping[str, tuple[Price, ...]]
"""Prices by `provider/model`; the first price that applies to a call counts."""


def compute_cost_usd(table: PriceTable, model: str, tokens: Tokens, day: date) -> float | None:
    """Return the cost of one call in US dollars, or None if no price applies.

    `model` is `provider/model`, and `day` is the day of the call.
    """
    found = next((price for price in table.get(model, ()) if price.matches_call(tokens, day)), None)
    return None if found is None else found.compute_usd(tokens)


@cache
def load_known_prices() -> PriceTable:
    """Load the price table of evalgate, `token_prices.json`."""
    from pydantic import TypeAdapter

    text = Path(__file__).with_name("token_prices.json").read_text("utf-8")
    adapter = TypeAdapter(dict[str, tuple[Price, ...]])
    return adapter.validate_python(json.loads(text)["prices"])


def merge_own_prices(own: Mapping[str, Price]) -> PriceTable:
    """Return evalgate's prices and the user's (`own`). A user's price replaces all prices of its model."""
    return {**load_known_prices(), **{name: (price,) for name, price in own.items()}}
