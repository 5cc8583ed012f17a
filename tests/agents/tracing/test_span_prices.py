"""Costs of the model calls in a trace."""

from datetime import date

import pytest

from evalgate.agents.tracing.span_prices import TraceFactory, build_price_function
from evalgate.config.token_prices import Price
from evalgate.core.types import TraceSpan, Usage

TABLE = {
    "openai/gpt-5": (Price(input=1.0, output=10.0),),
    "a/shared": (Price(input=1.0, output=1.0),),
    "b/shared": (Price(input=2.0, output=1.0),),
    "a/same": (Price(input=1.0, output=1.0),),
    "b/same": (Price(input=1.0, output=1.0),),
}


@pytest.mark.parametrize(
    ("models", "usd"),
    [
        (("gpt-5",), 1.0 + 5.0),
        (("openai/gpt-5",), 6.0),
        (("models/gpt-5",), 6.0),
        (("gpt-5-2025-08-07",), 6.0),
        (("gpt-5-mini",), None),
        (("shared",), None),
        (("same",), 1.5),
        (("gpt-5", "same"), None),
        ((), None),
    ],
)
def test_a_call_has_the_price_of_its_model_if_that_is_certain(
    models: tuple[str, ...], usd: float | None
) -> None:
    usage = Usage(1_000_000, 500_000, None, models)
    assert build_price_function(TABLE, date(2026, 1, 1))(usage) == Usage(1_000_000, 500_000, usd, models)


def test_a_cost_that_the_agent_reports_stays() -> None:
    trace = TraceFactory({"mine/m": (Price(input=1.0, output=1.0),)})()
    step = TraceSpan("1", "m", "model", 0, 0.0, 0.0, usage=Usage(5, 5, 7.0, ("m",)))
    unpriced = TraceSpan("2", "m", "model", 0, 0.0, 0.0, usage=Usage(10**6, 0, None, ("m",)))
    trace.add_turn([step, unpriced], start_s=0.0, duration_s=1.0)
    _, reported, priced = trace.build_spans()
    assert (reported.usage, reported.attributes) == (step.usage, {})
    assert priced.usage == Usage(10**6, 0, 1.0, ("m",))
    assert priced.attributes == {"evalgate.cost_from": "list price"}
