"""Translate the thresholds file into settings of the statistical comparison."""

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Literal

from evalgate.config.schema.budgets import BudgetLimits
from evalgate.config.schema.gate import GateConfig
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseMetric, Criterion
from evalgate.gating.comparison import find_excessive_drop
from evalgate.metrics.pass_at_k import find_least_runs
from evalgate.statistics.parameters import MetricRule, Parameters, PassKRule, Require

_AVERAGES_SHARE = 0.6
"""Share of `alpha`, the false-alarm rate of the whole gate, for the tests of averages.

The tests of single cases take the rest. The rest also makes up for the mid-p test of the averages, which
fails slightly too often with few stored runs.
"""


@frozen
class StatisticalPolicy:
    """Settings of the statistical comparison."""

    parameters: Parameters
    max_drop: float | None
    """Limit for metrics without a limit in their criterion: a drop of the average by this share of the range,
    or by more, is too large. None: no metric is compared with a baseline."""
    require: Require = "guard"
    criteria: Mapping[str, Criterion] = field(default_factory=dict)
    """Criterion of each gating metric, by the metric's name."""
    budgets: Mapping[str, BudgetLimits] = field(default_factory=dict)
    """Limits of each budget, by the metric's name, including budgets that do not gate."""
    case_runs: int = 0
    """Largest number of runs of a case that fails in a new way and never passes. After one pass, the limit is
    twice as high. 1: no case can be run again. 0: no case gets a follow-up, because failing cases are counted
    by `max_failed_cases`."""

    @property
    def is_auto(self) -> bool:
        """Return True if the number of runs depends on the results."""
        return self.parameters.runs is None

    @property
    def makes_more_runs(self) -> bool:
        """Return True if some cases may get runs in addition to the first runs, which every case gets."""
        return self.is_auto or self.parameters.follow_up

    def build_rule(self, metric: CaseMetric) -> MetricRule:
        """Build the rule that judges a metric, with limits as shares of its range."""
        criterion, score_range = self.criteria.get(metric.name), metric.range
        max_drop = find_excessive_drop(criterion, score_range, self.max_drop)
        if criterion is None or criterion.rule == "literal":
            return MetricRule(max_drop, self.require)
        wanted, own = criterion.reliability, metric.min_mean
        min_score = None if own is None else score_range.to_share(own)
        if wanted is None or wanted.kind != "pass^k":
            minimum = score_range.to_share(metric.threshold) if min_score is None else min_score
            return MetricRule(max_drop, self.require, min_score=minimum)
        reliability = PassKRule(wanted.k, wanted.at_least, pass_score=score_range.to_share(metric.threshold))
        return MetricRule(max_drop, self.require, min_score, reliability)


def build_statistical_policy(
    gate: GateConfig,
    runs: int | Literal["auto"],
    criteria: Collection[Criterion],
    *,
    repeatable: bool = True,
    shares_with_anchor: bool = False,
) -> StatisticalPolicy:
    """Translate the section `gate` and the criteria into settings of the statistics.

    `repeatable` is False if a recording is replayed instead of the agent: another run would have the same
    result. With `shares_with_anchor`, the anchor (a fixed baseline) gets half of the averages' `alpha`.
    """
    fine = gate.statistics
    is_literal = gate.max_failed_cases is not None
    # A deterministic agent would fail in the same way again, so follow-up runs would show nothing.
    repeatable = repeatable and not gate.deterministic
    parameters = Parameters(
        alpha=fine.alpha,
        averages_share=_AVERAGES_SHARE / 2 if shares_with_anchor else _AVERAGES_SHARE,
        doubt=fine.doubt_alpha,
        futility=0.02,
        runs=None if runs == "auto" else runs,
        min_runs=min(find_least_runs(criteria), gate.max_runs),
        max_runs=gate.max_runs,
        case_alpha=fine.case_alpha,
        case_drop=fine.case_drop,
        confirm_runs=fine.confirm_runs,
        follow_up=repeatable and not is_literal,
        fail_fast=fine.fail_fast,
        deterministic=gate.deterministic,
        max_missing=fine.max_missing,
        baseline_keep=fine.baseline_keep,
        pass_score=fine.pass_score,
        fdr=fine.fdr,
    )
    by_name = {criterion.metric: criterion for criterion in criteria if criterion.gates}
    budgets = {
        criterion.metric: BudgetLimits.model_validate(criterion.options)
        for criterion in criteria
        if criterion.range.lower_is_better and criterion.options
    }
    case_runs = 0 if is_literal else fine.confirm_runs if repeatable else 1
    max_drop = None if gate.baseline is None else gate.max_regression
    return StatisticalPolicy(parameters, max_drop, gate.require, by_name, budgets, case_runs)
