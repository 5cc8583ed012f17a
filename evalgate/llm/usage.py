"""Usage of models in a run, and the guard of the budget."""

from collections.abc import Iterator, Sequence
from contextvars import ContextVar, Token
from dataclasses import field
from typing import Self

from evalgate.config.schema.budget import MeteredUsage, Tokens, UsageMeter
from evalgate.core.formatting import build_case_quote, join_first, pluralize, to_sentence
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseResult, CaseRun, Failure, ModelUsage, RunResult


class UsageTally:
    """Context manager that counts the model usage of its block, and of the tasks that are started in it."""

    __slots__ = ("_token", "usage")

    def __init__(self) -> None:
        self.usage: ModelUsage | None = None
        """None: no usage was counted."""
        self._token: Token[UsageTally | None] | None = None

    def __enter__(self) -> Self:
        self._token = _TALLY.set(self)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._token is not None:
            _TALLY.reset(self._token)


_TALLY: ContextVar[UsageTally | None] = ContextVar("tally", default=None)


def count_model_usage(usage: ModelUsage) -> None:
    """Count calls in the current tally if there is one."""
    if (tally := _TALLY.get()) is not None:
        tally.usage = usage if tally.usage is None else tally.usage + usage


BUDGET_SPENT = "budget_spent"
"""Kind of failure after the budget is spent; `user_budget_spent` if it stopped the simulated user."""

_NAMED = 3  # cases that a sentence names


@frozen
class RunUsage:
    """Usage of a run since its first start, including work that failed or was repeated."""

    judge_usage: ModelUsage = field(default_factory=ModelUsage)
    """Usage of judges."""
    spent: MeteredUsage = field(default_factory=MeteredUsage)
    """Usage of agent, judges and simulated users, which the budget counts."""


class BudgetGuard:
    """Guard that counts the agent's usage, and stops new work once the budget is spent."""

    def __init__(self, meter: UsageMeter) -> None:
        self._meter = meter
        self._silent = 0
        self._unpriced = 0

    @property
    def exhausted_budget(self) -> str:
        """Return a description of the spent budget; "" if none is spent."""
        return self._meter.explain_exhaustion()

    def stop_reason(self) -> Failure | None:
        """Return the failure for cases that must not start because the budget is spent; None if they may."""
        spent = self._meter.explain_exhaustion()
        return Failure(BUDGET_SPENT, f"{spent}, so this case was not run to its end") if spent else None

    def get_time_limit(self) -> tuple[float, Failure] | None:
        """Return the seconds until running cases are stopped, and their failure; None if unlimited."""
        left, minutes = self._meter.get_seconds_left(), self._meter.budget.minutes
        if left is None:
            return None
        return left, Failure(
            BUDGET_SPENT, f"the budget of {minutes:g} minutes is spent, so this case was ended"
        )

    def count_usage(self, run: CaseRun) -> None:
        """Count the usage that the agent reports for a run and for its earlier attempts.

        The usage of judges and simulated users is counted elsewhere.
        """
        self._silent += run.outcome == "answered" and run.usage is None
        is_unpriced = False
        for usage in (run.usage, *[attempt.usage for attempt in run.earlier_attempts]):
            if usage is not None:
                is_unpriced = is_unpriced or usage.cost_usd is None
                tokens = Tokens(usage.input_tokens, usage.output_tokens)
                self._meter.add_usage(MeteredUsage(tokens=tokens, usd=usage.min_cost_usd))
        self._unpriced += is_unpriced

    def iter_notices(self) -> Iterator[str]:
        """Yield sentences about usage that the budget could not count."""
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
    """Yield at most one sentence about the work that a spent budget prevented.

    `more_wanted` is True if further runs were planned. `why` describes the spent budget, as
    `UsageMeter.explain_exhaustion` returns it.
    """
    undone = [case for case in cases if any(map(was_stopped_by_budget, case.runs))]
    why = to_sentence(why or "the budget is spent").removesuffix(".")
    advice = "Raise `budget` and go on with --resume, or run fewer cases."
    if undone:
        quote = build_case_quote(case.key for case in cases)
        names = join_first([quote(case.key) for case in undone], _NAMED)
        missing = f"{len(undone):,} of {pluralize(len(cases), 'case')} ({names})"
        yield f"{why}; not, or not fully, evaluated: {missing}. {advice}"
    elif more_wanted:
        yield f"{why} before the runs that the comparison needs were made. {advice}"


def was_stopped_by_budget(run: RunResult) -> bool:
    """Return True if a spent budget prevented the run, its end, or its judging by a metric that gates."""
    if run.failure is not None and run.failure.kind.removeprefix("user_") == BUDGET_SPENT:
        return True
    return BUDGET_SPENT in [metric.failure for metric in run.metrics if metric.gates]
