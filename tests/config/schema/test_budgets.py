"""When a budget is spent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.config.schema.budgets import Budget
from evalgate.config.token_prices import Tokens
from evalgate.llm.budget_guard import UsageMeter
from evalgate.llm.usage import MeteredUsage


class Hands:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


@pytest.mark.parametrize(
    ("budget", "calls", "seconds", "reason"),
    [
        (Budget(), [(Tokens(10**9, 10**9), 10**6)], 10**9, ""),
        (Budget(usd=0.5), [(Tokens(1, 1), 0.25)], 0, ""),
        (Budget(usd=0.5), [(Tokens(1, 1), 0.25)] * 2, 0, "the budget of $0.50 is spent"),
        (Budget(usd=0.5), [(Tokens(1, 1), None)] * 9, 0, ""),
        (Budget(tokens=100), [(Tokens(50, 49), 1.0)], 0, ""),
        (Budget(tokens=1000), [(Tokens(500, 500), None)], 0, "the budget of 1,000 tokens is spent"),
        (Budget(tokens=100), [(None, None)] * 200, 0, ""),
        (Budget(minutes=1.5), [], 89.9, ""),
        (Budget(minutes=1.5), [], 90, "the budget of 1.5 minutes is spent"),
        (Budget(usd=1, tokens=5), [(Tokens(4, 4), 0.1)], 0, "the budget of 5 tokens is spent"),
    ],
)
def test_a_budget_says_when_it_is_spent(
    budget: Budget, calls: list[tuple[Tokens | None, float | None]], seconds: float, reason: str
) -> None:
    hands = Hands()
    meter = UsageMeter(budget, hands)
    for tokens, cost in calls:
        meter.add_usage(MeteredUsage.from_call(tokens, cost))
    hands.time += seconds

    assert meter.explain_exhaustion() == reason


@pytest.mark.parametrize(
    ("budget", "seconds", "left"),
    [(Budget(), 5, None), (Budget(usd=1), 5, None), (Budget(minutes=1), 5, 55), (Budget(minutes=1), 99, 0)],
)
def test_the_time_that_is_left(budget: Budget, seconds: float, left: float | None) -> None:
    hands = Hands()
    meter = UsageMeter(budget, hands)
    hands.time += seconds
    assert meter.get_seconds_left() == left


def test_what_is_not_known_is_said() -> None:
    meter = UsageMeter(Budget(usd=2, tokens=50))
    meter.add_usage(MeteredUsage.from_call(Tokens(1, 1), 0.5))
    assert meter.describe_uncounted_usage() == ()
    meter.add_usage(MeteredUsage.from_call(Tokens(1, 1), None))
    meter.add_usage(MeteredUsage.from_call(None, None))

    assert meter.spent == MeteredUsage(3, Tokens(2, 2), 0.5, unpriced=2, calls_without_tokens=1)
    assert meter.spent.to_paid_usage().usage.cost_usd is None
    assert meter.describe_uncounted_usage() == (
        (
            "the cost of 2 model calls is not known, so the budget of $2.00 does not count them: "
            "add the model's price, or a budget of tokens."
        ),
        "the provider did not say the tokens of 1 model call; the budget does not count them.",
    )


USES = st.builds(
    MeteredUsage,
    st.integers(0, 9),
    st.builds(Tokens, st.integers(0, 99), st.integers(0, 99)),
    st.integers(0, 99).map(float),
)


@given(st.lists(USES), st.integers(1, 500), st.integers(1, 500))
def test_what_is_spent_stays_spent(uses: list[MeteredUsage], usd: int, tokens: int) -> None:
    meter = UsageMeter(Budget(usd=float(usd), tokens=tokens), Hands())
    was_spent = False
    for use in uses:
        meter.add_usage(use)
        assert bool(meter.explain_exhaustion()) or not was_spent
        was_spent = bool(meter.explain_exhaustion())

    assert meter.spent == sum(uses, MeteredUsage())
    assert was_spent == (
        sum(use.usd for use in uses) >= usd or sum(use.tokens.total for use in uses) >= tokens
    )
