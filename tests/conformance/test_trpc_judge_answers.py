"""What tRPC-Agent-Go's scorers make of a judge's raw answer; the rows are its Go packages' own."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evalgate.integrations.trpc.judging import answers
from evalgate.integrations.trpc.judging import answers as textanswers
from evalgate.integrations.trpc.judging.answers import Scorecard, parse_pairwise_score
from evalgate.integrations.trpc.judging.evaluator import LlmJudgeOptions, RubricJudgeOptions
from evalgate.llm.sampling import UnparsableAnswerError
from tests.conformance.trpc import choices, rows

ROWS = [
    *json.loads(Path(__file__).with_name("trpc_judge_cases.json").read_text("utf-8")),
    *rows("judge.json"),
]

READERS: dict[str, Callable[[str], Scorecard]] = {
    "final_response": textanswers.parse_final_response,
    "rubric_text": textanswers.parse_rubric_blocks,
    "hallucination": textanswers.parse_sentence_blocks,
    "rubric_scores": answers.parse_rubric_scores,
    "boolean": answers.parse_boolean,
    "single_score": answers.parse_single_score,
}


def scored(row: dict[str, Any]) -> Scorecard:
    options = row.get("metric", {}).get("criterion", {}).get("llmJudge", {})
    categories = options.get("template", {}).get("responseScorerOptions")
    template = {"prompt": "?", "responseScorerName": "categorical", "responseScorerOptions": categories}
    judge = RubricJudgeOptions if row["scorer"] == "rubric_scores" else LlmJudgeOptions
    settings = judge.model_validate({**options, "template": template if categories else None})
    if row["scorer"] == "verifier_pairwise":
        return parse_pairwise_score(choices(row["response"]))
    if row["scorer"] == "categorical" and settings.template:
        return settings.template.parse_answer(row["raw"], [])
    card = READERS[row["scorer"]](row["raw"])
    given = [rubric.id.strip() for rubric in settings.rubrics if rubric.content]
    return answers.check_rubric_ids(card, given) if given and row["scorer"] == "rubric_scores" else card


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_an_answer_is_read_as_there(row: dict[str, Any]) -> None:
    if row["error"] is not None:
        with pytest.raises((UnparsableAnswerError, ValidationError)):
            scored(row)
        return
    card = scored(row)
    assert card.score == pytest.approx(row["score"], abs=1e-12)
    assert row["reason"] in {None, card.reason}
    if items := row.get("rubricScores"):
        assert [(item.id, item.score, item.reason) for item in card.items] == [
            (item["id"], item["score"], item["reason"]) for item in items
        ]
