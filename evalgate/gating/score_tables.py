"""Build the score tables of the statistics: one table per metric, one row of raw scores per case."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from evalgate.core.formatting import build_case_quote
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import Range
from evalgate.core.types import (
    AGENT_FAULT_OUTCOMES,
    Baseline,
    BaselineCase,
    CaseKey,
    CaseMetric,
    CaseResult,
)
from evalgate.gating.statistical_policy import StatisticalPolicy
from evalgate.metrics.metric_summaries import MetricKey, group_by_metric
from evalgate.statistics.mean_difference import MeanDifference, compare_means
from evalgate.statistics.parameters import MetricRule, Parameters
from evalgate.statistics.score_pairs import CaseScores, Score, ScoreTable, pair_cases

ScoreTables: TypeAlias = Mapping[str, ScoreTable]


@frozen
class OutOfRangeRow:
    """Row of a score table that has at least one score outside the metric's range."""

    case: CaseResult
    metric: CaseMetric
    scores: CaseScores


def build_report_row_table_name(key: MetricKey) -> str:
    """Return the name of the score table for one row of the report's table of metrics.

    A metric has several report rows if its threshold, scope or minimum differs between cases.
    """
    return "\0".join((key.name, key.fingerprint, repr(key.threshold), key.scope, repr(key.min_mean)))


def build_metric_table_name(name: str, fingerprint: str) -> str:
    """Return the name of the score table with all cases of a metric, even if the report splits the metric.

    `fingerprint` is that of the metric and its options, as in `CaseMetric`.
    """
    return f"{name}\0{fingerprint}"


def build_row_name(case: CaseResult) -> str:
    """Return the name of a case's row in every score table, built from the ids of eval set and case."""
    return f"{case.eval_set_id}\0{case.eval_id}"


def collect_confirmed_rows(cases: Sequence[CaseResult]) -> frozenset[str]:
    """Return the names of the rows of cases that follow-up runs show to be broken."""
    return frozenset(
        build_row_name(case) for case in cases if case.follow_up and case.follow_up.outcome == "broke"
    )


def build_row_quote(cases: Sequence[CaseResult]) -> Callable[[str], str]:
    """Return a function that converts the name of a case's row to the case's name in sentences."""
    quote = build_case_quote(case.key for case in cases)

    def quote_row(row: str) -> str:
        eval_set_id, _, eval_id = row.partition("\0")
        return quote((eval_set_id, eval_id))

    return quote_row


def build_score_tables(
    cases: Sequence[CaseResult], baseline: Baseline | None, statistics: StatisticalPolicy
) -> ScoreTables:
    """Build one table for each gating metric, with its scores as shares of the metric's range.

    All cases of a metric are in one table, even with different thresholds, because smaller comparisons would
    more often be undecided. If the report shows a metric in several rows, for example one row for each
    threshold, each report row has a further table. It is used only to check the minima of this report row.

    - A run in which the agent crashed or timed out scores 0: leaving it out would reward crashing.
    - A run without a score through no fault of the agent has None.
    - A case to which the metric does not apply has no row.
    - A metric with a score outside its range has no table.
    - A gating budget with `max_increase` has a table of its figures.
    """
    tables, _ = split_score_tables(cases, baseline, statistics)
    return tables


def split_score_tables(
    cases: Sequence[CaseResult], baseline: Baseline | None, statistics: StatisticalPolicy
) -> tuple[ScoreTables, tuple[OutOfRangeRow, ...]]:
    """Return (tables, rows): the tables of all metrics, and rows of metrics that have no table.

    The tables are those that `build_score_tables` returns. A metric has no table if a score is outside its
    range. `rows` has the first row with such a score, for each row of the metric in the report.
    """
    before = baseline.index_cases() if baseline else {}
    keep = statistics.parameters.baseline_keep
    pools: dict[str, dict[MetricKey, ScoreTable]] = {}
    outside: dict[MetricKey, OutOfRangeRow] = {}
    has_budgets = False
    for key, members in group_by_metric(cases).items():
        if not key.gates or members.metrics[0].range.lower_is_better:
            has_budgets = has_budgets or key.gates
            continue
        rows = [
            (case, metric, _build_row(case, metric, before.get(case.key), keep))
            for case, metric in members
            if _is_applicable(case, metric)
        ]
        if beyond := next((row for row in rows if not _is_unit(row[2])), None):
            outside[key] = OutOfRangeRow(*beyond)
        if rows:
            table = ScoreTable(
                {build_row_name(case): scores for case, _, scores in rows},
                statistics.build_rule(members.metrics[0]),
            )
            pools.setdefault(build_metric_table_name(key.name, key.fingerprint), {})[key] = table
    found: dict[str, ScoreTable] = {}
    for name, parts in pools.items():
        if outside.keys().isdisjoint(parts):
            found.update(_pool_tables(name, parts, cases))
    if has_budgets:
        found.update(_build_budget_tables(cases, baseline, statistics))
    return found, tuple(outside.values())


def _build_budget_tables(
    cases: Sequence[CaseResult], baseline: Baseline | None, statistics: StatisticalPolicy
) -> Iterator[tuple[str, ScoreTable]]:
    # Imported here, because most runs have no budget.
    from evalgate.gating.budgets import collect_budget_figures

    for name, figures in collect_budget_figures(cases, baseline, statistics).items():
        if figures.metric in statistics.criteria and figures.limits.max_increase is not None:
            yield name, figures.build_table(statistics)


def _pool_tables(
    name: str, parts: Mapping[MetricKey, ScoreTable], cases: Sequence[CaseResult]
) -> Iterator[tuple[str, ScoreTable]]:
    """Yield (name, table) for the whole metric and, if it has several rows in the report, for each of them.

    `parts` has the table of each report row. The table of the whole metric comes first. If there are several
    report rows, its cases have the order of `cases`.
    """
    if len(parts) == 1:
        yield name, next(iter(parts.values()))
        return
    scattered = {row: scores for part in parts.values() for row, scores in part.cases.items()}
    rows = {row: scattered[row] for row in map(build_row_name, cases) if row in scattered}
    # The report rows differ in their thresholds alone, so every one has the same rule for drops.
    common = next(iter(parts.values())).rule
    yield name, ScoreTable(rows, MetricRule(common.max_drop, common.require))
    for key, part in parts.items():
        # Without `max_drop`: the drop is judged once, in the table over all report rows.
        yield build_report_row_table_name(key), ScoreTable(part.cases, replace(part.rule, max_drop=None))


def compare_report_row_means(
    tables: ScoreTables, rounds: Mapping[str, int], parameters: Parameters
) -> Iterator[tuple[str, MeanDifference]]:
    """Yield (table name, change of the average) for each row of a metric with several rows in the report.

    Args:
        tables: as `build_score_tables` returns them.
        rounds: maps a table's name to a number n; only the first n runs of each case count. Tables without
            an entry, and tables without a compared case, are skipped.
        parameters: parameters of the decision.
    """
    for name, table in tables.items():
        first = rounds.get(name)
        if not is_report_row_table(name) or first is None:
            continue
        pairs = pair_cases(table.cases, keep=parameters.baseline_keep, first=first, runs=first).pairs
        if pairs:
            planned = None if parameters.runs else parameters.max_runs
            yield name, compare_means(pairs, alpha=parameters.alpha, planned_runs=planned)


def list_report_row_tables(tables: Iterable[str], name: str) -> list[str]:
    """Return the names of the tables that each stand for one row of a metric in the report.

    `tables` has the names of all tables, and `name` is the name of the table for the whole metric.
    """
    return [each for each in tables if is_report_row_table(each) and each.startswith(f"{name}\0")]


def is_report_row_table(name: str) -> bool:
    """Return True if `name` is the name of a table for one row of a metric that has several in the report.

    Such a table is used only for the minima of this report row.
    """
    return name.count("\0") > 1


def describe_out_of_range_scores(
    rows: Iterable[OutOfRangeRow], quote: Callable[[CaseKey], str]
) -> Iterator[str]:
    """Yield a sentence for each metric that the statistics leave out because a score is outside its range.

    The sentence names the case and the score.

    Args:
        rows: rows as `split_score_tables` returns them.
        quote: function that converts the key of a case to the case's name in sentences.
    """
    for row in rows:
        metric, scores = row.metric, row.scores
        side = "" if not all(map(_is_share, scores.candidate or ())) else " in the baseline"
        shares = scores.candidate if not side else scores.baseline
        score = next(
            metric.range.to_score(each) for each in shares or () if each is not None and not _is_share(each)
        )
        yield (
            f"{metric.name} is compared by its plain mean, without statistics: {quote(row.case.key)} scored "
            f"{score:g}{side}, and scores lie between {metric.range}. A custom metric says its own `range`."
        )


def _is_applicable(case: CaseResult, metric: CaseMetric) -> bool:
    runs = case.runs
    if not all(run.outcome == "answered" for run in runs):
        return True
    own = [each for run in runs for each in run.metrics if each.name == metric.name]
    return any(each.status != "not_evaluated" for each in own)


def _build_row(case: CaseResult, metric: CaseMetric, old: BaselineCase | None, keep: int) -> CaseScores:
    score_range = metric.range
    candidate = tuple(_list_candidate_scores(case, metric.name, score_range))
    if old is None or metric.name not in old.metric_fingerprints:
        return CaseScores(None, candidate, case.weight)
    comparable = (
        case.fingerprint == old.fingerprint and old.metric_fingerprints[metric.name] == metric.fingerprint
    )
    then = tuple(list_baseline_scores(old, metric.name, score_range))[-keep:]
    return CaseScores(then, candidate, case.weight, comparable)


def _list_candidate_scores(case: CaseResult, name: str, score_range: Range) -> Iterator[Score]:
    for run in case.runs:
        if run.outcome in AGENT_FAULT_OUTCOMES:
            yield 0.0
        else:
            yield _to_share(
                next((metric.score for metric in run.metrics if metric.name == name), None), score_range
            )


def list_baseline_scores(old: BaselineCase, name: str, score_range: Range) -> Iterator[Score]:
    """Yield a case's stored scores of a metric, one for each run with an entry for the metric.

    Scores are shares of the metric's range: 0 if the agent crashed or timed out, None without a score.
    """
    for run in old.runs:
        if name in run.scores:
            yield 0.0 if run.outcome in AGENT_FAULT_OUTCOMES else _to_share(run.scores[name], score_range)


def _to_share(score: Score, score_range: Range) -> Score:
    return None if score is None else score_range.to_share(score_range.clamp(score))


def _is_unit(row: CaseScores) -> bool:
    return all(map(_is_share, (*(row.baseline or ()), *(row.candidate or ()))))


def _is_share(score: Score) -> bool:
    return score is None or 0 <= score <= 1
