"""Model usage of one run, and the budget that it counts against."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from evalgate.config.schema.budget import Meter, Spent, Tokens
from evalgate.core.formatting import counted, sentence
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseResult, CaseRun, Failure, JudgeTotals, RunResult, Usage

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


BUDGET_SPENT = "budget_spent"
"""Kind of failure of what was not begun any more; `user_…` where the simulated user was in mid-sentence."""

_NAMED = 3  # cases that a sentence names


@frozen
class Used:
    """What a run used since it was begun for the first time, work that came to nothing included."""

    judged: JudgeTotals = field(default_factory=JudgeTotals)
    """By judges."""
    spent: Spent = field(default_factory=Spent)
    """By agent, judges and simulated users: what the budget counts."""


class Spending:
    """Counts what the agent uses, and says when nothing new may begin."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._silent = 0
        self._unpriced = 0

    @property
    def why(self) -> str:
        """Which budget is spent; "" while none is."""
        return self._meter.exhausted()

    def refusal(self) -> Failure | None:
        """Why no further case may begin; None while one may."""
        spent = self._meter.exhausted()
        return Failure(BUDGET_SPENT, f"{spent}, so this case was not run") if spent else None

    def time_limit(self) -> tuple[float, Failure] | None:
        """Seconds until what is being played is ended, and what becomes of it then; None: never."""
        left, minutes = self._meter.seconds_left(), self._meter.budget.minutes
        if left is None:
            return None
        return left, Failure(
            BUDGET_SPENT, f"the budget of {minutes:g} minutes is spent, so this case was ended"
        )

    def count(self, run: CaseRun) -> None:
        """Count what the agent reports of a run. What models of ours used is counted where they are asked."""
        reported = [run.usage, *(attempt.usage for attempt in run.earlier_attempts)]
        self._silent += run.outcome == "answered" and run.usage is None
        self._unpriced += any(usage is not None and usage.cost_usd is None for usage in reported)
        for usage in reported:
            if usage is not None:
                tokens = Tokens(usage.input_tokens, usage.output_tokens)
                self._meter.add(Spent(tokens=tokens, usd=usage.least_usd))

    def notices(self) -> Iterator[str]:
        """What the budget cannot see."""
        budget = self._meter.budget
        yield from map(sentence, self._meter.blind_spots())
        if self._silent and (budget.usd or budget.tokens):
            runs = counted(self._silent, "run")
            yield f"The agent did not report the usage of {runs}; the budget does not count it."
        if self._unpriced and budget.usd is not None:
            runs = counted(self._unpriced, "run")
            yield (
                f"The agent did not report the cost of {runs}, or not all of it, so the budget of "
                f"${budget.usd:,.2f} does not count it: report `cost_usd`, or add a budget of tokens."
            )


def left_undone(cases: Sequence[CaseResult], *, more_wanted: bool, why: str) -> Iterator[str]:
    """What a spent budget left undone, as at most one sentence.

    `more_wanted`: further runs were asked for. `why`: which budget is spent, as `Meter.exhausted` says it.
    """
    undone = [case for case in cases if any(map(was_refused, case.runs))]
    why = sentence(why or "the budget is spent").removesuffix(".")
    advice = "Raise `budget` and go on with --resume, or run fewer cases."
    if undone:
        names = ", ".join(case.eval_id for case in undone[:_NAMED])
        more = f" and {len(undone) - _NAMED:,} more" if len(undone) > _NAMED else ""
        missing = f"{len(undone):,} of {counted(len(cases), 'case')} ({names}{more})"
        yield f"{why}; not, or not fully, evaluated: {missing}. {advice}"
    elif more_wanted:
        yield f"{why} before the runs that the comparison needs were made. {advice}"


def was_refused(run: RunResult) -> bool:
    """Whether a spent budget kept the run from being made, from coming to its end, or from being judged."""
    if run.failure is not None and run.failure.kind.removeprefix("user_") == BUDGET_SPENT:
        return True
    return any(metric.failure == BUDGET_SPENT for metric in run.metrics)
