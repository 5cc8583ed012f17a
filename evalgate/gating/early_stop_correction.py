"""Correct the averages that are too good because `runs: auto` stopped when they looked good."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from evalgate.core.formatting import format_score, join_first
from evalgate.core.types import MetricSummary
from evalgate.gating.score_tables import (
    ScoreTables,
    build_metric_table_name,
    build_report_row_table_name,
    is_report_row_table,
    list_report_row_tables,
)
from evalgate.metrics.metric_summaries import MetricKey
from evalgate.statistics.auto_runs import estimate_early_stop_bias
from evalgate.statistics.mean_difference import compute_pooled_variance
from evalgate.statistics.metric_decisions import Decision, MetricDecision
from evalgate.statistics.parameters import EPSILON, Parameters
from evalgate.statistics.score_pairs import Pair, PairedScores, pair_cases

_NAMED_METRICS = 3  # metrics that one sentence lists


def correct_averages(
    summaries: Iterable[MetricSummary],
    keys: Iterable[MetricKey],
    tables: ScoreTables,
    decision: Decision,
    parameters: Parameters,
) -> tuple[tuple[MetricSummary, ...], tuple[str, ...]]:
    """Return (summaries with the biased averages corrected, sentences about the corrections).

    `keys` are the keys of the summaries, in the same order.
    """
    excesses = dict(_find_excesses(tables, decision, parameters))
    corrected = _apply_corrections(keys, summaries, excesses)
    return corrected, tuple(describe_corrections(corrected))


def _find_excesses(
    tables: ScoreTables, decision: Decision, parameters: Parameters
) -> Iterator[tuple[str, float]]:
    """Yield (table name, excess) for each average that is biased because `runs: auto` stops at good averages.

    The excess is the expected bias, as a share of the metric's range; negative if the average is too low.
    Nothing is yielded if any average failed: then the runs stopped because of a bad average, not a good one.

    An average is left out if it has no such bias: all `max_runs` rounds were made, or the average is lower
    than in the baseline by half of `max_drop` or more, or it rose by more than luck.
    """
    if any(
        part.kind == "average" and part.verdict == "fail"
        for each in decision.metrics.values()
        for part in each.checks
    ):
        return
    for name, found in decision.metrics.items():
        if is_report_row_table(name) or found.rule.is_figure or not _has_stopped_early(found, parameters):
            continue
        keep, rounds = parameters.baseline_keep, found.rounds
        whole = pair_cases(tables[name].cases, keep=keep, first=rounds, runs=rounds)
        bias = estimate_early_stop_bias(
            whole.pairs,
            max_drop=found.rule.max_drop or 0.0,
            rounds=rounds,
            min_runs=parameters.min_runs,
        )
        for table in list_report_row_tables(tables, name) or [name]:
            part = pair_cases(tables[table].cases, keep=keep, first=rounds, runs=rounds)
            yield table, bias * _compute_sensitivity(part, whole.pairs)


def _has_stopped_early(metric_decision: MetricDecision, parameters: Parameters) -> bool:
    limit, change = metric_decision.rule.max_drop, metric_decision.change
    if limit is None or change is None or metric_decision.reason == "better":
        return False
    return metric_decision.rounds < parameters.max_runs and change.drop < limit / 2 - EPSILON


def _compute_sensitivity(part: PairedScores, whole: tuple[Pair, ...]) -> float:
    """Return the expected change of the average of `part` if luck changes the average of `whole` by 1.

    `part` is one row of a metric in the report, `whole` the metric with all its cases.
    """
    total = math.fsum(pair.weight for pair in whole)
    variance = math.fsum((pair.weight / total) ** 2 * compute_pooled_variance(pair) for pair in whole)
    own = math.fsum(weight for _, weight in part.measured.values())
    if variance == 0 or own == 0:
        return 0.0
    shared = math.fsum(pair.weight**2 / total / own * compute_pooled_variance(pair) for pair in part.pairs)
    return shared / variance


def _apply_corrections(
    keys: Iterable[MetricKey], metrics: Iterable[MetricSummary], excesses: Mapping[str, float]
) -> tuple[MetricSummary, ...]:
    """Return the summaries, with a corrected score for each average with an entry in `excesses`.

    `keys` are the keys of the summaries, in the same order. `excesses` maps the names of score tables to
    excesses, as shares of the metric's range.
    """
    return tuple(
        metric
        if not key.gates
        else _apply_correction(
            metric,
            excesses.get(
                build_report_row_table_name(key),
                excesses.get(build_metric_table_name(key.name, key.fingerprint)),
            ),
        )
        for key, metric in zip(keys, metrics, strict=True)
    )


def _apply_correction(metric: MetricSummary, excess: float | None) -> MetricSummary:
    if metric.score is None or not excess:
        return metric
    score_range = metric.range
    score = min(score_range.high, max(score_range.low, metric.score - excess * score_range.width))
    return replace(metric, corrected_score=score)


def describe_corrections(metrics: Iterable[MetricSummary]) -> Iterator[str]:
    """Yield a sentence about the corrected averages that were too high, and one about those too low."""
    too_good, too_bad = list[str](), list[str]()
    for metric in metrics:
        score, corrected = metric.score, metric.corrected_score
        if score is not None and corrected is not None and format_score(corrected) != format_score(score):
            text = f"{metric.label} {format_score(corrected)} instead of {format_score(score)}"
            (too_good if corrected < score else too_bad).append(text)
    for texts, why in (
        (too_good, "stops at averages that look good, which are too good on average"),
        (too_bad, "makes more rounds after an average that looks bad, which is too bad on average"),
    ):
        if texts:
            yield (
                f"`runs: auto` {why}. Corrected for that: {join_first(texts, _NAMED_METRICS)}. The verdict "
                "does not depend on it."
            )
