"""What a thresholds file asks of the statistics."""

from collections.abc import Iterable
from typing import Literal

from evalgate.compare.tables import StatisticalPolicy
from evalgate.config import GateConfig
from evalgate.model import Criterion
from evalgate.statistics.parameters import Parameters


def statistical_policy(
    gate: GateConfig, runs: int | Literal["auto"], criteria: Iterable[Criterion]
) -> StatisticalPolicy:
    """The settings, as the statistics name them."""
    fine = gate.statistics
    parameters = Parameters(
        alpha=fine.alpha,
        doubt=fine.doubt_alpha,
        futility=0.02,
        runs=None if runs == "auto" else runs,
        max_runs=gate.max_runs,
        case_alpha=fine.case_alpha,
        case_drop=fine.case_drop,
        confirm_runs=fine.confirm_runs,
        fail_fast=fine.fail_fast,
        deterministic=gate.deterministic,
        max_missing=fine.max_missing,
        baseline_keep=fine.baseline_keep,
        pass_score=fine.pass_score,
        fdr=fine.fdr,
    )
    by_name = {criterion.metric: criterion for criterion in criteria}
    held = gate.baseline is not None and gate.max_regression < 1
    return StatisticalPolicy(parameters, gate.max_regression if held else None, gate.require, by_name)
