"""Files of anchors: cases that people labelled, to check the judge."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import CaseRun, Criterion, EvalCase, MetricFailure, MetricResult, NotApplicable
from evalgate.llm.errors import JudgeError
from evalgate.metrics.scoring import BoundMetric
from evalgate.runner.calibration_cases import read_calibration_set

ANCHOR = {"metric": "m", "user": "u", "response": "r", "label": True}


@pytest.mark.parametrize(
    ("anchors", "problem"),
    [
        ([], "a.json:2:13: `anchors` must not be empty"),
        (
            [{**ANCHOR, "label": "yes"}],
            "a.json:7:13: `anchors[0].label` must be true or false (whether the response passes), or a score",
        ),
        (
            [{**ANCHOR, "tolerance": -1}],
            "a.json:8:17: `anchors[0].tolerance` should be greater than or equal to 0",
        ),
        ([ANCHOR], "a.json:4:14: `m` is no judged metric of this run: none"),
    ],
)
def test_what_is_wrong_is_told_once_and_where(anchors: list[Any], problem: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"anchors": anchors}, indent=1))

    with pytest.raises(InvalidInputError) as caught:
        read_calibration_set(tmp_path / "a.json", "a.json", 0.8, [])

    assert str(caught.value) == problem


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"^a\.json: no such file$"):
        read_calibration_set(tmp_path / "a.json", "a.json", 0.8, [])


class SilentJudge:
    """A judged metric without a score."""

    judged_by: Mapping[str, object] = {"model": "m"}

    def __init__(self, ending: MetricResult | JudgeError) -> None:
        self._ending = ending

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        if isinstance(self._ending, JudgeError):
            raise self._ending
        return self._ending


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (
            JudgeError("unknown_model", "custom/x: the provider does not know the model (HTTP 404)"),
            "custom/x: the provider does not know the model (HTTP 404). Check `model` and `base_url`.",
        ),
        (NotApplicable("there is nothing to compare with"), "there is nothing to compare with."),
        (MetricFailure("two rubrics have the id 'a'"), "two rubrics have the id 'a'."),
    ],
)
async def test_an_anchor_without_a_score_says_why(
    ending: MetricResult | JudgeError, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"anchors": [ANCHOR]}))
    bound = BoundMetric(Criterion("m", 0.5), SilentJudge(ending), "fingerprint")

    verdict = await read_calibration_set(tmp_path / "a.json", "a.json", 0.8, [bound]).evaluate_judge()

    told = f"Missed: anchor 1. The judge gave no score to 1 of these. The first reason: {reason}"
    assert (verdict.is_reliable, verdict.shortfall) == (False, told)
