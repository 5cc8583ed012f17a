"""Score each run that finishes, write it to the journal, and collect the results of all cases."""

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Protocol

from evalgate.core.frozen import frozen
from evalgate.core.protocols import ProgressListener
from evalgate.core.types import CaseResult, CaseRun, EvalCase, ModelUsage, RunResult
from evalgate.llm.budget_guard import BudgetGuard
from evalgate.llm.usage import MeteredUsage, RunUsage
from evalgate.metrics.scoring import score_case, score_run
from evalgate.runner.checkpoint.checkpoint import is_final_run
from evalgate.runner.plan import Plan
from evalgate.runner.run_strategy import RunSchedule, RunStrategy
from evalgate.runner.scheduler import RunRequest
from evalgate.runner.suites import Suite

if TYPE_CHECKING:
    from evalgate.llm.judge_calibration import CalibrationVerdict

_KEPT_AT_ONCE = 64
"""Number of finished runs that are written to the journal at once, without waiting for the event loop."""


class CaseIndex:
    """All cases of several suites, numbered from 0: first the cases of the first suite, and so on."""

    def __init__(self, suites: Sequence[Suite]) -> None:
        self._suites = suites
        self._starts = list(accumulate((len(suite.eval_set.cases) for suite in suites), initial=0))

    def __len__(self) -> int:
        return self._starts[-1]

    def iter_cases(self) -> Iterator[tuple[Suite, EvalCase]]:
        """Return an iterator over the cases in the order of their indices, each with its suite."""
        return ((suite, case) for suite in self._suites for case in suite.eval_set.cases)

    def get_suite(self, index: int) -> Suite:
        """Return the suite that contains the case with this index."""
        return self._suites[bisect_right(self._starts, index) - 1]

    def get_case(self, index: int) -> EvalCase:
        """Return the case with this index.

        A case of a large file is loaded from the file at each call. Calls in ascending order are fastest.
        """
        at = bisect_right(self._starts, index) - 1
        return self._suites[at].eval_set.cases[index - self._starts[at]]


class RunJournal(Protocol):
    """Journal of finished runs, from which `--resume` continues a killed run. `Checkpoint` implements it."""

    def begin_run(self) -> None:
        """Replace the journal of an earlier run, unless this run resumes it. Must not raise."""
        ...

    def add_runs(self, results: Sequence[tuple[int, RunResult]]) -> None:
        """Store runs, given as pairs (index of the case, run). Must not raise."""
        ...

    def record_usage(self, used: RunUsage) -> None:
        """Store the total usage so far. Must not raise."""
        ...


@frozen
class RunStart:
    """Starting point of a run of the gate: earlier results and usage, the cases to run, and the journal."""

    finished: Mapping[int, Sequence[RunResult]] = field(default_factory=dict)
    """Runs that exist already, by the index of their case in the plan."""
    share: frozenset[int] | None = None
    """Indices of the cases that are run here; None for all cases."""
    journal: RunJournal | None = None
    """Journal of the finished runs; None if no journal is kept."""
    used: RunUsage = field(default_factory=RunUsage)
    """Usage of models before this start: that of the resumed run, or that of the merged shards."""


class ResultCollector:
    """Collector of a plan's results, which scores each finished run and writes it to the journal.

    No other object holds the results of a gate run in progress. The collector needs no agent: the runs may
    also come from shards or from a record. If a plan has several collectors, only the newest one is notified
    of each model call (`meter.on_call`), and writes the usage to its journal.
    """

    def __init__(self, plan: Plan, progress: ProgressListener, run_start: RunStart) -> None:
        self.plan = plan
        self.progress = progress
        self._run_start = run_start
        self.case_index = CaseIndex(plan.suites)
        self._runs = [tuple(run_start.finished.get(index, ())) for index in range(len(self.case_index))]
        """Runs of each case, in the order in which they were made."""
        self._unkept: list[tuple[int, RunResult]] = []
        """(index of the case, run) for each finished run that is not in the journal yet."""
        self._cached_results: dict[int | None, tuple[CaseResult, ...]] = {}
        """Cached results of `score_cases` by `rounds`; a new run clears the cache."""
        self.interrupted = False
        self.unreachable = ""
        """Reason why the agent could not be reached; "" if it was reached."""
        self.more_wanted = False
        """True if the budget was spent before every wanted run was begun."""
        # All `ResultCollector` of a plan share one meter; the newest of them records the usage.
        meter = plan.judge_resolver.models.meter
        meter.add_usage(run_start.used.spent)  # of the run that is resumed, or of merged shards
        meter.on_call = self._record_usage
        self.spending = BudgetGuard(meter)
        self.calibration_verdict: CalibrationVerdict | None = None
        """Verdict on the judge by the labelled responses of `judge.anchors`; None if not tested yet."""

    async def score_finished_run(self, request: RunRequest, run: CaseRun) -> None:
        """Score a run, add it to the results, and report it to the progress listener.

        The run is also written to the journal, except a run that `--resume` has to repeat.
        """
        suite, case = self.case_index.get_suite(request.index), request.case
        self.spending.count_usage(run)
        result = await score_run(case, run, suite.get_metrics(case))
        earlier = self._runs[request.index]
        if earlier:
            result = _reuse_expectations(result, earlier[0])
        self._runs[request.index] = (*earlier, result)
        self._cached_results.clear()
        if self._run_start.journal is not None and is_final_run(result):
            self._schedule_flush(request.index, result)
        self.progress.on_run_finished(suite.eval_set.eval_set_id, case.eval_id, result)

    def begin_journal(self) -> None:
        """Begin the journal, if any. It replaces the journal of an earlier run that is not resumed."""
        if self._run_start.journal is not None:
            self._run_start.journal.begin_run()

    def _schedule_flush(self, index: int, result: RunResult) -> None:
        """Queue a run for the journal. Runs of the same pass of the event loop become one write."""
        if not self._unkept:
            asyncio.get_running_loop().call_soon(self.flush_runs)
        self._unkept.append((index, result))
        if len(self._unkept) >= _KEPT_AT_ONCE:
            self.flush_runs()

    def flush_runs(self) -> None:
        """Write the usage and all finished runs to the journal now."""
        self._record_usage()
        unkept, self._unkept = self._unkept, []
        if unkept and self._run_start.journal is not None:
            self._run_start.journal.add_runs(unkept)

    def _record_usage(self) -> None:
        """Write the total usage so far to the journal, including the usage of unfinished runs.

        A model call in progress counts with an unknown cost: if the gate is killed, the provider may still
        charge for the call. Readers of the journal take only its last line with usage.
        """
        if self._run_start.journal is not None:
            models = self.plan.judge_resolver.models
            judge_calls, all_calls = models.under_way["judge"], sum(models.under_way.values())
            unfinished = ModelUsage(calls=judge_calls, unpriced=judge_calls)
            unmetered = MeteredUsage(calls=all_calls, unpriced=all_calls, calls_without_tokens=all_calls)
            used = RunUsage((self.judge_usage or ModelUsage()) + unfinished, models.meter.spent + unmetered)
            self._run_start.journal.record_usage(used)

    def score_cases(self, rounds: int | None = None) -> tuple[CaseResult, ...]:
        """Return the result of every case, in the order of the plan.

        The runs of a case after its first `rounds` runs, in the order of run numbers, are marked as follow-up
        runs and do not count for means. If `rounds` is None, all runs count.
        """
        results = self._cached_results.get(rounds)
        if results is None:
            results = self._cached_results[rounds] = tuple(self._iter_case_results(rounds))
        return results

    def get_runs(self, index: int) -> tuple[RunResult, ...]:
        """Return the runs of a case, in the order in which they were made."""
        return self._runs[index]

    def build_case_result(self, index: int) -> CaseResult:
        """Return the result of one case from its runs so far.

        The field `fingerprint` of the result is "", so the result cannot be compared with a stored result.
        """
        return self._score_case_runs(index, self.case_index.get_suite(index), self.case_index.get_case(index))

    def _iter_case_results(self, rounds: int | None) -> Iterator[CaseResult]:
        fingerprints = chain.from_iterable(suite.fingerprints for suite in self.plan.suites)
        cases = zip(self.case_index.iter_cases(), fingerprints, strict=True)
        for index, ((suite, case), fingerprint) in enumerate(cases):
            yield self._score_case_runs(index, suite, case, rounds, fingerprint)

    def _score_case_runs(
        self, index: int, suite: Suite, case: EvalCase, rounds: int | None = None, fingerprint: str = ""
    ) -> CaseResult:
        runs = _sort_runs(self._runs[index])
        if rounds is not None and len(runs) > rounds:  # by position: a resumed run may lack a number
            runs = (*runs[:rounds], *(replace(run, confirms=True) for run in runs[rounds:]))
        return score_case(
            suite.eval_set.eval_set_id,
            case,
            runs,
            suite.get_metrics(case),
            path=suite.eval_set.path,
            fingerprint=fingerprint,
            case_policy=suite.get_case_policy(case),
        )

    def drop_runs(self, index: int) -> None:
        """Drop all runs of a case, so that they are made again."""
        self._runs[index] = ()
        self._cached_results.clear()

    def is_complete(self, strategy: RunStrategy) -> bool:
        """Return True if every run that the strategy wants was made, and no run needs to be repeated."""
        if not all(is_final_run(run) for runs in self._runs for run in runs):
            return False
        first = strategy.plan_first_runs(len(self.case_index))
        if self.select_missing_runs(first):
            return False
        return not self.select_missing_runs(strategy.plan_next_runs(self.score_cases))

    def select_missing_runs(self, schedule: RunSchedule) -> RunSchedule:
        """Return the runs of the schedule that this shard makes and that do not exist yet."""
        if self._run_start.share is None and not any(self._runs):
            return schedule
        missing = {}
        for index, numbers in schedule.items():
            made = {run.run for run in self._runs[index]}
            unmade = [number for number in numbers if number not in made] if made else numbers
            if unmade and (self._run_start.share is None or index in self._run_start.share):
                missing[index] = unmade
        return missing

    @property
    def judge_usage(self) -> ModelUsage | None:
        """Return the usage of judges, including that of the resumed run or of merged shards.

        Return None if no judge was asked.
        """
        whole = self._run_start.used.judge_usage + self.plan.judge_resolver.models.judge_usage
        return whole if whole.calls or whole.spared else None

    @property
    def earlier_judge_usage(self) -> RunUsage:
        """Return the usage of judges before this start: in the resumed run, or in merged shards.

        Another collector of the same plan needs it in its `RunStart`. The field `spent` of the result is
        empty, because both collectors share the budget's meter, which has counted this usage already.
        """
        return RunUsage(self._run_start.used.judge_usage)

    async def is_judge_reliable(self) -> bool:
        """Return False if a judge agrees too rarely with people: by stored labels, or by `judge.anchors`.

        `judge.anchors` is a file of responses with labels. If it is set, the first call lets the judge score
        all of these responses, which costs tokens.
        """
        if self.plan.label_check is not None and self.plan.label_check.unreliable:
            return False
        if self.plan.judge_calibration is None:
            return True
        if self.calibration_verdict is None:
            self.calibration_verdict = await self.plan.judge_calibration.evaluate_judge()
        return self.calibration_verdict.is_reliable


def _reuse_expectations(run: RunResult, earlier: RunResult) -> RunResult:
    """Return `run` with the expectations of `earlier`, where they are equal, so that memory is saved.

    A case of a large set is parsed anew for each run. So equal expectations would be separate objects.
    """
    if all(turn.expected is old.expected for turn, old in zip(run.turns, earlier.turns, strict=False)):
        return run
    expected = [turn.expected for turn in earlier.turns]
    turns = [
        replace(turn, expected=expected[index]) if turn.expected in expected[index : index + 1] else turn
        for index, turn in enumerate(run.turns)
    ]
    return replace(run, turns=tuple(turns))


def _sort_runs(runs: tuple[RunResult, ...]) -> tuple[RunResult, ...]:
    """Return the runs sorted by number; the same tuple if they are sorted already, to save memory."""
    numbers = [run.run for run in runs]
    if numbers == sorted(numbers):
        return runs
    return tuple(sorted(runs, key=lambda run: run.run))
