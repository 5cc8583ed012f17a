"""What a thresholds file asks of the statistics."""

from collections.abc import Iterable
from typing import Literal

from evalgate.compare.tables import StatisticalPolicy
from evalgate.config import GateConfig
from evalgate.model import Criterion
from evalgate.statistics.parameters import Parameters

_AVERAGES_SHARE = 0.6
"""`alpha` is the budget of the whole gate. Single cases are tested as well and take the rest of it, and
with few stored runs the mid-p test of the averages is a little too sharp."""


def statistical_policy(
    gate: GateConfig,
    runs: int | Literal["auto"],
    criteria: Iterable[Criterion],
    *,
    repeatable: bool = True,
) -> StatisticalPolicy:
    """Translate the settings into those of the statistics.

    `repeatable`: another run of a case may end otherwise; not so where a recording stands for the agent.
    """
    fine = gate.statistics
    is_literal = gate.max_failed_cases is not None
    repeatable = repeatable and not gate.deterministic
    parameters = Parameters(
        alpha=fine.alpha,
        averages_share=_AVERAGES_SHARE,
        doubt=fine.doubt_alpha,
        futility=0.02,
        runs=None if runs == "auto" else runs,
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
    by_name = {criterion.metric: criterion for criterion in criteria}
    held = gate.baseline is not None and gate.max_regression < 1
    case_runs = 0 if is_literal else fine.confirm_runs if repeatable else 1
    max_drop = gate.max_regression if held else None
    return StatisticalPolicy(parameters, max_drop, gate.require, by_name, case_runs)
