"""Which runs are made: a fixed number of every case, as many as the comparison needs, or repeats of failures.

The exact test asks how far a score fell, and needs a deep baseline to judge one case. Here the question is
whether a case misses its threshold, or crashes, as no stored run of it did. Then it is run again, one run at
a time, until two runs are unlike that (a flake), or so many were like it that no luck explains them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.types import AGENT_FAULT_OUTCOMES, Baseline, BaselineCase, CaseResult, FollowUp, RunResult
from evalgate.gating.score_tables import (
    StatisticalPolicy,
    build_row_name,
    build_score_tables,
    compare_line_means,
    describe_out_of_range_scores,
)
from evalgate.gating.statistics_adapter import find_excesses
from evalgate.statistics.adaptive_runs import NextRuns, Step, decide_available_runs, plan_next_step
from evalgate.statistics.case_regression import (
    BreakageCriteria,
    StoredOutcomes,
    count_runs_allowed,
    estimate_flaky,
    find_breakage_criteria,
)
from evalgate.statistics.decision import decide_fixed_runs
from evalgate.statistics.mean_difference import MeanDifference
from evalgate.statistics.results import Decision


class FailureClassifier:
    """Classifies the failing cases of one run by one baseline."""

    def __init__(self, baseline: Baseline, *, keep: int, most: int) -> None:
        """Take the newest `keep` stored runs of each case, of which `most` runs may be made now.

        With `most` 1 no case can be run again: the first failure that the baseline does not explain counts.
        """
        self._before = {(case.eval_set_id, case.eval_id): case for case in baseline.cases}
        self._keep = keep
        self._most = most

    def plan_follow_ups(self, cases: Sequence[CaseResult]) -> Mapping[int, tuple[int, ...]]:
        """Return index of a case → the number of its next run, for every case that is still open."""
        found = {}
        flaky = None
        for at, case in enumerate(cases):
            if not (self._can_run_again(case) and _is_failing(case)):
                continue
            if (stored := self._find_stored_runs(case)) is None or not any(stored.find_misses(case)):
                continue
            flaky = self._estimate_flaky(cases) if flaky is None else flaky
            if self._decide_outcome(stored, case, flaky) == "open":
                found[at] = (max(run.run for run in case.runs) + 1,)
        return found

    def classify_failures(self, cases: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
        """Return the cases, each failing one with what its baseline and its runs say of that."""
        if not any(_is_failing(case) for case in cases):
            return tuple(cases)
        flaky = self._estimate_flaky(cases)
        return tuple(
            replace(case, follow_up=self._build_follow_up(case, flaky)) if _is_failing(case) else case
            for case in cases
        )

    def _build_follow_up(self, case: CaseResult, flaky: float) -> FollowUp | None:
        stored = self._find_stored_runs(case)
        missed = frozenset(metric.name for metric in case.metrics if metric.status == "failed")
        if stored is None or not missed <= stored.known:
            return None
        crashed = case.agent_failed
        misses = stored.find_misses(case)
        failed = stored.count_failed(missed, with_crashes=crashed)
        if not (missed & stored.never_missed or (crashed and not stored.crashes)):
            return FollowUp("excused", len(misses), sum(misses), 0, stored.count, failed, crashed)
        outcome, need = self._decide_outcome(stored, case, flaky), self._find_criteria(stored, flaky).in_a_row
        return FollowUp(outcome, len(misses), sum(misses), need, stored.count, failed, crashed)

    def _decide_outcome(
        self, stored: "_StoredRuns", case: CaseResult, flaky: float
    ) -> Literal["broke", "flake", "open"]:
        return self._find_criteria(stored, flaky).classify_runs(stored.find_misses(case))

    def _find_criteria(self, stored: "_StoredRuns", flaky: float) -> BreakageCriteria:
        return find_breakage_criteria(stored.count, flaky, most=self._most)

    def _can_run_again(self, case: CaseResult) -> bool:
        """Return whether one more run of the case is of use; a protected one closes the gate as it is."""
        is_open = case.quarantine is None and not case.protected
        return is_open and 0 < len(case.runs) < count_runs_allowed(self._most)

    def _estimate_flaky(self, cases: Sequence[CaseResult]) -> float:
        gating = (case for case in cases if case.quarantine is None)
        return estimate_flaky(stored.history for case in gating if (stored := self._find_stored_runs(case)))

    def _find_stored_runs(self, case: CaseResult) -> "_StoredRuns | None":
        """Return what the baseline holds of the case; None where nothing of it can be compared."""
        old = self._before.get((case.eval_set_id, case.eval_id))
        if old is None or old.fingerprint != case.fingerprint:
            return None
        return _build_stored_runs(case, old, self._keep)


@frozen
class _StoredRuns:
    """The stored runs of one case, held to today's thresholds."""

    runs: tuple[tuple[bool, frozenset[str]], ...]
    """Of each run: whether it crashed or timed out, and the metrics whose threshold it missed."""
    known: frozenset[str]
    """Metrics that are the same as now."""

    @property
    def count(self) -> int:
        return len(self.runs)

    @property
    def crashes(self) -> int:
        return sum(crashed for crashed, _ in self.runs)

    @property
    def never_missed(self) -> frozenset[str]:
        """Known metrics whose threshold no stored run missed."""
        return self.known.difference(*(missed for _, missed in self.runs))

    @property
    def history(self) -> StoredOutcomes:
        return StoredOutcomes(self.count, self.count_failed(self.known, with_crashes=True))

    def count_failed(self, metrics: frozenset[str], *, with_crashes: bool) -> int:
        """Count the stored runs that missed one of the metrics."""
        return sum((crashed and with_crashes) or bool(missed & metrics) for crashed, missed in self.runs)

    def find_misses(self, case: CaseResult) -> list[bool]:
        """Return, of each run of the case that tells, whether it failed as no stored run did."""
        new = self.never_missed
        return [
            not self.crashes
            if run.outcome in AGENT_FAULT_OUTCOMES
            else not new.isdisjoint(_list_missed_metrics(run))
            for run in case.runs
            if _is_conclusive(run)
        ]


def _build_stored_runs(case: CaseResult, old: BaselineCase, keep: int) -> _StoredRuns | None:
    thresholds = {
        metric.name: metric.threshold
        for metric in case.metrics
        if old.metric_fingerprints.get(metric.name) == metric.fingerprint
    }
    runs = tuple(
        (run.outcome in AGENT_FAULT_OUTCOMES, frozenset(_find_missed_thresholds(run.scores, thresholds)))
        for run in old.runs[-keep:]
        if run.outcome in AGENT_FAULT_OUTCOMES or any(run.scores.get(name) is not None for name in thresholds)
    )
    return _StoredRuns(runs, frozenset(thresholds)) if runs else None


def _find_missed_thresholds(
    scores: Mapping[str, float | None], thresholds: Mapping[str, float]
) -> Iterator[str]:
    for name, threshold in thresholds.items():
        score = scores.get(name)
        if score is not None and score < threshold:
            yield name


def _list_missed_metrics(run: RunResult) -> Iterator[str]:
    return (metric.name for metric in run.metrics if metric.status == "failed")


def _is_conclusive(run: RunResult) -> bool:
    """Return whether the run says what the agent is like: not so where a judge or a service failed."""
    if run.outcome != "answered":
        return run.outcome in AGENT_FAULT_OUTCOMES
    statuses = {metric.status for metric in run.metrics}
    return "failed" in statuses or ("passed" in statuses and "errored" not in statuses)


def _is_failing(case: CaseResult) -> bool:
    return case.quarantine is None and (case.status == "failed" or case.agent_failed)


RunSchedule: TypeAlias = Mapping[int, Sequence[int]]
"""Index of a case → numbers (1-based) of the runs that it still needs."""


@frozen
class AdaptiveRuns:
    """Says what to run next, from what was run so far; holds no state."""

    policy: StatisticalPolicy
    baseline: Baseline | None

    @property
    def is_auto(self) -> bool:
        """Whether the number of runs is found out on the way."""
        return self.policy.parameters.runs is None

    def plan_first_runs(self, cases: int) -> RunSchedule:
        """What is run in any event."""
        numbers = range(1, (self.policy.parameters.runs or 1) + 1)
        return dict.fromkeys(range(cases), numbers)

    def plan_next_runs(self, results: Callable[[], Sequence[CaseResult]]) -> RunSchedule:
        """What is run after that; empty when enough is known."""
        cases = results()
        step = self._decide_step(cases)
        is_whole = all(case.runs for case in cases)  # the average of a shard is not that of the suite
        if is_whole and isinstance(step, Decision) and _has_failing_average(step):
            return {}
        wanted = dict(self._failure_classifier.plan_follow_ups(cases)) if self._failure_classifier else {}
        if not isinstance(step, NextRuns) or (wanted and step.why == "round"):
            return wanted
        if step.why == "round" and self._has_broken_case(cases):
            return {}
        index = {build_row_name(case): at for at, case in enumerate(cases)}
        return {index[name]: numbers for name, numbers in step.runs.items()} | wanted

    def _decide_step(self, cases: Sequence[CaseResult]) -> Step | None:
        """Return what the exact tests want; None when no metric can be judged, or runs are as they are."""
        if not self.follows_up:
            return None
        found = build_score_tables(cases, self.baseline, self.policy)
        return plan_next_step(found, self.policy.parameters) if found else None

    def _has_broken_case(self, cases: Sequence[CaseResult]) -> bool:
        """Return whether a case broke and the averages need no more runs."""
        if self._failure_classifier is None or not self.policy.parameters.fail_fast:
            return False
        classified = self._failure_classifier.classify_failures(cases)
        return any(case.follow_up is not None and case.follow_up.outcome == "broke" for case in classified)

    @property
    def follows_up(self) -> bool:
        """Whether runs may be made beyond those that every case gets in any event."""
        return self.is_auto or self.policy.parameters.follow_up

    @property
    def _failure_classifier(self) -> FailureClassifier | None:
        if self.baseline is None or self.policy.case_runs == 0:
            return None
        return FailureClassifier(
            self.baseline, keep=self.policy.parameters.baseline_keep, most=self.policy.case_runs
        )

    def decide_runs(self, results: Sequence[CaseResult]) -> Decision | None:
        """What the runs say, even those of a run that ended early; None when no metric can be judged."""
        found = build_score_tables(results, self.baseline, self.policy)
        if not found:
            return None
        return (decide_available_runs if self.follows_up else decide_fixed_runs)(
            found, self.policy.parameters
        )

    def find_line_differences(
        self, results: Sequence[CaseResult], decision: Decision
    ) -> Mapping[str, MeanDifference]:
        """Return how far the average of each line moved, of the metrics that have several lines."""
        found = build_score_tables(results, self.baseline, self.policy)
        rounds = {name: metric.rounds for name, metric in decision.metrics.items()}
        return dict(compare_line_means(found, rounds, self.policy.parameters))

    def compute_excesses(self, results: Sequence[CaseResult], decision: Decision) -> Mapping[str, float]:
        """Return by how much averages are too high because the rounds stopped at them."""
        if not self.is_auto:
            return {}
        found = build_score_tables(results, self.baseline, self.policy)
        return dict(find_excesses(found, decision, self.policy.parameters))

    def list_range_notices(self, cases: Sequence[CaseResult]) -> tuple[str, ...]:
        """Return a sentence for every metric that no statistics can judge."""
        return tuple(describe_out_of_range_scores(cases, self.baseline, self.policy))

    def classify_failures(self, cases: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
        """Return the cases, each failing one with what its baseline and its runs say of that."""
        return self._failure_classifier.classify_failures(cases) if self._failure_classifier else tuple(cases)


def _has_failing_average(decision: Decision) -> bool:
    """Return whether the averages close the gate: no single case matters then."""
    return any(
        part.verdict == "fail" and part.kind != "cases"
        for metric in decision.metrics.values()
        for part in metric.checks
    )
