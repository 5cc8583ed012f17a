"""Build the matrix: compare the records of variants with the record of the first variant."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from evalgate import __version__
from evalgate.baselines.history import build_baseline
from evalgate.config import option_defaults
from evalgate.core.formatting import join_quoted, pluralize
from evalgate.core.means import compute_mean, compute_weighted_mean
from evalgate.core.score_ranges import UNIT_RANGE, Range, get_score_range
from evalgate.core.types import NON_AGENT_OUTCOMES, CaseKey, Record, RunResult
from evalgate.gating.score_tables import build_row_name, build_score_tables, is_report_row_table
from evalgate.gating.statistical_policy import StatisticalPolicy, build_statistical_policy
from evalgate.gating.variant_matrix import (
    UsageFigure,
    VariantCase,
    VariantComparison,
    VariantFigures,
    VariantMatrix,
    choose_winner,
)
from evalgate.reporting.findings import count_passed_runs
from evalgate.runner.plan import Plan
from evalgate.runner.variant_runs import MeasuredVariants, has_runs
from evalgate.runner.variants import Variant
from evalgate.statistics.parameters import PassKRule
from evalgate.statistics.score_pairs import UNIT, ScoreTable, pair_cases
from evalgate.statistics.threshold_test import compare_reliability_with_minimum
from evalgate.statistics.variant_comparison import (
    ALPHA,
    LEAST_SECONDS,
    ComparedScores,
    UsageRatio,
    VariantScore,
    compare_variants,
    estimate_usage_ratio,
)

_FIGURES: tuple[UsageFigure, ...] = ("cost", "tokens", "duration")
_ALL_RUNS = 1_000_000


_Tables: TypeAlias = Sequence[Mapping[str, ScoreTable]]
"""For each variant, a table of scores by metric. A row has the scores of a case with the first variant (the
reference) and with this variant."""


def build_matrix(measured: MeasuredVariants, again: MeasuredVariants | None = None) -> VariantMatrix:
    """Compare every variant with the first variant (the reference), and choose the winner.

    `again` holds fresh runs of the first variant and the winner; None if there are no fresh runs. They are
    compared in a second matrix, a field of the result, which confirms the winner or does not.
    """
    records = measured.records
    statistics = _build_statistics(measured.variants[0].plan)
    tables = _build_tables(records, statistics)
    common = _find_common_cases(records)
    scores = _compare_scores(measured.variants, tables)
    ratios = _compare_usage(measured.variants, records, common)
    comparisons = tuple(
        VariantComparison(variant.name, scores.get(variant.name, {}), ratios.get(variant.name, {}))
        for variant in measured.variants[1:]
    )
    rows = tuple(
        _build_row(variant, record, tables[at], common)
        for at, (variant, record) in enumerate(zip(measured.variants, records, strict=True))
    )
    return VariantMatrix(
        measured.created_at,
        measured.duration_s,
        records[0].agent,
        records[0].runs,
        rows,
        comparisons,
        _list_cases(measured.variants, records),
        choose_winner(rows, comparisons),
        measured.shortfall,
        (*measured.notices, *_list_notices(measured, tables, common)),
        None if again is None else build_matrix(again),
        __version__,
    )


def _build_statistics(plan: Plan) -> StatisticalPolicy:
    """Return the settings of the statistical tests, with the runs of the first variant as the baseline."""
    limit = plan.gate.max_regression if plan.gate.max_regression < 1 else option_defaults.MAX_REGRESSION
    fine = plan.gate.statistics.model_copy(update={"baseline_keep": _ALL_RUNS})
    own = {"baseline": "reference", "max_regression": limit, "statistics": fine}
    criteria = [bound.criterion for bound in plan.bound_metrics]
    return build_statistical_policy(plan.gate.model_copy(update=own), plan.first_runs, criteria)


def _build_tables(records: Sequence[Record], statistics: StatisticalPolicy) -> _Tables:
    reference = build_baseline(records[0])
    found = []
    for record in records:
        tables = build_score_tables(record.cases, reference, statistics)
        named: dict[str, ScoreTable] = {}
        for key, table in tables.items():
            if is_report_row_table(key) or table.rule.is_figure:
                continue
            name = key.partition("\0")[0]
            # A metric with the same name but other options, in another eval set, is another metric.
            twins = sum(each == name or each.startswith(f"{name} #") for each in named)
            named[f"{name} #{twins + 1}" if twins else name] = table
        found.append(named)
    return tuple(found)


def _find_common_cases(records: Sequence[Record]) -> frozenset[CaseKey]:
    """Return the gating cases that were run with every variant. Variants without any run are ignored.

    Runs that failed through no fault of the agent do not count.
    """
    made = [
        {case.key for case in record.cases if case.gates and any(map(_is_agent_result, case.runs))}
        for record in records
        if has_runs(record)
    ]
    return frozenset(made[0].intersection(*made[1:])) if made else frozenset()


def _is_agent_result(run: RunResult) -> bool:
    return run.outcome not in NON_AGENT_OUTCOMES


def _compare_scores(variants: Sequence[Variant], tables: _Tables) -> dict[str, dict[str, VariantScore]]:
    """Return the comparison of each variant with the first variant, by variant name and then by metric.

    A metric is left out if no case has a score with both variants.
    """
    compared: dict[tuple[str, str], ComparedScores] = {}
    for variant, own in zip(variants[1:], tables[1:], strict=True):
        for metric, table in own.items():
            pairs = pair_cases(table.cases, keep=_ALL_RUNS).pairs
            if pairs:
                # None: the metric's own `max_regression` allows every drop.
                limit = 1.0 if table.rule.max_drop is None else table.rule.max_drop
                compared[variant.name, metric] = ComparedScores(pairs, limit)
    found: dict[str, dict[str, VariantScore]] = {}
    for (name, metric), score in compare_variants(compared).items():
        found.setdefault(name, {})[metric] = score
    return found


def _compare_usage(
    variants: Sequence[Variant], records: Sequence[Record], common: frozenset[CaseKey]
) -> dict[str, dict[UsageFigure, UsageRatio]]:
    """Return the ratio of each variant's usage to the first variant's usage, by variant name and figure.

    Figures are cost, tokens and duration. Only the cases in `common` count. A figure is left out if a run
    does not report it. The duration is left out if it differs by less than `LEAST_SECONDS`.
    """
    by_figure = {figure: [_list_usage(record, figure, common) for record in records] for figure in _FIGURES}
    count = sum(means is not None for rows in by_figure.values() for means in rows[1:])
    found: dict[str, dict[UsageFigure, UsageRatio]] = {}
    for figure, (reference, *others) in by_figure.items():
        for variant, means in zip(variants[1:], others, strict=True):
            if reference is None or means is None:
                continue
            least = LEAST_SECONDS if figure == "duration" else 0.0
            pairs = list(zip(reference, means, strict=True))
            ratio = estimate_usage_ratio(pairs, ALPHA / count, least_difference=least)
            if ratio is not None:
                found.setdefault(variant.name, {})[figure] = ratio
    return found


def _list_usage(record: Record, figure: UsageFigure, common: frozenset[CaseKey]) -> list[float] | None:
    """Return, for each case in `common`, the mean of a usage figure over the runs of the case.

    Return None if there is no case, or if a run does not report the figure. Runs that failed through no fault
    of the agent do not count.
    """
    means = []
    for case in record.cases:
        if case.key not in common:
            continue
        figures = [_get_figure(run, figure) for run in case.runs if _is_agent_result(run)]
        known = [value for value in figures if value is not None]
        if not known or len(known) < len(figures):
            return None
        means.append(compute_mean(known))
    return means or None


def _get_figure(run: RunResult, figure: UsageFigure) -> float | None:
    if figure == "duration":
        return run.duration_s
    if run.usage is None:
        return None
    return run.usage.cost_usd if figure == "cost" else run.usage.input_tokens + run.usage.output_tokens


def _build_row(
    variant: Variant,
    record: Record,
    tables: Mapping[str, ScoreTable],
    common: frozenset[CaseKey],
) -> VariantFigures:
    cases = [case for case in record.cases if case.key in common]
    counts = [count_passed_runs(case) for case in cases]
    usage = {figure: _list_usage(record, figure, common) for figure in _FIGURES}
    rows = {build_row_name(case) for case in cases}
    ranges = {metric.name: metric.range for case in cases for metric in case.metrics}
    return VariantFigures(
        variant.name,
        variant.values,
        f"{variant.folder}/results.json",
        sum(total for _, total in counts),
        record.runs * sum(case.gates for case in record.cases),
        sum(passed for passed, _ in counts),
        _compute_pass_k(counts, record.runs),
        {metric: _compute_mean_score(metric, table, rows, ranges) for metric, table in tables.items()},
        {figure: None if means is None else compute_mean(means) for figure, means in usage.items()},
    )


def _compute_pass_k(counts: Sequence[tuple[int, int]], k: int) -> float | None:
    """Return the mean pass^k of the cases, 0 to 1: the estimated chance that all of k runs pass.

    `counts` are (passed runs, conclusive runs) of each case. Return None if a case has fewer than k
    conclusive runs, or if there is no case.
    """
    if not all(total for _, total in counts) or not counts:
        return None
    cases = [((0,) * (total - passed) + (UNIT,) * passed, 1.0) for passed, total in counts]
    found = compare_reliability_with_minimum(cases, PassKRule(k, 0.0), alpha=ALPHA)
    return None if found is None else found.value


def _compute_mean_score(
    metric: str, table: ScoreTable, rows: Collection[str], ranges: Mapping[str, Range]
) -> float | None:
    """Return a metric's mean score over the cases in `rows`, by the cases' weights; None without a score.

    `table` has a row of scores for each case, as shares of the metric's range. `rows` are the names of the
    rows to use. `ranges` has the range of each metric by name, to convert the mean back to a score. `metric`
    is the metric's name; an ending such as ` #2`, which tells metrics of the same name apart, is ignored.
    """
    means, weights = [], []
    for name, scores in table.cases.items():
        known = [score for score in scores.candidate or () if score is not None]
        if name in rows and known:
            means.append(compute_mean(known))
            weights.append(scores.weight)
    score_range = ranges.get(metric.partition(" #")[0], UNIT_RANGE)
    return score_range.to_score(compute_weighted_mean(means, weights)) if means else None


def _list_cases(variants: Sequence[Variant], records: Sequence[Record]) -> tuple[VariantCase, ...]:
    """Return the gating cases, each with the number of passed runs of every variant.

    The cases are sorted: first those with the largest difference between the variants' shares of passed runs.
    """
    found = []
    for cases in zip(*(record.cases for record in records), strict=True):
        if not cases[0].gates:
            continue
        counts = [count_passed_runs(case) for case in cases]
        shares = [passed / total for passed, total in counts if total]
        found.append(
            VariantCase(
                cases[0].eval_set_id,
                cases[0].eval_id,
                {variant.name: count for variant, count in zip(variants, counts, strict=True)},
                max(shares) - min(shares) if shares else 0.0,
            )
        )
    return tuple(sorted(found, key=lambda case: -case.spread))


def _list_notices(measured: MeasuredVariants, tables: _Tables, common: frozenset[CaseKey]) -> Iterator[str]:
    records = measured.records
    gating = [case for case in records[0].cases if case.gates]
    pairs = zip(measured.variants, records, strict=True)
    silent = [variant.name for variant, record in pairs if not has_runs(record)]
    if len(common) < len(gating):
        missing = pluralize(len(gating) - len(common), "case")
        but = f" but {join_quoted(silent)}" if silent and common else ""
        yield f"{missing} without a run of every variant{but}: left out of the table."
    named = {metric.name for case in gating for metric in case.metrics if metric.gates}
    compared = {name.partition(" #")[0] for own in tables for name in own}
    for name in sorted(named - compared):
        if not get_score_range(name).lower_is_better:
            yield f"{name} is not compared: it has scores outside of its range."
    if common and not silent and _are_equal(records):
        varied = join_quoted(list(measured.variants[0].values))
        yield f"Every variant gave the same replies: does the agent read {varied}?"


def _are_equal(records: Sequence[Record]) -> bool:
    """Return True if, in each case, all runs of all variants have the same replies.

    That is a sign that the agent ignores the varied settings. Runs that failed through no fault of the agent
    do not count.
    """
    for cases in zip(*(record.cases for record in records), strict=True):
        replies = [
            [turn.actual for turn in run.turns]
            for case in cases
            for run in case.runs
            if _is_agent_result(run)
        ]
        if any(each != replies[0] for each in replies[1:]):
            return False
    return True
