"""What tokens cost."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evalgate.config.token_prices import Price, Tokens, compute_cost_usd, load_known_prices, merge_own_prices

DAY = date(2026, 11, 21)
TABLE = {
    "p/flat": (Price(input=2, output=8),),
    "p/cached": (Price(input=2, output=8, cached_input=0.5),),
    "p/bands": (Price(input=1, output=10, up_to_input_tokens=1000), Price(input=2, output=20)),
    "p/band": (Price(input=1, output=10, up_to_input_tokens=1000),),
    "p/dated": (Price(input=1, output=1, until=date(2026, 12, 31)), Price(input=3, output=3)),
}


@pytest.mark.parametrize(
    ("model", "tokens", "day", "expected"),
    [
        ("p/flat", Tokens(1_000_000, 0), DAY, 2.0),
        ("p/flat", Tokens(500_000, 250_000), DAY, 3.0),
        ("p/flat", Tokens(1_000_000, 0, cached_input=400_000), DAY, 2.0),
        ("p/cached", Tokens(1_000_000, 0, cached_input=400_000), DAY, 1.4),
        ("p/cached", Tokens(100, 0, cached_input=400), DAY, 100 * 0.5 / 1e6),
        ("p/bands", Tokens(1000, 100), DAY, 0.002),
        ("p/bands", Tokens(1001, 100), DAY, (1001 * 2 + 100 * 20) / 1e6),
        ("p/band", Tokens(1001, 0), DAY, None),
        ("p/dated", Tokens(1_000_000, 0), date(2026, 12, 31), 1.0),
        ("p/dated", Tokens(1_000_000, 0), date(2027, 1, 1), 3.0),
        ("p/unheard", Tokens(1, 1), DAY, None),
        ("flat", Tokens(1, 1), DAY, None),
        ("p/flat", Tokens(), DAY, 0.0),
    ],
)
def test_cost(model: str, tokens: Tokens, day: date, expected: float | None) -> None:
    cost = compute_cost_usd(TABLE, model, tokens, day)

    assert cost is None if expected is None else cost == pytest.approx(expected)


@given(st.sampled_from(sorted(TABLE)), st.integers(0, 10**7), st.integers(0, 10**6), st.integers(1, 10**6))
def test_more_output_never_costs_less(model: str, given_in: int, given_out: int, more: int) -> None:
    less = compute_cost_usd(TABLE, model, Tokens(given_in, given_out), DAY)
    most = compute_cost_usd(TABLE, model, Tokens(given_in, given_out + more), DAY)

    assert (less is None) == (most is None)
    assert less is None or most is None or less < most


@pytest.mark.parametrize("model", sorted(load_known_prices()))
def test_every_known_price_has_a_date_and_a_source(model: str) -> None:
    provider, _, name = model.partition("/")

    assert provider
    assert name
    for price in load_known_prices()[model]:
        assert (
            date.fromisoformat((price.as_of or "") + ("" if len(price.as_of or "") == 10 else "-01")) <= DAY
        )
        assert (price.source or "").startswith("https://")
        assert 0 < price.input < price.output


def test_the_price_for_any_prompt_stands_after_those_for_short_ones() -> None:
    for prices in load_known_prices().values():
        assert all(price.up_to_input_tokens or price.until for price in prices[:-1])


def test_a_users_price_is_the_one_that_counts() -> None:
    table = merge_own_prices(
        {"openai/gpt-4o": Price(input=1, output=1), "ollama/own": Price(input=0, output=0)}
    )

    assert compute_cost_usd(table, "openai/gpt-4o", Tokens(1_000_000, 1_000_000), DAY) == 2.0
    assert compute_cost_usd(table, "ollama/own", Tokens(5, 5), DAY) == 0.0
    assert compute_cost_usd(table, "openai/gpt-4o-mini", Tokens(1_000_000, 0), DAY) == pytest.approx(0.15)


@pytest.mark.parametrize(
    "wrong",
    [
        {"input": -1, "output": 1},
        {"input": float("nan"), "output": 1},
        {"input": 1},
        {"input": 1, "output": 1, "cached_input": 2},
        {"input": 1, "output": 1, "currency": "EUR"},
    ],
)
def test_a_wrong_price_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Price.model_validate(wrong)
