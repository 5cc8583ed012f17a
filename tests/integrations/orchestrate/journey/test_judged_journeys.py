"""Journeys with texts that a model judges."""

from typing import Any

import pytest

from evalgate.config.schema.judge import JudgeConfig
from evalgate.config.schema.thresholds import NEWEST_ADK
from evalgate.core.protocols import LlmJudged, Metric, MetricContext, MetricType
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    Goal,
    Journey,
    MetricResult,
    MetricScore,
    Reply,
    UserMessage,
)
from evalgate.datasets.fingerprint import compute_metric_fingerprint
from evalgate.integrations.orchestrate.metrics import (
    JourneyCompletion,
    JourneySuccess,
    KeywordMatch,
    TextMatch,
    ToolCallRecall,
)
from evalgate.llm.errors import JudgeError
from tests.llm.fakes import ScriptedModel, failed
from tests.llm.resolvers import build_scripted_resolver

JUDGE = JudgeConfig(provider="custom", model="j", base_url="http://localhost:1/v1")
YES, NO = '{"verdict": true, "reason": "so it is"}', '{"verdict": false, "reason": "it is not"}'
RUN = CaseRun(1, "answered", (Reply("You have 3 days left."),), said=(UserMessage("How many days?"),))


def a_case(*goals: Goal) -> EvalCase:
    return EvalCase("c", journey=Journey(goals, {goal.name: () for goal in goals if goal.name}))


def a_text(response: str | None = None, *keywords: str) -> Goal:
    return Goal("g", "text", response=response, keywords=keywords)


def built(metric: MetricType, model: ScriptedModel, **options: Any) -> Metric:
    context = MetricContext(NEWEST_ADK, build_scripted_resolver(model, JUDGE))
    return metric.build(Criterion("m", 1.0, options), context)


async def scored(
    metric: MetricType, goal: Goal, *answers: Any, **options: Any
) -> tuple[MetricResult, ScriptedModel]:
    model = ScriptedModel(*answers)
    return await built(metric, model, **options).score(a_case(goal), RUN), model


@pytest.mark.parametrize(
    ("goal", "answers", "score", "asked"),
    [
        (a_text("Three days remain."), [YES], 1.0, 1),
        (a_text("Three days remain."), [NO], 0.0, 1),
        (a_text("you have 3 days LEFT."), [], 1.0, 0),
        (a_text(None, "3 days"), [], 1.0, 0),
        (a_text(None, "three days"), [YES], 1.0, 1),
        (a_text("Three days remain.", "nine"), [NO], 0.0, 1),
        (a_text("Three days remain."), ["```json\n" + YES + "\n```"], 1.0, 1),
        (a_text("Three days remain."), ["```json" + YES + "```"], 1.0, 1),
        (a_text("Three days remain."), ["```\nYes\n"], 1.0, 1),
        (a_text("Three days remain."), ["True. It does."], 1.0, 1),
        (a_text("Three days remain."), ['{"verdict": "fail"}'], 0.0, 1),
        (a_text("Three days remain."), ["perhaps", NO], 0.0, 2),
    ],
)
async def test_a_model_judges_texts_that_are_not_equal(
    goal: Goal, answers: list[str], score: float, asked: int
) -> None:
    result, model = await scored(TextMatch, goal, *answers)

    assert isinstance(result, MetricScore)
    assert (result.score, len(model.requests)) == (score, asked)


async def test_the_details_hold_the_questions() -> None:
    result, model = await scored(JourneySuccess, a_text("Three days remain."), YES)

    assert isinstance(result, MetricScore)
    judged = (result.details or {})["judged"]
    assert isinstance(judged, list)
    (told,) = judged
    assert (told["expected"], told["verdict"]) == ("Three days remain.", True)
    assert [(each["score"], each["reason"]) for each in told["samples"]] == [(1.0, "so it is")]
    assert "How many days?" in model.requests[0].messages[0].text


@pytest.mark.parametrize(
    ("scope", "shown"),
    [("response", "You have 3 days left."), ("conversation", "user: How many days?\nassistant: You have")],
)
async def test_checks_are_judged_by_the_model(scope: Any, shown: str) -> None:
    goal = Goal("", "check", check="It is polite.", scope=scope)
    result, model = await scored(JourneyCompletion, goal, NO)

    assert isinstance(result, MetricScore)
    assert result.score == 0.0
    assert f" ===\n{shown}" in model.requests[0].messages[0].text


@pytest.mark.parametrize(("answers", "score"), [([YES, NO, YES], 1.0), ([YES, NO], 0.0)])
async def test_the_majority_of_samples_counts(answers: list[str], score: float) -> None:
    result, _ = await scored(TextMatch, a_text("Three days remain."), *answers, num_samples=len(answers))

    assert isinstance(result, MetricScore)
    assert result.score == score


async def test_an_outage_of_the_judge_is_no_score() -> None:
    with pytest.raises(JudgeError):
        await scored(KeywordMatch, a_text(None, "nine"), *[failed("outage")] * 9)


@pytest.mark.parametrize(("metric", "options"), [(ToolCallRecall, {}), (TextMatch, {"responses": "exact"})])
async def test_no_model_is_asked_for_exact_responses(metric: MetricType, options: Any) -> None:
    _, model = await scored(metric, a_text("Three days remain."), **options)

    assert model.requests == []


def test_scores_of_another_judge_do_not_compare() -> None:
    judged = built(TextMatch, ScriptedModel())
    plain = TextMatch.build(
        Criterion("m", 1.0, {}), MetricContext(NEWEST_ADK, build_scripted_resolver(ScriptedModel()))
    )

    assert isinstance(judged, LlmJudged)
    assert not isinstance(plain, LlmJudged)
    assert compute_metric_fingerprint("m", {}, judged.judged_by) != compute_metric_fingerprint("m", {})
