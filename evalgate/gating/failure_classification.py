"""Classify failing cases as broken, flake, excused or still open, by their stored runs and their runs so far.

A case gets follow-up runs if it missed a threshold or crashed, and none of its stored runs did so. The runs
are made one at a time. If one or two of them pass, the case is a flake. If the case fails more often than
luck explains, it is broken. A case is excused, without follow-up runs, if its stored runs failed in the same
way. This module says which cases need a follow-up run, and makes none.

Follow-up runs need fewer stored runs than the exact test, a permutation test of how far a case's score fell.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from evalgate.core.frozen import frozen
from evalgate.core.types import (
    AGENT_FAULT_OUTCOMES,
    Baseline,
    BaselineCase,
    CaseMetric,
    CaseResult,
    FollowUp,
    RunResult,
)
from evalgate.gating.statistical_policy import StatisticalPolicy
from evalgate.statistics.case_regression import (
    BreakageCriteria,
    StoredOutcomes,
    estimate_flaky,
    find_breakage_criteria,
    get_max_runs,
)


def classify_failures(
    cases: Sequence[CaseResult], baseline: Baseline | None, statistics: StatisticalPolicy
) -> tuple[CaseResult, ...]:
    """Return the cases, with a `follow_up` for each failing case that can be compared with the baseline.

    A failing case cannot be compared if the baseline has no runs of the unchanged case. It cannot be compared
    either if it missed the threshold of a metric that is new or changed. Without a baseline or with
    `max_failed_cases`, the cases are returned unchanged.
    """
    classifier = build_classifier(baseline, statistics)
    return classifier.classify_cases(cases) if classifier else tuple(cases)


def build_classifier(baseline: Baseline | None, statistics: StatisticalPolicy) -> "FailureClassifier | None":
    """Build the classifier of failing cases; return None without a baseline or with `max_failed_cases`."""
    if baseline is None or statistics.case_runs == 0:
        return None
    return FailureClassifier(baseline, keep=statistics.parameters.baseline_keep, most=statistics.case_runs)


class FailureClassifier:
    """Classifier of failing cases, by their stored runs, as broken, flake, excused or still open.

    A case is excused if stored runs failed in the same way. It is open if more runs are needed to decide.
    """

    def __init__(self, baseline: Baseline, *, keep: int, most: int) -> None:
        """Use the newest `keep` stored runs of each case in `baseline`.

        `most` is the largest number of runs that a case gets as long as none of its runs passes; after a
        pass the limit is twice as high. If `most` is 1, no case can be run again. Then a case is broken after
        one failure of a kind that no stored run has.
        """
        self._before = baseline.index_cases()
        self._keep = keep
        self._most = most

    def plan_follow_ups(self, cases: Sequence[CaseResult]) -> Mapping[int, tuple[int, ...]]:
        """Return the next run number of each failing case that needs another run to be decided.

        Keys are indexes in `cases`. Each value is a tuple that holds only this number.
        """
        found = {}
        flaky: _FlakyEstimate | None = None
        for at, case in enumerate(cases):
            # Follow-up runs would change nothing: a quarantined case does not gate, and a protected case
            # closes the gate by any failure.
            is_open = case.gates and not case.protected
            can_run_again = is_open and 0 < len(case.runs) < get_max_runs(self._most)
            if not (can_run_again and _is_failing(case)):
                continue
            stored = self._find_stored_runs(case)
            if stored is None or not stored.can_explain(case) or not any(stored.flag_new_failures(case)):
                continue
            # Computed at the first open case: most runs have none, and the estimate reads every stored run.
            flaky = self._estimate_flaky(cases) if flaky is None else flaky
            # One run at a time: if the next one passes, no further run may be needed.
            criteria = self._find_criteria(stored, case, flaky)
            if criteria.classify_runs(stored.flag_new_failures(case)) == "open":
                found[at] = (max(run.run for run in case.runs) + 1,)
        return found

    def classify_cases(self, cases: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
        """Return the cases, with a `follow_up` for each failing case that can be compared.

        A failing case cannot be compared if the baseline has no runs of the unchanged case. It cannot be
        compared either if it missed the threshold of a metric that is new or changed.
        """
        if not any(_is_failing(case) for case in cases):
            return tuple(cases)
        flaky = self._estimate_flaky(cases)
        return tuple(
            replace(case, follow_up=self._classify_case(case, flaky)) if _is_failing(case) else case
            for case in cases
        )

    def count_stored_runs(self, case: CaseResult) -> int:
        """Count the stored runs that the case can be compared with; 0 if the case is new or changed."""
        stored = self._find_stored_runs(case)
        return len(stored.list_comparable(_find_missed_metrics(case))) if stored else 0

    def has_new_failure(self, case: CaseResult, run: RunResult) -> bool | None:
        """Return True if `run` failed in a way in which no stored run of the case failed, else False.

        Return None if the baseline has no runs of the unchanged case. Also return None if the run is not
        conclusive, for example because a judge failed.
        """
        stored = self._find_stored_runs(case)
        return next(iter(stored.flag_new_failures(replace(case, runs=(run,)))), None) if stored else None

    def _classify_case(self, case: CaseResult, flaky: "_FlakyEstimate") -> FollowUp | None:
        stored = self._find_stored_runs(case)
        if stored is None or not stored.can_explain(case):
            return None
        missed, crashed = _find_missed_metrics(case), case.agent_failed
        new_failures = stored.flag_new_failures(case)
        runs = stored.list_comparable(missed)
        failed = _count_failed(runs, missed, with_crashes=crashed or stored.is_only_crashes)
        found = FollowUp(
            outcome="excused",
            runs=len(new_failures),
            failed=sum(new_failures),
            need=0,
            baseline_runs=len(runs),
            baseline_failed=failed,
            crashed=crashed,
            baseline_otherwise=_count_failed(runs, stored.known, with_crashes=True) - failed,
            baseline_unscored=stored.kept - len(runs),
        )
        if not (missed & stored.never_missed or (crashed and not stored.crashes)):
            return found
        criteria = self._find_criteria(stored, case, flaky)
        return replace(found, outcome=criteria.classify_runs(new_failures), need=criteria.failures_in_a_row)

    def _find_criteria(
        self, stored: "_StoredRuns", case: CaseResult, flaky: "_FlakyEstimate"
    ) -> BreakageCriteria:
        # A case that failed before in another way is known to be flaky. A failure in a new way is then judged
        # by the number of flaky ways to fail in the suite.
        alike = flaky.ways if stored.history.failed else flaky.cases
        runs = len(stored.list_comparable(_find_missed_metrics(case)))
        return find_breakage_criteria(runs, alike, most=self._most)

    def _estimate_flaky(self, cases: Sequence[CaseResult]) -> "_FlakyEstimate":
        # Quarantined cases are known to be flaky. Counted here, they would make all other cases need more
        # failures.
        gating = (case for case in cases if case.gates)
        stored = [found for case in gating if (found := self._find_stored_runs(case))]
        return _FlakyEstimate(
            estimate_flaky(each.history for each in stored),
            estimate_flaky(way for each in stored if each.history.failed for way in each.list_ways()),
        )

    def _find_stored_runs(self, case: CaseResult) -> "_StoredRuns | None":
        """Return the stored runs of the case; None if the case is new or changed, or no run is comparable."""
        old = self._before.get(case.key)
        if old is None or old.fingerprint != case.fingerprint:
            return None
        return _build_stored_runs(case, old, self._keep)


@frozen
class _FlakyEstimate:
    """Estimated numbers of flaky cases, and of ways in which flaky cases fail."""

    cases: float
    """Number of flaky cases. The larger it is, the more failures are needed before a case without failed
    stored runs is called broken."""
    ways: float
    """Number of flaky ways to fail, over all cases with failed stored runs. A way is a crash of a case, or a
    missed threshold of one of its metrics.

    The larger this number is, the more failures are needed before a case with failed stored runs is called
    broken because it now fails in a new way. The new way may be luck: for example, a case that hardly ever
    passes may so far have missed only three of its four metrics.
    """


@frozen
class _StoredRun:
    """One stored run of a case, judged by today's thresholds."""

    crashed: bool
    """True if the agent crashed or timed out."""
    scored: frozenset[str]
    """Names of the metrics with a score. Only unchanged gating metrics count."""
    missed: frozenset[str]
    """Names of the metrics in `scored` with a missed threshold."""


@frozen
class _StoredRuns:
    """Stored runs of one case, for the comparison with its failures now."""

    runs: tuple[_StoredRun, ...]
    """Runs that crashed or have a score; other runs are not compared."""
    kept: int
    """Number of the newest stored runs that were considered, including runs without a score."""
    known: frozenset[str]
    """Unchanged gating metrics that have a score in some run. If every run crashed, all unchanged gating
    metrics."""

    @property
    def crashes(self) -> int:
        return sum(run.crashed for run in self.runs)

    @property
    def is_only_crashes(self) -> bool:
        """Return True if every run crashed, which counts as a failure of every metric."""
        return self.crashes == len(self.runs)

    @property
    def never_missed(self) -> frozenset[str]:
        """Return the metrics that have a score in some run, and a missed threshold in no run."""
        scored = frozenset[str]().union(*(run.scored for run in self.runs))
        return scored.difference(*(run.missed for run in self.runs))

    def can_explain(self, case: CaseResult) -> bool:
        """Return True if every metric that the case missed is in `known`, the metrics of the stored runs."""
        # A metric that is new, changed or never scored has no history, so no stored run can excuse a failure.
        return _find_missed_metrics(case) <= self.known

    @property
    def history(self) -> StoredOutcomes:
        """Return the number of runs, and the number of runs that crashed or missed a threshold."""
        failed = _count_failed(self.runs, self.known, with_crashes=True)
        return StoredOutcomes(len(self.runs), failed)

    def list_ways(self) -> list[StoredOutcomes]:
        """Return (stored runs, failed runs) for each way to fail: a crash, or a miss of a known metric."""
        ways = [StoredOutcomes(len(self.runs), self.crashes)]
        for name in sorted(self.known):
            runs = self._list_runs_of(name)
            ways.append(StoredOutcomes(len(runs), _count_failed(runs, frozenset({name}), with_crashes=False)))
        return ways

    def list_comparable(self, missed: frozenset[str]) -> tuple[_StoredRun, ...]:
        """Return the stored runs to compare with a case that missed the metrics `missed`.

        A missed metric is new if no stored run missed it. If no metric is new, return all stored runs. If one
        metric is new, return the stored runs with a score of this metric: only they show how rare the failure
        is. If several metrics are new, the one with the fewest scores counts.
        """
        new = sorted(missed & self.never_missed)
        return min((self._list_runs_of(name) for name in new), key=len, default=self.runs)

    def _list_runs_of(self, metric: str) -> tuple[_StoredRun, ...]:
        return tuple(run for run in self.runs if metric in run.scored)

    def flag_new_failures(self, case: CaseResult) -> list[bool]:
        """Return a flag for each conclusive run: True if it failed in a way in which no stored run failed.

        Other runs have no flag, for example runs in which a judge or a service failed.
        """
        new = self.never_missed
        return [
            not self.crashes
            if run.outcome in AGENT_FAULT_OUTCOMES
            else any(each.gating_status == "failed" and each.name in new for each in run.metrics)
            for run in case.runs
            if _is_conclusive(run)
        ]


def _build_stored_runs(case: CaseResult, old: BaselineCase, keep: int) -> _StoredRuns | None:
    thresholds = {
        metric.name: metric
        for metric in case.metrics
        if metric.gates and old.metric_fingerprints.get(metric.name) == metric.fingerprint
    }
    kept = old.runs[-keep:]
    runs = tuple(
        _StoredRun(
            run.outcome in AGENT_FAULT_OUTCOMES,
            frozenset(name for name in thresholds if run.scores.get(name) is not None),
            frozenset(_find_missed_thresholds(run.scores, thresholds)),
        )
        for run in kept
        if run.outcome in AGENT_FAULT_OUTCOMES or any(run.scores.get(name) is not None for name in thresholds)
    )
    if not runs:
        return None
    is_only_crashes = all(run.crashed for run in runs)
    known = (
        frozenset(thresholds) if is_only_crashes else frozenset[str]().union(*(run.scored for run in runs))
    )
    return _StoredRuns(runs, len(kept), known)


def _count_failed(runs: Iterable[_StoredRun], metrics: frozenset[str], *, with_crashes: bool) -> int:
    """Count the runs that missed one of `metrics`. With `with_crashes`, also count runs that crashed."""
    return sum((run.crashed and with_crashes) or bool(run.missed & metrics) for run in runs)


def _find_missed_metrics(case: CaseResult) -> frozenset[str]:
    return frozenset(metric.name for metric in case.metrics if metric.gating_status == "failed")


def _find_missed_thresholds(
    scores: Mapping[str, float | None], metrics: Mapping[str, CaseMetric]
) -> Iterator[str]:
    for name, metric in metrics.items():
        score = scores.get(name)
        if score is not None and not metric.range.is_met(score, metric.threshold):
            yield name


def _is_conclusive(run: RunResult) -> bool:
    """Return True if the run is conclusive: the agent crashed or timed out, or a gating metric judged it.

    A run in which a gating metric errored is conclusive only if another gating metric failed.
    """
    if run.outcome != "answered":
        return run.outcome in AGENT_FAULT_OUTCOMES
    statuses = {metric.gating_status for metric in run.metrics}
    return "failed" in statuses or ("passed" in statuses and "errored" not in statuses)


def _is_failing(case: CaseResult) -> bool:
    return case.gates and (case.status == "failed" or case.agent_failed)
