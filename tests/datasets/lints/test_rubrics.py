"""Rubrics of cases and turns that no metric judges by."""

import pytest

from evalgate.config.schema.judge import JudgeConfig
from evalgate.core.protocols import Metric, MetricContext
from evalgate.core.types import CaseTurn, Criterion, EvalCase, Reply, Rubric, UserMessage
from evalgate.datasets.lints.cases import UnusedRubricsLint
from evalgate.integrations.adk.metrics.judged import FinalResponseQuality
from evalgate.integrations.adk.metrics.response_match import ResponseMatch
from tests.datasets.lints.looking import said_by
from tests.llm.fakes import ScriptedModel
from tests.llm.resolvers import build_scripted_resolver

CONFIG = JudgeConfig(provider="custom", model="judge", base_url="http://localhost:1/v1")
OWN = Rubric("own", "x", "FINAL_RESPONSE_QUALITY")
OTHER = Rubric("other", "x", "TOOL_USE_QUALITY")
UNTYPED = Rubric("untyped", "x")


def quality(*, is_literal: bool) -> Metric:
    context = MetricContext((2, 13), build_scripted_resolver(ScriptedModel(), CONFIG), is_literal=is_literal)
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
    turn = CaseTurn(UserMessage("?"), Reply("a"), rubrics=(OTHER, OWN))
    case = EvalCase("c", (turn,), rubrics=(UNTYPED,))

    assert said_by(UnusedRubricsLint(), case, metrics={"m": metric}) == [("c", each) for each in expected]
