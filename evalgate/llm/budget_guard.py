"""Guard the budget: count the usage of a run, and stop new work when the budget is spent."""

import time
from collections.abc import Callable, Iterator, Sequence

from evalgate.config.schema.budgets import NO_BUDGET, Budget
from evalgate.config.token_prices import Tokens
from evalgate.core.formatting import build_case_quote, format_money, join_first, pluralize, to_sentence
from evalgate.core.types import CaseResult, CaseRun, Failure, RunResult
from evalgate.llm.usage import MeteredUsage

BUDGET_SPENT = "budget_spent"
"""Kind of the failure of work that a spent budget stopped.

For a simulated user the kind is `user_budget_spent`.
"""

_NAMED = 3  # cases that a sentence names


class UsageMeter:
    """Counter of a run's usage, which also tells if a limit of the run's budget is reached.

    When a limit is reached, running conversations are ended. But requests to judges and simulated users that
    were already sent still count, because they are paid for. So a run may exceed its budget a little.
    """

    def __init__(self, budget: Budget = NO_BUDGET, now: Callable[[], float] = time.monotonic) -> None:
        self._budget = budget
        self._now = now
        self._began = now()
        self._spent = MeteredUsage()
        self.on_call: Callable[[], None] | None = None
        """Function that is called when a call of one of evalgate's own models begins, and when it is
        counted. Usage that an agent reports does not call the function. None: there is no listener."""

    @property
    def budget(self) -> Budget:
        """Return the limits of this run."""
        return self._budget

    @property
    def spent(self) -> MeteredUsage:
        """Return the usage so far."""
        return self._spent

    def get_seconds_left(self) -> float | None:
        """Return the seconds that the budget's `minutes` leave, at least 0; None if time is not limited."""
        if self._budget.minutes is None:
            return None
        return max(0.0, self._began + self._budget.minutes * 60 - self._now())

    def add_usage(self, spent: MeteredUsage) -> None:
        """Add `spent` to the usage so far. If `spent.calls` is above 0, call the listener `on_call`, too."""
        self._spent += spent
        if spent.calls:
            self.notify_listener()

    def notify_listener(self) -> None:
        """Call the listener `on_call`; do nothing if there is none."""
        if self.on_call is not None:
            self.on_call()

    def explain_exhaustion(self) -> str:
        """Return a clause such as `the budget of $5.00 is spent`; "" if no limit is reached."""
        budget, spent = self._budget, self._spent
        if budget.usd is not None and spent.usd >= budget.usd:
            return f"the budget of {format_money(budget.usd)} is spent"
        if budget.tokens is not None and spent.tokens.total >= budget.tokens:
            return f"the budget of {pluralize(budget.tokens, 'token')} is spent"
        if budget.minutes is not None and self._now() - self._began >= budget.minutes * 60:
            return f"the budget of {budget.minutes:g} minutes is spent"
        return ""

    def describe_uncounted_usage(self) -> tuple[str, ...]:
        """Return a notice for each limit of the budget that cannot count some of the model calls.

        A limit in US dollars does not count calls with an unknown cost. A limit of tokens does not count
        calls with unknown tokens.
        """
        budget, spent = self._budget, self._spent
        blind = []
        if budget.usd is not None and spent.unpriced:
            calls = pluralize(spent.unpriced, "model call")
            blind.append(
                f"the cost of {calls} is not known, so the budget of {format_money(budget.usd)} does not "
                f"count {'it' if spent.unpriced == 1 else 'them'}: add the model's price, or a budget of "
                "tokens."
            )
        if budget.tokens is not None and spent.calls_without_tokens:
            calls = pluralize(spent.calls_without_tokens, "model call")
            blind.append(f"the provider did not say the tokens of {calls}; the budget does not count them.")
        return tuple(blind)


class BudgetGuard:
    """Guard that counts the agent's usage, and stops new work once the budget is spent."""

    def __init__(self, meter: UsageMeter) -> None:
        self._meter = meter
        self._silent = 0
        self._unpriced = 0

    @property
    def exhaustion_reason(self) -> str:
        """Return a clause such as `the budget of $5.00 is spent`; "" if the budget is not spent."""
        return self._meter.explain_exhaustion()

    def stop_reason(self) -> Failure | None:
        """Return the failure for a case that the spent budget stops; None if the budget is not spent."""
        spent = self._meter.explain_exhaustion()
        return Failure(BUDGET_SPENT, f"{spent}, so this case was not run to its end") if spent else None

    def get_time_limit(self) -> tuple[float, Failure] | None:
        """Return the seconds until running cases are stopped, and the failure that these cases then get.

        Return None if the budget does not limit the time.
        """
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
        """Yield sentences about usage that the budget could not count: unreported, or of unknown cost."""
        budget = self._meter.budget
        yield from map(to_sentence, self._meter.describe_uncounted_usage())
        if self._silent and (budget.usd or budget.tokens):
            runs = pluralize(self._silent, "run")
            yield f"The agent did not report the usage of {runs}; the budget does not count it."
        if self._unpriced and budget.usd is not None:
            runs = pluralize(self._unpriced, "run")
            yield (
                f"The agent did not report the cost of {runs}, or not all of it, so the budget of "
                f"{format_money(budget.usd)} does not count it: report `cost_usd`, or add a budget of tokens."
            )


def describe_budget_shortfall(cases: Sequence[CaseResult], *, more_wanted: bool, why: str) -> Iterator[str]:
    """Yield one sentence if a spent budget left cases without a full evaluation; it names these cases.

    Without such cases, yield a sentence about missing runs if `more_wanted` is True: the comparison with the
    baseline needs further runs. Otherwise yield nothing. `why` is a clause about the spent budget, such as
    `the budget of $5.00 is spent`; "" if the cause is not known.
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
    """Return True if a spent budget stopped the run, or kept a gating metric from scoring the run."""
    if run.failure is not None and run.failure.kind.removeprefix("user_") == BUDGET_SPENT:
        return True
    return BUDGET_SPENT in [metric.failure for metric in run.metrics if metric.gates]
