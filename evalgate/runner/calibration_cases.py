"""Check the judge with the labelled responses of `judge.anchors`, before it judges other responses."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, field_validator

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import join_quoted
from evalgate.core.frozen import frozen
from evalgate.core.protocols import LlmJudged
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    EvalCase,
    MetricFailure,
    MetricResult,
    MetricScore,
    Reply,
    Rubric,
    UserMessage,
)
from evalgate.documents.config_file import ConfigDocument, read_config_document
from evalgate.documents.validation_errors import translate_validation_error
from evalgate.llm.errors import JudgeError
from evalgate.llm.judge_calibration import CalibrationAnswer, CalibrationVerdict, evaluate_calibration
from evalgate.metrics.scoring import BoundMetric


class CalibrationCase(BaseModel):
    """Entry of the file `judge.anchors`: a response, and the label that people gave it."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str = ""
    metric: str
    """Name of the metric in `criteria`."""
    user: str
    response: str
    expected: str | None = None
    """Expected response, for a metric that compares responses with an expected response; else None."""
    rubrics: Mapping[str, str] = Field(default_factory=dict)
    """Rubrics in addition to those of the metric: maps the id of a rubric to its text."""
    rubric_type: str | None = None
    label: Annotated[bool, Strict()] | Annotated[float, Strict()]
    """People's judgement of the response: True for a pass, False for a failure, or a number for a score."""
    tolerance: float = Field(default=0.1, ge=0, allow_inf_nan=False)
    """Largest allowed difference between the judge's score and the label, if the label is a score."""

    @field_validator("label", mode="before")
    @classmethod
    def _require_label(cls, value: object) -> object:
        if not isinstance(value, bool | int | float) or not math.isfinite(value):
            raise ValueError("must be true or false (whether the response passes), or a score")
        return value


class _CalibrationFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    anchors: tuple[CalibrationCase, ...]

    @field_validator("anchors")
    @classmethod
    def _require_cases(cls, value: tuple[CalibrationCase, ...]) -> tuple[CalibrationCase, ...]:
        if not value:  # not `min_length`, which would also report a list of invalid entries as empty
            raise ValueError("must not be empty")
        return value


@frozen
class CalibrationSet:
    """Calibration cases, each with the metric that judges it."""

    cases: tuple[tuple[CalibrationCase, BoundMetric], ...]
    floor: float
    """Minimum share of the cases in which the judge must agree with the label, 0 to 1."""

    async def evaluate_judge(self) -> CalibrationVerdict:
        """Judge all cases concurrently, and return the verdict on the judge: reliable or not."""
        found = await asyncio.gather(
            *(_judge_case(number, case, bound) for number, (case, bound) in enumerate(self.cases, 1))
        )
        return evaluate_calibration(found, self.floor)


def read_calibration_set(
    path: Path, shown_as: str, floor: float, metrics: Sequence[BoundMetric]
) -> CalibrationSet:
    """Read calibration cases from a file, and find the metric in `metrics` that each case names.

    `floor` is the minimum share of cases, 0 to 1, in which the judge must agree with the label. `shown_as` is
    the name of the file in messages.

    Raises:
        InvalidInputError: the file cannot be read or is wrong, or a case names a metric that is not a judged
            metric in `metrics`.
    """
    document = read_config_document(path, shown_as)
    try:
        found = _CalibrationFile.model_validate(document.value).anchors
    except ValidationError as error:
        raise InvalidInputError(
            translate_validation_error(error, file=shown_as, position=document.find_position)
        ) from None
    judged = {bound.name: bound for bound in metrics if isinstance(bound.metric, LlmJudged)}
    if problems := _find_unknown_metrics(found, judged, document):
        raise InvalidInputError(problems)
    return CalibrationSet(tuple((case, judged[case.metric]) for case in found), floor)


def _find_unknown_metrics(
    cases: Sequence[CalibrationCase], judged: Mapping[str, BoundMetric], document: ConfigDocument
) -> list[Problem]:
    known = join_quoted(sorted(judged))
    return [
        Problem(
            document.path,
            *document.find_position(("anchors", at, "metric")),
            f"`{case.metric}` is no judged metric of this run: {known}",
        )
        for at, case in enumerate(cases)
        if case.metric not in judged
    ]


async def _judge_case(number: int, case: CalibrationCase, bound: BoundMetric) -> CalibrationAnswer:
    rubrics = tuple(Rubric(name, text, case.rubric_type) for name, text in case.rubrics.items())
    turn = CaseTurn(UserMessage(case.user), Reply(case.expected), rubrics)
    run = CaseRun(1, "answered", (Reply(case.response),), said=(turn.user,))
    result: MetricResult
    try:
        result = await bound.metric.score(EvalCase(case.name, (turn,), rubrics=()), run)
    except JudgeError as error:
        result = MetricFailure(str(error))
    score, failure = (result.score, "") if isinstance(result, MetricScore) else (None, result.reason)
    return CalibrationAnswer(
        case.name or f"anchor {number}",
        case.label,
        score,
        threshold=bound.criterion.threshold,
        tolerance=case.tolerance,
        failure=failure,
    )
