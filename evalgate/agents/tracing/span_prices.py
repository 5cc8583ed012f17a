"""Compute the costs of the model calls in a trace, with the price table that is also used for judges."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime

from evalgate.agents.tracing.run_trace import PriceUsage, RunTrace
from evalgate.config.token_prices import PriceTable, Tokens, compute_cost_usd
from evalgate.core.types import Usage

_RELEASE = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")
"""Date of a release at the end of a model's name."""


class TraceFactory:
    """Factory of empty traces that share one table of prices."""

    def __init__(self, table: PriceTable) -> None:
        self._price_usage = build_price_function(table, datetime.now(UTC).date())

    def __call__(self) -> RunTrace:
        """Return an empty trace."""
        return RunTrace(self._price_usage)


def build_price_function(table: PriceTable, day: date) -> PriceUsage:
    """Return a function that adds the cost to a usage of exactly one model.

    The function returns a usage unchanged if it has a cost already, if it is not of exactly one model, or if
    the price on `day` is unknown.

    Agents rarely name the model's provider. Without a provider, the price counts as known if all providers of
    the model in the table have the same price. Cached input is charged like other input.
    """

    def price_usage(usage: Usage) -> Usage:
        if usage.cost_usd is not None or len(usage.models) != 1:
            return usage
        tokens = Tokens(usage.input_tokens, usage.output_tokens)
        costs = {compute_cost_usd(table, name, tokens, day) for name in _find_names(table, usage.models[0])}
        return replace(usage, cost_usd=costs.pop()) if len(costs) == 1 else usage

    return price_usage


def _find_names(table: PriceTable, model: str) -> list[str]:
    """Return the names (`provider/model`) in the price table that `model` may stand for; [] for none."""
    bare = model.removeprefix("models/")
    for name in (bare, _RELEASE.sub("", bare)):
        if name in table:
            return [name]
        if found := [known for known in table if known.partition("/")[2] == name]:
            return found
    return []
