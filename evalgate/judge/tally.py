"""Counting what models were asked within a block, by whoever asks: the part of one run in what all use."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from evalgate.budget import Spent
from evalgate.model import JudgeTotals, Usage

_NOTHING = Spent()


@dataclass(slots=True)
class Tally:
    """What was asked until now."""

    paid: Spent = _NOTHING
    spared: Spent = _NOTHING
    """What the cache of answers gave, as it was paid for once."""

    @property
    def totals(self) -> JudgeTotals | None:
        """The same for the record; None when nothing was asked."""
        if not (self.paid.calls or self.spared.calls):
            return None
        return totals_of(self.paid, self.spared)


def totals_of(paid: Spent, spared: Spent) -> JudgeTotals:
    """What was used, for the record."""
    return JudgeTotals(
        paid.calls,
        paid.tokens.input,
        paid.tokens.output,
        paid.usd,
        paid.unpriced,
        spared.calls,
        Usage(
            spared.tokens.input,
            spared.tokens.output,
            spared.cost_usd,
            known_usd=spared.usd if spared.unpriced else 0.0,
        ),
    )


_TALLY: ContextVar[Tally | None] = ContextVar("tally", default=None)


@contextmanager
def tallied() -> Iterator[Tally]:
    """Counts what models are asked in the block, and in tasks that are begun in it."""
    tally = Tally()
    token = _TALLY.set(tally)
    try:
        yield tally
    finally:
        _TALLY.reset(token)


def count_paid(spent: Spent) -> None:
    """A call that was made."""
    if (tally := _TALLY.get()) is not None:
        tally.paid += spent


def count_spared(spent: Spent) -> None:
    """A call that the cache spared."""
    if (tally := _TALLY.get()) is not None:
        tally.spared += spent
