"""Mocks of a thresholds file, and what becomes of cases whose agent cannot have them."""

import json
from pathlib import Path

import pytest

from evalgate.config.loader import load_thresholds
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import EvalCase, EvalSet, Failure, ToolMock
from evalgate.datasets.fingerprint import compute_case_fingerprint
from evalgate.runner.base_branch import RuleFiles
from evalgate.runner.tool_mocks import add_tool_mocks
from tests.agents.play import a_talk, command, outcomes, tiny

SETS = (
    EvalSet("shop", (a_talk("one", "hi"), a_talk("two", "hi")), "shop.json"),
    EvalSet("travel", (a_talk("one", "hi"),), "travel.json"),
)

CASE = {"eval_id": "x", "conversation": [{"user_content": {"role": "user", "parts": [{"text": "hi"}]}}]}


def rules(folder: Path, text: str) -> Thresholds:
    (folder / "evalgate.yaml").write_text("version: 1\ntool_mocks:\n" + text)
    return load_thresholds(folder / "evalgate.yaml", "evalgate.yaml")


def mocked(folder: Path, text: str) -> list[tuple[ToolMock, ...]]:
    found = rules(folder, text)
    return [
        case.tool_mocks
        for each in add_tool_mocks(SETS, found.config, found, RuleFiles(folder, {}))
        for case in each.cases
    ]


def test_a_mock_is_for_every_case_or_those_it_names(tmp_path: Path) -> None:
    text = """\
  - {tool: get, args: {id: 1}, exact: true, result: {status: shipped}}
  - {tool: get, result: null, ids: "shop:*"}
  - {tool: put, result: [1], ids: [two, travel.json:one]}
"""
    first = ToolMock("get", {"status": "shipped"}, {"id": 1}, exact=True)
    get, put = ToolMock("get", None), ToolMock("put", [1])

    assert mocked(tmp_path, text) == [(first, get), (first, get, put), (first, put)]


def test_a_mock_for_no_case_is_told_at_its_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as raised:
        mocked(tmp_path, "  - {tool: get, result: 1}\n  - {tool: get, result: 1, ids: three}\n")

    assert [str(each) for each in raised.value.problems] == ["evalgate.yaml:4:5: no case is called `three`"]


def test_a_mock_may_be_for_a_case_that_is_not_selected(tmp_path: Path) -> None:
    """Else neither the command that repeats one case nor `evalgate accept` could read the file."""
    (tmp_path / "tools.json").write_text(json.dumps({"eval_set_id": "other", "eval_cases": [CASE]}))
    found = rules(tmp_path, "  - {tool: get, result: 1, ids: three}\n  - {from: tools.json}\n")
    sets = add_tool_mocks(SETS, found.config, found, RuleFiles(tmp_path, {}), is_part=True)

    assert all(not case.tool_mocks and case.tool_recording for each in sets for case in each.cases)
    assert sets[0].notices[0].startswith("tools.json has no run of 3 cases")


def test_a_mock_without_a_result_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="result"):
        rules(tmp_path, "  - {tool: get}\n")


@pytest.mark.parametrize(
    ("mock", "sentence"),
    [
        ("result: .nan", "must not contain `.nan` or `.inf`"),
        ("result: {a: [.inf]}", "must not contain `.nan` or `.inf`"),
        ("args: {a: -.inf}, result: 1", "must not contain `.nan` or `.inf`"),
        ("exact: true, result: 1", "is `exact` without `args`"),
    ],
)
def test_a_mock_that_no_call_can_mean_is_wrong(tmp_path: Path, mock: str, sentence: str) -> None:
    with pytest.raises(InvalidInputError, match=sentence) as raised:
        rules(tmp_path, f"  - {{tool: get, {mock}}}\n")

    assert str(raised.value).startswith("evalgate.yaml:3:")


def test_mocks_are_part_of_what_a_case_asks() -> None:
    plain, other = a_talk("case", "hi"), EvalCase("case", tool_mocks=(ToolMock("get", 1),))

    assert compute_case_fingerprint(
        EvalCase("case", plain.turns, tool_mocks=other.tool_mocks)
    ) != compute_case_fingerprint(plain)


@pytest.mark.parametrize("kind", ["python", "command"])
async def test_an_agent_that_cannot_have_mocks_is_never_asked(kind: str) -> None:
    case = EvalCase("case", a_talk("case", "hi").turns, tool_mocks=(ToolMock("get", 1), ToolMock("get", 2)))
    ready = '{"type": "ready", "protocol": 1}'
    say = f"read -r hello; echo '{ready}'; cat >/dev/null"
    runs = await outcomes(
        lambda env: tiny("sync_function", env=env) if kind == "python" else command("sh", "-c", say, env=env),
        [case],
    )

    assert runs["case"].outcome == "faulted"
    assert runs["case"].failure == Failure(
        "unsupported", "the case mocks `get`, and mocks cannot be applied to this kind of agent"
    )
