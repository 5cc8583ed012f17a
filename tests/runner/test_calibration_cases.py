"""Files of anchors: cases that people labelled, to check the judge."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.core.errors import InvalidInputError
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
