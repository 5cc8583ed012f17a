"""Compare budgets, such as cost and latency, with the baseline and with a limit of their 95th percentile.

The baseline comparison uses only runs that passed every gating metric except budgets, because an agent that
gives up is cheap. The percentile uses all answered runs except follow-up runs.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from evalgate.config.schema.budgets import BudgetLimits
from evalgate.core.frozen import frozen
from evalgate.core.means import compute_mean, compute_weighted_mean
from evalgate.core.types import (
    Baseline,
    BaselineCase,
    BaselineRun,
    CaseComparison,
    CaseMetric,
    CaseResult,
    MetricComparison,
    MetricSummary,
    MetricVerdict,
    RatioEstimate,
    RunResult,
)
from evalgate.gating.budget_messages import (
    describe_cost_from_zero,
    describe_growth,
    describe_left_out,
    describe_percentile,
    describe_unknown_figures,
)
from evalgate.gating.score_tables import build_metric_table_name, build_row_name
from evalgate.metrics.metric_summaries import group_by_metric
from evalgate.statistics.budget_figures import (
    CaseFigures,
    LogShares,
    compare_percentile,
    count_needed_runs,
    scale_logarithms,
)
from evalgate.statistics.mean_difference import estimate_detectable_growth
from evalgate.statistics.metric_decisions import SEVERITY, Decision, MetricDecision
from evalgate.statistics.parameters import MetricRule, Parameters
from evalgate.statistics.score_pairs import Score, ScoreTable, UnpairedReason

if TYPE_CHECKING:
    from evalgate.gating.statistical_policy import StatisticalPolicy
    from evalgate.gating.verdict_messages import MessageContext

_COUNTS = frozenset({"budget/tool_calls", "budget/model_calls", "budget/turns"})
"""Budgets with figures that may be 0: before the logarithm is taken, 1 is added to each figure."""


@frozen
class BudgetFigures:
    """Figures of one budget over all gating cases."""

    metric: str
    limits: BudgetLimits
    rows: Mapping[str, CaseFigures]
    """Figures of each case, by the name of the case's row in the score tables (`build_row_name`)."""
    shares: LogShares
    measured: tuple[float, ...]
    """Figures of all answered runs except follow-up runs, passed or not."""
    left_out: tuple[int, int]
    """(number of runs made now, number of stored runs) that have a figure and are not compared, because they
    did not pass."""
    cases_without_figure: int
    """Number of cases that have a figure in the baseline, but none in their passed runs now."""

    def list_costs_from_zero(self) -> list[float]:
        """Return the mean cost of each case that was free in the baseline and costs something now.

        Every stored run of such a case cost 0, and every run now costs more. An increase from 0 has no ratio.
        For a budget of counts the list is empty: 1 is added to each count, so no figure is 0.
        """
        if self.metric in _COUNTS:
            return []
        found = []
        for row in self.rows.values():
            then = [each for each in row.baseline or () if each is not None]
            now = [each for each in row.candidate if each is not None]
            if row.comparable and then and now and not any(then) and all(now):
                found.append(compute_mean(now))
        return found

    def build_table(self, statistics: "StatisticalPolicy") -> ScoreTable:
        """Build the score table by which the increase since the baseline is compared with `max_increase`.

        Without `max_increase` nothing is tested. `gate.max_regression` has no effect, because it limits drops
        of scores.
        """
        most = self.limits.max_increase
        max_drop = None if most is None else self.shares.to_drop(most)
        return ScoreTable(self.shares.cases, MetricRule(max_drop, statistics.require, is_figure=True))


def collect_budget_figures(
    cases: Sequence[CaseResult], baseline: Baseline | None, statistics: "StatisticalPolicy"
) -> dict[str, BudgetFigures]:
    """Collect the figures of each budget, such as the cost of every run, over all gating cases.

    The result maps the name of the budget's score table (`build_metric_table_name`) to the figures. A budget
    has one entry for all of its cases with the same definition, even if its limits differ between cases and
    the report therefore shows it in several rows. Cases without runs belong to another shard and are left
    out.
    """
    before = baseline.index_cases() if baseline else {}
    found: dict[str, dict[str, CaseFigures]] = {}
    metrics: dict[str, str] = {}
    left_out: dict[str, list[int]] = {}
    cases_without_figure: Counter[str] = Counter()
    measured: dict[str, list[float]] = {}
    for key, members in group_by_metric(cases).items():
        for case, metric in members if members.metrics[0].range.lower_is_better else ():
            if not case.runs:  # the case belongs to another shard: a row would ask for runs of it
                continue
            name = build_metric_table_name(key.name, key.fingerprint)
            row, lost = _build_row(case, metric, before.get(case.key))
            metrics[name] = key.name
            found.setdefault(name, {})[build_row_name(case)] = row
            figures = (_find_score(run, key.name) for run in case.runs if not run.confirms)
            measured.setdefault(name, []).extend(each for each in figures if each is not None)
            cases_without_figure[name] += _lacks_figure(case, metric.name, row)
            left_out.setdefault(name, [0, 0])
            left_out[name] = [one + other for one, other in zip(left_out[name], lost, strict=True)]
    return {
        name: BudgetFigures(
            metrics[name],
            statistics.budgets.get(metrics[name], BudgetLimits.model_construct()),
            rows,
            scale_logarithms(rows, offset=1.0 if metrics[name] in _COUNTS else 0.0),
            tuple(measured[name]),
            (left_out[name][0], left_out[name][1]),
            cases_without_figure[name],
        )
        for name, rows in found.items()
    }


def _build_row(
    case: CaseResult, metric: CaseMetric, old: BaselineCase | None
) -> tuple[CaseFigures, tuple[int, int]]:
    """Return (figures of one case, (number of runs left out now, number of stored runs left out)).

    A run with a figure is left out if it was not answered, or if it missed a gating metric that is no budget.
    """
    now = [(_find_score(run, metric.name), has_passed_except_budgets(run)) for run in case.runs]
    then: list[tuple[Score, bool]] | None = None
    comparable = True
    if old is not None and metric.name in old.metric_fingerprints:
        others = [
            each
            for each in case.metrics
            if each.gates
            and not each.range.lower_is_better
            and old.metric_fingerprints.get(each.name) == each.fingerprint
        ]
        then = [(run.scores.get(metric.name), _has_passed_then(run, others)) for run in old.runs]
        comparable = (
            case.fingerprint == old.fingerprint and old.metric_fingerprints[metric.name] == metric.fingerprint
        )
    row = CaseFigures(
        None if then is None else tuple([figure if passed else None for figure, passed in then]),
        tuple([figure if passed else None for figure, passed in now]),
        case.weight,
        comparable,
    )
    return row, (_count_failed(now), _count_failed(then or ()))


def _lacks_figure(case: CaseResult, name: str, row: CaseFigures) -> bool:
    """Return True if the baseline has a figure of the case, but no passed run has one now.

    Return False if no run passed, or if the case or the metric changed since the baseline.
    """
    had_one = row.comparable and any(figure is not None for figure in row.baseline or ())
    passed = [run for run in case.runs if has_passed_except_budgets(run)]
    return had_one and bool(passed) and all(_find_score(run, name) is None for run in passed)


def _find_score(run: RunResult, name: str) -> Score:
    return next((each.score for each in run.metrics if each.name == name), None)


def has_passed_except_budgets(run: RunResult) -> bool:
    """Return True if the run was answered, and no gating metric other than a budget failed or errored."""
    return run.outcome == "answered" and all(
        each.name.startswith("budget/") or each.gating_status not in {"failed", "errored"}
        for each in run.metrics
    )


def _has_passed_then(run: BaselineRun, others: Sequence[CaseMetric]) -> bool:
    """Return True if a stored run was answered and meets today's thresholds of the metrics `others`.

    A metric without a stored score counts as met.
    """
    if run.outcome != "answered":
        return False
    scores = ((run.scores.get(each.name), each) for each in others)
    return all(score is None or each.range.is_met(score, each.threshold) for score, each in scores)


def _count_failed(runs: Sequence[tuple[Score, bool]]) -> int:
    return sum(figure is not None and not passed for figure, passed in runs)


def compare_budgets(
    metrics: Sequence[MetricSummary],
    cases: Sequence[CaseResult],
    baseline: Baseline | None,
    statistics: "StatisticalPolicy",
    decision: Decision | None,
    context: "MessageContext",
) -> tuple[tuple[MetricSummary, ...], tuple[CaseResult, ...]]:
    """Compare the budgets with the baseline and with their limits, and return the summaries and the cases.

    The summary of a budget gets its mean in the baseline, the change of the mean and, on the budget's first
    line in the report, a verdict with sentences. If there is a baseline, the cases get the comparison of
    their own figures. All other summaries stay as they are.

    Args:
        metrics: the summaries of `cases`, in the order of `summarize_metrics`.
        cases: all cases of the run.
        baseline: the stored runs; None if there is no baseline.
        statistics: settings of the statistics.
        decision: common decision on all gating metrics. If it is None, and for a budget that does not gate, a
            decision is made on the budget alone.
        context: names, settings and formats for the sentences.
    """
    figures = collect_budget_figures(cases, baseline, statistics)
    described = set[str]()
    found = []
    for (key, members), summary in zip(group_by_metric(cases).items(), metrics, strict=True):
        name = build_metric_table_name(key.name, key.fingerprint)
        if name not in figures or not summary.range.lower_is_better:
            found.append(summary)
            continue
        growth = _find_growth(figures[name], name, decision if key.gates else None, statistics)
        covered_cases = {build_row_name(case) for case in members.cases}
        compared = _compare_means(summary, figures[name], covered_cases, growth, statistics.parameters)
        if name not in described:  # the first row of a budget has the sentences about all its rows
            compared = _add_judgement(compared, figures[name], growth, statistics, context)
            described.add(name)
        found.append(compared)
    if baseline is None:
        return tuple(found), tuple(cases)
    keep = statistics.parameters.baseline_keep
    return tuple(found), tuple(_add_standings(case, figures, keep) for case in cases)


def _find_growth(
    figures: BudgetFigures, name: str, decision: Decision | None, statistics: "StatisticalPolicy"
) -> MetricDecision | None:
    """Return the decision on the increase of the budget `name`; None if `decision` lacks this budget.

    If `decision` is None, decide on this budget alone.
    """
    if decision is not None:
        return decision.metrics.get(name)
    from evalgate.statistics.auto_runs import decide_available_runs
    from evalgate.statistics.metric_decisions import decide_without_follow_ups

    decide = decide_available_runs if statistics.makes_more_runs else decide_without_follow_ups
    return decide({name: figures.build_table(statistics)}, statistics.parameters).metrics[name]


def _compare_means(
    summary: MetricSummary,
    figures: BudgetFigures,
    covered_cases: Collection[str],
    growth: MetricDecision | None,
    parameters: Parameters,
) -> MetricSummary:
    """Return the summary with the budget's mean in the baseline, and the change of the mean as delta.

    Only cases with figures now and in the baseline count. Without such cases, the mean and the change are
    None. `covered_cases` has the names of the cases that this summary covers. `figures` may have cases of
    other summaries of the same budget. `growth` is the decision on the change. `regressed` becomes False;
    only a failed check of the budget sets it to True later.
    """
    rounds = growth.rounds if growth else None
    pairs = []
    for row in (row for name, row in figures.rows.items() if name in covered_cases):
        then = [each for each in (row.baseline or ())[-parameters.baseline_keep :] if each is not None]
        now = [each for each in row.candidate[:rounds] if each is not None]
        if then and now and row.comparable:
            pairs.append((compute_mean(then), compute_mean(now), row.weight))
    if not pairs:
        return replace(summary, baseline=None, delta=None, compared=0, regressed=False)
    before, after, weights = zip(*pairs, strict=True)
    mean = compute_weighted_mean(before, weights)
    delta = compute_weighted_mean(after, weights) - mean
    return replace(summary, baseline=mean, delta=delta, compared=len(pairs), regressed=False)


def _add_judgement(
    summary: MetricSummary,
    figures: BudgetFigures,
    growth: MetricDecision | None,
    statistics: "StatisticalPolicy",
    context: "MessageContext",
) -> MetricSummary:
    parts = [
        *_judge_growth(figures, growth, statistics.parameters, context),
        *_judge_percentile(figures, statistics),
    ]
    if not parts:
        return summary
    # Of equal verdicts, `no_baseline` is the last choice: it leaves the gate open without any baseline.
    worst = max(parts, key=lambda part: (SEVERITY[part.verdict], part.reason != "no_baseline"))
    sentences = [sentence for part in parts if part.verdict == worst.verdict for sentence in part.sentences]
    if any(part.ratio for part in parts) and (left := describe_left_out(figures.left_out)):
        sentences.append(left)
    if figures.cases_without_figure and figures.limits.max_increase is not None:
        sentences.append(describe_unknown_figures(figures.cases_without_figure))
    judgement = replace(
        worst,
        sentences=tuple(sentences),
        ratio=next((part.ratio for part in parts if part.ratio), None),
        percentile=next((part.percentile for part in parts if part.percentile), None),
    )
    status = summary.status
    if status == "passed" and any(part.reason == "too_few_runs" for part in parts):
        status = "not_evaluated"
    return replace(summary, status=status, judgement=judgement, regressed=worst.verdict == "fail")


_REASONS = {
    "average_fell": "grew",
    "exact_fell": "grew",
    "noisy_drop": "noisy_growth",
    "small_drop": "small_growth",
}
_PERCENTILE_REASONS: Mapping[MetricVerdict, str] = {
    "pass": "within_percentile",
    "fail": "above_percentile",
    "inconclusive": "near_percentile",
}


def _judge_growth(
    figures: BudgetFigures,
    growth: MetricDecision | None,
    parameters: Parameters,
    context: "MessageContext",
) -> Iterator[MetricComparison]:
    if growth is None or growth.rule.max_drop is None or figures.limits.max_increase is None:
        return
    change, ratio = growth.change, None
    if change is not None:
        to_ratio, most = figures.shares.to_ratio, 1 + figures.limits.max_increase
        level = growth.level or parameters.alpha * parameters.averages_share
        detectable = estimate_detectable_growth(change, growth.rule.max_drop, level)
        value, low, high, notice = map(to_ratio, (change.drop, change.low, change.high, detectable))
        ratio = RatioEstimate(value, low, high, notice, most, change.cases)
    verdict, reason = growth.verdict, _REASONS.get(growth.reason, growth.reason)
    sentence = describe_growth(figures.metric, ratio, growth, context)
    if verdict != "fail" and (costs := figures.list_costs_from_zero()):
        verdict, reason = "inconclusive", "grew_from_zero"
        sentence = describe_cost_from_zero(costs, context)
    yield MetricComparison(
        verdict=verdict,
        reason=reason,
        sentences=(sentence,),
        max_drop=None,
        require=growth.rule.require,
        rounds=growth.rounds,
        p=change.p if change else None,
        level=growth.level,
        ratio=ratio,
    )


def _judge_percentile(figures: BudgetFigures, statistics: "StatisticalPolicy") -> Iterator[MetricComparison]:
    limit, alpha = figures.limits.p95, statistics.parameters.alpha
    if limit is None:
        return
    values = figures.measured
    found = compare_percentile(values, limit, alpha=alpha, require=statistics.require)
    yield MetricComparison(
        verdict=found.verdict if found else "inconclusive",
        reason=_PERCENTILE_REASONS[found.verdict] if found else "too_few_runs",
        sentences=(describe_percentile(found, len(values), count_needed_runs(alpha), limit, alpha),),
        max_drop=None,
        require=statistics.require,
        planned=len(values),
        percentile=found,
    )


def _add_standings(case: CaseResult, figures: Mapping[str, BudgetFigures], keep: int) -> CaseResult:
    """Return the case with the comparison of each budget with the baseline in `CaseMetric.standing`.

    The newest `keep` stored runs of the case are compared.
    """
    name = build_row_name(case)
    metrics = [
        replace(metric, standing=_compare_case_figures(found.rows[name], keep))
        if (found := figures.get(build_metric_table_name(metric.name, metric.fingerprint)))
        and name in found.rows
        else metric
        for metric in case.metrics
    ]
    return replace(case, metrics=tuple(metrics))


def _compare_case_figures(row: CaseFigures, keep: int) -> CaseComparison:
    """Return the comparison of a case's figures now with those of its newest `keep` stored runs.

    Only runs that passed all gating metrics except budgets count.
    """
    then = [each for each in (row.baseline or ())[-keep:] if each is not None]
    now = [each for each in row.candidate if each is not None]
    unpaired: UnpairedReason | None = None
    if row.baseline is None:
        unpaired = "new"
    elif not row.comparable:
        unpaired = "changed"
    elif not (then and now):
        unpaired = "no_score"
    return CaseComparison(
        status=unpaired or "ok",
        baseline_runs=len(then),
        baseline_passed=len(then),
        baseline_mean=compute_mean(then) if then else None,
        runs=len(now),
        passed=len(now),
        mean=compute_mean(now) if now else None,
    )
