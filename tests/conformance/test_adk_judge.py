"""Google ADK's judged metrics: scripted answers, and what releases 2.3.0 and 2.13.0 make of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import ImportString, TypeAdapter

from evalgate.config.schema.judge import JudgeConfig
from evalgate.core.plugin_registry import METRICS
from evalgate.core.protocols import MetricContext
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
)
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.adk.evalset import AdkFormat
from evalgate.llm.client import ModelRequest
from evalgate.llm.errors import JudgeError
from tests.conformance import shared_folder
from tests.llm.fakes import ScriptedModel, Turn, failed
from tests.llm.resolvers import build_scripted_resolver

RELEASES = {"2.3": (2, 3), "2.13": (2, 13)}
FILES = {"2.3": "judge.json", "2.13": "judge_2.13.json"}


@dataclass(frozen=True)
class Row:
    release: str
    raw: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.release}:{self.raw['id']}"

    def case(self) -> EvalCase:
        """What was asked and expected."""
        return a_case(self.raw["expected"], self.raw["case_rubrics"])

    def run(self) -> CaseRun:
        replies = tuple(turn.expected for turn in a_case(self.raw["actual"], None).turns)
        return CaseRun(1, "answered", replies)


def a_case(conversation: list[Any], rubrics: Any) -> EvalCase:
    turns = [{key: value for key, value in turn.items() if value is not None} for turn in conversation]
    case = {"eval_id": "c", "conversation": turns, **({"rubrics": rubrics} if rubrics else {})}
    return case_of(case)


def case_of(case: dict[str, Any]) -> EvalCase:
    """The case as it is read from a file."""
    text = json.dumps({"eval_set_id": "s", "eval_cases": [case]})
    return AdkFormat().read_eval_set(parse_json(text.encode(), "vector.json")).cases[0]


def rows() -> Iterator[Row]:
    own = json.loads(Path(__file__).with_name("adk_judge_cases.json").read_text("utf-8"))
    for raw in own:
        yield from (Row(release, raw) for release in raw.pop("releases"))
    folder = shared_folder()
    for release, file in FILES.items():
        path = folder / "conformance/adk" / file if folder else Path("/nonexistent")
        if path.is_file():
            yield from (Row(release, raw) for raw in json.loads(path.read_text("utf-8")))


def scripted(outputs: list[str | None]) -> ScriptedModel:
    """Each question's samples in their order; who is asked once more says the same again."""
    left, said = iter(outputs), dict[int, Turn]()

    def script(request: ModelRequest) -> Turn:
        if request.attempt == 1:
            text = next(left)
            said[request.sample] = failed("unparsable", "the answer is empty") if text is None else text
        return said[request.sample]

    return ScriptedModel(script=script)


async def scored(row: Row, model: ScriptedModel) -> MetricResult:
    options = dict(row.raw["criterion"])
    criterion = Criterion(row.raw["metric"], float(options.pop("threshold")), options)
    bench = build_scripted_resolver(model, JudgeConfig(provider="custom", model="judge"))
    metric = (
        TypeAdapter(ImportString)
        .validate_python(METRICS[criterion.metric])
        .build(criterion, MetricContext(RELEASES[row.release], bench))
    )
    try:
        result: MetricResult = await metric.score(row.case(), row.run())
    except JudgeError as failure:
        return MetricFailure(str(failure), failure.kind)
    return result


@pytest.mark.parametrize("row", list(rows()), ids=lambda row: row.id)
async def test_the_score_is_that_of_google_adk(row: Row) -> None:
    wanted, model = row.raw["result"], scripted(row.raw["judge_outputs"])

    result = await scored(row, model)

    if wanted.get("score") is None:
        assert isinstance(result, NotApplicable | MetricFailure)
        assert result.reason
        return
    assert isinstance(result, MetricScore)
    assert result.score == wanted["score"]
    assert [turn.score for turn in result.turns] == [
        turn["score"] for turn in wanted["per_invocation"]
    ] or row.raw["id"].endswith("two_turns_pooled_mean")
    asked = sum(request.attempt == 1 for request in model.requests)
    assert asked == len(row.raw["judge_outputs"]) - row.raw["judge_outputs_unused"]
    if wanted["rubric_scores"]:
        decided = {name: score for name, score in wanted["rubric_scores"].items() if score is not None}
        assert rubric_means(result) == decided


def rubric_means(result: MetricScore) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for turn in result.turns:
        listed: Any = (turn.details or {}).get("rubrics", ())
        for rubric in listed:
            if rubric["score"] is not None:
                found.setdefault(rubric["id"], []).append(rubric["score"])
    return {name: sum(scores) / len(scores) for name, scores in found.items()}
