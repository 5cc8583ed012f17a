"""Which failing cases the baseline explains, which it does not, and what further runs of those say.

The exact test asks how far a score fell, and needs a deep baseline to judge one case. Here the question is
whether a case misses its threshold, or crashes, as no stored run of it did. Then it is run again, one run at
a time, until two runs are unlike that (a flake), or so many were like it that no luck explains them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from evalgate.frozen import frozen
from evalgate.model import THE_AGENTS_FAULT, Baseline, BaselineCase, CaseResult, FollowUp, RunResult
from evalgate.statistics.straight import History, Needs, count_runs_allowed, estimate_flaky, find_needs


class FollowUps:
    """Classifies the failing cases of one run by one baseline."""

    def __init__(self, baseline: Baseline, *, keep: int, most: int) -> None:
        """Take the newest `keep` stored runs of each case, of which `most` runs may be made now.

        With `most` 1 no case can be run again: the first failure that the baseline does not explain counts.
        """
        self._before = {(case.eval_set_id, case.eval_id): case for case in baseline.cases}
        self._keep = keep
        self._most = most

    def next_runs(self, cases: Sequence[CaseResult]) -> Mapping[int, tuple[int, ...]]:
        """Return index of a case → the number of its next run, for every case that is still open."""
        found = {}
        flaky = None
        for at, case in enumerate(cases):
            if not (self._can_run_again(case) and _is_failing(case)):
                continue
            if (stored := self._stored(case)) is None or not any(stored.misses(case)):
                continue
            flaky = self._estimate_flaky(cases) if flaky is None else flaky
            if self._outcome(stored, case, flaky) == "open":
                found[at] = (max(run.run for run in case.runs) + 1,)
        return found

    def classify(self, cases: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
        """Return the cases, each failing one with what its baseline and its runs say of that."""
        if not any(_is_failing(case) for case in cases):
            return tuple(cases)
        flaky = self._estimate_flaky(cases)
        return tuple(
            replace(case, follow_up=self._follow_up(case, flaky)) if _is_failing(case) else case
            for case in cases
        )

    def _follow_up(self, case: CaseResult, flaky: float) -> FollowUp | None:
        stored = self._stored(case)
        missed = frozenset(metric.name for metric in case.metrics if metric.status == "failed")
        if stored is None or not missed <= stored.known:
            return None
        crashed = case.agent_failed
        misses = stored.misses(case)
        failed = stored.count_failed(missed, with_crashes=crashed)
        if not (missed & stored.never_missed or (crashed and not stored.crashes)):
            return FollowUp("excused", len(misses), sum(misses), 0, stored.count, failed, crashed)
        outcome, need = self._outcome(stored, case, flaky), self._needs(stored, flaky).in_a_row
        return FollowUp(outcome, len(misses), sum(misses), need, stored.count, failed, crashed)

    def _outcome(
        self, stored: "_Stored", case: CaseResult, flaky: float
    ) -> Literal["broke", "flake", "open"]:
        return self._needs(stored, flaky).judge(stored.misses(case))

    def _needs(self, stored: "_Stored", flaky: float) -> Needs:
        return find_needs(stored.count, flaky, most=self._most)

    def _can_run_again(self, case: CaseResult) -> bool:
        """Return whether one more run of the case is of use; a protected one closes the gate as it is."""
        is_open = case.quarantine is None and not case.protected
        return is_open and 0 < len(case.runs) < count_runs_allowed(self._most)

    def _estimate_flaky(self, cases: Sequence[CaseResult]) -> float:
        gating = (case for case in cases if case.quarantine is None)
        return estimate_flaky(stored.history for case in gating if (stored := self._stored(case)))

    def _stored(self, case: CaseResult) -> "_Stored | None":
        """Return what the baseline holds of the case; None where nothing of it can be compared."""
        old = self._before.get((case.eval_set_id, case.eval_id))
        if old is None or old.fingerprint != case.fingerprint:
            return None
        return _stored_of(case, old, self._keep)


@frozen
class _Stored:
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
    def history(self) -> History:
        return History(self.count, self.count_failed(self.known, with_crashes=True))

    def count_failed(self, metrics: frozenset[str], *, with_crashes: bool) -> int:
        """Count the stored runs that missed one of the metrics."""
        return sum((crashed and with_crashes) or bool(missed & metrics) for crashed, missed in self.runs)

    def misses(self, case: CaseResult) -> list[bool]:
        """Return, of each run of the case that tells, whether it failed as no stored run did."""
        new = self.never_missed
        return [
            not self.crashes if run.outcome in THE_AGENTS_FAULT else not new.isdisjoint(_missed(run))
            for run in case.runs
            if _tells(run)
        ]


def _stored_of(case: CaseResult, old: BaselineCase, keep: int) -> _Stored | None:
    thresholds = {
        metric.name: metric.threshold
        for metric in case.metrics
        if old.metric_fingerprints.get(metric.name) == metric.fingerprint
    }
    runs = tuple(
        (run.outcome in THE_AGENTS_FAULT, frozenset(_below(run.scores, thresholds)))
        for run in old.runs[-keep:]
        if run.outcome in THE_AGENTS_FAULT or any(run.scores.get(name) is not None for name in thresholds)
    )
    return _Stored(runs, frozenset(thresholds)) if runs else None


def _below(scores: Mapping[str, float | None], thresholds: Mapping[str, float]) -> Iterator[str]:
    for name, threshold in thresholds.items():
        score = scores.get(name)
        if score is not None and score < threshold:
            yield name


def _missed(run: RunResult) -> Iterator[str]:
    return (metric.name for metric in run.metrics if metric.status == "failed")


def _tells(run: RunResult) -> bool:
    """Return whether the run says what the agent is like: not so where a judge or a service failed."""
    if run.outcome != "answered":
        return run.outcome in THE_AGENTS_FAULT
    statuses = {metric.status for metric in run.metrics}
    return "failed" in statuses or ("passed" in statuses and "errored" not in statuses)


def _is_failing(case: CaseResult) -> bool:
    return case.quarantine is None and (case.status == "failed" or case.agent_failed)
