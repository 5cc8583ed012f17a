"""Find the suspects that need control runs, and prepare their fresh runs for the statistics.

Suspects are the cases and averages that may close the gate. The control is the base commit's agent. On the
suspects' cases, new runs of it are made in turn with further runs of the changed agent (the head).
`statistics/control_test.py` compares these runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from evalgate.core.frozen import frozen
from evalgate.core.types import (
    AGENT_FAULT_OUTCOMES,
    Baseline,
    BaselineCase,
    CaseKey,
    CaseMetric,
    CaseResult,
    RunResult,
)
from evalgate.gating.comparison import ScoredRuns
from evalgate.gating.failure_classification import FailureClassifier, build_classifier
from evalgate.gating.score_tables import ScoreTables, build_row_name, build_score_tables, list_baseline_scores
from evalgate.gating.statistical_policy import StatisticalPolicy
from evalgate.statistics.case_regression import StoredOutcomes
from evalgate.statistics.control_test import (
    AverageSuspect,
    CaseSuspect,
    FreshScores,
)
from evalgate.statistics.parameters import EPSILON
from evalgate.statistics.score_pairs import compute_score_mean, pair_cases


@frozen
class FreshRuns:
    """One case with the runs made for the control comparison, by side.

    `head` is the agent of the change, `control` the agent of the base commit.
    """

    head: CaseResult
    control: CaseResult


def split_fresh_runs(case: CaseResult, fresh: CaseResult) -> FreshRuns:
    """Split the fresh runs of a case: odd run numbers belong to the head, even run numbers to the control.

    A crash of the control counts only if the head crashed in the same way, in `fresh` or in the runs of
    `case`. Any other crash of the control becomes `faulted`, because it is no sign of a drift. For example,
    the control may lack a file that only the head's folder has.
    """
    head = tuple(run for run in fresh.runs if run.run % 2)
    known = {_describe_crash(run) for run in (*case.runs, *head)}
    control = tuple(
        run
        if run.outcome not in AGENT_FAULT_OUTCOMES or _describe_crash(run) in known
        else replace(run, outcome="faulted")
        for run in fresh.runs
        if not run.run % 2
    )
    return FreshRuns(replace(fresh, runs=head), replace(fresh, runs=control))


def _describe_crash(run: RunResult) -> str:
    """Return the kind of a crash and the name of its exception; "" for a run that did not crash."""
    if run.outcome not in AGENT_FAULT_OUTCOMES:
        return ""
    failure = run.failure
    return f"{failure.kind} {failure.message.partition(':')[0]}" if failure else run.outcome


@frozen
class ControlSuspects:
    """Cases and averages that may close the gate by the comparison with the baseline."""

    cases: tuple[CaseResult, ...]
    """All cases of the run, with their follow-ups, in file order."""
    broken: frozenset[CaseKey]
    """Cases that close the gate by themselves, or have too few runs to decide whether they do."""
    averages: Mapping[str, Mapping[CaseKey, float]]
    """Drops of single cases, for each metric with a mean that may have dropped too far.

    The key is the name of the metric's score table. Each value maps the compared cases to their drops, as
    shares of the metric's range."""
    baseline: Baseline
    statistics: StatisticalPolicy

    @property
    def keys(self) -> frozenset[CaseKey]:
        """Return the keys of the cases that need control runs: `broken`, and the cases of `averages`."""
        return self.broken.union(*self.averages.values())

    def build_inputs(
        self, fresh: Mapping[CaseKey, FreshRuns]
    ) -> tuple[list[CaseSuspect], list[AverageSuspect]]:
        """Return (case suspects, average suspects) with their fresh runs, as input of the statistics.

        A case that is not in `fresh` has no fresh runs yet.
        """
        cases = [case for case in self.cases if case.key in self.broken]
        suspects = []
        for case in cases:
            outcomes = SuspectOutcomes(case, self.baseline, self.statistics)
            head, control = (
                (outcomes.list_failures(runs.head), outcomes.list_failures(runs.control))
                if (runs := fresh.get(case.key))
                else ((), ())
            )
            suspects.append(CaseSuspect(build_row_name(case), outcomes.stored, head, control))
        return suspects, [*self._build_averages(fresh)]

    def _build_averages(self, fresh: Mapping[CaseKey, FreshRuns]) -> Iterator[AverageSuspect]:
        if not self.averages:
            return
        tables = build_score_tables(self.cases, self.baseline, self.statistics)
        chosen = [case for case in self.cases if case.key in self.keys]
        empty = [replace(case, runs=()) for case in chosen]
        head, control = (
            build_score_tables(
                [getattr(fresh[case.key], side) if case.key in fresh else case for case in empty],
                self.baseline,
                self.statistics,
            )
            for side in ("head", "control")
        )
        rows = {case.key: build_row_name(case) for case in chosen}
        for name, drops in self.averages.items():
            table, keep = tables[name], self.statistics.parameters.baseline_keep
            scores = {
                rows[key]: FreshScores(
                    tuple((table.cases[rows[key]].baseline or ())[-keep:]),
                    _find_scores(head, name, rows[key]),
                    _find_scores(control, name, rows[key]),
                    table.cases[rows[key]].weight,
                )
                for key in drops
            }
            total = sum(pair.weight for pair in pair_cases(table.cases, keep=keep).pairs)
            by_row = {rows[key]: drop for key, drop in drops.items()}
            yield AverageSuspect(name, table.rule.max_drop or 0.0, scores, total, by_row)


def _find_scores(tables: ScoreTables, name: str, row: str) -> tuple[float | None, ...]:
    table = tables.get(name)
    found = table.cases.get(row) if table else None
    return tuple(found.candidate or ()) if found else ()


def find_suspects(
    scored: ScoredRuns,
    cases: Sequence[CaseResult],
    baseline: Baseline | None,
    mode: Literal["suspects", "all"],
) -> ControlSuspects | None:
    """Return the cases and averages that need control runs; None if none need them.

    Args:
        scored: the runs with the decision of the statistics.
        cases: the cases of `scored`, with their follow-ups and comparisons.
        baseline: the stored runs; None: the result is None.
        mode: `suspects`: averages that fell by half of their limit or more are suspects. `all`: all averages
            with a limit are suspects, if they were compared with the baseline.
    """
    statistics, decision = scored.statistics, scored.decision
    if statistics is None or baseline is None:
        return None
    broken = frozenset(case.key for case in cases if _is_suspect(case))
    averages: dict[str, Mapping[CaseKey, float]] = {}
    tables = build_score_tables(cases, baseline, statistics) if decision else {}
    keys = {build_row_name(case): case.key for case in cases}
    for name, found in decision.metrics.items() if decision else ():
        limit, change = found.rule.max_drop, found.change
        if limit is None or change is None or found.rule.is_figure or name not in tables:
            continue
        # Half of the limit, because a run that ends at the first broken case lacks rounds of its averages.
        if mode == "all" or change.drop >= limit / 2 - EPSILON:
            keep, rounds = statistics.parameters.baseline_keep, found.rounds
            pairs = pair_cases(tables[name].cases, keep=keep, first=rounds, runs=rounds).pairs
            averages[name] = {
                keys[pair.case]: compute_score_mean(pair.baseline) - compute_score_mean(pair.candidate)
                for pair in pairs
            }
    if not broken and not averages:
        return None
    return ControlSuspects(tuple(cases), broken, averages, baseline, statistics)


def _is_suspect(case: CaseResult) -> bool:
    """Return True if the case gates, and failed in a new way or has a broken metric.

    Return False for a protected case: it must never fail, so control runs could not excuse it.
    """
    return case.gates and not case.protected and (_has_new_failures(case) or bool(_list_broken_metrics(case)))


def _has_new_failures(case: CaseResult) -> bool:
    return case.follow_up is not None and case.follow_up.outcome in ("broke", "open")


def _list_broken_metrics(case: CaseResult) -> list[CaseMetric]:
    return [
        metric
        for metric in case.metrics
        if metric.gates and metric.standing is not None and metric.standing.status == "broken"
    ]


class SuspectOutcomes:
    """Classifier of the runs of one suspected case, by the ways of failing that made the case a suspect.

    A suspected way is a crash or a missed threshold that no stored run had, or a fall of a score that the
    exact test calls a break.
    """

    def __init__(self, case: CaseResult, baseline: Baseline, statistics: StatisticalPolicy) -> None:
        self._case = case
        self._classifier: FailureClassifier | None = None
        if _has_new_failures(case):
            self._classifier = build_classifier(baseline, statistics)
        self._limits: dict[str, float] = {}
        """Maps a metric to the highest score that counts as a failure, as a share of the metric's range."""
        old = baseline.index_cases().get(case.key)
        self._stored = self._list_stored_failures(old, statistics) if old else []

    @property
    def stored(self) -> StoredOutcomes:
        """Return the number of stored runs, and the number of them that failed in a suspected way.

        A way of failing is suspected if it made the case a suspect. An example is a score so low that the
        exact test would call it a break.
        """
        runs = self._classifier.count_stored_runs(self._case) if self._classifier else 0
        return StoredOutcomes(max(runs, len(self._stored)), sum(self._stored))

    def count_stored_passes(self) -> tuple[int, int]:
        """Return (passed, all) counts of the stored runs.

        If the case has a `follow_up`, the counts come from it, and every failed stored run counts as failed.
        Otherwise, a stored run counts as failed only if its score is so low that the exact test would call it
        a break.
        """
        found = self._case.follow_up
        if found is None:  # the case is suspected by its score alone
            return self.stored.runs - self.stored.failed, self.stored.runs
        return found.baseline_runs - found.baseline_failed - found.baseline_otherwise, found.baseline_runs

    def count_other_failures(self, fresh: CaseResult) -> int:
        """Count the fresh runs that failed, but in none of the ways that made the case a suspect."""
        return sum(
            self.is_failure(fresh, run) is False
            and (
                run.outcome in AGENT_FAULT_OUTCOMES
                or any(each.gating_status == "failed" for each in run.metrics)
            )
            for run in fresh.runs
        )

    def list_failures(self, fresh: CaseResult) -> tuple[bool | None, ...]:
        """Return for each fresh run, in order, if it failed in a suspected way; None if this is not known."""
        return tuple(self.is_failure(fresh, run) for run in fresh.runs)

    def is_failure(self, fresh: CaseResult, run: RunResult) -> bool | None:
        """Return True if the run failed in a way that made the case a suspect, else False.

        Return None if the run does not show it, for example because a judge failed. `run` belongs to `fresh`,
        the case with the runs of one side of the control comparison.
        """
        found = [self._classifier.has_new_failure(fresh, run)] if self._classifier else []
        for metric in fresh.metrics:
            if (limit := self._limits.get(metric.name)) is None:
                continue
            score = next((each.score for each in run.metrics if each.name == metric.name), None)
            crashed = run.outcome in AGENT_FAULT_OUTCOMES
            share = 0.0 if crashed else None if score is None else metric.range.to_share(score)
            found.append(None if share is None else share <= limit + EPSILON)
        return True if True in found else False if False in found else None

    def _list_stored_failures(self, old: BaselineCase, statistics: StatisticalPolicy) -> list[bool]:
        failures: dict[int, bool] = {}
        for metric in _list_broken_metrics(self._case):
            keep = statistics.parameters.baseline_keep
            scores = tuple(list_baseline_scores(old, metric.name, metric.range))[-keep:]
            known = [score for score in scores if score is not None]
            if not known:
                continue
            limit = sum(known) / len(known) - statistics.parameters.case_drop
            self._limits[metric.name] = limit
            for at, score in enumerate(known):
                failures[at] = failures.get(at, False) or score <= limit + EPSILON
        return [*failures.values()]
