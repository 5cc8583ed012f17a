"""What is taken off averages that look good because `runs: auto` stopped at them."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from evalgate.compare.tables import Tables, is_line, pool_name, table_name
from evalgate.model import MetricSummary
from evalgate.numbers import shown
from evalgate.scoring.ranges import Range
from evalgate.statistics.change import pooled_variance
from evalgate.statistics.earlystop import early_stop_bias
from evalgate.statistics.pairing import Pair, Sorted, sort_out
from evalgate.statistics.parameters import EPSILON, Parameters
from evalgate.statistics.results import Decision, MetricDecision
from evalgate.summary import MetricKey
from evalgate.telling.findings import metric_label

_NAMED = 3  # metrics that one notice names


def find_excesses(tables: Tables, decision: Decision, parameters: Parameters) -> Iterator[tuple[str, float]]:
    """Yield each table whose average stopped the rounds, and by how much that makes it too high.

    As shares of the metric's range. An average that failed, or that is better by more than luck, stopped the
    rounds for another reason; one of the last round stopped nothing.
    """
    if any(
        part.kind == "average" and part.verdict == "fail"
        for each in decision.metrics.values()
        for part in each.parts
    ):
        return
    for name, found in decision.metrics.items():
        if is_line(name) or not _stopped_early(found, parameters):
            continue
        keep, rounds = parameters.baseline_keep, found.rounds
        whole = sort_out(tables[name].cases, keep=keep, first=rounds, runs=rounds)
        bias = early_stop_bias(whole.pairs, max_drop=found.rule.max_drop or 0.0, rounds=rounds)
        lines = [each for each in tables if is_line(each) and each.startswith(f"{name}\0")] or [name]
        for line in lines:
            part = sort_out(tables[line].cases, keep=keep, first=rounds, runs=rounds)
            yield line, bias * _share(part, whole.pairs)


def _stopped_early(found: MetricDecision, parameters: Parameters) -> bool:
    limit, change = found.rule.max_drop, found.change
    if limit is None or change is None or found.reason == "better":
        return False
    return found.rounds < parameters.max_runs and change.drop < limit / 2 - EPSILON


def _share(part: Sorted, whole: tuple[Pair, ...]) -> float:
    """Return how far the average of some cases moves when the average of all moves by 1."""
    total = math.fsum(pair.weight for pair in whole)
    variance = math.fsum((pair.weight / total) ** 2 * pooled_variance(pair) for pair in whole)
    own = math.fsum(weight for _, weight in part.measured.values())
    if variance == 0 or own == 0:
        return 0.0
    shared = math.fsum(pair.weight**2 / total / own * pooled_variance(pair) for pair in part.pairs)
    return shared / variance


def with_corrections(
    keys: Iterable[MetricKey], metrics: Iterable[MetricSummary], excesses: Mapping[str, float]
) -> tuple[MetricSummary, ...]:
    """Return the summaries, each with its corrected score where its average stopped the rounds."""
    return tuple(
        _corrected(metric, excesses.get(table_name(key), excesses.get(pool_name(key.name, key.fingerprint))))
        for key, metric in zip(keys, metrics, strict=True)
    )


def _corrected(metric: MetricSummary, excess: float | None) -> MetricSummary:
    if metric.score is None or not excess:
        return metric
    known = Range(*metric.range)
    score = min(known.high, max(known.low, metric.score - excess * known.width))
    return replace(metric, corrected_score=score)


def corrections_told(metrics: Iterable[MetricSummary]) -> Iterator[str]:
    """Yield one sentence about the averages that differ visibly from their corrected ones."""
    told = [
        f"{metric_label(metric)} {shown(metric.corrected_score)} instead of {shown(metric.score)}"
        for metric in metrics
        if metric.corrected_score is not None and shown(metric.corrected_score) != shown(metric.score)
    ]
    if told:
        more = f" and {len(told) - _NAMED} more" if len(told) > _NAMED else ""
        yield (
            "`runs: auto` stops at averages that look good, which are too good on average. Corrected for "
            f"that: {', '.join(told[:_NAMED])}{more}. The verdict does not depend on it."
        )
