"""Score runs and cases with every metric.

A crashed run has no score, which is not the same as 0. If a metric raises an exception, its result is a
`MetricFailure`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest

from evalgate.core import plugin_registry
from evalgate.core.frozen import frozen
from evalgate.core.means import compute_mean, round_mean_to_limit
from evalgate.core.protocols import LlmJudged, Metric, NoScoreError, RequiresReference
from evalgate.core.score_ranges import Range, get_score_range
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
    Reply,
    RunMetric,
    RunResult,
    ScopedThreshold,
    Status,
    TurnMetric,
    TurnResult,
    UserMessage,
)
from evalgate.llm.usage import UsageTally


def validate_result(result: object) -> MetricResult:
    """Return `result`, or a `MetricFailure` if it is no `MetricResult` or has a score that is not finite."""
    if not isinstance(result, MetricScore):
        if isinstance(result, (NotApplicable, MetricFailure)):
            return result
        return MetricFailure(f"the metric gave no result, but a value of type {type(result).__name__}")
    if not result.turns and type(result.score) is float and math.isfinite(result.score):
        return result  # without the loop below: most results are of this kind
    scores: list[object] = [turn.score for turn in result.turns if turn.score is not None]
    for score in (result.score, *scores):
        if not (isinstance(score, (float, int)) and math.isfinite(score)):
            return MetricFailure(f"the metric gave the score {score!r:.80}, no finite number")
    return result


DEFAULT_CASE_POLICY = CasePolicy()


@frozen
class BoundMetric:
    """A metric with the threshold that its scores must reach."""

    criterion: Criterion
    metric: Metric
    fingerprint: str = ""
    """Hash of the metric and its options."""
    scope: str = ""
    """Name of the group of cases to which the threshold applies, for reports; "" for all cases."""
    cases: frozenset[CaseKey] | None = None
    """Cases that the metric scores; None for all cases."""

    @property
    def name(self) -> str:
        """Return the metric's name as the user wrote it."""
        return self.criterion.metric

    def apply_threshold(self, case_threshold: ScopedThreshold | None) -> "BoundMetric":
        """Return a copy with the threshold and the required mean (`min_mean`) of `case_threshold`.

        Return this object if `case_threshold` is None. If it has no `min_mean`, the copy keeps that of this
        object. But a kept `min_mean` that equals the old threshold is replaced by the new threshold.
        """
        if case_threshold is None:
            return self
        common = self.criterion.min_mean
        # A `min_mean` that equals the common threshold follows it: the case threshold replaces both.
        inherited = case_threshold.threshold if common == self.criterion.threshold else common
        min_mean = inherited if case_threshold.min_mean is None else case_threshold.min_mean
        criterion = replace(self.criterion, threshold=case_threshold.threshold, min_mean=min_mean)
        return replace(self, criterion=criterion, scope=case_threshold.scope)

    def decide_score_status(self, score: float | None, passed: bool | None = None) -> Status:
        """Return the status of a score: "passed" or "failed", or "not_evaluated" if the score is None.

        `passed` is the metric's own decision; if it is None, the threshold decides.
        """
        if score is None:
            return "not_evaluated"
        if passed is None:
            criterion = self.criterion
            passed = criterion.range.is_met(score, criterion.threshold)
        return "passed" if passed else "failed"


def describe_edited_score(
    metric: RunMetric, score_range: Range, threshold: float, implementation: str = ""
) -> str:
    """Return a clause about a recorded score that must have been edited; "" if the score is possible.

    A score is impossible if it does not fit its status, is not finite, or is outside the range of one of
    evalgate's own metrics. Metrics of other packages may have any finite score.

    Args:
        metric: The result of a run.
        score_range: The recorded worst and best score. Only their order is used, which shows whether smaller
            scores are better: the numbers may have been edited, too.
        threshold: The score that the run must reach. It is ignored if the metric itself decided the status
            (`metric.literal` is False).
        implementation: Name of the metric in the registry; "" if it is not known.
    """
    score, status = metric.score, metric.status
    clause = f"{metric.name} is {status} with a score of {score}"
    if score is None or status in {"errored", "not_evaluated"}:
        return "" if score is None and status in {"errored", "not_evaluated"} else clause
    if not math.isfinite(score) or (
        metric.literal and (status == "passed") != score_range.is_met(score, threshold)
    ):
        return clause
    if (
        implementation not in plugin_registry.METRICS
        and implementation not in plugin_registry.SECTION_METRICS
    ):
        return ""
    # Not `score_range`: in a stored record, this may have been edited as well.
    own_range = get_score_range(implementation)
    is_inside = min(own_range) <= score <= max(own_range)
    return "" if is_inside else f"{metric.name} is {score}, and its scores are between {own_range}"


async def score_run(case: EvalCase, run: CaseRun, metrics: Sequence[BoundMetric]) -> RunResult:
    """Score a run with every metric, and return the result of the run; an unanswered run gets no scores.

    If the case has alternative expected replies, the scores are for the alternative nearest to the run.
    """
    results: Sequence[tuple[BoundMetric, MetricResult]] = ()
    with UsageTally() as tally:
        if run.outcome == "answered" and case.alternatives:
            case, results = await _score_nearest_alternative(case, run, metrics)
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


async def _score_nearest_alternative(
    case: EvalCase, run: CaseRun, metrics: Sequence[BoundMetric]
) -> tuple[EvalCase, list[tuple[BoundMetric, MetricResult]]]:
    """Score a run against its case and each alternative; return the nearest of these cases, and its scores.

    An alternative is a copy of the case with other expected replies (`case.alternatives`). The nearest case
    has the most passed metrics; among equals, the highest sum of scores. Metrics that do not gate decide only
    between cases that are equal by the gating metrics. All metrics are scored against the same case, because
    the tool calls of one alternative with the response of another would be wrong. The search ends when all
    metrics pass. Judges that need no expected reply are asked only once.
    """
    found: list[tuple[BoundMetric, MetricResult]] = []
    nearest, best = case, (-1, 0.0, 0, 0.0)
    for way in _iter_alternatives(case):
        scored: list[tuple[BoundMetric, MetricResult]] = []
        for bound, before in zip_longest(metrics, found):
            metric = bound.metric
            ignores_reference = isinstance(metric, LlmJudged) and not isinstance(metric, RequiresReference)
            known = before and ignores_reference
            scored += [before] if known else await _score_metrics(way, run, (bound,))
        built = [_build_run_metric(bound, result) for bound, result in scored]
        worth = *_rate_metrics(built, gates=True), *_rate_metrics(built, gates=False)
        if worth > best:
            nearest, found, best = way, scored, worth
        if all(metric.status == "passed" for metric in built):
            break
    return nearest, found


def _rate_metrics(metrics: Sequence[RunMetric], *, gates: bool) -> tuple[int, float]:
    """Return (number of passed metrics, sum of scores) of the metrics with the given value of `gates`."""
    rated = [metric for metric in metrics if metric.gates == gates]
    return sum(metric.status == "passed" for metric in rated), sum(metric.score or 0.0 for metric in rated)


def _iter_alternatives(case: EvalCase) -> Iterator[EvalCase]:
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
        # A failure and not a score of 0, because an outage of a judge is not a fault of the agent.
        except NoScoreError as failure:
            result = MetricFailure(str(failure), failure.kind)
        # A metric may be code of the user. Neither its exception nor its `sys.exit` may end the run.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            result = MetricFailure(f"the metric raised {type(error).__name__}: {error}")
        results.append((bound, result))
    return results


def _build_turn_results(
    case: EvalCase, run: CaseRun, results: Sequence[tuple[BoundMetric, MetricResult]]
) -> tuple[TurnResult, ...]:
    rows: zip_longest[tuple[CaseTurn | None, Reply | None, UserMessage | None]]
    # The longest of the three counts, because a recording may have more turns than its case, and a case with
    # a simulated user has no turns. `turnwise.build_exchanges` would take twice the time, and it leaves out
    # messages without a reply.
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
                status = bound.decide_score_status(own.score, own.passed)
                metrics.append(TurnMetric(bound.criterion.metric, own.score, status, own.reason, own.details))
        user = message.text if message else turn.user.text if turn else ""
        turns.append(TurnResult(user, turn.expected if turn else None, reply, tuple(metrics)))
    return tuple(turns)


@lru_cache(maxsize=1024)
def _share_full_score(name: str, status: Status, literal: bool, gates: bool) -> RunMetric:
    """Return a result with the score 1.0 and no reason; equal arguments return the same object.

    Most results are of this kind, so this saves time and memory. `literal` is True if the threshold decided
    the status, and False if the metric itself did.
    """
    return RunMetric(name, 1.0, status, literal=literal, gates=gates)


def _build_run_metric(bound: BoundMetric, result: MetricResult) -> RunMetric:
    # Written for speed: this is called for every metric of every run.
    criterion = bound.criterion
    name, gates = criterion.metric, criterion.gates
    if isinstance(result, MetricScore):
        passed, score = result.passed, criterion.range.clamp(result.score)
        status = bound.decide_score_status(score, passed)
        literal = passed is None
        if score == 1.0 and type(score) is float and not result.reason and result.details is None:
            return _share_full_score(name, status, literal, gates)  # most results
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

    If any run has no answer, the case has no score. Follow-up runs (`confirms`) are in the result, but do not
    count for scores and status. `path` is the path of the eval set, and `fingerprint` the hash of the case's
    messages and expectations. `path` and `fingerprint` are only stored in the result.
    """
    # With follow-up runs, a case that failed would get more chances than a case that passed.
    counting = [run for run in runs if not run.confirms]
    # After one crash the case has no score. The mean of its other runs would be too high if the agent crashed
    # on hard questions.
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
        status=decide_case_status(counting, case_metrics),
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
    score = round_mean_to_limit(compute_mean(scores), scores, bound.criterion.threshold) if scores else None
    if bound.criterion.reliability is not None and score is not None:
        from evalgate.metrics.pass_at_k import decide_reliability

        status, reason = decide_reliability(bound.criterion.reliability, scored)
        return _create_case_metric(bound, None if status == "errored" else score, status, reason)
    # If the metric itself decided on a run, instead of the threshold, the case passes if every run passed.
    # The mean then does not matter.
    passed = None
    if False in [run.literal for run in scored]:
        passed = all(run.status == "passed" for run in scored)
    return _create_case_metric(bound, score, bound.decide_score_status(score, passed), reason)


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


def decide_case_status(runs: Sequence[RunResult], metrics: Sequence[CaseMetric | RunMetric]) -> Status:
    """Return the status of a case from its runs and metrics, or of a single run from its metrics.

    The first rule that fits decides:

    1. "errored" if the agent crashed or timed out in a run.
    2. "not_evaluated" if there is no run, or if a run failed through no fault of the agent.
    3. "failed", "errored" or "passed": the first of these that is the status of a gating metric.
    4. "not_evaluated" otherwise.
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
