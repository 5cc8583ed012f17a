"""Rubrics of cases and turns that no metric judges by."""

import pytest

from evalgate.judge.settings import JudgeConfig
from evalgate.lints.rubrics import Rubrics
from evalgate.metrics.response_match import ResponseMatch
from evalgate.metrics.rubric_based import FinalResponseQuality
from evalgate.model import Criterion, EvalCase, Reply, Rubric, Turn, UserMessage
from evalgate.protocols import Metric, MetricContext
from tests.judge.benches import bench_of
from tests.judge.fakes import ScriptedModel
from tests.lints.looking import said_by

CONFIG = JudgeConfig(provider="custom", model="judge", base_url="http://localhost:1/v1")
OWN = Rubric("own", "x", "FINAL_RESPONSE_QUALITY")
OTHER = Rubric("other", "x", "TOOL_USE_QUALITY")
UNTYPED = Rubric("untyped", "x")


def quality(*, is_literal: bool) -> Metric:
    context = MetricContext((2, 13), bench_of(ScriptedModel(), CONFIG), is_literal=is_literal)
    return FinalResponseQuality.build(Criterion("quality", 0.5), context)


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (ResponseMatch(), []),
        (quality(is_literal=False), ["the rubric `other` of turn 1 is of the type TOOL_USE_QUALITY, and no metric judges by it"]),
        (quality(is_literal=True), [
            "the rubric `untyped` has no `type`, and so no metric judges by it",
            "the rubric `other` of turn 1 is of the type TOOL_USE_QUALITY, and no metric judges by it",
        ]),
    ],
)  # fmt: skip
def test_rubrics_that_no_metric_judges_by(metric: Metric, expected: list[str]) -> None:
    turn = Turn(UserMessage("?"), Reply("a"), rubrics=(OTHER, OWN))
    case = EvalCase("c", (turn,), rubrics=(UNTYPED,))

    assert said_by(Rubrics(), case, metrics={"m": metric}) == [("c", each) for each in expected]
