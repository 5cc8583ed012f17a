"""Model usage of one run, and the budget that it counts against."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from evalgate.config.schema.budget import MeteredUsage, Tokens, UsageMeter
from evalgate.core.formatting import pluralize, to_sentence
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseResult, CaseRun, Failure, ModelUsage, RunResult, Usage

_NOTHING = MeteredUsage()


@dataclass(slots=True)
class UsageTally:
    """What was asked until now."""

    paid: MeteredUsage = _NOTHING
    spared: MeteredUsage = _NOTHING
    """What the cache of answers gave, as it was paid for once."""

    @property
    def totals(self) -> ModelUsage | None:
        """The same for the record; None when nothing was asked."""
        if not (self.paid.calls or self.spared.calls):
            return None
        return build_model_usage(self.paid, self.spared)


def build_model_usage(paid: MeteredUsage, spared: MeteredUsage) -> ModelUsage:
    """What was used, for the record."""
    return ModelUsage(
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


_TALLY: ContextVar[UsageTally | None] = ContextVar("tally", default=None)


@contextmanager
def track_usage() -> Iterator[UsageTally]:
    """Counts what models are asked in the block, and in tasks that are begun in it."""
    tally = UsageTally()
    token = _TALLY.set(tally)
    try:
        yield tally
    finally:
        _TALLY.reset(token)


def count_paid(spent: MeteredUsage) -> None:
    """A call that was made."""
    if (tally := _TALLY.get()) is not None:
        tally.paid += spent


def count_spared(spent: MeteredUsage) -> None:
    """A call that the cache spared."""
    if (tally := _TALLY.get()) is not None:
        tally.spared += spent


BUDGET_SPENT = "budget_spent"
"""Kind of failure of what was not begun any more; `user_…` where the simulated user was in mid-sentence."""

_NAMED = 3  # cases that a sentence names


@frozen
class RunUsage:
    """What a run used since it was begun for the first time, work that came to nothing included."""

    judged: ModelUsage = field(default_factory=ModelUsage)
    """By judges."""
    spent: MeteredUsage = field(default_factory=MeteredUsage)
    """By agent, judges and simulated users: what the budget counts."""


class BudgetGuard:
    """Counts what the agent uses, and says when nothing new may begin."""

    def __init__(self, meter: UsageMeter) -> None:
        self._meter = meter
        self._silent = 0
        self._unpriced = 0

    @property
    def exhausted_budget(self) -> str:
        """Which budget is spent; "" while none is."""
        return self._meter.explain_exhaustion()

    def stop_reason(self) -> Failure | None:
        """Why no further case may begin; None while one may."""
        spent = self._meter.explain_exhaustion()
        return Failure(BUDGET_SPENT, f"{spent}, so this case was not run") if spent else None

    def get_time_limit(self) -> tuple[float, Failure] | None:
        """Seconds until what is being played is ended, and what becomes of it then; None: never."""
        left, minutes = self._meter.get_seconds_left(), self._meter.budget.minutes
        if left is None:
            return None
        return left, Failure(
            BUDGET_SPENT, f"the budget of {minutes:g} minutes is spent, so this case was ended"
        )

    def count_usage(self, run: CaseRun) -> None:
        """Count what the agent reports of a run. What models of ours used is counted where they are asked."""
        reported = [run.usage, *(attempt.usage for attempt in run.earlier_attempts)]
        self._silent += run.outcome == "answered" and run.usage is None
        self._unpriced += any(usage is not None and usage.cost_usd is None for usage in reported)
        for usage in reported:
            if usage is not None:
                tokens = Tokens(usage.input_tokens, usage.output_tokens)
                self._meter.add_usage(MeteredUsage(tokens=tokens, usd=usage.min_cost_usd))

    def iter_notices(self) -> Iterator[str]:
        """What the budget cannot see."""
        budget = self._meter.budget
        yield from map(to_sentence, self._meter.describe_uncounted_usage())
        if self._silent and (budget.usd or budget.tokens):
            runs = pluralize(self._silent, "run")
            yield f"The agent did not report the usage of {runs}; the budget does not count it."
        if self._unpriced and budget.usd is not None:
            runs = pluralize(self._unpriced, "run")
            yield (
                f"The agent did not report the cost of {runs}, or not all of it, so the budget of "
                f"${budget.usd:,.2f} does not count it: report `cost_usd`, or add a budget of tokens."
            )


def describe_budget_shortfall(cases: Sequence[CaseResult], *, more_wanted: bool, why: str) -> Iterator[str]:
    """What a spent budget left undone, as at most one sentence.

    `more_wanted`: further runs were asked for. `why`: which budget is spent, as
    `UsageMeter.explain_exhaustion` says it.
    """
    undone = [case for case in cases if any(map(was_stopped_by_budget, case.runs))]
    why = to_sentence(why or "the budget is spent").removesuffix(".")
    advice = "Raise `budget` and go on with --resume, or run fewer cases."
    if undone:
        names = ", ".join(case.eval_id for case in undone[:_NAMED])
        more = f" and {len(undone) - _NAMED:,} more" if len(undone) > _NAMED else ""
        missing = f"{len(undone):,} of {pluralize(len(cases), 'case')} ({names}{more})"
        yield f"{why}; not, or not fully, evaluated: {missing}. {advice}"
    elif more_wanted:
        yield f"{why} before the runs that the comparison needs were made. {advice}"


def was_stopped_by_budget(run: RunResult) -> bool:
    """Whether a spent budget kept the run from being made, from coming to its end, or from being judged."""
    if run.failure is not None and run.failure.kind.removeprefix("user_") == BUDGET_SPENT:
        return True
    return any(metric.failure == BUDGET_SPENT for metric in run.metrics)
