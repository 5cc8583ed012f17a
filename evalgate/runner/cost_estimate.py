"""Estimate tokens, cost and duration of a run before it begins, from the runs in the baseline."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from evalgate.config.schema.budgets import Budget
from evalgate.core.formatting import format_money, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.means import compute_mean
from evalgate.core.types import Baseline, BaselineCase, CaseKey, Usage
from evalgate.llm.usage import MeteredUsage

_NOTHING = Usage()


@frozen
class UsageEstimate:
    """Tokens and cost to expect for the agent, the judges, the simulated users, or all of them together."""

    tokens: float = 0.0
    usd: float = 0.0
    """Cost in USD of the tokens with a known price."""
    unpriced: bool = False
    """True if the cost of some of the tokens is not known."""

    def __add__(self, other: "UsageEstimate") -> "UsageEstimate":
        unpriced = self.unpriced or other.unpriced
        return UsageEstimate(self.tokens + other.tokens, self.usd + other.usd, unpriced)

    def scale_usage(self, number: float) -> "UsageEstimate":
        """Return this estimate with tokens and cost multiplied by `number`."""
        return UsageEstimate(self.tokens * number, self.usd * number, self.unpriced)

    @property
    def lacks_price(self) -> bool:
        """Return True if the cost of some tokens is unknown.

        If there are tokens, a cost of 0 also counts as unknown: older baselines store an unknown cost as 0.
        """
        return self.unpriced or (self.tokens > 0 and self.usd == 0)


@frozen
class CostEstimate:
    """Expected usage and duration of the planned runs."""

    runs: int
    agent: UsageEstimate
    judges: UsageEstimate
    users: UsageEstimate
    seconds: float
    """Duration of all conversations, in seconds, at the given concurrency."""
    source: str
    """Branch and commit of the baseline, such as `main@1a2b3c4`; its path if both are unknown."""
    cases_without_stored_runs: int = 0
    """Number of cases without stored runs; each of these cases counts as the average of the other cases."""
    agent_is_silent: bool = False
    """True if the agent reported its usage in none of the stored runs."""

    @property
    def whole(self) -> UsageEstimate:
        """Return the total usage of agent, judges and simulated users."""
        return self.agent + self.judges + self.users


@frozen
class _TypicalRun:
    """Average usage and duration of one run of a case."""

    agent: UsageEstimate | None
    """Usage of the agent; None if no stored run reports this usage."""
    judges: UsageEstimate
    users: UsageEstimate
    seconds: float


def estimate_cost(
    planned_runs: Mapping[CaseKey, int], baseline: Baseline, concurrency: int
) -> CostEstimate | None:
    """Estimate the usage and duration of planned runs from the stored runs of the same cases.

    Return None if the baseline has no run of any of the cases. `planned_runs` has the number of planned runs
    of each case. `concurrency` is the number of conversations at the same time, at least 1.
    """
    known = {case.key: _summarize_case(case) for case in baseline.cases if case.runs}
    asked = {key: known[key] for key in planned_runs if key in known}
    if not asked:
        return None
    typical = list(asked.values())
    spoken = [each.agent for each in typical if each.agent is not None]
    average = _TypicalRun(
        _average_estimates(spoken) if spoken else None,
        _average_estimates([each.judges for each in typical]),
        _average_estimates([each.users for each in typical]),
        compute_mean([each.seconds for each in typical]),
    )
    rows = [(asked.get(key, average), runs) for key, runs in planned_runs.items()]
    silence = average.agent or UsageEstimate()
    newest = baseline.sources[-1]
    return CostEstimate(
        runs=sum(planned_runs.values()),
        agent=_sum_estimates((each.agent or silence).scale_usage(runs) for each, runs in rows),
        judges=_sum_estimates(each.judges.scale_usage(runs) for each, runs in rows),
        users=_sum_estimates(each.users.scale_usage(runs) for each, runs in rows),
        # Concurrency cannot make a run shorter than its longest case.
        seconds=max(
            sum(each.seconds * runs for each, runs in rows) / concurrency, *(each.seconds for each, _ in rows)
        ),
        source="@".join(filter(None, (newest.branch, (newest.commit or "")[:7]))) or baseline.path,
        cases_without_stored_runs=len(planned_runs) - len(asked),
        agent_is_silent=not spoken,
    )


def _summarize_case(case: BaselineCase) -> _TypicalRun:
    agents = [_to_estimate(run.usage) for run in case.runs if run.usage is not None]
    # Judges score answered runs only; without any, their usage is 0 in all runs.
    judged = [run for run in case.runs if run.outcome == "answered"] or case.runs
    return _TypicalRun(
        _average_estimates(agents) if agents else None,
        _average_estimates([_to_estimate(run.judge_usage) for run in judged]),
        _average_estimates([_to_estimate(run.user_usage) for run in case.runs]),
        compute_mean([run.duration_s for run in case.runs]),
    )


def _to_estimate(usage: Usage | None) -> UsageEstimate:
    usage = usage or _NOTHING
    return UsageEstimate(usage.input_tokens + usage.output_tokens, usage.min_cost_usd, usage.cost_usd is None)


def _sum_estimates(parts: Iterator[UsageEstimate]) -> UsageEstimate:
    return sum(parts, UsageEstimate())


def _average_estimates(parts: Sequence[UsageEstimate]) -> UsageEstimate:
    return sum(parts, UsageEstimate()).scale_usage(1 / len(parts))


def find_changed_judged_metrics(
    judged: Mapping[CaseKey, Mapping[str, str]], baseline: Baseline, keys: Collection[CaseKey]
) -> tuple[str, ...]:
    """Return the names of judged metrics that the baseline lacks, or has with a different fingerprint.

    The fingerprint covers the judge and the metric's other settings, on which the cost depends. `judged` has
    the present fingerprints of each case's judged metrics, by metric name. Only cases that are in `keys` and
    in the baseline are compared.
    """
    then = {case.key: case.metric_fingerprints for case in baseline.cases}
    names = (
        name
        for key in keys
        for name, print_ in judged.get(key, {}).items()
        if key in then and then[key].get(name) != print_
    )
    return tuple(dict.fromkeys(names))


def describe_estimate(
    estimate: CostEstimate,
    budget: Budget,
    spent: MeteredUsage | None = None,
    others: Collection[str] = (),
    growth: float = 1,
) -> Iterator[str]:
    """Yield sentences about the estimate, if tokens are expected or the budget would be exceeded.

    `spent` is the part of the budget that is used already; None for nothing. `others` are the names of
    metrics that had a different judge or different settings in the baseline. `growth` is the largest factor
    by which `runs: auto` may multiply the runs; 1 if the number of runs is fixed.
    """
    spent = spent or MeteredUsage()
    limits = list(_find_exceeded_limits(estimate, budget, spent))
    if not estimate.whole.tokens and not limits:
        return
    runs = pluralize(estimate.runs, "run")
    yield (
        f"Estimate: about {_format_amount(estimate)} for {runs}, from the usage of the baseline "
        f"{estimate.source}."
    )
    yield from _describe_unknowns(estimate, others, growth)
    what = "With what was used already that" if spent.tokens.total else "That"
    end = "the run will stop before its end, without a verdict"
    yield from (f"{what} is more than the budget of {limit}: {end}." for limit in limits)


def _format_amount(estimate: CostEstimate) -> str:
    whole = estimate.whole
    parts = {"agent": estimate.agent, "judges": estimate.judges, "users": estimate.users}
    used = [f"{name} {format_tokens(part.tokens)}" for name, part in parts.items() if part.tokens]
    split = f" ({', '.join(used)})" if len(used) > 1 else ""
    money = format_money(whole.usd)
    time = format_time(estimate.seconds) + (" of conversations" if estimate.judges.tokens else "")
    parts_shown = (
        f"{format_tokens(whole.tokens)} tokens{split}" if whole.tokens else "",
        f"{'at least ' if whole.unpriced else ''}{money}" if whole.usd else "",
        time,
    )
    return ", ".join(filter(None, parts_shown))


def _describe_unknowns(estimate: CostEstimate, others: Collection[str], growth: float) -> Iterator[str]:
    if estimate.agent_is_silent:
        yield "The agent did not report what it uses: that comes on top."
    unpriced = {"the agent": estimate.agent, "judging": estimate.judges, "the users": estimate.users}
    if names := [name for name, part in unpriced.items() if part.lacks_price]:
        yield f"What {' and '.join(names)} cost is not known."
    if estimate.cases_without_stored_runs:
        are = "is" if estimate.cases_without_stored_runs == 1 else "are"
        cases = pluralize(estimate.cases_without_stored_runs, "case")
        yield f"{cases} {are} not in the baseline: taken for the average of the others."
    for name in others:
        yield f"{name} was judged otherwise in the baseline, or not at all: it may cost more or less."
    if growth > 1:
        times = f"{growth:.1f}".removesuffix(".0")
        yield f"`runs: auto` begins with these, and may come to {times} times as much, or more for suspects."


def _find_exceeded_limits(estimate: CostEstimate, budget: Budget, spent: MeteredUsage) -> Iterator[str]:
    if budget.usd is not None and estimate.whole.usd + spent.usd > budget.usd:
        yield format_money(budget.usd)
    if budget.tokens is not None and estimate.whole.tokens + spent.tokens.total > budget.tokens:
        yield pluralize(budget.tokens, "token")
    if budget.minutes is not None and estimate.seconds > budget.minutes * 60:
        yield f"{budget.minutes:g} minutes"


def format_tokens(tokens: float) -> str:
    """Return a number of tokens as text with two significant digits, such as `1.2 M`, `340 k` or `87`."""
    for size, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if tokens >= size * 0.995:
            return f"{_round_two_digits(tokens / size)}{unit}"
    return _round_two_digits(tokens)


def _round_two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):,g}"


def format_time(seconds: float) -> str:
    """Return a duration as text, such as `less than a second`, `40 s`, `12 min` or `3.5 h`."""
    if seconds < 1:
        return "less than a second"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{_round_two_digits(seconds / 3600)} h"
