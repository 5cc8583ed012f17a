"""tRPC-Agent-Go's cases: the rules of `toolMock`."""

import json

import pytest

from evalgate.core.types import EvalCase, Failure, ToolMock
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.trpc.evalset import TrpcFormat
from tests.agents.play import outcomes, tiny


def case_with_mocks(*rules: object) -> EvalCase:
    turns = [
        {"userContent": {"content": "a"}},
        {"userContent": {"content": "b"}, "toolMock": {"actual": rules}},
    ]
    file = {"evalSetId": "s", "evalCases": [{"evalId": "c", "sessionInput": {}, "conversation": turns}]}
    (case,) = TrpcFormat().read_eval_set(parse_json(json.dumps(file).encode(), "s.evalset.json")).cases
    return case


@pytest.mark.parametrize(
    ("rule", "mock"),
    [
        ({"result": {"a": 1}}, ToolMock("f", {"a": 1}, turn=1)),
        ({"result": 1, "arguments": {"ignore": True}}, ToolMock("f", 1, turn=1)),
        ({"result": 1, "arguments": {"expected": {"x": 2}}}, ToolMock("f", 1, {"x": 2}, exact=True, turn=1)),
    ],
)
def test_rules_become_mocks_of_their_turn(rule: dict[str, object], mock: ToolMock) -> None:
    assert case_with_mocks({"name": "f", **rule}).tool_mocks == (mock,)


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"result": 1}, "a rule of `toolMock` names no tool"),
        ({"name": "f"}, "the rule of `toolMock` for `f` has no `result`"),
        ({"name": "f", "llmGenerator": {"prompt": "p"}}, "has a model make the result up"),
        ({"name": "f", "result": 1, "arguments": {"expected": {}, "onlyTree": {"a": True}}}, "by `onlyTree`"),
        ({"name": "f", "result": 1, "arguments": {"expected": 1}}, "expects arguments that are no object"),
    ],
)
async def test_a_case_with_an_unsupported_rule_is_not_run(rule: dict[str, object], why: str) -> None:
    case = case_with_mocks(rule)
    runs = await outcomes(lambda env: tiny("sync_function", env=env), [case])

    assert runs["c"].outcome == "faulted"
    assert isinstance(runs["c"].failure, Failure)
    assert runs["c"].failure.kind == "unsupported"
    assert why in runs["c"].failure.message
