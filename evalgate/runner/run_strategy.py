"""Plan the runs: a fixed number of every case, as many as the comparison needs, or repeats of failures."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.types import Baseline, CaseResult
from evalgate.runner.plan import Plan
from evalgate.system.pull_requests import describe_unmerged_change

if TYPE_CHECKING:  # a run without a baseline loads no statistics
    from evalgate.gating.score_tables import StatisticalPolicy
    from evalgate.statistics.gate_decision import Decision

RunSchedule: TypeAlias = Mapping[int, Sequence[int]]
"""Index of a case to the numbers (1-based) of the runs to make."""


class RunStrategy(Protocol):
    """Strategy that plans the runs."""

    def plan_first_runs(self, cases: int) -> RunSchedule:
        """Return the runs of `cases` cases that are made before any result is known."""
        ...

    def plan_next_runs(self, cases: Sequence[CaseResult]) -> RunSchedule:
        """Return the runs to make after those in `cases`, or an empty schedule if enough is known."""
        ...


class _UniformSchedule(Mapping[int, Sequence[int]]):
    """Schedule with the same run numbers for every case, without an entry per case in memory."""

    def __init__(self, cases: int, numbers: range) -> None:
        self._cases, self._numbers = range(cases), numbers

    def __getitem__(self, index: int) -> range:
        if index not in self._cases:
            raise KeyError(index)
        return self._numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self._cases)

    def __len__(self) -> int:
        return len(self._cases)


class FixedRuns:
    """Strategy without statistics: it runs every case the same number of times."""

    def __init__(self, runs: int) -> None:
        self._runs = runs

    def plan_first_runs(self, cases: int) -> RunSchedule:
        """Return all runs of every case."""
        return _UniformSchedule(cases, range(1, self._runs + 1))

    def plan_next_runs(self, cases: Sequence[CaseResult]) -> RunSchedule:
        """Return an empty schedule: no run follows the first ones."""
        del cases
        return {}


@frozen
class AdaptiveRuns:
    """Strategy that plans the next runs from the results so far; it holds no state.

    It is also used if `runs` is a number and there is a baseline. Then only single cases are run again.
    """

    statistics: "StatisticalPolicy"
    baseline: Baseline | None

    def plan_first_runs(self, cases: int) -> RunSchedule:
        """Return the runs that every case gets before any result is known."""
        numbers = range(1, (self.statistics.parameters.runs or 1) + 1)
        return dict.fromkeys(range(cases), numbers)

    def plan_next_runs(self, cases: Sequence[CaseResult]) -> RunSchedule:
        """Return the runs to make after the first ones, or an empty schedule if enough is known."""
        from evalgate.gating.follow_ups import build_classifier
        from evalgate.gating.score_tables import build_row_name, build_score_tables
        from evalgate.statistics.adaptive_runs import plan_next_step
        from evalgate.statistics.gate_decision import Decision

        tables = (
            build_score_tables(cases, self.baseline, self.statistics) if self.statistics.follows_up else {}
        )
        step = plan_next_step(tables, self.statistics.parameters) if tables else None
        # A shard has cases without runs: its average is not that of the suite.
        is_whole = all(case.runs for case in cases)
        if is_whole and isinstance(step, Decision) and _has_failing_average(step):
            return {}
        # Suspects go first: if one broke, the gate closes, and another round of all cases would be wasted.
        classifier = build_classifier(self.baseline, self.statistics)
        follow_ups = dict(classifier.plan_follow_ups(cases)) if classifier else {}
        if step is None or isinstance(step, Decision) or (follow_ups and step.why == "round"):
            return follow_ups
        if step.why == "round" and self._has_broken_case(cases):
            return {}
        index = {build_row_name(case): at for at, case in enumerate(cases)}
        return {index[name]: numbers for name, numbers in step.runs.items()} | follow_ups

    def _has_broken_case(self, cases: Sequence[CaseResult]) -> bool:
        """Return True if a case broke; False if `fail_fast` is off."""
        from evalgate.gating.follow_ups import classify_failures

        if not self.statistics.parameters.fail_fast:
            return False
        classified = classify_failures(cases, self.baseline, self.statistics)
        return any(case.follow_up is not None and case.follow_up.outcome == "broke" for case in classified)


def _has_failing_average(decision: "Decision") -> bool:
    """Return True if the averages close the gate: no single case matters then."""
    return any(
        part.verdict == "fail" and part.kind != "cases"
        for metric in decision.metrics.values()
        for part in metric.checks
    )


def choose_statistics(plan: Plan, baseline: Baseline | None) -> "StatisticalPolicy | None":
    """Return the settings of the statistics, or None if plain means are enough.

    Plain means are enough without a baseline, without `runs: auto`, and without a criterion that needs
    statistics.
    """
    criteria = [bound.criterion for suite in plan.suites for bound in suite.metrics]
    statistical = any(each.rule == "statistical" or each.options.get("p95") is not None for each in criteria)
    if baseline is None and not statistical and plan.runs != "auto":
        return None
    from evalgate.gating.score_tables import build_statistical_policy

    repeatable = plan.agent.settings.kind != "replay"  # a recording says the same each time
    # An unmerged change is only closed by the anchor if it fell significantly by itself (`gating/anchor.py`).
    shared = (
        plan.anchor_store is not None and baseline is not None and not describe_unmerged_change(plan.environ)
    )
    return build_statistical_policy(
        plan.gate, plan.runs, criteria, repeatable=repeatable, shares_with_anchor=shared
    )


def choose_run_strategy(
    plan: Plan, statistics: "StatisticalPolicy | None", baseline: Baseline | None
) -> RunStrategy:
    """Return the strategy that plans the runs: adaptive with statistics, else a fixed number."""
    return FixedRuns(plan.first_runs) if statistics is None else AdaptiveRuns(statistics, baseline)
