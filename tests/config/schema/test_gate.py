"""The section `gate`: settings with which the statistics can compute."""

import pytest
from pydantic import ValidationError

from evalgate.config.schema.gate import GateConfig, StatisticsConfig
from evalgate.gating.statistical_policy import build_statistical_policy
from evalgate.statistics.auto_runs import decide_available_runs
from evalgate.statistics.score_pairs import CaseScores, ScoreTable


@pytest.mark.parametrize("written", [False, {"mode": False}, "off", {"mode": "off"}])
def test_control_runs_are_off_with_and_without_quotes(written: object) -> None:
    assert GateConfig.model_validate({"control": written}).control.mode == "off"


def test_the_smallest_alpha_can_be_computed_with() -> None:
    with pytest.raises(ValidationError, match=r"greater than or equal to 0\.000000001"):
        StatisticsConfig(alpha=1e-17)
    gate = GateConfig(baseline="b.json", statistics=StatisticsConfig(alpha=1e-9))
    policy = build_statistical_policy(gate, 2, (), shares_with_anchor=True)
    rows = {f"case_{at}": CaseScores([1.0, 0.5] * 5, [0.5, 1.0]) for at in range(3)}
    metrics = {f"metric_{at}": ScoreTable(rows) for at in range(50)}
    assert decide_available_runs(metrics, policy.parameters).verdict == "pass"
