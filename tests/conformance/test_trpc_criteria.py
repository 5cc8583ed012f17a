"""What tRPC-Agent-Go's criteria say of random values: the verdicts in the rows are its Go packages' own."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.integrations.trpc.metrics.final_response import ResponseCriterion
from evalgate.integrations.trpc.metrics.tool_trajectory import TrajectoryCriterion
from evalgate.integrations.trpc.value_criteria import JsonCriterion, TextCriterion
from evalgate.metrics.tool_call_matching import ToolRecord
from tests.conformance.trpc import HAS_RE2

_FOUND = json.loads(Path(__file__).with_name("trpc_go_cases.json").read_text("utf-8"))
ROWS = [row for row in _FOUND if HAS_RE2 or '"regex"' not in json.dumps(row)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["kind"])
def test_verdicts_are_equal(row: dict[str, Any]) -> None:
    assert (_mismatch(**row) == "") is row["match"]


def _mismatch(kind: str, criterion: dict[str, Any], a: Any, e: Any, match: bool) -> str:
    del match
    if kind == "text":
        return TextCriterion.model_validate(criterion).find_mismatch(a, e)
    if kind == "json":
        return JsonCriterion.model_validate(criterion).find_mismatch(a, e)
    if kind == "final":
        return ResponseCriterion.model_validate(criterion).find_mismatch(a, e)
    return TrajectoryCriterion.model_validate(criterion).find_mismatch(_calls(a), _calls(e))


def _calls(tools: list[dict[str, Any]]) -> list[ToolRecord]:
    return [
        ToolRecord(tool.get("name", ""), tool.get("arguments"), tool.get("result"), tool.get("id", ""))
        for tool in tools
    ]
