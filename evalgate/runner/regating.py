"""Decide the verdict of stored results again, from the stored scores, by other rules or another baseline."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal

from evalgate.baselines.failing_since import (
    collect_case_thresholds,
    describe_already_failing,
    keep_comparable_runs,
)
from evalgate.config.schema.gate import GateConfig
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core import plugin_registry
from evalgate.core.exit_codes import ExitCode
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import get_score_range
from evalgate.core.types import (
    AgentInfo,
    Baseline,
    BaselineCase,
    CaseKey,
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
    Totals,
    Verdict,
)
from evalgate.gating.case_changes import describe_missing_checks, explain_missing_deltas
from evalgate.gating.comparison import ComparedRuns, ScoredRuns, compare_runs
from evalgate.gating.failure_groups import group_failures
from evalgate.gating.significance import decide_metrics
from evalgate.gating.statistical_policy import StatisticalPolicy, build_statistical_policy
from evalgate.gating.verdict import decide_verdict
from evalgate.metrics.metric_summaries import compute_totals
from evalgate.metrics.scoring import DEFAULT_CASE_POLICY, BoundMetric, score_case

EMPTY_RECORD = Record(
    "", "", 0.0, AgentInfo("stored", "runs"), 1, Verdict("pass", ExitCode.OPEN), (), (), Totals()
)
"""Record without cases, to which `build_stored_record` adds the runs of a baseline."""


@frozen
class GateRules:
    """Rules for the evaluation of stored runs: settings of the gate, criteria, and policies of cases."""

    gate: GateConfig
    runs: int | Literal["auto"]
    """The setting `runs` with which the stored runs were made."""
    criteria: Mapping[str, Criterion] = field(default_factory=dict)
    """Criterion of each metric, by metric name. It decides how the scores of a case's runs are aggregated.

    If `case_policies` is None, the stored thresholds are kept. Otherwise, the criterion's threshold replaces
    the stored one, and metrics without a criterion are left out, except `final_session_state`."""
    case_policies: Mapping[tuple[str, str], CasePolicy] | None = None
    """Policies by (eval set id, case id). None to keep the stored thresholds, weights and tags."""


_CONTROL_LEFT_OUT = "The control runs of the record are left out: the comparison with the baseline decides."


def regate_record(record: Record, rules: GateRules, baseline: Baseline | None) -> Record:
    """Return a copy of the record with a new verdict by `rules`, and without its control runs and anchor."""
    # A baseline of a single gate run cannot show since when a case fails.
    if baseline is not None and len(baseline.sources) > 1:
        case_thresholds = collect_case_thresholds([apply_rules(case, rules) for case in record.cases])
        baseline = keep_comparable_runs(baseline, case_thresholds)
    if baseline is not None and rules.gate.baseline is None:
        # A drop against a baseline closes the gate, wherever the baseline comes from.
        rules = replace(rules, gate=rules.gate.model_copy(update={"baseline": baseline.path or "given"}))
    rules = replace(rules, gate=limit_min_cases(rules.gate, record))
    repeatable = record.agent.kind != "replay"
    statistics = build_statistical_policy(
        rules.gate, rules.runs, rules.criteria.values(), repeatable=repeatable
    )
    scored = aggregate_stored_scores(record.cases, rules, statistics, baseline)
    compared_runs = compare_runs(scored, baseline, rules.gate, whole_sets=_list_whole_sets(record))
    cases, comparison = compared_runs.cases, compared_runs.baseline_comparison
    evidence = GateInput(
        compared_runs.metrics,
        cases,
        compute_totals(cases),
        comparison,
        record.verdict.exit_code == ExitCode.INTERRUPTED,
        doubts=find_stored_doubts(record),
        not_selected=count_unselected(record),
        criteria=statistics.criteria,
    )
    return replace(
        record,
        runs=scored.rounds,
        verdict=decide_verdict(evidence, rules.gate),
        metrics=compared_runs.metrics,
        cases=cases,
        totals=replace(evidence.totals, cost_usd=record.totals.cost_usd, known_usd=record.totals.known_usd),
        comparison=comparison,
        notices=(
            *((_CONTROL_LEFT_OUT,) if record.control else ()),
            *compared_runs.notices,
            *(_describe_baseline(compared_runs, baseline) if baseline else ()),
        ),
        effort=compared_runs.effort,
        failure_groups=group_failures(cases, comparison, record.criteria, baseline),
        control=None,
        anchor=None,  # only a run reads the anchor; by these rules there may be another anchor, or none
    )


def limit_min_cases(gate: GateConfig, record: Record) -> GateConfig:
    """Return `gate`; if the user selected single cases, lower `min_cases` to the number of these cases.

    Then a small number of cases is no reason to refuse a verdict. Single cases are selected by options such
    as `--tag`, or by arguments `FILE:CASE`; the latter count only if no eval set was run as a whole.
    """
    is_named = bool(record.partial_sets) and not _list_whole_sets(record)
    if record.selection is None and not is_named:
        return gate
    cases = record.selection.cases if record.selection else len(record.cases)
    return gate.model_copy(update={"min_cases": min(gate.min_cases, cases)})


def count_unselected(record: Record) -> int:
    """Return the number of cases that options such as `--tag` left out; 0 without such options."""
    return record.selection.of - record.selection.cases if record.selection else 0


def _list_whole_sets(record: Record) -> frozenset[str] | None:
    """Return the ids of the eval sets that were run with all their cases; None if nothing was left out.

    If options such as `--tag` selected the cases, no eval set counts as complete, and the result is empty.
    """
    if record.selection is not None:
        return frozenset()
    if record.is_part or record.partial_sets:  # older files have only `partial_sets`
        return frozenset(case.eval_set_id for case in record.cases) - set(record.partial_sets)
    return None


def _describe_baseline(compared_runs: ComparedRuns, baseline: Baseline) -> Iterator[str]:
    """Yield notices about checks and metrics that cannot be compared with the baseline.

    Then yield notices about cases that fail now and failed in the baseline already.
    """
    if missing := describe_missing_checks(compared_runs.cases, baseline):
        yield missing
    comparison = compared_runs.baseline_comparison
    if comparison and (nothing := explain_missing_deltas(compared_runs.metrics, comparison)):
        yield nothing
    yield from describe_already_failing(compared_runs.cases, baseline)


def compare_stored_record(record: Record, baseline: Baseline, thresholds: Thresholds, name: str) -> Record:
    """Compare a stored record with a baseline, and return a copy with the new verdict; no case is run.

    The section `gate` of `thresholds` applies. The stored thresholds of cases are not changed. `name` is the
    name of the baseline in reports.
    """
    criteria = {criterion.metric: criterion for criterion in thresholds.effective_criteria}
    gate = thresholds.config.gate.model_copy(update={"baseline": name})
    return regate_record(record, GateRules(gate, infer_runs_setting(record), criteria), baseline)


def find_stored_doubts(record: Record) -> tuple[str, ...]:
    """Return the reasons, such as a spent budget, why a stored record can get no verdict.

    Return () if the record had a verdict. Also return () if its cases alone show that no verdict is possible:
    the new decision finds these reasons again.
    """
    if record.verdict.exit_code != ExitCode.NO_VERDICT:
        return ()
    evidence = GateInput(record.metrics, record.cases, record.totals, record.comparison)
    shown = decide_verdict(evidence, GateConfig()).exit_code == ExitCode.NO_VERDICT
    return () if shown else record.verdict.reasons


def aggregate_stored_scores(
    cases: Sequence[CaseResult], rules: GateRules, statistics: StatisticalPolicy, baseline: Baseline | None
) -> ScoredRuns:
    """Return the stored scores of every case, aggregated over the runs that count. No metric is called.

    A round is one run of every case. Runs count if they are in a round that the statistical decision used.
    """
    scored = tuple(apply_rules(case, rules) for case in cases)
    rounds = min((len(case.runs) for case in scored), default=0) if rules.runs == "auto" else rules.runs
    decision = decide_metrics(scored, baseline, statistics)
    rounds = decision.rounds if decision else rounds
    if statistics.makes_more_runs:
        scored = tuple(apply_rules(case, rules, rounds) for case in cases)
    return ScoredRuns(scored, rounds, statistics, decision)


def apply_rules(case: CaseResult, rules: GateRules, rounds: int | None = None) -> CaseResult:
    """Return the case with the rules applied to its stored scores.

    Runs after the first `rounds` runs are marked as follow-up runs and do not count for means. If `rounds` is
    None, all runs count.
    """
    if rules.case_policies is None:
        case_policy = CasePolicy(case.tags, case.weight, case.protected, quarantine=case.quarantine)
    else:
        case_policy = rules.case_policies.get(case.key, CasePolicy())
    metrics = [
        _bind_metric(metric, rules, case_policy) for metric in case.metrics if _is_evaluated(metric, rules)
    ]
    thresholds = {bound.name: bound for bound in metrics}
    runs = [
        replace(
            run,
            metrics=tuple(
                _apply_criterion(each, thresholds[each.name])
                for each in run.metrics
                if each.name in thresholds
            ),
            confirms=rounds is not None and at >= rounds,
        )
        for at, run in enumerate(case.runs)
    ]
    eval_case = EvalCase(
        case.eval_id,
        line=case.line,
        status="observed" if case.observed else "expected",
        source=case.source,
    )
    fingerprint, path = case.fingerprint, case.path
    return score_case(
        case.eval_set_id,
        eval_case,
        runs,
        metrics,
        path=path,
        fingerprint=fingerprint,
        case_policy=case_policy,
    )


class _StoredScores:
    """Placeholder for a metric that was already scored, where a `Metric` object is required."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return `NotApplicable`. This is never called, because the stored scores are used."""
        del case, run
        return NotApplicable("the scores are those that were stored")


_STORED_SCORES = _StoredScores()


def _is_evaluated(metric: CaseMetric, rules: GateRules) -> bool:
    """Return True if the metric is evaluated under the rules.

    If `rules.case_policies` is None, every stored metric is evaluated. Otherwise a metric is evaluated only
    if it has a criterion or is `final_session_state`: a run adds this metric without a criterion, for cases
    that expect a final state.
    """
    return (
        rules.case_policies is None
        or metric.name in rules.criteria
        or metric.name == plugin_registry.FINAL_STATE
    )


def _bind_metric(metric: CaseMetric, rules: GateRules, case_policy: CasePolicy) -> BoundMetric:
    own = rules.criteria.get(metric.name, Criterion(metric.name, metric.threshold))
    if rules.case_policies is None:
        criterion = replace(
            own,
            threshold=metric.threshold,
            range=metric.range,
            min_mean=metric.min_mean,
            gates=metric.gates,
        )
        return BoundMetric(criterion, _STORED_SCORES, metric.fingerprint, metric.scope)
    return BoundMetric(own, _STORED_SCORES, metric.fingerprint).apply_threshold(
        case_policy.thresholds.get(metric.name)
    )


def _apply_criterion(metric: RunMetric, bound: BoundMetric) -> RunMetric:
    gates = bound.criterion.gates
    if metric.score is None or not metric.literal:
        return metric if metric.gates == gates else replace(metric, gates=gates)
    return replace(metric, status=bound.decide_score_status(metric.score), gates=gates)


def build_stored_record(
    baseline: Baseline,
    criteria: Mapping[str, Criterion],
    like: Record,
    case_policies: Mapping[CaseKey, CasePolicy] | None = None,
    observed: Collection[CaseKey] = (),
) -> Record:
    """Return a baseline as a record: a copy of `like`, with cases built from the baseline's runs.

    A baseline stores no thresholds. So the threshold of a metric comes from the policy of the case, or else
    from `criteria` (criteria by metric name), or else is 0. Cases that are not in `case_policies` get the
    default policy; if `case_policies` is None, these are all cases. `observed` are the imported cases that
    were not reviewed yet.
    """
    known = case_policies or {}
    cases = (
        _build_stored_case(stored, criteria, known.get(stored.key, DEFAULT_CASE_POLICY))
        for stored in baseline.cases
    )
    return replace(like, cases=tuple(replace(case, observed=case.key in observed) for case in cases))


def _build_stored_case(
    stored: BaselineCase, criteria: Mapping[str, Criterion], case_policy: CasePolicy
) -> CaseResult:
    found = {
        name: BoundMetric(
            criteria.get(name, Criterion(name, 0.0, range=get_score_range(name))), _STORED_SCORES, fingerprint
        ).apply_threshold(case_policy.thresholds.get(name))
        for name, fingerprint in stored.metric_fingerprints.items()
    }
    runs = tuple(
        RunResult(
            number,
            run.outcome,
            run.duration_s,
            (),
            () if run.outcome != "answered" else tuple(_build_run_metrics(run.scores, found)),
            run.usage,
        )
        for number, run in enumerate(stored.runs, 1)
    )
    return CaseResult(
        stored.eval_set_id,
        stored.eval_id,
        stored.status,
        tuple(map(_build_case_metric, found.values())),
        runs,
        stored.fingerprint,
        tags=case_policy.tags,
        weight=case_policy.weight,
        protected=case_policy.protected,
        quarantine=case_policy.quarantine,
    )


def _build_case_metric(bound: BoundMetric) -> CaseMetric:
    """Return the `CaseMetric` for a metric of a case, without a score yet."""
    criterion = bound.criterion
    return CaseMetric(
        bound.name,
        None,
        criterion.threshold,
        "not_evaluated",
        scope=bound.scope,
        fingerprint=bound.fingerprint,
        range=criterion.range,
        min_mean=criterion.min_mean,
        gates=criterion.gates,
    )


def _build_run_metrics(
    scores: Mapping[str, float | None], metrics: Mapping[str, BoundMetric]
) -> Sequence[RunMetric]:
    return [
        RunMetric(name, score, metrics[name].decide_score_status(score)) for name, score in scores.items()
    ]


# --- stored results and baselines ---------------------------------------------------------------------------


def infer_runs_setting(record: Record) -> int | Literal["auto"]:
    """Return the setting `runs` with which a stored record was made, inferred from the record.

    Return `auto` if the record has the field `effort`, which only `runs: auto` sets. Otherwise return the
    largest number of runs of a case, without follow-up runs (further runs that check a failure).
    """
    most = max((sum(not run.confirms for run in case.runs) for case in record.cases), default=1)
    return "auto" if record.effort is not None else max(most, 1)
