"""The step "score": what the agent did, held against what was asked, metric by metric.

A crashed run is not scored 0: it is carried as crashed. A metric that raises becomes `MetricFailed`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TypeAlias

from evalgate.judge.failures import JudgeFailed
from evalgate.judge.health import self_agreement, votes_in
from evalgate.judge.tally import tallied
from evalgate.model import (
    NOT_THE_AGENTS_FAULT,
    THE_AGENTS_FAULT,
    CaseMetric,
    CasePolicy,
    CaseResult,
    CaseRun,
    Criterion,
    EvalCase,
    MetricFailed,
    MetricResult,
    MetricSummary,
    NotApplicable,
    Reliability,
    Reply,
    RunMetric,
    RunResult,
    ScopedThreshold,
    Scored,
    Status,
    Totals,
    Turn,
    TurnMetric,
    TurnResult,
    Usage,
    UserMessage,
)
from evalgate.numbers import counted, mean, shown, weighted_mean
from evalgate.protocols import Metric
from evalgate.scoring.reliability import estimate
from evalgate.scoring.results import checked

ORDINARY = CasePolicy()


@dataclass(frozen=True, slots=True)
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
        return replace(self, criterion=replace(self.criterion, threshold=own.threshold), scope=own.scope)

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
            literal = passed is None
            return RunMetric(bound.name, score, bound.status(score, passed), reason, details, literal)
        case NotApplicable(reason=reason):
            return RunMetric(bound.name, None, "not_evaluated", reason)
        case MetricFailed(reason=reason, kind=kind):
            return RunMetric(bound.name, None, "errored", reason, failure=kind)


def score_case(
    eval_set_id: str,
    case: EvalCase,
    runs: Sequence[RunResult],
    metrics: Sequence[BoundMetric],
    *,
    path: str = "",
    fingerprint: str = "",
    policy: CasePolicy = ORDINARY,
) -> CaseResult:
    """All runs of one case, summed up; `metrics` are held to the case's own thresholds already."""
    counting = [run for run in runs if not run.confirms]
    case_metrics = tuple([_case_metric(bound, counting) for bound in metrics])
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


def _case_metric(bound: BoundMetric, runs: Sequence[RunResult]) -> CaseMetric:
    own = [metric for run in runs for metric in run.metrics if metric.name == bound.name]
    scores = [metric.score for metric in own if metric.score is not None]
    unanswered = next((run for run in runs if run.outcome != "answered"), None)
    broken = next((metric for metric in own if metric.status == "errored"), None)
    if unanswered is not None:
        status: Status = "not_evaluated" if unanswered.outcome in NOT_THE_AGENTS_FAULT else "errored"
        return _held(bound, None, status, _failure_text(unanswered))
    if broken is not None:
        return _held(bound, None, "errored", broken.reason)
    reason = next((metric.reason for metric in own if metric.reason), "")
    score = mean(scores) if scores else None
    if bound.criterion.reliability is not None and scores:
        return _reliable(bound, bound.criterion.reliability, own, mean(scores))
    status = bound.status(score, _owners_rule(own))
    return _held(bound, score, status, reason)


def _held(bound: BoundMetric, score: float | None, status: Status, reason: str = "") -> CaseMetric:
    threshold = bound.criterion.threshold
    return CaseMetric(bound.name, score, threshold, status, reason, bound.fingerprint, bound.scope)


def _reliable(bound: BoundMetric, wanted: Reliability, runs: Sequence[RunMetric], score: float) -> CaseMetric:
    """The case passes by how often its runs do; its score stays their mean."""
    judged = [run for run in runs if run.score is not None]
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


def _owners_rule(runs: Sequence[RunMetric]) -> bool | None:
    """Whether every run passed, where the metric's owner decides rather than the mean; else None."""
    judged = [run for run in runs if run.score is not None]
    return None if all(run.literal for run in judged) else all(run.status == "passed" for run in judged)


def _failure_text(run: RunResult) -> str:
    return run.failure.message if run.failure else run.outcome.replace("_", " ")


def _case_status(runs: Sequence[RunResult], metrics: Sequence[CaseMetric]) -> Status:
    outcomes = {run.outcome for run in runs}
    if outcomes & THE_AGENTS_FAULT:
        return "errored"
    if outcomes & NOT_THE_AGENTS_FAULT or not runs:
        return "not_evaluated"
    statuses = {metric.status for metric in metrics}
    for status in ("failed", "errored", "passed"):
        if status in statuses:
            return status
    return "not_evaluated"


MetricKey: TypeAlias = tuple[str, str, float, str]
"""Name, fingerprint, threshold and scope: what shares these has one line in the table of metrics."""


def key_of(metric: CaseMetric) -> MetricKey:
    """Which line of the table of metrics the metric of a case belongs to."""
    return metric.name, metric.fingerprint, metric.threshold, metric.scope


def grouped(cases: Sequence[CaseResult]) -> dict[MetricKey, list[tuple[CaseResult, CaseMetric]]]:
    """Every line of the table of metrics with the cases that gate, in the order of the summaries."""
    groups: dict[MetricKey, list[tuple[CaseResult, CaseMetric]]] = {}
    for case in cases:
        for metric in case.metrics if case.quarantine is None else ():
            groups.setdefault(key_of(metric), []).append((case, metric))
    return groups


def summarise(cases: Sequence[CaseResult]) -> tuple[MetricSummary, ...]:
    """Each metric over all gating cases that it was asked of, in the order of the thresholds file.

    A name that stands for several metrics or thresholds (eval sets with a file of their own each) gives one
    summary for each.
    """
    groups = grouped(cases)
    times = Counter((name, scope) for name, _, _, scope in groups)
    return tuple(
        _summary(name, scope, group, split=times[name, scope] > 1)
        for (name, _, _, scope), group in groups.items()
    )


def _summary(
    name: str, scope: str, members: Sequence[tuple[CaseResult, CaseMetric]], *, split: bool
) -> MetricSummary:
    metrics = [metric for _, metric in members]
    pairs = [(metric.score, case.weight) for case, metric in members if metric.score is not None]
    threshold = metrics[0].threshold
    score = weighted_mean(*zip(*pairs, strict=True)) if pairs else None
    scored = [metric for metric in metrics if metric.score is not None]
    met = score is not None and (score >= threshold or all(m.status == "passed" for m in scored))
    status: Status = "not_evaluated" if score is None else "passed" if met else "failed"
    return MetricSummary(
        name=name,
        score=score,
        threshold=threshold,
        status=status,
        baseline=None,
        delta=None,
        n=len(metrics) - sum(_is_not_applicable(case, metric) for case, metric in members),
        errors=sum(metric.status == "errored" for metric in metrics),
        eval_sets=tuple(dict.fromkeys(case.eval_set_id for case, _ in members)) if split else (),
        scope=scope,
        agreement=self_agreement(_votes(name, [case for case, _ in members])),
    )


def _votes(name: str, cases: Sequence[CaseResult]) -> Iterator[tuple[object, ...]]:
    """What the samples of each question said, where a model judged."""
    for run in (run for case in cases for run in case.runs if run.judge is not None):
        yield from (votes_in(each.details) for each in run.metrics if each.details and each.name == name)
        for turn in run.turns:
            yield from (votes_in(each.details) for each in turn.metrics if each.details and each.name == name)


def _is_not_applicable(case: CaseResult, metric: CaseMetric) -> bool:
    return metric.status == "not_evaluated" and all(run.outcome == "answered" for run in case.runs)


def total(cases: Sequence[CaseResult]) -> Totals:
    """Counts over the whole run."""
    usage = sum((used for case in cases for run in case.runs for used in _usages(run)), Usage())
    statuses = [case.status for case in cases]
    return Totals(
        cases=len(cases),
        passed=statuses.count("passed"),
        failed=statuses.count("failed"),
        errored=statuses.count("errored"),
        not_evaluated=statuses.count("not_evaluated"),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
    )


def _usages(run: RunResult) -> Iterator[Usage]:
    for used in (run.usage, run.user_usage, *(attempt.usage for attempt in run.earlier_attempts)):
        if used is not None:
            yield used


def repeated_unequally(cases: Sequence[CaseResult]) -> str:
    """A notice about cases whose runs disagree, or ""."""
    flipping = [case for case in cases if len({_passes(run) for run in case.runs}) > 1]
    if not flipping:
        return ""
    names = ", ".join(case.eval_id for case in flipping[:5]) + (", …" if len(flipping) > 5 else "")
    return f"{counted(len(flipping), 'case')} did not end the same way in every run: {names}."


def _passes(run: RunResult) -> bool:
    return run.outcome == "answered" and all(metric.status != "failed" for metric in run.metrics)
