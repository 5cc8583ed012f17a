"""Which runs are made: a fixed number of every case, or as many as the comparison needs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from evalgate.compare.earlystop import find_excesses
from evalgate.compare.followups import FollowUps
from evalgate.compare.tables import StatisticalPolicy, line_changes, row_name, scores_beyond_range, tables
from evalgate.frozen import frozen
from evalgate.model import Baseline, CaseResult
from evalgate.statistics.auto import NextRuns, Step, conclude, next_step
from evalgate.statistics.change import Change
from evalgate.statistics.fixed import decide
from evalgate.statistics.results import Decision

Wanted: TypeAlias = Mapping[int, Sequence[int]]
"""Index of a case → numbers (1-based) of the runs that it still needs."""


@frozen
class Sampling:
    """Says what to run next, from what was run so far; holds no state."""

    policy: StatisticalPolicy
    baseline: Baseline | None

    @property
    def is_auto(self) -> bool:
        """Whether the number of runs is found out on the way."""
        return self.policy.parameters.runs is None

    def first(self, cases: int) -> Wanted:
        """What is run in any event."""
        numbers = range(1, (self.policy.parameters.runs or 1) + 1)
        return dict.fromkeys(range(cases), numbers)

    def next(self, results: Callable[[], Sequence[CaseResult]]) -> Wanted:
        """What is run after that; empty when enough is known."""
        cases = results()
        step = self._step(cases)
        is_whole = all(case.runs for case in cases)  # the average of a shard is not that of the suite
        if is_whole and isinstance(step, Decision) and _closes(step):
            return {}
        wanted = dict(self._follow_ups.next_runs(cases)) if self._follow_ups else {}
        if not isinstance(step, NextRuns) or (wanted and step.why == "round"):
            return wanted
        if step.why == "round" and self._is_closed(cases):
            return {}
        index = {row_name(case): at for at, case in enumerate(cases)}
        return {index[name]: numbers for name, numbers in step.runs.items()} | wanted

    def _step(self, cases: Sequence[CaseResult]) -> Step | None:
        """Return what the exact tests want; None when no metric can be judged, or runs are as they are."""
        if not self.follows_up:
            return None
        found = tables(cases, self.baseline, self.policy)
        return next_step(found, self.policy.parameters) if found else None

    def _is_closed(self, cases: Sequence[CaseResult]) -> bool:
        """Return whether a case broke and the averages need no more runs."""
        if self._follow_ups is None or not self.policy.parameters.fail_fast:
            return False
        classified = self._follow_ups.classify(cases)
        return any(case.follow_up is not None and case.follow_up.outcome == "broke" for case in classified)

    @property
    def follows_up(self) -> bool:
        """Whether runs may be made beyond those that every case gets in any event."""
        return self.is_auto or self.policy.parameters.follow_up

    @property
    def _follow_ups(self) -> FollowUps | None:
        if self.baseline is None or self.policy.case_runs == 0:
            return None
        return FollowUps(self.baseline, keep=self.policy.parameters.baseline_keep, most=self.policy.case_runs)

    def decision(self, results: Sequence[CaseResult]) -> Decision | None:
        """What the runs say, even those of a run that ended early; None when no metric can be judged."""
        found = tables(results, self.baseline, self.policy)
        if not found:
            return None
        return (conclude if self.follows_up else decide)(found, self.policy.parameters)

    def line_changes(self, results: Sequence[CaseResult], decision: Decision) -> Mapping[str, Change]:
        """Return how far the average of each line moved, of the metrics that have several lines."""
        found = tables(results, self.baseline, self.policy)
        rounds = {name: metric.rounds for name, metric in decision.metrics.items()}
        return dict(line_changes(found, rounds, self.policy.parameters))

    def excesses(self, results: Sequence[CaseResult], decision: Decision) -> Mapping[str, float]:
        """Return by how much averages are too high because the rounds stopped at them."""
        if not self.is_auto:
            return {}
        found = tables(results, self.baseline, self.policy)
        return dict(find_excesses(found, decision, self.policy.parameters))

    def scores_beyond_range(self, cases: Sequence[CaseResult]) -> tuple[str, ...]:
        """Return a sentence for every metric that no statistics can judge."""
        return tuple(scores_beyond_range(cases, self.baseline, self.policy))

    def classified(self, cases: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
        """Return the cases, each failing one with what its baseline and its runs say of that."""
        return self._follow_ups.classify(cases) if self._follow_ups else tuple(cases)


def _closes(decision: Decision) -> bool:
    """Return whether the averages close the gate: no single case matters then."""
    return any(
        part.verdict == "fail" and part.kind != "cases"
        for metric in decision.metrics.values()
        for part in metric.parts
    )
