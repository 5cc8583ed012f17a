"""The step "score": score what the agent did, metric by metric.

Unbiased estimators from n ≥ k runs of which c passed: pass^k is C(c, k) / C(n, k) (Yao et al. 2024,
arXiv:2406.12045), pass@k is 1 − C(n − c, k) / C(n, k) (Chen et al. 2021, arXiv:2107.03374).

A crashed run is not scored 0: it is carried as crashed. A metric that raises becomes `MetricFailed`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from math import comb

from evalgate.core.formatting import counted, mean, shown
from evalgate.core.frozen import frozen
from evalgate.core.protocols import Metric
from evalgate.core.score_ranges import Range
from evalgate.core.types import (
    NOT_THE_AGENTS_FAULT,
    THE_AGENTS_FAULT,
    CaseHead,
    CaseMetric,
    CasePolicy,
    CaseResult,
    CaseRun,
    Criterion,
    EvalCase,
    MetricFailed,
    MetricResult,
    NotApplicable,
    Reliability,
    Reply,
    RunMetric,
    RunResult,
    ScopedThreshold,
    Scored,
    Status,
    Turn,
    TurnMetric,
    TurnResult,
    UserMessage,
)
from evalgate.llm.errors import JudgeFailed
from evalgate.llm.usage import tallied


def estimate(wanted: Reliability, *, passed: int, runs: int) -> float:
    """In [0, 1], exact at both ends. `runs` must be at least `wanted.k`, and `passed` at most `runs`."""
    of = comb(runs, wanted.k)
    if wanted.kind == "pass^k":
        return comb(passed, wanted.k) / of
    return (of - comb(runs - passed, wanted.k)) / of


def checked(given: object) -> MetricResult:
    """`given` itself, or how the metric failed: it gave something else, or a score that is not finite."""
    if not isinstance(given, Scored):
        if isinstance(given, NotApplicable | MetricFailed):
            return given
        return MetricFailed(f"the metric gave no result, but a value of type {type(given).__name__}")
    scores: list[object] = [turn.score for turn in given.turns if turn.score is not None]
    wrong = [score for score in (given.score, *scores) if not _is_finite(score)]
    return MetricFailed(f"the metric gave the score {wrong[0]!r:.80}, no finite number") if wrong else given


def _is_finite(score: object) -> bool:
    return isinstance(score, (int, float)) and math.isfinite(score)


ORDINARY = CasePolicy()


@frozen
class BoundMetric:
    """A metric with the threshold that it must reach."""

    criterion: Criterion
    metric: Metric
    fingerprint: str = ""
    """Hash of the metric and its options."""
    scope: str = ""
    """The cases that the threshold holds for, as reports name them; "" when for all."""

    @property
    def name(self) -> str:
        """As the user wrote it."""
        return self.criterion.metric

    def held_to(self, own: ScopedThreshold | None) -> "BoundMetric":
        """The same, with a case's own threshold where it has one."""
        if own is None:
            return self
        common = self.criterion.min_mean
        # Where the mean must reach what each case must, it must reach the cases' own threshold.
        inherited = own.threshold if common == self.criterion.threshold else common
        min_mean = inherited if own.min_mean is None else own.min_mean
        criterion = replace(self.criterion, threshold=own.threshold, min_mean=min_mean)
        return replace(self, criterion=criterion, scope=own.scope)

    def status(self, score: float | None, passed: bool | None = None) -> Status:
        """Literal, unless the metric's owner says whether it `passed`: at or above the threshold does."""
        if score is None:
            return "not_evaluated"
        if passed is None:
            passed = score >= self.criterion.threshold
        return "passed" if passed else "failed"


async def score_run(case: EvalCase, run: CaseRun, metrics: Sequence[BoundMetric]) -> RunResult:
    """One run with every metric's opinion of it."""
    results: dict[str, MetricResult] = {}
    with tallied() as tally:
        for bound in metrics if run.outcome == "answered" else ():
            results[bound.name] = await _score(bound.metric, case, run)
    return RunResult(
        run=run.run,
        outcome=run.outcome,
        duration_s=run.duration_s,
        turns=_turns(case, run, metrics, results),
        metrics=tuple(_run_metric(bound, results[bound.name]) for bound in metrics if results),
        usage=run.usage,
        failure=run.failure,
        final_state=run.final_state,
        earlier_attempts=run.earlier_attempts,
        user_usage=run.user_usage,
        judge=tally.totals,
    )


async def _score(metric: Metric, case: EvalCase, run: CaseRun) -> MetricResult:
    try:
        return checked(await metric.score(case, run))
    except JudgeFailed as failure:
        return MetricFailed(str(failure), failure.kind)
    except Exception as error:  # noqa: BLE001  a metric may be anybody's code; its fault is its result
        return MetricFailed(f"the metric raised {type(error).__name__}: {error}")


def _turns(
    case: EvalCase, run: CaseRun, metrics: Sequence[BoundMetric], results: Mapping[str, MetricResult]
) -> tuple[TurnResult, ...]:
    rows: zip_longest[tuple[Turn | None, Reply | None, UserMessage | None]]
    rows = zip_longest(case.turns, run.replies, run.said)
    return tuple(
        TurnResult(
            user=said.text if said else turn.user.text if turn else "",
            expected=turn.expected if turn else None,
            actual=reply,
            metrics=tuple(_turn_metrics(index, metrics, results)) if results else (),
        )
        for index, (turn, reply, said) in enumerate(rows)
    )


def _turn_metrics(
    index: int, metrics: Sequence[BoundMetric], results: Mapping[str, MetricResult]
) -> list[TurnMetric]:
    found = []
    for bound in metrics:
        result = results[bound.name]
        if isinstance(result, Scored) and index < len(result.turns):
            turn = result.turns[index]
            status = bound.status(turn.score, turn.passed)
            found.append(TurnMetric(bound.name, turn.score, status, turn.reason, turn.details))
    return found


def _run_metric(bound: BoundMetric, result: MetricResult) -> RunMetric:
    match result:
        case Scored(score=score, reason=reason, details=details, passed=passed):
            literal, score = passed is None, Range(*bound.criterion.range).clamp(score)
            return RunMetric(bound.name, score, bound.status(score, passed), reason, details, literal)
        case NotApplicable(reason=reason):
            return RunMetric(bound.name, None, "not_evaluated", reason)
        case MetricFailed(reason=reason, kind=kind):
            return RunMetric(bound.name, None, "errored", reason, failure=kind)


def score_case(
    eval_set_id: str,
    case: CaseHead,
    runs: Sequence[RunResult],
    metrics: Sequence[BoundMetric],
    *,
    path: str = "",
    fingerprint: str = "",
    policy: CasePolicy = ORDINARY,
) -> CaseResult:
    """All runs of one case, summed up; `metrics` are held to the case's own thresholds already."""
    counting = [run for run in runs if not run.confirms]
    unanswered = next((run for run in counting if run.outcome != "answered"), None)
    if unanswered is None:
        case_metrics = tuple([_case_metric(bound, counting) for bound in metrics])
    else:
        case_metrics = tuple([_without_answer(bound, unanswered) for bound in metrics])
    return CaseResult(
        eval_set_id=eval_set_id,
        eval_id=case.eval_id,
        status=_case_status(counting, case_metrics),
        metrics=case_metrics,
        runs=tuple(runs),
        fingerprint=fingerprint,
        path=path,
        line=case.line,
        tags=policy.tags,
        weight=policy.weight,
        protected=policy.protected,
        quarantine=policy.quarantine,
    )


def _without_answer(bound: BoundMetric, run: RunResult) -> CaseMetric:
    status: Status = "not_evaluated" if run.outcome in NOT_THE_AGENTS_FAULT else "errored"
    return _held(bound, None, status, _failure_text(run))


def _case_metric(bound: BoundMetric, runs: Sequence[RunResult]) -> CaseMetric:
    # As few calls as may be: that is asked of every case of a run that was made elsewhere.
    name = bound.criterion.metric
    own = [metric for run in runs for metric in run.metrics if metric.name == name]
    broken = [metric for metric in own if metric.status == "errored"]
    if broken:
        return _held(bound, None, "errored", broken[0].reason)
    reasons = [metric.reason for metric in own if metric.reason]
    judged = [metric for metric in own if metric.score is not None]
    score = mean([metric.score for metric in judged if metric.score is not None]) if judged else None
    if bound.criterion.reliability is not None and score is not None:
        return _reliable(bound, bound.criterion.reliability, judged, score)
    status = bound.status(score, _owners_rule(judged))
    return _held(bound, score, status, reasons[0] if reasons else "")


def _held(bound: BoundMetric, score: float | None, status: Status, reason: str = "") -> CaseMetric:
    threshold = bound.criterion.threshold
    return CaseMetric(
        bound.name,
        score,
        threshold,
        status,
        reason,
        bound.fingerprint,
        bound.scope,
        range=bound.criterion.range,
        min_mean=bound.criterion.min_mean,
    )


def _reliable(
    bound: BoundMetric, wanted: Reliability, judged: Sequence[RunMetric], score: float
) -> CaseMetric:
    """The case passes by how often its runs do; its score stays their mean."""
    passed = sum(run.status == "passed" for run in judged)
    if len(judged) < wanted.k:
        reason = f"{wanted.kind} with k = {wanted.k} needs as many runs; {len(judged)} have a score"
        return _held(bound, None, "errored", reason)
    found = estimate(wanted, passed=passed, runs=len(judged))
    if found >= wanted.at_least:
        return _held(bound, score, "passed")
    reason = (
        f"{wanted.kind} with k = {wanted.k} is {shown(found, beside=wanted.at_least)}, below "
        f"{shown(wanted.at_least)}: {passed} of {counted(len(judged), 'run')} passed"
    )
    return _held(bound, score, "failed", reason)


def _owners_rule(judged: Sequence[RunMetric]) -> bool | None:
    """Whether every run passed, where the metric's owner decides rather than the mean; else None."""
    if not [run for run in judged if not run.literal]:
        return None
    return all(run.status == "passed" for run in judged)


def _failure_text(run: RunResult) -> str:
    return run.failure.message if run.failure else run.outcome.replace("_", " ")


def _case_status(runs: Sequence[RunResult], metrics: Sequence[CaseMetric]) -> Status:
    outcomes = {run.outcome for run in runs}
    if not outcomes.isdisjoint(THE_AGENTS_FAULT):
        return "errored"
    if not runs or not outcomes.isdisjoint(NOT_THE_AGENTS_FAULT):
        return "not_evaluated"
    statuses = {metric.status for metric in metrics}
    for status in ("failed", "errored", "passed"):
        if status in statuses:
            return status
    return "not_evaluated"
