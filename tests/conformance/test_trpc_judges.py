"""tRPC-Agent-Go's judged evaluators with a scripted judge; the rows are its Go packages' own."""

import json
import re
from collections import deque
from pathlib import Path
from typing import Any

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
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
    Reply,
    UserMessage,
)
from evalgate.llm.client import ModelAnswer, ModelRequest
from evalgate.llm.errors import JudgeError
from evalgate.llm.judge_resolver import JudgeNotConfiguredError
from tests.conformance.trpc import choices, reply_of, rows
from tests.llm.fakes import ScriptedModel
from tests.llm.resolvers import build_scripted_resolver

COMPARING = frozenset(
    {"llm_final_response", "llm_rubric_critic", "llm_rubric_reference_critic", "llm_verifier_pairwise"}
)
ROWS = [
    *json.loads(Path(__file__).with_name("trpc_evaluator_cases.json").read_text("utf-8")),
    *(
        row
        for row in rows("llm_evaluators.json")
        # What expects no turn at all is no case: the loader refuses it.
        if row["expected"] or not row["actual"]
    ),
]


def conversation(row: dict[str, Any]) -> tuple[EvalCase, CaseRun]:
    expected, actual = row["expected"], row["actual"]
    turns = []
    for index, wanted in enumerate(expected):
        did = (actual[index] if index < len(actual) else None) or {}
        said = (did.get("userContent") or {}).get("content", "")
        turn = CaseTurn(UserMessage(said), reply_of(wanted) or Reply(), execution=did.get("executionTrace"))
        turns.append(turn)
    context = tuple(actual[0].get("contextMessages") or ()) if actual and actual[0] else ()
    case = EvalCase("c", tuple(turns), context_messages=context)
    return case, CaseRun(1, "answered", tuple(map(reply_of, actual)))


def scripted(row: dict[str, Any]) -> ScriptedModel:
    """Each sample of each turn gets the answer that it got there, however often it asks.

    Sentences are asked for before all samples of a turn.
    """
    answers = deque(row["judge_script"])
    given: dict[tuple[bool, int], str] = {}

    def answer(request: ModelRequest) -> str | ModelAnswer:
        question = "<sentence>" in request.messages[-1].text, request.sample
        if request.attempt == 1:
            # A turn is asked about when the one before it is answered.
            given[question] = answers.popleft()
        text = given[question]
        return as_answer(text) if text.startswith('{"choices"') else text

    return ScriptedModel(script=answer)


def as_answer(text: str) -> ModelAnswer:
    """A whole response of a model, as rows hold it where probabilities count."""
    response = json.loads(text)
    return ModelAnswer(response["choices"][0]["message"]["content"], choices=tuple(choices(response)))


async def evaluated(row: dict[str, Any], model: ScriptedModel) -> MetricResult:
    metric = row["metric"]
    # The rows hold a key; files must name its variable.
    options = json.loads(json.dumps(metric.get("criterion") or {}).replace('"k"', '"${JUDGE_KEY}"'))
    bench = build_scripted_resolver(model) if options else None
    metric_type = plugin_registry.get_own_metric_type(
        f"trpc/{metric.get('evaluatorName') or metric['metricName']}"
    )
    criterion = Criterion(metric["metricName"], metric["threshold"], options)
    case, run = conversation(row)
    return await metric_type.build(criterion, MetricContext(NEWEST_ADK, bench)).score(case, run)


async def is_an_error(row: dict[str, Any]) -> bool:
    try:
        return isinstance(await evaluated(row, scripted(row)), MetricFailure)
    except (JudgeError, JudgeNotConfiguredError, ValidationError):
        return True


def lacks_turns(row: dict[str, Any]) -> bool:
    """Not as many turns were played as are expected: the missing one scores 0, see docs/conformance.md."""
    return len(row["actual"]) != len(row["expected"]) or None in row["actual"]


def compares_with_nothing(row: dict[str, Any]) -> bool:
    """A turn expects no response, and the metric compares: the turn is not judged, see docs/conformance.md."""
    return row["metric"]["metricName"] in COMPARING and any(
        not turn or turn.get("finalResponse") is None for turn in row["expected"]
    )


def answers_in_blocks(row: dict[str, Any]) -> bool:
    """Rubric by rubric, as the first release asked for it: today an error there, read here."""
    is_of_rubrics = row["metric"]["metricName"].startswith("llm_rubric")
    return is_of_rubrics and all("Verdict:" in text and "{" not in text for text in row["judge_script"])


def scores_other_rubrics(row: dict[str, Any]) -> bool:
    """Blocks that are not one for each rubric: passed over in the first release, no answer here."""
    judge = (row["metric"].get("criterion") or {}).get("llmJudge") or {}
    wanted = sorted(each.get("id", "").strip() for each in judge.get("rubrics") or () if each.get("content"))
    given = [sorted(re.findall(r"ID:\s*(\S+)", text)) for text in row["judge_script"]]
    return answers_in_blocks(row) and (not wanted or any(each != wanted for each in given))


def skips_sentences(row: dict[str, Any]) -> bool:
    """The judge labels more or fewer sentences than there are: no answer, see docs/conformance.md."""
    if row["metric"]["metricName"] != "llm_hallucinations":
        return False
    counts = [text.count("</sentence>") or text.count("Verdict:") for text in row["judge_script"]]
    return len(set(counts)) > 1


@pytest.mark.parametrize("row", [row for row in ROWS if "error" in row["result"]], ids=lambda row: row["id"])
async def test_what_is_an_error_there_is_no_score_here(row: dict[str, Any]) -> None:
    if lacks_turns(row):
        result = await evaluated(row, scripted(row))
        assert isinstance(result, NotApplicable) or (isinstance(result, MetricScore) and result.score < 1.0)
    elif compares_with_nothing(row):
        assert isinstance(await evaluated(row, scripted(row)), NotApplicable)
    elif (
        row["result"]["error"].startswith("score based")
        and not scores_other_rubrics(row)
        and answers_in_blocks(row)
    ):
        assert isinstance(await evaluated(row, scripted(row)), MetricScore)
    else:
        assert await is_an_error(row)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if "error" not in row["result"]], ids=lambda row: row["id"]
)
async def test_scores_are_equal(row: dict[str, Any]) -> None:
    if compares_with_nothing(row):
        assert not isinstance(await evaluated(row, scripted(row)), MetricFailure)
        return
    if skips_sentences(row) or scores_other_rubrics(row):
        assert await is_an_error(row)
        return
    model, wanted = scripted(row), row["result"]
    result = await evaluated(row, model)

    assert len(model.requests) == wanted["judgeCalls"]
    if wanted["overallStatus"] == "not_evaluated":
        assert isinstance(result, NotApplicable)
        return
    assert isinstance(result, MetricScore)
    assert result.score == wanted["overallScore"]
    assert [(turn.score, turn.reason) for turn in result.turns] == [
        (turn.get("score", 0.0), turn.get("reason", "")) for turn in wanted["perInvocation"]
    ]
    for turn, there in zip(result.turns, wanted["perInvocation"], strict=True):
        rubrics = (turn.details or {}).get("rubric_scores", [])
        assert rubrics == [{"score": 0, "reason": "", **rubric} for rubric in there.get("rubricScores", [])]


@pytest.mark.parametrize(
    "row", [row for row in ROWS if "prompt_must_contain" in row], ids=lambda row: row["id"]
)
async def test_the_judge_sees_what_it_sees_there(row: dict[str, Any]) -> None:
    model = scripted(row)
    await evaluated(row, model)

    text = model.requests[-1].messages[-1].text
    assert [part for part in row["prompt_must_contain"] if part not in text] == []
