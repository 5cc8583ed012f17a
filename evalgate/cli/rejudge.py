"""Stored runs before the gate once more: other thresholds, another baseline, no agent."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Literal

from evalgate.baselines.breaks import collect_thresholds, describe_already_failing, drop_runs_before_breaks
from evalgate.config.schema.gate import GateConfig
from evalgate.core import registry
from evalgate.core.exit_codes import ExitCode
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import get_score_range
from evalgate.core.types import (
    Baseline,
    CaseMetric,
    CasePolicy,
    CaseResult,
    CaseRun,
    Criterion,
    EvalCase,
    GateInput,
    MetricResult,
    NotApplicable,
    Record,
    RunMetric,
    RunResult,
)
from evalgate.gating.assessment import summarize_runs
from evalgate.gating.comparison import compare_with_baseline, explain_missing_deltas
from evalgate.gating.sampling import AdaptiveRuns
from evalgate.gating.score_tables import build_statistical_policy
from evalgate.gating.verdict import decide_verdict
from evalgate.metrics.aggregation import compute_totals
from evalgate.metrics.scoring import BoundMetric, score_case


@frozen
class GateRules:
    """Thresholds and settings for the evaluation of stored runs."""

    gate: GateConfig
    runs: int | Literal["auto"]
    """The setting that the runs were made with."""
    criteria: Mapping[str, Criterion] = field(default_factory=dict)
    """Metric → criterion: aggregation of a case's runs, and replacement of the stored thresholds."""
    policies: Mapping[tuple[str, str], CasePolicy] | None = None
    """Eval set and case → its policy; None: stored thresholds, weights and tags are kept."""


def reevaluate(record: Record, rules: GateRules, baseline: Baseline | None) -> Record:
    """Return the record as these rules and this baseline would have made it, verdict included."""
    if baseline is not None and len(baseline.sources) > 1:
        held = collect_thresholds([rescore_case(case, rules) for case in record.cases])
        baseline = drop_runs_before_breaks(baseline, held, rules.gate.statistics.pass_score)
    repeatable = record.agent.kind != "replay"
    policy = build_statistical_policy(rules.gate, rules.runs, rules.criteria.values(), repeatable=repeatable)
    sampling = AdaptiveRuns(policy, baseline)

    def rescore_cases(rounds: int | None) -> tuple[CaseResult, ...]:
        return tuple(rescore_case(case, rules, rounds) for case in record.cases)

    found = summarize_runs(rules.gate, rules.runs, rescore_cases, sampling)
    comparison = compare_with_baseline(found.cases, baseline) if baseline else None
    interrupted = record.verdict.exit_code == ExitCode.INTERRUPTED
    evidence = GateInput(found.metrics, found.cases, compute_totals(found.cases), comparison, interrupted)
    nothing = explain_missing_deltas(found.metrics, comparison) if comparison else ""
    return replace(
        record,
        runs=found.rounds,
        verdict=decide_verdict(evidence, rules.gate),
        metrics=found.metrics,
        cases=found.cases,
        totals=replace(evidence.totals, cost_usd=record.totals.cost_usd, known_usd=record.totals.known_usd),
        comparison=comparison,
        notices=(
            *found.notices,
            *((nothing,) if nothing else ()),
            *(describe_already_failing(found.cases, baseline) if baseline else ()),
        ),
        effort=found.effort,
    )


def rescore_case(case: CaseResult, rules: GateRules, rounds: int | None = None) -> CaseResult:
    """Return the case with its stored scores under the rules; runs beyond `rounds` only confirm."""
    policy = _get_policy(case, rules)
    metrics = [_bind_metric(metric, rules, policy) for metric in case.metrics if _is_asked(metric, rules)]
    thresholds = {bound.name: bound for bound in metrics}
    runs = [
        replace(
            run,
            metrics=tuple(
                _apply_threshold(each, thresholds[each.name])
                for each in run.metrics
                if each.name in thresholds
            ),
            confirms=rounds is not None and run.run > rounds,
        )
        for run in case.runs
    ]
    asked = EvalCase(case.eval_id, line=case.line)
    fingerprint, path = case.fingerprint, case.path
    return score_case(
        case.eval_set_id, asked, runs, metrics, path=path, fingerprint=fingerprint, policy=policy
    )


class _StoredScores:
    """Metric for stored scores, which is never asked to score."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return `NotApplicable`: the stored scores are used."""
        del case, run
        return NotApplicable("the scores are those that were stored")


_STORED_SCORES = _StoredScores()


def _get_policy(case: CaseResult, rules: GateRules) -> CasePolicy:
    if rules.policies is None:
        return CasePolicy(case.tags, case.weight, case.protected, quarantine=case.quarantine)
    return rules.policies.get(case.key, CasePolicy())


def _is_asked(metric: CaseMetric, rules: GateRules) -> bool:
    """Return True if the metric is evaluated under the rules.

    Without policies every stored metric is; the final state needs no criterion.
    """
    return rules.policies is None or metric.name in rules.criteria or metric.name == registry.FINAL_STATE


def _bind_metric(metric: CaseMetric, rules: GateRules, policy: CasePolicy) -> BoundMetric:
    own = rules.criteria.get(metric.name, Criterion(metric.name, metric.threshold))
    if rules.policies is None:
        held = replace(own, threshold=metric.threshold, range=metric.range, min_mean=metric.min_mean)
        return BoundMetric(held, _STORED_SCORES, metric.fingerprint, metric.scope)
    return BoundMetric(own, _STORED_SCORES, metric.fingerprint).apply_threshold(
        policy.thresholds.get(metric.name)
    )


def _apply_threshold(metric: RunMetric, bound: BoundMetric) -> RunMetric:
    if metric.score is None or not metric.literal:
        return metric
    return replace(metric, status=bound.decide_status(metric.score))


def build_stored_record(baseline: Baseline, criteria: Mapping[str, Criterion], like: Record) -> Record:
    """Return a baseline's runs as a record, with all other fields from `like`."""
    cases = []
    for stored in baseline.cases:
        found = {
            name: criteria.get(name, Criterion(name, 0.0, range=known))
            for name in stored.metric_fingerprints
            for known in [get_score_range(name)]
        }
        held = {name: criterion.threshold for name, criterion in found.items()}
        metrics = tuple(
            CaseMetric(
                name,
                None,
                criterion.threshold,
                "not_evaluated",
                fingerprint=stored.metric_fingerprints[name],
                range=criterion.range,
                min_mean=criterion.min_mean,
            )
            for name, criterion in found.items()
        )
        runs = tuple(
            RunResult(
                number,
                run.outcome,
                run.duration_s,
                (),
                () if run.outcome != "answered" else tuple(_build_run_metrics(run.scores, held)),
                run.usage,
            )
            for number, run in enumerate(stored.runs, 1)
        )
        cases.append(
            CaseResult(stored.eval_set_id, stored.eval_id, stored.status, metrics, runs, stored.fingerprint)
        )
    return replace(like, cases=tuple(cases))


def _build_run_metrics(scores: Mapping[str, float | None], held: Mapping[str, float]) -> Sequence[RunMetric]:
    return [
        RunMetric(
            name,
            score,
            "not_evaluated" if score is None else "passed" if score >= held[name] else "failed",
        )
        for name, score in scores.items()
    ]
