"""Plan runs: a fixed number of every case, as many as the comparison needs, or repeats of failures.

The exact test measures how far a score fell, and needs a deep baseline to judge one case. Repeats answer
another question: whether a case fails as none of its stored runs did, by a missed threshold or a crash.
Such a case is run again, one run at a time. It is a flake after two runs without that failure, and broken
after so many with it that luck does not explain them.
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
    """Classifier of the failing cases of one run, by one baseline."""

    def __init__(self, baseline: Baseline, *, keep: int, most: int) -> None:
        """Take the newest `keep` stored runs of each case, of which `most` runs may be made now.

        With `most` 1 no case can be run again: the first failure that the baseline does not explain counts.
        """
        self._before = baseline.index_cases()
        self._keep = keep
        self._most = most

    def plan_follow_ups(self, cases: Sequence[CaseResult]) -> Mapping[int, tuple[int, ...]]:
        """Return the next run number of every case that is still open, by the index of the case."""
        found = {}
        flaky: _FlakyEstimate | None = None
        for at, case in enumerate(cases):
            # A quarantined case gates nothing, and a protected one closes the gate as it is.
            is_open = case.quarantine is None and not case.protected
            can_run_again = is_open and 0 < len(case.runs) < count_runs_allowed(self._most)
            if not (can_run_again and _is_failing(case)):
                continue
            if (stored := self._find_stored_runs(case)) is None or not any(stored.find_misses(case)):
                continue
            flaky = self._estimate_flaky(cases) if flaky is None else flaky
            if self._decide_outcome(stored, case, flaky) == "open":
                found[at] = (max(run.run for run in case.runs) + 1,)
        return found

    def classify_failures(self, cases: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
        """Return the cases; each failing one has a `follow_up` if its baseline can be compared."""
        if not any(_is_failing(case) for case in cases):
            return tuple(cases)
        flaky = self._estimate_flaky(cases)
        return tuple(
            replace(case, follow_up=self._build_follow_up(case, flaky)) if _is_failing(case) else case
            for case in cases
        )

    def _build_follow_up(self, case: CaseResult, flaky: "_FlakyEstimate") -> FollowUp | None:
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
        self, stored: "_StoredRuns", case: CaseResult, flaky: "_FlakyEstimate"
    ) -> Literal["broke", "flake", "open"]:
        return self._find_criteria(stored, flaky).classify_runs(stored.find_misses(case))

    def _find_criteria(self, stored: "_StoredRuns", flaky: "_FlakyEstimate") -> BreakageCriteria:
        alike = flaky.ways if stored.history.failed else flaky.cases
        return find_breakage_criteria(stored.count, alike, most=self._most)

    def _estimate_flaky(self, cases: Sequence[CaseResult]) -> "_FlakyEstimate":
        gating = (case for case in cases if case.quarantine is None)
        stored = [found for case in gating if (found := self._find_stored_runs(case))]
        return _FlakyEstimate(
            estimate_flaky(each.history for each in stored),
            estimate_flaky(way for each in stored if each.history.failed for way in each.list_ways()),
        )

    def _find_stored_runs(self, case: CaseResult) -> "_StoredRuns | None":
        """Return the stored runs of the case, or None if none of them can be compared."""
        old = self._before.get(case.key)
        if old is None or old.fingerprint != case.fingerprint:
            return None
        return _build_stored_runs(case, old, self._keep)


@frozen
class _FlakyEstimate:
    """Estimated numbers of what may fail for the first time by luck alone."""

    cases: float
    """Flaky cases; used for a case that never failed."""
    ways: float
    """Flaky pairs of a case that failed before and a metric or a crash; used for a case that failed before.

    With four metrics, a case that hardly ever passes may have missed only three of them in its stored runs.
    """


@frozen
class _StoredRuns:
    """Stored runs of one case, judged by today's thresholds."""

    runs: tuple[tuple[bool, frozenset[str]], ...]
    """For each run: whether it crashed or timed out, and the metrics with a missed threshold."""
    known: frozenset[str]
    """Metrics that have not changed since the baseline."""

    @property
    def count(self) -> int:
        return len(self.runs)

    @property
    def crashes(self) -> int:
        return sum(crashed for crashed, _ in self.runs)

    @property
    def never_missed(self) -> frozenset[str]:
        """Return the known metrics with a threshold that every stored run met."""
        return self.known.difference(*(missed for _, missed in self.runs))

    @property
    def history(self) -> StoredOutcomes:
        return StoredOutcomes(self.count, self.count_failed(self.known, with_crashes=True))

    def list_ways(self) -> list[StoredOutcomes]:
        """Return the outcomes of each metric, and of crashes, on its own."""
        missed = [self.count_failed(frozenset({name}), with_crashes=False) for name in sorted(self.known)]
        return [StoredOutcomes(self.count, failed) for failed in (self.crashes, *missed)]

    def count_failed(self, metrics: frozenset[str], *, with_crashes: bool) -> int:
        """Count the stored runs that missed one of the metrics, or crashed if `with_crashes`."""
        return sum((crashed and with_crashes) or bool(missed & metrics) for crashed, missed in self.runs)

    def find_misses(self, case: CaseResult) -> list[bool]:
        """Return for each conclusive run of the case whether it failed as no stored run did."""
        new = self.never_missed
        return [
            not self.crashes
            if run.outcome in AGENT_FAULT_OUTCOMES
            else any(metric.status == "failed" and metric.name in new for metric in run.metrics)
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


def _is_conclusive(run: RunResult) -> bool:
    """Return True if the run reflects the agent, and not a failure of a judge or a service."""
    if run.outcome != "answered":
        return run.outcome in AGENT_FAULT_OUTCOMES
    statuses = {metric.status for metric in run.metrics}
    return "failed" in statuses or ("passed" in statuses and "errored" not in statuses)


def _is_failing(case: CaseResult) -> bool:
    return case.quarantine is None and (case.status == "failed" or case.agent_failed)


RunSchedule: TypeAlias = Mapping[int, Sequence[int]]
"""Index of a case to the numbers (1-based) of the runs that it still needs."""


@frozen
class AdaptiveRuns:
    """Sampling strategy that plans the next runs from the results so far; it holds no state."""

    policy: StatisticalPolicy
    baseline: Baseline | None

    @property
    def is_auto(self) -> bool:
        """Return True if the number of runs depends on the results."""
        return self.policy.parameters.runs is None

    def plan_first_runs(self, cases: int) -> RunSchedule:
        """Return the runs that every case gets in any event."""
        numbers = range(1, (self.policy.parameters.runs or 1) + 1)
        return dict.fromkeys(range(cases), numbers)

    def plan_next_runs(self, results: Callable[[], Sequence[CaseResult]]) -> RunSchedule:
        """Return the runs to make after the first ones, or an empty schedule if enough is known."""
        cases = results()
        step = self._decide_step(cases)
        # A shard has cases without runs: its average is not that of the suite.
        is_whole = all(case.runs for case in cases)
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
        """Return the runs that the exact tests need, or their decision.

        Return None if no metric can be judged or if the number of runs is fixed.
        """
        if not self.follows_up:
            return None
        found = build_score_tables(cases, self.baseline, self.policy)
        return plan_next_step(found, self.policy.parameters) if found else None

    def _has_broken_case(self, cases: Sequence[CaseResult]) -> bool:
        """Return True if a case broke and the averages need no more runs."""
        if self._failure_classifier is None or not self.policy.parameters.fail_fast:
            return False
        classified = self._failure_classifier.classify_failures(cases)
        return any(case.follow_up is not None and case.follow_up.outcome == "broke" for case in classified)

    @property
    def follows_up(self) -> bool:
        """Return True if runs may be made in addition to those that every case gets in any event."""
        return self.is_auto or self.policy.parameters.follow_up

    @property
    def _failure_classifier(self) -> FailureClassifier | None:
        if self.baseline is None or self.policy.case_runs == 0:
            return None
        return FailureClassifier(
            self.baseline, keep=self.policy.parameters.baseline_keep, most=self.policy.case_runs
        )

    def decide_runs(self, results: Sequence[CaseResult]) -> Decision | None:
        """Return the decision on the runs, even if they ended early, or None if no metric can be judged."""
        found = build_score_tables(results, self.baseline, self.policy)
        if not found:
            return None
        return (decide_available_runs if self.follows_up else decide_fixed_runs)(
            found, self.policy.parameters
        )

    def find_line_differences(
        self, results: Sequence[CaseResult], decision: Decision
    ) -> Mapping[str, MeanDifference]:
        """Return how far the average of each line moved, for metrics that have several lines."""
        found = build_score_tables(results, self.baseline, self.policy)
        rounds = {name: metric.rounds for name, metric in decision.metrics.items()}
        return dict(compare_line_means(found, rounds, self.policy.parameters))

    def compute_excesses(self, results: Sequence[CaseResult], decision: Decision) -> Mapping[str, float]:
        """Return for each table by how much its average is too high because the rounds stopped at it."""
        if not self.is_auto:
            return {}
        found = build_score_tables(results, self.baseline, self.policy)
        return dict(find_excesses(found, decision, self.policy.parameters))

    def list_range_notices(self, cases: Sequence[CaseResult]) -> tuple[str, ...]:
        """Return a sentence for every metric that the statistics cannot judge."""
        return tuple(describe_out_of_range_scores(cases, self.baseline, self.policy))

    def classify_failures(self, cases: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
        """Return the cases; each failing one has a `follow_up` if its baseline can be compared."""
        return self._failure_classifier.classify_failures(cases) if self._failure_classifier else tuple(cases)


def _has_failing_average(decision: Decision) -> bool:
    """Return True if the averages close the gate: no single case matters then."""
    return any(
        part.verdict == "fail" and part.kind != "cases"
        for metric in decision.metrics.values()
        for part in metric.checks
    )
