"""Scoring of runs and cases with every metric.

pass^k and pass@k are estimated without bias from n ≥ k runs of which c passed. pass^k is C(c, k) / C(n, k)
(Yao et al. 2024, arXiv:2406.12045). pass@k is 1 − C(n − c, k) / C(n, k) (Chen et al. 2021,
arXiv:2107.03374).

A crashed run has no score, which is not the same as 0. If a metric raises an exception, its result is a
`MetricFailure`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from math import comb

from evalgate.core.formatting import compute_mean, format_score_pair, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import LlmJudged, Metric, RequiresReference
from evalgate.core.types import (
    AGENT_FAULT_OUTCOMES,
    NON_AGENT_OUTCOMES,
    CaseKey,
    CaseMetric,
    CasePolicy,
    CaseResult,
    CaseRun,
    CaseTurn,
    Criterion,
    EvalCase,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
    ReliabilityRule,
    Reply,
    RunMetric,
    RunResult,
    ScopedThreshold,
    Status,
    TurnMetric,
    TurnResult,
    UserMessage,
)
from evalgate.llm.errors import JudgeError
from evalgate.llm.usage import UsageTally


def estimate_reliability(reliability: ReliabilityRule, *, passed: int, runs: int) -> float:
    """Estimate pass^k or pass@k, in [0, 1]: exactly 0.0 if no run passed, and 1.0 if every run did.

    `runs` must be at least `reliability.k`, and `passed` at most `runs`.
    """
    samples = comb(runs, reliability.k)
    if reliability.kind == "pass^k":
        return comb(passed, reliability.k) / samples
    return (samples - comb(runs - passed, reliability.k)) / samples


def validate_result(result: object) -> MetricResult:
    """Return `result`, or a failure if it is no `MetricResult` or has a score that is no finite number."""
    if not isinstance(result, MetricScore):
        if isinstance(result, (NotApplicable, MetricFailure)):
            return result
        return MetricFailure(f"the metric gave no result, but a value of type {type(result).__name__}")
    if not result.turns and type(result.score) is float and math.isfinite(result.score):
        return result  # as of every check
    scores: list[object] = [turn.score for turn in result.turns if turn.score is not None]
    for score in (result.score, *scores):
        if not (isinstance(score, (float, int)) and math.isfinite(score)):
            return MetricFailure(f"the metric gave the score {score!r:.80}, no finite number")
    return result


DEFAULT_CASE_POLICY = CasePolicy()


@frozen
class BoundMetric:
    """A metric with the threshold that it must reach."""

    criterion: Criterion
    metric: Metric
    fingerprint: str = ""
    """Hash of the metric and its options."""
    scope: str = ""
    """The cases that the threshold applies to, as reports name them; "" for all cases."""
    cases: frozenset[CaseKey] | None = None
    """The only cases that the metric scores; None: all."""

    @property
    def name(self) -> str:
        """Return the metric's name as the user wrote it."""
        return self.criterion.metric

    def apply_threshold(self, case_threshold: ScopedThreshold | None) -> "BoundMetric":
        """Return the metric with a case's own threshold, or unchanged for None."""
        if case_threshold is None:
            return self
        common = self.criterion.min_mean
        # If the mean must reach the same score as each case, it must now reach the case's own threshold.
        inherited = case_threshold.threshold if common == self.criterion.threshold else common
        min_mean = inherited if case_threshold.min_mean is None else case_threshold.min_mean
        criterion = replace(self.criterion, threshold=case_threshold.threshold, min_mean=min_mean)
        return replace(self, criterion=criterion, scope=case_threshold.scope)

    def decide_status(self, score: float | None, passed: bool | None = None) -> Status:
        """Return the status of a score, which is "not_evaluated" for None.

        `passed` is the metric's own decision; if it is None, the threshold decides.
        """
        if score is None:
            return "not_evaluated"
        if passed is None:
            criterion = self.criterion
            passed = criterion.range.is_met(score, criterion.threshold)
        return "passed" if passed else "failed"


async def score_run(case: EvalCase, run: CaseRun, metrics: Sequence[BoundMetric]) -> RunResult:
    """Return the result of one run, scored by every metric if the agent answered."""
    results: Sequence[tuple[BoundMetric, MetricResult]] = ()
    with UsageTally() as tally:
        if run.outcome == "answered" and case.alternatives:
            case, results = await _score_nearest_way(case, run, metrics)
        elif run.outcome == "answered":
            results = await _score_metrics(case, run, metrics)
    return RunResult(
        run=run.run,
        outcome=run.outcome,
        duration_s=run.duration_s,
        turns=_build_turn_results(case, run, results),
        metrics=tuple([_build_run_metric(bound, result) for bound, result in results]),
        usage=run.usage,
        failure=run.failure,
        final_state=run.final_state,
        earlier_attempts=run.earlier_attempts,
        user_usage=run.user_usage,
        judge=tally.usage,
        session_id=run.session_id,
        user_id=run.user_id or case.session.user_id,
        trace=run.trace,
    )


async def _score_nearest_way(
    case: EvalCase, run: CaseRun, metrics: Sequence[BoundMetric]
) -> tuple[EvalCase, list[tuple[BoundMetric, MetricResult]]]:
    """Score a run against each right way of its case; return the nearest way as a case, and its scores.

    One way is chosen for all metrics: calls of one way with the response of another are not right. The
    nearest way has the most passing metrics, and among equals the highest sum of scores. Judges that need
    no expected reply are asked only once.
    """
    found: list[tuple[BoundMetric, MetricResult]] = []
    nearest, best = case, (-1, 0.0)
    for way in _iter_ways(case):
        scored: list[tuple[BoundMetric, MetricResult]] = []
        for bound, before in zip_longest(metrics, found):
            metric = bound.metric
            ignores_reference = isinstance(metric, LlmJudged) and not isinstance(metric, RequiresReference)
            known = before and ignores_reference
            scored += [before] if known else await _score_metrics(way, run, (bound,))
        built = [_build_run_metric(bound, result) for bound, result in scored]
        passed = sum(metric.status == "passed" for metric in built)
        worth = passed, sum(metric.score or 0.0 for metric in built)
        if worth > best:
            nearest, found, best = way, scored, worth
        if passed == len(metrics):
            break
    return nearest, found


def _iter_ways(case: EvalCase) -> Iterator[EvalCase]:
    yield case
    for replies in case.alternatives:
        turns = [replace(turn, expected=reply) for turn, reply in zip(case.turns, replies, strict=True)]
        yield replace(case, turns=tuple(turns))


async def _score_metrics(
    case: EvalCase, run: CaseRun, metrics: Sequence[BoundMetric]
) -> list[tuple[BoundMetric, MetricResult]]:
    results: list[tuple[BoundMetric, MetricResult]] = []
    for bound in metrics:
        try:
            result = validate_result(await bound.metric.score(case, run))
        # Not a score of 0: a judge that is down says nothing about the agent.
        except JudgeError as failure:
            result = MetricFailure(str(failure), failure.kind)
        # A metric may be a user's code: neither its error nor its `sys.exit` may end the run.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            result = MetricFailure(f"the metric raised {type(error).__name__}: {error}")
        results.append((bound, result))
    return results


def _build_turn_results(
    case: EvalCase, run: CaseRun, results: Sequence[tuple[BoundMetric, MetricResult]]
) -> tuple[TurnResult, ...]:
    rows: zip_longest[tuple[CaseTurn | None, Reply | None, UserMessage | None]]
    # The longest: a recording may have more turns than its case, and a simulated user no written ones.
    rows = zip_longest(case.turns, run.replies, run.said)
    scored = [
        (bound, result.turns) for bound, result in results if isinstance(result, MetricScore) and result.turns
    ]
    turns = []
    for at, (turn, reply, message) in enumerate(rows):
        metrics = []
        for bound, scores in scored:
            if at < len(scores):
                own = scores[at]
                status = bound.decide_status(own.score, own.passed)
                metrics.append(TurnMetric(bound.criterion.metric, own.score, status, own.reason, own.details))
        user = message.text if message else turn.user.text if turn else ""
        turns.append(TurnResult(user, turn.expected if turn else None, reply, tuple(metrics)))
    return tuple(turns)


@lru_cache(maxsize=1024)
def _share_full_score(name: str, status: Status, literal: bool, gates: bool) -> RunMetric:
    """Return one shared object for equal results: a look-up takes a fifth of the time of a new object."""
    return RunMetric(name, 1.0, status, literal=literal, gates=gates)


def _build_run_metric(bound: BoundMetric, result: MetricResult) -> RunMetric:
    # Written for speed: this is called for every metric of every run.
    criterion = bound.criterion
    name, gates = criterion.metric, criterion.gates
    if isinstance(result, MetricScore):
        passed, score = result.passed, criterion.range.clamp(result.score)
        status = bound.decide_status(score, passed)
        literal = passed is None
        if score == 1.0 and type(score) is float and not result.reason and result.details is None:
            return _share_full_score(name, status, literal, gates)  # most of all results
        return RunMetric(name, score, status, result.reason, result.details, literal, gates=gates)
    if isinstance(result, NotApplicable):
        return RunMetric(name, None, "not_evaluated", result.reason, gates=gates)
    return RunMetric(name, None, "errored", result.reason, failure=result.kind, gates=gates)


def score_case(
    eval_set_id: str,
    case: EvalCase,
    runs: Sequence[RunResult],
    metrics: Sequence[BoundMetric],
    *,
    path: str = "",
    fingerprint: str = "",
    case_policy: CasePolicy = DEFAULT_CASE_POLICY,
) -> CaseResult:
    """Return the result of a case over its runs; `metrics` have the thresholds of this case.

    Confirming runs are part of the result, but do not count for its scores and its status.
    """
    # Runs that follow up a suspicion stay out of the means: a case that failed would otherwise get more
    # chances than one that passed.
    counting = [run for run in runs if not run.confirms]
    # One crash leaves the case without a score, not with the mean of its other runs: crashing on hard
    # questions would otherwise raise it.
    unanswered = [run for run in counting if run.outcome != "answered"]
    if unanswered:
        first = unanswered[0]
        without: Status = "not_evaluated" if first.outcome in NON_AGENT_OUTCOMES else "errored"
        reason = first.failure.message if first.failure else first.outcome.replace("_", " ")
        case_metrics = tuple([_create_case_metric(bound, None, without, reason) for bound in metrics])
    else:
        case_metrics = tuple([_summarize_case_metric(bound, counting) for bound in metrics])
    return CaseResult(
        eval_set_id=eval_set_id,
        eval_id=case.eval_id,
        status=decide_status(counting, case_metrics),
        metrics=case_metrics,
        runs=tuple(runs),
        fingerprint=fingerprint,
        path=path,
        line=case.line,
        tags=case_policy.tags,
        weight=case_policy.weight,
        protected=case_policy.protected,
        quarantine=case_policy.quarantine,
        observed=case.status == "observed",
        source=case.source,
    )


def _summarize_case_metric(bound: BoundMetric, runs: Sequence[RunResult]) -> CaseMetric:
    # Written for speed: merging shards calls this for every case of every shard.
    name, reason = bound.criterion.metric, ""
    scored: list[RunMetric] = []
    scores: list[float] = []
    for run in runs:
        for metric in run.metrics:
            if metric.name == name:
                if metric.status == "errored":
                    return _create_case_metric(bound, None, "errored", metric.reason)
                reason = reason or metric.reason
                if metric.score is not None:
                    scored.append(metric)
                    scores.append(metric.score)
    score = compute_mean(scores) if scores else None
    if bound.criterion.reliability is not None and score is not None:
        return _summarize_reliability(bound, bound.criterion.reliability, scored, score)
    # Unless the threshold alone decided each run, a case passes if every run did, at any mean.
    passed = None
    if False in [run.literal for run in scored]:
        passed = all(run.status == "passed" for run in scored)
    return _create_case_metric(bound, score, bound.decide_status(score, passed), reason)


def _create_case_metric(
    bound: BoundMetric, score: float | None, status: Status, reason: str = ""
) -> CaseMetric:
    criterion = bound.criterion
    return CaseMetric(
        criterion.metric,
        score,
        criterion.threshold,
        status,
        reason,
        bound.fingerprint,
        bound.scope,
        range=criterion.range,
        min_mean=criterion.min_mean,
        gates=criterion.gates,
    )


def _summarize_reliability(
    bound: BoundMetric, reliability: ReliabilityRule, scored: Sequence[RunMetric], score: float
) -> CaseMetric:
    """Return the case's metric with a status by pass^k or pass@k; the score is still the mean.

    The metric is "errored", without a score, if fewer than k runs have a score.
    """
    passed = sum(run.status == "passed" for run in scored)
    if len(scored) < reliability.k:
        reason = f"{reliability.kind} with k = {reliability.k} needs as many runs; {len(scored)} have a score"
        return _create_case_metric(bound, None, "errored", reason)
    found = estimate_reliability(reliability, passed=passed, runs=len(scored))
    if found >= reliability.at_least:
        return _create_case_metric(bound, score, "passed")
    shown, least = format_score_pair(found, reliability.at_least)
    reason = (
        f"{reliability.kind} with k = {reliability.k} is {shown}, below {least}: "
        f"{passed} of {pluralize(len(scored), 'run')} passed"
    )
    return _create_case_metric(bound, score, "failed", reason)


def decide_status(runs: Sequence[RunResult], metrics: Sequence[CaseMetric | RunMetric]) -> Status:
    """Return the status of a case over its runs, or of a single run with its own metrics.

    Metrics that are only reported do not count.
    """
    outcomes = {run.outcome for run in runs}
    if not outcomes.isdisjoint(AGENT_FAULT_OUTCOMES):
        return "errored"
    if not runs or not outcomes.isdisjoint(NON_AGENT_OUTCOMES):
        return "not_evaluated"
    statuses = {metric.status for metric in metrics if metric.gates}
    for status in ("failed", "errored", "passed"):
        if status in statuses:
            return status
    return "not_evaluated"
