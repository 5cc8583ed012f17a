"""Decide by statistics, and write the decisions into the fields of the record.

These types hold the comparison with a baseline. Figures in types of `statistics/` are shares of a metric's
range. Figures in types of the record have the unit of the metric's scores:

| type | compares | made in | held by |
|---|---|---|---|
| `MeanDifference` | a mean | `mean_difference.py` | `change` of `Assessment` and `MetricDecision` |
| `RuleCheck` | a rule | `metric_assessment.py` | `checks` of `Assessment` and `MetricDecision` |
| `Assessment` | a metric, after some rounds | `metric_assessment.py` | no field |
| `MetricDecision` | a metric, at the end | `metric_decisions.py` | `Decision.metrics`, by table name |
| `CaseComparison` | a case | `metric_decisions.py` | `MetricDecision.cases`, `CaseMetric.standing` |
| `MetricComparison` | a metric, in the record | here | `MetricSummary.judgement` |
| `Comparison` | all cases that changed | `case_changes.py` | `Record.comparison`, `GateInput.comparison` |

For a budget, `budgets.py` makes the `CaseComparison` and the `MetricComparison`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from evalgate.config.schema.gate import GateConfig
from evalgate.core.formatting import build_case_quote
from evalgate.core.score_ranges import UNIT_RANGE, Range
from evalgate.core.types import (
    MEASURED_STATUSES,
    NON_AGENT_OUTCOMES,
    Baseline,
    CaseMetric,
    CaseResult,
    MetricComparison,
    MetricSummary,
    Status,
)
from evalgate.gating.comparison import ComparedRuns, ScoredRuns
from evalgate.gating.score_tables import (
    ScoreTables,
    build_metric_table_name,
    build_report_row_table_name,
    build_row_name,
    build_row_quote,
    build_score_tables,
    collect_confirmed_rows,
    compare_report_row_means,
    describe_out_of_range_scores,
    list_report_row_tables,
    split_score_tables,
)
from evalgate.gating.statistical_policy import StatisticalPolicy
from evalgate.gating.verdict_messages import (
    MessageContext,
    describe_decision,
    describe_low_means,
    describe_metric,
)
from evalgate.llm.budget_guard import was_stopped_by_budget
from evalgate.metrics.metric_summaries import group_by_metric
from evalgate.statistics.auto_runs import decide_available_runs
from evalgate.statistics.mean_difference import MeanDifference
from evalgate.statistics.metric_decisions import Decision, MetricDecision, decide_without_follow_ups
from evalgate.statistics.parameters import Parameters
from evalgate.statistics.power_planning import estimate_detectable_drop
from evalgate.statistics.score_pairs import pair_cases


def decide_metrics(
    cases: Sequence[CaseResult], baseline: Baseline | None, statistics: StatisticalPolicy
) -> Decision | None:
    """Return the decision of the statistics from the existing runs; None if no metric can be judged."""
    tables = build_score_tables(cases, baseline, statistics)
    if not tables:
        return None
    # `decide_available_runs` never asks for further runs, which an interrupted or stored gate run cannot get.
    decide = decide_available_runs if statistics.makes_more_runs else decide_without_follow_ups
    return decide(tables, statistics.parameters)


def apply_decision(
    scored: ScoredRuns,
    metrics: tuple[MetricSummary, ...],
    baseline: Baseline | None,
    gate: GateConfig,
    *,
    with_power: bool = True,
) -> ComparedRuns:
    """Return the metrics and cases with the decision of the statistics added, and notices about the decision.

    The decision and the cases are those of `scored`; `metrics` are the summaries of the cases. A metric with
    scores outside its range is not judged by statistics and keeps its plain difference. If `with_power` is
    False, the drops that the gate catches reliably are not estimated.
    """
    statistics, decision, cases = scored.statistics, scored.decision, scored.cases
    if statistics is None:
        return ComparedRuns(metrics, cases)
    tables, outside = split_score_tables(cases, baseline, statistics)
    quote = build_case_quote(case.key for case in cases)
    beyond = tuple(describe_out_of_range_scores(outside, quote))
    parameters = statistics.parameters
    context = build_message_context(baseline, cases, parameters, gate)
    if any(each.range.lower_is_better for each in metrics):
        # Imported here, because most runs have no budget.
        from evalgate.gating.budgets import compare_budgets

        metrics, cases = compare_budgets(metrics, cases, baseline, statistics, decision, context)
    if decision is None:
        return ComparedRuns(metrics, cases, notices=beyond)
    rounds = {name: metric.rounds for name, metric in decision.metrics.items()}
    differences = dict(compare_report_row_means(tables, rounds, parameters))
    if with_power:
        decision = _add_detectable_drops(decision, tables, parameters)
    summaries, compared_cases = write_decision(metrics, cases, decision, context, differences)
    corrections: tuple[str, ...] = ()
    if statistics.is_auto:
        # Only `runs: auto` stops because an average looks good. With a fixed number of runs there is no bias.
        from evalgate.gating.early_stop_correction import correct_averages

        keys = group_by_metric(cases)
        summaries, corrections = correct_averages(summaries, keys, tables, decision, parameters)
    weaknesses, low_means = describe_decision(decision, parameters), describe_low_means(summaries)
    notices = (*beyond, *weaknesses, *low_means, *corrections)
    effort = decision.cost if statistics.is_auto else None
    return ComparedRuns(summaries, compared_cases, effort=effort, notices=notices)


def _add_detectable_drops(decision: Decision, tables: ScoreTables, parameters: Parameters) -> Decision:
    """Return the decision with `detectable_drop`, the smallest reliably caught drop, of each tested average.

    If a metric has several rows in the report, each row gets its own `detectable_drop`.
    """
    tested = [
        name
        for name, each in decision.metrics.items()
        if each.level is not None and each.rule.max_drop is not None and not each.rule.is_figure
    ]
    found = dict(decision.metrics)
    for name in tested:
        whole = decision.metrics[name]
        for table in (name, *list_report_row_tables(tables, name)):
            scores = pair_cases(
                tables[table].cases, keep=parameters.baseline_keep, first=whole.rounds, runs=whole.rounds
            )
            if scores.pairs and table in found:
                smallest = estimate_detectable_drop(
                    scores.pairs, parameters, max_drop=whole.rule.max_drop or 0.0, metrics=len(tested)
                )
                found[table] = replace(found[table], detectable_drop=smallest)
    return replace(decision, metrics=found)


def write_decision(
    metrics: Sequence[MetricSummary],
    cases: Sequence[CaseResult],
    decision: Decision,
    context: MessageContext,
    differences: Mapping[str, MeanDifference],
) -> tuple[tuple[MetricSummary, ...], tuple[CaseResult, ...]]:
    """Return summaries and cases, with the comparison with the baseline added to each of them.

    Args:
        metrics: the summaries of `cases`, in the order of `summarize_metrics`.
        cases: all cases of the run.
        decision: decision on every metric. If a metric has several rows in the report, it also holds a
            decision on the minima of each row.
        context: names, settings and formats for the sentences.
        differences: for metrics with several rows, maps a row's table name to the difference of its mean.
    """
    summaries, described = [], set[str]()
    for key, summary in zip(group_by_metric(cases), metrics, strict=True):
        name, row_table = build_metric_table_name(key.name, key.fingerprint), build_report_row_table_name(key)
        whole, minima = decision.metrics.get(name), decision.metrics.get(row_table)
        has_minimum = key.min_mean is not None
        if whole is None or not key.gates or whole.rule.is_figure:
            summaries.append(summary)
        elif minima is None:
            summaries.append(
                _write_metric_decision(
                    summary, whole, _build_report_row_context(summary, context), has_minimum=has_minimum
                )
            )
        else:
            decided = _combine_report_row_decision(whole, minima, differences.get(row_table))
            row_context = _build_report_row_context(summary, context)
            # Only one row has the sentences about the whole metric: the first row with the same verdict.
            is_first = name not in described and whole.verdict == decided.verdict
            described |= {name} if is_first else set()
            result = _write_metric_decision(summary, decided, row_context, has_minimum=has_minimum)
            summaries.append(
                _add_sentences(result, decided, minima, whole if is_first else None, row_context)
            )
    compared_cases = tuple(
        replace(case, metrics=tuple(_add_standing(metric, case, decision) for metric in case.metrics))
        for case in cases
    )
    return tuple(summaries), compared_cases


def _combine_report_row_decision(
    whole: MetricDecision, minima: MetricDecision, difference: MeanDifference | None
) -> MetricDecision:
    """Return the decision on one row of a metric in the report.

    A row covers some of the metric's cases, such as those of a tag. The result is a copy of `whole`, the
    decision on all cases. Its minima and number of cases are those of `minima`, the decision on the row's
    cases, and its difference of the mean is `difference`.
    """
    minimum_checks = tuple(part for part in minima.checks if part.kind in {"minimum", "reliability"})
    if difference is not None and whole.change is not None:
        difference = replace(difference, p=whole.change.p)  # the test is that of the whole metric
    return replace(
        whole,
        rule=replace(whole.rule, min_score=minima.rule.min_score, reliability=minima.rule.reliability),
        checks=(*whole.checks, *minimum_checks),
        change=None if whole.change is None else difference,
        minimum=minima.minimum,
        reliability=minima.reliability,
        cases={case: whole.cases[case] for case in minima.cases if case in whole.cases},
        missing=minima.missing,
        planned=minima.planned,
        flip=None,
        detectable_drop=minima.detectable_drop,
    )


def _add_sentences(
    summary: MetricSummary,
    decided: MetricDecision,
    minima: MetricDecision,
    whole: MetricDecision | None,
    context: MessageContext,
) -> MetricSummary:
    """Return the summary of one row of a metric in the report, with the row's sentences.

    Args:
        summary: summary of the row.
        decided: decision on the row: the checks of the whole metric, and those of the row's minima.
        minima: the decision on the row's minima.
        whole: the decision on the whole metric; None if another row shows the sentences about it.
        context: names, settings and formats for the sentences about the row.
    """
    if summary.judgement is None:
        return summary
    has_minimum = decided.rule.min_score is not None or decided.rule.reliability is not None
    # Suspects are listed with the whole metric.
    alone = (
        describe_metric(replace(minima, cases={}), context)
        if has_minimum and minima.verdict == decided.verdict
        else ()
    )
    shared = describe_metric(whole, replace(context, is_part=False)) if whole else ()
    return replace(summary, judgement=replace(summary.judgement, sentences=alone, shared=shared))


def build_message_context(
    baseline: Baseline | None, cases: Sequence[CaseResult], parameters: Parameters, gate: GateConfig
) -> MessageContext:
    """Build the context that the sentences about metrics need, from the baseline, the cases and the gate."""
    source = baseline.sources[-1] if baseline else None
    return MessageContext(
        base_branch=source.branch if source and source.branch else "the baseline",
        on_inconclusive="warn" if gate.report_only else gate.on_inconclusive,
        fixed_runs=parameters.runs is not None,
        max_runs=parameters.max_runs,
        case_alpha=parameters.case_alpha,
        missing_because=_explain_missing_scores(cases),
        quote=build_row_quote(cases),
        confirmed=collect_confirmed_rows(cases),
    )


def _explain_missing_scores(cases: Sequence[CaseResult]) -> str:
    """Return the causes of missing scores in words: an interruption, a spent budget, or judge errors."""
    lost = [
        run
        for case in cases
        for run in case.runs
        if run.outcome in NON_AGENT_OUTCOMES or any(each.gating_status == "errored" for each in run.metrics)
    ]
    interrupted = [run for run in lost if run.failure is not None and run.failure.kind == "interrupted"]
    refused = [run for run in lost if was_stopped_by_budget(run)]
    causes = {
        "the run was interrupted": len(interrupted),
        "the budget was spent": len(refused),
        "judge or API errors": len(lost) - len(interrupted) - len(refused),
    }
    return ", ".join(why for why, runs in causes.items() if runs) or "judge or API errors"


def _write_metric_decision(
    summary: MetricSummary, metric_decision: MetricDecision, context: MessageContext, *, has_minimum: bool
) -> MetricSummary:
    """Return the summary with the decision of the statistics.

    `has_minimum` is True if the thresholds file sets `min_mean` for the summary's row.
    """
    change, score_range = metric_decision.change, summary.range
    status, judged_by = _decide_mean_status(summary, metric_decision, has_minimum=has_minimum)
    annotated = replace(
        summary,
        status=status,
        mean_judged_by=judged_by,
        flip=None if judged_by == "baseline" else summary.flip,
        regressed=_has_regressed(metric_decision),
        judgement=_build_metric_comparison(metric_decision, context, score_range),
    )
    if metric_decision.rule.max_drop is None:
        return annotated
    return replace(
        annotated,
        baseline=score_range.to_score(change.baseline) if change else None,
        # `+ 0.0`: a report must not print -0.
        delta=-change.drop * score_range.width + 0.0 if change else None,
        compared=change.cases if change else 0,
    )


def _decide_mean_status(
    summary: MetricSummary, metric_decision: MetricDecision, *, has_minimum: bool
) -> tuple[Status, Literal["minimum", "baseline"]]:
    """Return the status of a metric's mean, and whether the minimum or the baseline decided it.

    - If the statistics judged a minimum or pass^k with its interval, this judgement is the status.
    - If a minimum was not judged by statistics, the summary's status stays.
    - If there is no minimum, the mean passes: only a drop since the baseline could fail it, and drops are
      reported by `regressed` and `judgement`. A mean that does not exist is `not_evaluated`.
    - If there is no minimum and nothing was compared with the baseline, the summary's status stays.

    `has_minimum` is True if the thresholds file sets `min_mean` for the summary's row.
    """
    rule = metric_decision.rule
    checks = [each for each in (metric_decision.minimum, metric_decision.reliability) if each is not None]
    if summary.score is not None and checks:
        return ("failed" if any(each.verdict == "fail" for each in checks) else "passed"), "minimum"
    # With too many missing scores there is no verdict, and the plain threshold must not decide instead.
    # Without `max_drop` (`max_regression: 1`) no drop is too large, and the plain difference is shown.
    is_compared = metric_decision.change is not None or metric_decision.reason == "missing_runs"
    allows_any_drop = rule.max_drop is None and any(
        case.status in MEASURED_STATUSES for case in metric_decision.cases.values()
    )
    has_rule = has_minimum or rule.min_score is not None or rule.reliability is not None
    if has_rule or not (is_compared or allows_any_drop):
        return summary.status, "minimum"
    # The threshold of single cases is not a minimum of the mean. Otherwise, three flaky cases of sixty, which
    # pass nine times in ten, would close the gate on every fourth harmless change.
    return ("not_evaluated" if summary.score is None else "passed"), "baseline"


def _build_report_row_context(summary: MetricSummary, context: MessageContext) -> MessageContext:
    """Return the context for one row of the table of metrics.

    It has the row's score range, and `is_part` is True if the row covers only some of the cases.
    """
    score_range = summary.range
    is_part = bool(summary.scope or summary.eval_sets)
    return replace(
        context,
        score=score_range.to_score,
        width=None if score_range == UNIT_RANGE else score_range.width,
        is_part=is_part,
    )


def _has_regressed(metric_decision: MetricDecision) -> bool:
    """Return True if a case broke, or if the average fails its check and is lower than in the baseline."""
    fell = any(part.kind == "average" and part.verdict == "fail" for part in metric_decision.checks)
    return (fell and metric_decision.change is not None and metric_decision.change.drop > 0) or bool(
        metric_decision.list_cases("broken")
    )


def _build_metric_comparison(
    metric_decision: MetricDecision, context: MessageContext, score_range: Range
) -> MetricComparison:
    change, limit = metric_decision.change, metric_decision.rule.max_drop
    is_share = metric_decision.deciding.kind == "reliability"
    found = dict(_list_difference_fields(change)) if change else {}
    if metric_decision.detectable_drop is not None and math.isfinite(metric_decision.detectable_drop):
        found["notice"] = metric_decision.detectable_drop
    moved: dict[str, Any] = {name: value * score_range.width for name, value in found.items()}
    return MetricComparison(
        verdict=metric_decision.verdict,
        reason=metric_decision.reason,
        sentences=describe_metric(metric_decision, context),
        max_drop=None if limit is None else limit * score_range.width,
        require=metric_decision.rule.require,
        rounds=metric_decision.rounds,
        missing=metric_decision.missing,
        planned=metric_decision.planned,
        p=change.p if change else None,
        level=metric_decision.level,
        minimum=metric_decision.minimum.to_scores(score_range) if metric_decision.minimum else None,
        reliability=metric_decision.reliability,  # pass^k is a share of runs in any range
        flip=metric_decision.flip
        if metric_decision.flip is None or is_share
        else metric_decision.flip.to_scores(score_range),
        **moved,
    )


def _list_difference_fields(change: MeanDifference) -> Iterator[tuple[str, float]]:
    """Yield (name, value) for the fields of `MetricComparison` that describe the change.

    Values are shares of the metric's range. `noise` is left out if it was not measured.
    """
    yield from (("drop", change.drop), ("low", change.low), ("high", change.high))
    if not change.single:
        yield "noise", change.noise


def _add_standing(metric: CaseMetric, case: CaseResult, decision: Decision) -> CaseMetric:
    if not metric.gates:
        return metric
    found = decision.metrics.get(build_metric_table_name(metric.name, metric.fingerprint))
    outcome = found.cases.get(build_row_name(case)) if found else None
    if found is None or outcome is None or found.rule.is_figure:
        return metric
    if found.rule.max_drop is None and outcome.status not in MEASURED_STATUSES:
        return metric
    return replace(metric, standing=outcome.to_scores(metric.range))
