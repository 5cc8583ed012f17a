"""Decide how often each case is run: a fixed number, or as often as the statistics need.

With statistics, a case that fails can get follow-up runs, which tell a regression from noise.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.types import Baseline, CaseResult
from evalgate.runner.plan import Plan
from evalgate.system.pull_requests import describe_unmerged_change

if TYPE_CHECKING:  # a run without a baseline loads no statistics
    from evalgate.gating.statistical_policy import StatisticalPolicy
    from evalgate.statistics.auto_runs import Step
    from evalgate.statistics.metric_decisions import Decision

MEASURED_RUNS = 3
"""Number of runs in the baseline from which the noise of a case can be measured; `runs: auto` needs this."""

RunSchedule: TypeAlias = Mapping[int, Sequence[int]]
"""Runs to make: maps the index of a case (from 0, over all suites) to its run numbers (from 1)."""

ScoreCases: TypeAlias = Callable[[int | None], Sequence[CaseResult]]
"""Function that returns the results of all cases. It takes the number of first runs of each case that count
for its score; all later runs are marked as follow-ups. With None, every run counts."""


class RunStrategy(Protocol):
    """Strategy that decides how often each case is run, before the first result and after each round."""

    @property
    def plans_next_runs(self) -> bool:
        """Return True if results can lead to further runs, False if all runs are planned at the start."""
        ...

    def plan_first_runs(self, case_count: int) -> RunSchedule:
        """Return the runs that are made before any result is known."""
        ...

    def plan_next_runs(self, score_cases: ScoreCases) -> RunSchedule:
        """Return the next runs to make, or an empty schedule if no further run is needed.

        `score_cases` returns the results so far.
        """
        ...


class _UniformSchedule(Mapping[int, Sequence[int]]):
    """Schedule with the same run numbers for every case, without an entry per case in memory."""

    def __init__(self, case_count: int, numbers: range) -> None:
        self._cases, self._numbers = range(case_count), numbers

    def __getitem__(self, index: int) -> range:
        if index not in self._cases:
            raise KeyError(index)
        return self._numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self._cases)

    def __len__(self) -> int:
        return len(self._cases)


class PlainRuns:
    """Strategy without statistics: it runs every case the same number of times."""

    plans_next_runs = False

    def __init__(self, runs: int) -> None:
        self._runs = runs

    def plan_first_runs(self, case_count: int) -> RunSchedule:
        """Return all runs of every case."""
        return _UniformSchedule(case_count, range(1, self._runs + 1))

    def plan_next_runs(self, score_cases: ScoreCases) -> RunSchedule:
        """Return an empty schedule, because all runs were planned at the start."""
        del score_cases
        return {}


@frozen
class StatisticalRuns:
    """Strategy that plans the next runs from the statistics of the results so far; it keeps no state.

    With `runs: auto` it plans rounds, in which all cases are run, and further runs of single cases. If `runs`
    is a number, only single cases are run again.
    """

    plans_next_runs = True

    statistics: "StatisticalPolicy"
    baseline: Baseline | None

    def plan_first_runs(self, case_count: int) -> RunSchedule:
        """Return the runs that every case gets before any result is known."""
        numbers = range(1, self.statistics.parameters.first_runs + 1)
        return dict.fromkeys(range(case_count), numbers)

    def plan_next_runs(self, score_cases: ScoreCases) -> RunSchedule:
        """Return the next runs to make, or an empty schedule if no further run is needed.

        The schedule is also empty if the gate fails already: by the average of a metric, or (with
        `fail_fast`) by a case that has regressed.
        """
        from evalgate.gating.failure_classification import build_classifier
        from evalgate.gating.score_tables import build_row_name, build_score_tables
        from evalgate.statistics.auto_runs import plan_next_step
        from evalgate.statistics.metric_decisions import Decision

        results = score_cases(None)
        tables = (
            build_score_tables(results, self.baseline, self.statistics)
            if self.statistics.makes_more_runs
            else {}
        )
        step = plan_next_step(tables, self.statistics.parameters) if tables else None
        # A shard has cases without runs, so its average is not the average of the suite.
        is_whole = all(case.runs for case in results)
        if is_whole and isinstance(step, Decision) and _has_failing_average(step):
            return {}
        # As in the record, only runs that count for the score decide if a case fails: follow-up runs must not
        # make it pass.
        rounds = self._count_rounds(step, results)
        has_follow_ups = any(len(case.runs) > rounds for case in results)
        counted = score_cases(rounds) if has_follow_ups else results
        # Failing cases go first: if one broke, the gate closes, and another round of all cases is wasted.
        classifier = build_classifier(self.baseline, self.statistics)
        follow_ups = dict(classifier.plan_follow_ups(counted)) if classifier else {}
        if step is None or isinstance(step, Decision) or (follow_ups and step.why == "round"):
            return follow_ups
        if step.why == "round" and self._has_follow_up_break(counted):
            return {}
        index = {build_row_name(case): at for at, case in enumerate(results)}
        # By count, not by number: in a resumed run, the number of a run that was not final may be missing.
        return {
            at: _list_free_numbers(results[at], len(numbers))
            for at, numbers in ((index[name], numbers) for name, numbers in step.runs.items())
        } | follow_ups

    def _count_rounds(self, step: "Step | None", results: Sequence[CaseResult]) -> int:
        """Return the number of rounds: so many first runs of each case count, later runs are follow-ups.

        `step` is the result of `plan_next_step`: a decision, or a request for runs. It is None if there are
        no scores. If `step` requests another round of all cases, this round does not count yet.
        """
        from evalgate.statistics.metric_decisions import Decision

        first = self.statistics.parameters.first_runs
        if isinstance(step, Decision):
            return step.rounds
        if not self.statistics.is_auto:
            return first
        if step is None:
            return min((len(case.runs) for case in results), default=first)
        if step.why == "follow_up":
            return first
        # The round that `step` asks for is not complete yet.
        return max(first, max(numbers[-1] for numbers in step.runs.values()) - 1)

    def _has_follow_up_break(self, results: Sequence[CaseResult]) -> bool:
        """Return True if `fail_fast` is on and follow-up runs of a failed case confirm its regression."""
        from evalgate.gating.failure_classification import classify_failures

        if not self.statistics.parameters.fail_fast:
            return False
        classified = classify_failures(results, self.baseline, self.statistics)
        return any(case.follow_up is not None and case.follow_up.outcome == "broke" for case in classified)


def _list_free_numbers(case: CaseResult, count: int) -> tuple[int, ...]:
    taken = {run.run for run in case.runs}
    free = (number for number in range(1, len(taken) + count + 1) if number not in taken)
    return tuple(free)[:count]


def _has_failing_average(decision: "Decision") -> bool:
    """Return True if the average of a metric fails the gate, so that no single case can change this."""
    return any(
        part.verdict == "fail" and part.kind != "cases"
        for metric in decision.metrics.values()
        for part in metric.checks
    )


def apply_default_runs(plan: Plan, baseline: Baseline | None) -> Plan:
    """Choose the number of runs if the user gave none; return the plan with the choice and a notice.

    The choice is `runs: auto` if at least half of the cases have `MEASURED_RUNS` runs or more in the
    baseline, else one run of each case. The plan is returned unchanged if the user gave the number, if there
    is no baseline or no case, or if the agent is a recording or deterministic, so that one run is enough.
    """
    repeats_itself = plan.agent.settings.kind == "replay" or plan.gate.deterministic
    if plan.runs_given or baseline is None or repeats_itself:
        return plan
    known = {case.key: len(case.runs) for case in baseline.cases}
    stored = [
        known.get((suite.eval_set.eval_set_id, case.eval_id), 0)
        for suite in plan.suites
        for case in suite.eval_set.cases
    ]
    if not stored:
        return plan
    deep = sum(runs >= MEASURED_RUNS for runs in stored)
    held = f"the baseline holds {MEASURED_RUNS} runs or more of {deep:,} of {pluralize(len(stored), 'case')}"
    if choose_default_runs(stored) == "auto":
        notice = f"`runs: auto` was chosen, as {held}. Say `runs` to choose otherwise."
        return replace(plan, runs="auto", notices=(*plan.notices, notice))
    notice = f"Each case was run once, as {held}. From half of them on `runs: auto` is the default."
    return replace(plan, notices=(*plan.notices, notice))


def choose_default_runs(stored: Sequence[int]) -> int | Literal["auto"]:
    """Return `auto` if at least half of the cases have `MEASURED_RUNS` runs or more in the baseline, else 1.

    `stored` holds the number of runs in the baseline for each case.
    """
    return "auto" if 2 * sum(runs >= MEASURED_RUNS for runs in stored) >= len(stored) else 1


def choose_statistics(plan: Plan, baseline: Baseline | None) -> "StatisticalPolicy | None":
    """Return the settings of the statistical tests; None if the run needs no test.

    The run needs a test if there is a baseline, if `runs` is `auto`, or if a criterion has
    `rule: statistical` or a limit for the 95th percentile.
    """
    criteria = [bound.criterion for bound in plan.bound_metrics]
    statistical = any(each.rule == "statistical" or each.options.get("p95") is not None for each in criteria)
    if baseline is None and not statistical and plan.runs != "auto":
        return None
    from evalgate.gating.statistical_policy import build_statistical_policy

    repeatable = plan.agent.settings.kind != "replay"  # a recording gives the same replies each time
    # The anchor closes the gate for an unmerged change only if this change fell significantly by itself
    # (`gating/anchor.py`).
    shared = (
        plan.anchor_store is not None
        and baseline is not None
        and not describe_unmerged_change(plan.agent_environ)
    )
    return build_statistical_policy(
        plan.gate, plan.runs, criteria, repeatable=repeatable, shares_with_anchor=shared
    )


def choose_run_strategy(
    plan: Plan, statistics: "StatisticalPolicy | None", baseline: Baseline | None
) -> RunStrategy:
    """Return a strategy that plans runs by `statistics`; if None, one with a fixed number of runs."""
    return PlainRuns(plan.first_runs) if statistics is None else StatisticalRuns(statistics, baseline)
