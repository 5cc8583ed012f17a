"""Compare the averages with the anchor, an older baseline that stays fixed, to find slow drops.

The usual baseline moves with every stored run, so it shows sudden drops, but hardly slow ones. A drop since
the anchor may be older than the tested change. On an unmerged change, the anchor therefore closes the gate
only if the average also fell against the moving baseline, by more than luck. On other commits, such as those
of the default branch, the drop since the anchor is enough.

Both tests of an average, against the baseline and against the anchor, share one false-alarm level. On an
unmerged change each test gets the full level, because the anchor closes the gate only after a drop in both
tests. On other commits each test gets half of the level.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime

from evalgate.config.schema.gate import GateConfig
from evalgate.core.formatting import format_delta, format_drop_pair, format_score, pluralize
from evalgate.core.frozen import frozen
from evalgate.core.score_ranges import Range
from evalgate.core.types import (
    AnchorComparison,
    AnchorMetric,
    AnchorOutcome,
    Baseline,
    CaseResult,
)
from evalgate.gating.comparison import ScoredRuns
from evalgate.gating.score_tables import build_metric_table_name, build_score_tables, is_report_row_table
from evalgate.gating.statistical_policy import StatisticalPolicy
from evalgate.gating.verdict_messages import format_odds
from evalgate.metrics.metric_summaries import group_by_metric
from evalgate.statistics.mean_difference import MeanDifference
from evalgate.statistics.metric_assessment import AnalysisStage, Assessment, build_assessments
from evalgate.statistics.metric_decisions import MetricDecision
from evalgate.statistics.parameters import EPSILON, MetricRule, is_within_level
from evalgate.statistics.score_pairs import ScoreTable

_DAYS_OF_WEEKS = 21
"""Most days since the anchor that sentences state in days; a longer time is stated in weeks."""


@frozen
class AnchorContext:
    """Facts about the run, for the comparison with the anchor and the sentences about this comparison."""

    base_branch: str = ""
    """Name of the moving baseline's branch; "" if there is no such baseline."""
    unmerged_change: str = ""
    """Kind of unmerged change that the job tests, such as `a pull request`; "" if it tests none."""
    created_at: str = ""
    """Time of the run, ISO 8601."""
    commits: int | None = None
    """Number of commits since the anchor; None if not known."""
    cleared_by_control: AbstractSet[str] = frozenset()
    """Names of score tables (one per metric) for which an unmerged change is not blamed, because control runs
    (runs of the base commit's agent) gave an answer other than `broke` about the metric."""


def compare_with_anchor(
    scored: ScoredRuns, anchor_baseline: Baseline, gate: GateConfig, context: AnchorContext
) -> AnchorComparison:
    """Compare the average of each gating metric, except budgets, with an older, fixed baseline (the anchor).

    Raises:
        ValueError: `gate.anchor` is not set, or the scored runs have no settings of the statistics.
    """
    settings, statistics, source = gate.anchor, scored.statistics, anchor_baseline.sources[-1]
    if settings is None or statistics is None:
        raise ValueError("without `gate.anchor` and statistics nothing can be compared with an anchor")
    tables = build_anchor_tables(scored.cases, anchor_baseline, gate, statistics)
    rounds = max(1, scored.rounds)
    assessments = build_assessments(tables, statistics.parameters, AnalysisStage(rounds, True, rounds))
    ranges = {
        build_metric_table_name(key.name, key.fingerprint): (key.name, members.metrics[0].range)
        for key, members in group_by_metric(scored.cases).items()
    }
    name = settings.baseline.rpartition("@")[2]
    since = f"since {name}{_describe_age(source.created_at, context)}"
    own = scored.decision.metrics if scored.decision else {}
    found = [
        _build_metric(
            *ranges[table],
            tables[table].rule,
            assessment,
            own.get(table),
            since,
            context,
            is_cleared=table in context.cleared_by_control,
        )
        for table, assessment in assessments.items()
        if assessment.change is not None
    ]
    return AnchorComparison(
        source=settings.baseline,
        name=name,
        metrics=tuple(found),
        created_at=source.created_at,
        commit=source.commit,
        gate_runs=len(anchor_baseline.sources),
        not_compared=tuple(
            dict.fromkeys(ranges[table][0] for table, each in assessments.items() if each.change is None)
        ),
    )


def build_anchor_tables(
    cases: Sequence[CaseResult], anchor_baseline: Baseline, gate: GateConfig, statistics: StatisticalPolicy
) -> Mapping[str, ScoreTable]:
    """Build one score table (a metric's scores in all cases) for each metric, with the anchor as baseline.

    The limit of a drop is `gate.anchor.max_regression`. If this is None, the limits for the moving baseline
    count. Metrics that may fall by any amount are left out, and so are budgets, which are compared with the
    moving baseline alone.
    """
    own = gate.anchor.max_regression if gate.anchor else None
    limit = gate.max_regression if own is None else own
    criteria = statistics.criteria if own is None else {}
    statistics = replace(statistics, max_drop=limit, criteria=criteria)
    return {
        name: ScoreTable(table.cases, MetricRule(table.rule.max_drop))
        for name, table in build_score_tables(cases, anchor_baseline, statistics).items()
        if not is_report_row_table(name) and not table.rule.is_figure and table.rule.max_drop is not None
    }


def decide_anchor_outcome(
    assessment: Assessment, own: MeanDifference | None, own_level: float | None, *, is_unmerged: bool
) -> AnchorOutcome:
    """Return the outcome of comparing the average of one metric with the anchor.

    - `held`: the average passes the comparison.
    - `doubtful`: the comparison is inconclusive.
    - `fell_before`: the comparison fails, but not because of the tested change. The change is not merged
      yet, and the average did not fall against the moving baseline by more than luck.
    - `fell`: every other comparison that fails.

    Args:
        assessment: assessment of the average against the anchor.
        own: change of the average against the moving baseline; None if nothing was compared with it.
        own_level: significance level of `own`. None: the agent is deterministic, so that any drop counts.
        is_unmerged: True if an unmerged change is tested.
    """
    verdict = assessment.checks[0].verdict
    if verdict != "fail":
        return "doubtful" if verdict == "inconclusive" else "held"
    if not is_unmerged or own is None:
        return "fell"
    fell = own.drop > EPSILON and (own_level is None or is_within_level(own.p, own_level))
    return "fell" if fell else "fell_before"


def describe_anchor(found: AnchorComparison) -> Iterator[str]:
    """Yield notices about averages that held, drops that do not close the gate, and metrics left out.

    If there is no metric to compare at all, yield one notice that says so.
    """
    held = [
        f"{each.name} {_format_means(each)}{_describe_coverage(each)}"
        for each in found.metrics
        if each.outcome == "held"
    ]
    if held:
        yield f"Since {found.name}: {'; '.join(held)}."
    yield from (each.sentence for each in found.metrics if each.outcome in {"fell_before", "doubtful"})
    for name in found.not_compared:
        yield (
            f"{name} is not compared with the anchor {found.name}: too few runs have a score, or no case can "
            "be compared, because the cases, the metric or its judge changed since."
        )
    if not found.metrics and not found.not_compared:
        yield (
            f"Nothing was compared with the anchor {found.name}: no metric gates by its average, or each may "
            "fall by any amount (`max_regression` 1)."
        )


def _format_means(metric: AnchorMetric) -> str:
    then, now = metric.baseline, metric.score
    return f"{format_score(then, beside=now)} → {format_score(now, beside=then)}"


def _describe_coverage(metric: AnchorMetric) -> str:
    """Return a phrase on the number of cases compared with the anchor; "" if all cases are compared."""
    if metric.cases == metric.of:
        return ""
    return f" over the {metric.cases} of {pluralize(metric.of, 'case')} that are as they were"


def _describe_age(created_at: str | None, context: AnchorContext) -> str:
    """Return time and commits since the anchor as ` (12 weeks, 214 commits)`; "" if neither is known."""
    try:
        days = (datetime.fromisoformat(context.created_at) - datetime.fromisoformat(created_at or "")).days
    except (TypeError, ValueError):  # no time, or one without a zone
        days = -1
    parts = []
    if days >= 0:
        parts.append(pluralize(days // 7, "week") if days > _DAYS_OF_WEEKS else pluralize(days, "day"))
    if context.commits is not None:
        parts.append(pluralize(context.commits, "commit"))
    return f" ({', '.join(parts)})" if parts else ""


def _build_metric(
    name: str,
    score_range: Range,
    rule: MetricRule,
    assessment: Assessment,
    own: MetricDecision | None,
    since: str,
    context: AnchorContext,
    *,
    is_cleared: bool,
) -> AnchorMetric:
    change, limit = assessment.change, rule.max_drop
    if change is None or limit is None:
        raise ValueError(f"{name} was not compared with the anchor")
    own_change = own.change if own else None
    outcome = decide_anchor_outcome(
        assessment, own_change, own.level if own else None, is_unmerged=bool(context.unmerged_change)
    )
    if outcome == "fell" and context.unmerged_change and is_cleared:
        outcome = "fell_before"
    scores = assessment.scores
    metric = AnchorMetric(
        name=name,
        outcome=outcome,
        score=score_range.to_score(change.candidate),
        baseline=score_range.to_score(change.baseline),
        max_drop=limit * score_range.width,
        cases=change.cases,
        of=len(scores.measured),
        sentence="",
        p=None if assessment.level is None else change.p,
        level=assessment.level,
    )
    sentence = " ".join(
        _iter_sentences(metric, own_change, score_range.width, since, context, is_cleared=is_cleared)
    )
    return replace(metric, sentence=sentence)


def _iter_sentences(
    metric: AnchorMetric,
    own: MeanDifference | None,
    width: float,
    since: str,
    context: AnchorContext,
    *,
    is_cleared: bool,
) -> Iterator[str]:
    limit = metric.max_drop
    drop, allowed = format_drop_pair(metric.baseline - metric.score, limit)
    means = f"{_format_means(metric)}{_describe_coverage(metric)}"
    if metric.outcome == "held":
        yield f"{metric.name} {since}: {means}."
        return
    odds = "" if metric.p is None else f", which luck alone does {format_odds(metric.p)}"
    yield f"{metric.name} fell by {drop} {since}: {means}{odds}; allowed is less than {allowed}."
    if metric.outcome == "doubtful":
        yield "That is not enough to close the gate."
    elif own is None:
        yield "No baseline shows whether this change did it."
    elif metric.outcome == "fell_before" and is_cleared:
        yield (
            f"The control runs do not show that this change takes part: the gate of "
            f"{context.unmerged_change} stays open for it, that of the default branch closes."
        )
    elif metric.outcome == "fell_before":
        yield (
            f"This change is not shown to take part ({format_delta(-own.drop * width)} against "
            f"{context.base_branch}): the gate of {context.unmerged_change} stays open, that of the default "
            "branch closes."
        )
    elif context.unmerged_change:
        change = format_score(own.drop * width, beside=0.0)
        yield f"This change took it down by {change} against {context.base_branch}."
    elif own.drop * width < limit - EPSILON:
        yield f"This run alone moved by {format_delta(-own.drop * width)} against {context.base_branch}."
