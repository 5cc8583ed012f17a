"""The metrics of journeys without a judge."""

from importlib import import_module

import pytest
from pydantic import ValidationError

from evalgate.config.schema.thresholds import NEWEST_ADK
from evalgate.core import plugin_registry
from evalgate.core.protocols import MetricContext
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    Criterion,
    EvalCase,
    Goal,
    Journey,
    Message,
    MetricResult,
    MetricScore,
    NotApplicable,
    Reply,
    UserMessage,
)
from evalgate.integrations.orchestrate.metrics import (
    JourneyCompletion,
    JourneyMetric,
    JourneySuccess,
    KeywordMatch,
    TextMatch,
    ToolCallPrecision,
    ToolCallRecall,
)
from tests.builders import a_call, a_reply

CALL = Goal("p", "tool_call", "p", {"x": 1})
TEXT = Goal("end", "text", response="All done", keywords=("done",))
PLAIN = Goal("end", "text", response="All done")
WIDGET = Goal("w", "interaction", identifier=("k", "v"))
CHECK = Goal("", "check", check="Polite?")


async def scored(metric: JourneyMetric, goals: tuple[Goal, ...], *replies: Reply | None) -> MetricResult:
    order = {goal.name: () for goal in goals if goal.name}
    case = EvalCase("c", (CaseTurn(UserMessage("go")),), journey=Journey(goals, order))
    return await metric.score(case, CaseRun(1, "answered", replies))


DONE = a_reply("We are DONE.", a_call("p", x=1))


@pytest.mark.parametrize(
    ("metric", "goals", "reply", "score", "reason"),
    [
        (JourneySuccess(), (CALL, TEXT), DONE, 1.0, ""),
        (JourneySuccess(), (CALL, PLAIN), a_reply("all  done", a_call("p", x="1")), 1.0, ""),
        (JourneySuccess(), (CALL, PLAIN), a_reply("We are done."), 0.0, "the goal `p` was not reached"),
        (JourneySuccess(), (WIDGET,), a_reply("x", Message("?", payload={"k": "v"})), 1.0, ""),
        (JourneySuccess(), (WIDGET,), a_reply("x", Message("?", payload={"k": "z"})), 0.0, "no goal was reached"),
        (JourneySuccess(), (CALL, TEXT), None, 0.0, "no goal was reached"),
        (JourneyCompletion(), (CALL, TEXT), DONE, 1.0, ""),
        (JourneyCompletion(), (CALL, TEXT), a_reply("done"), 0.5, "`p` was not called"),
        (JourneyCompletion(), (WIDGET, TEXT), a_reply("no"), 0.0, "no text is what the goal `end` asks for"),
        (ToolCallPrecision(), (CALL,), a_reply("", a_call("p", x=1), a_call("z")), 0.5, "1 of 2 calls were not asked for"),
        (ToolCallRecall(), (CALL,), a_reply("", a_call("p", x=2)), 0.0, "`p` for the goal `p`: `x`: expected 1, got 2"),
        (KeywordMatch(), (TEXT,), DONE, 1.0, ""),
        (KeywordMatch(), (TEXT,), a_reply("no"), 0.0, "no text holds all keywords of the goal `end`"),
        (TextMatch(), (TEXT,), DONE, 1.0, "`end` was found by its keywords; its response was not judged"),
        (TextMatch(responses="exact"), (TEXT,), DONE, 0.0, "no text is what the goal `end` asks for"),
        (TextMatch(), (Goal("end", "text"),), DONE, 0.0, "no text is what the goal `end` asks for"),
    ],
)  # fmt: skip
async def test_the_reason_says_what_is_missing(
    metric: JourneyMetric, goals: tuple[Goal, ...], reply: Reply | None, score: float, reason: str
) -> None:
    result = await scored(metric, goals, reply)

    assert isinstance(result, MetricScore)
    assert (result.score, result.reason) == (score, reason)


@pytest.mark.parametrize(
    ("metric", "goals", "reason"),
    [
        (JourneySuccess(), (CALL, PLAIN), "only a judge can tell whether a text says what the goal `end` expects"),
        (JourneySuccess(), (CALL, CHECK), "only a judge can tell whether the checks hold"),
        (JourneyCompletion(), (PLAIN,), "only a judge can tell whether a text says what the goal `end` expects"),
        (JourneyCompletion(), (), "the journey has no goal that can be reached"),
        (ToolCallPrecision(), (TEXT,), "no goal asks for a tool call"),
        (ToolCallRecall(), (TEXT,), "no goal asks for a tool call"),
        (KeywordMatch(), (PLAIN,), "no goal names keywords"),
        (TextMatch(), (CALL,), "no goal asks for a text"),
        (TextMatch(), (PLAIN,), "only a judge can tell whether a text says what the goal `end` expects"),
    ],
)  # fmt: skip
async def test_an_undecided_journey_is_not_scored(
    metric: JourneyMetric, goals: tuple[Goal, ...], reason: str
) -> None:
    assert await scored(metric, goals, DONE) == NotApplicable(reason)


async def test_a_case_without_a_journey_is_not_scored() -> None:
    result = await JourneySuccess().score(EvalCase("c"), CaseRun(1, "answered"))

    assert isinstance(result, NotApplicable)


async def test_the_details_hold_the_counts() -> None:
    result = await scored(ToolCallPrecision(), (CALL,), a_reply("", a_call("p", x=2), a_call("z")))

    assert isinstance(result, MetricScore)
    assert result.details == {
        "expected_tool_calls": 1,
        "total_tool_calls": 2,
        "correct_tool_calls": 0,
        "relevant_tool_calls": 1,
        "extra_tool_calls": 2,
        "missed_tool_calls": 0,
        "tool_calls_with_incorrect_parameter": 1,
    }


CATALOGUE = {name: path for name, path in plugin_registry.METRICS.items() if name.startswith("orchestrate/")}


@pytest.mark.parametrize(("name", "path"), CATALOGUE.items())
def test_the_registry_names_each_metric(name: str, path: str) -> None:
    module, _, attribute = path.partition(":")

    built = getattr(import_module(module), attribute).build(
        Criterion(name, 0.5, {"responses": "exact"}), MetricContext(NEWEST_ADK)
    )

    assert isinstance(built, JourneyMetric)
    assert built.responses == "exact"


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ValidationError):
        JourneySuccess.build(Criterion("m", 1.0, {"respones": "exact"}), MetricContext((2, 13)))
