"""What `evalgate validate` says of eval sets that can be read, and of thresholds."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalgate.config.loader import load_thresholds
from evalgate.core.protocols import Lint, Metric
from evalgate.core.types import (
    CaseChecks,
    CaseTurn,
    EvalCase,
    EvalSet,
    RecordedAnswer,
    RecordedCall,
    Reply,
    Scenario,
    SessionInput,
    ToolMock,
    ToolRecording,
)
from evalgate.datasets.lints.cases import (
    DuplicateLint,
    IgnoredFeaturesLint,
    MissingReferencesLint,
    UndeclaredToolsLint,
)
from evalgate.datasets.lints.thresholds import lint_thresholds
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.adk.metrics.response_match import ResponseMatch
from evalgate.integrations.adk.metrics.tool_trajectory import ToolTrajectory
from evalgate.integrations.adk.metrics.trajectory_scores import TrajectoryRecall
from evalgate.integrations.adk_rs.metrics import AdkRsResponseMatch
from evalgate.integrations.trpc.evalset import TrpcFormat
from tests.builders import a_call, a_case, a_reply, a_turn
from tests.commands import evalgate
from tests.datasets.lints import looking

METRICS: dict[str, Metric] = {"words": ResponseMatch(), "tools": ToolTrajectory()}


def said_by(lint: Lint, *cases: EvalCase, metrics: dict[str, Metric] = METRICS) -> list[tuple[str, str]]:
    return looking.said_by(lint, *cases, metrics=metrics)


FULL, SILENT = a_turn(), a_turn("And then?", Reply(None, (a_call("find"),)))
EMPTY = a_turn("And?", Reply())


@pytest.mark.parametrize(
    ("turns", "metrics", "expected"),
    [
        ((FULL, SILENT), {"tools": ToolTrajectory()}, []),
        ((FULL, SILENT), METRICS, ["turn 2 without an expected response: `words` compares with nothing there"]),
        ((FULL, FULL, EMPTY), {"a": TrajectoryRecall(), "b": ToolTrajectory()}, ["turn 3 without an expected response or tool call: `a` and `b` is met there by any agent that calls no tool"]),
        ((SILENT,) * 3, {"r": AdkRsResponseMatch(threshold=0.5)}, ["3 turns without an expected response: `r` compares with nothing there"]),
        ((FULL, *(SILENT,) * 6), {"words": ResponseMatch()}, ["turns 2, 3, 4, 5, 6, … without an expected response: `words` compares with nothing there"]),
    ],
)  # fmt: skip
def test_empty_references(
    turns: tuple[CaseTurn, ...], metrics: dict[str, Metric], expected: list[str]
) -> None:
    assert said_by(MissingReferencesLint(), a_case("c", *turns), metrics=metrics) == [
        ("c", each) for each in expected
    ]


def test_a_scenario_has_no_turn_that_could_lack_anything() -> None:
    assert said_by(MissingReferencesLint(), EvalCase("c", scenario=Scenario("hi", "plan"))) == []


@pytest.mark.parametrize(
    ("criteria", "problem", "warning"),
    [
        ({"response_evaluation_score": 0.8}, "test_config.json:1:44: `criteria.response_evaluation_score`: no score misses the threshold 0.8: its scores are between 1 and 5", ""),
        ({"response_match_score": -1}, "test_config.json:1:39: `criteria.response_match_score`: no score misses the threshold -1: its scores are between 0 and 1", ""),
        ({"response_match_score": 0}, "", "no score misses the threshold 0 of `response_match_score`"),
        ({"response_match_score": 7}, "", ""),
    ],
)  # fmt: skip
def test_a_threshold_of_google_adk_that_no_score_misses(
    criteria: dict[str, float], problem: str, warning: str, tmp_path: Path
) -> None:
    eval_set = {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [A_TURN]}]}
    (tmp_path / "s.evalset.json").write_text(json.dumps(eval_set))
    (tmp_path / "test_config.json").write_text(json.dumps({"criteria": criteria}))

    done = evalgate("validate", "s.evalset.json", cwd=tmp_path)

    assert done.code == (2 if problem else 0)
    assert problem in done.err
    assert warning in done.out
    assert bool(warning) == ("no score misses" in done.out)


A_TURN = {"user_content": {"parts": [{"text": "Hi"}]}, "final_response": {"parts": [{"text": "Hello"}]}}


def a_call_turn(id_: str, **args: Any) -> CaseTurn:
    return a_turn("Find it.", a_reply("Found.", replace(a_call("find", **args), id=id_)))


def test_turns_that_ask_and_expect_the_same() -> None:
    case = a_case("c", FULL, a_call_turn("1", q=1), a_call_turn("2", q=2), a_call_turn("3", q=1), FULL)

    assert said_by(DuplicateLint(), case) == [
        ("c", "turn 4 asks and expects the same as turn 2"),
        ("c", "turn 5 asks and expects the same as turn 1"),
    ]


def test_values_that_only_python_takes_for_equal_are_no_duplicates() -> None:
    turns = (a_call_turn("1", q=1), a_call_turn("2", q=True), a_call_turn("3", q=1.0))
    flag = replace(a_case("flag", FULL), session=SessionInput(state={"vip": True}))
    count = replace(a_case("count", FULL), session=SessionInput(state={"vip": 1}))

    assert said_by(DuplicateLint(), a_case("c", *turns), flag, count) == []


def test_cases_that_ask_and_expect_the_same() -> None:
    one, other = a_case("one", FULL, a_call_turn("1")), a_case("other", FULL, a_call_turn("2"))
    stateful = replace(other, eval_id="third", final_state={"a": 1})

    assert said_by(DuplicateLint(), one, stateful, other) == [
        ("other", "asks and expects the same as the case `one`")
    ]


@pytest.mark.parametrize(
    "difference",
    [
        {"tool_mocks": (ToolMock("find", {"n": 1}),)},
        {"tool_recording": ToolRecording("a.json", (RecordedCall("find", {}, (RecordedAnswer(1),)),))},
        {"tool_recording": ToolRecording("a.json", live=("find",))},
        {"alternatives": ((a_reply("Hello"),),)},
    ],
)
def test_cases_that_differ_in_their_tools_or_alternatives_are_no_duplicates(difference: Any) -> None:
    one, other = a_case("one", FULL), replace(a_case("other", FULL), **difference)
    third = replace(other, eval_id="third")

    assert said_by(DuplicateLint(), one, other, third) == [
        ("third", "asks and expects the same as the case `other`")
    ]


def test_recordings_of_equal_calls_in_two_files_are_duplicates() -> None:
    one = replace(a_case("one", FULL), tool_recording=ToolRecording("a.json", digest="1"))
    other = replace(one, eval_id="other", tool_recording=ToolRecording("b.json", digest="2"))

    assert said_by(DuplicateLint(), one, other) == [("other", "asks and expects the same as the case `one`")]


def test_cases_with_other_checks_in_their_notes_are_no_duplicates() -> None:
    cases = tuple(a_case(name, FULL) for name in ("one", "other", "third"))
    checks = {"other": {"kind": {"response": "sorry"}}, "third": {"kind": {"response": "sorry"}}}
    eval_set = EvalSet("s", cases, checks=CaseChecks(checks, "notes.yaml", lambda place: (0, 0)))
    check_case = DuplicateLint().build_checker(eval_set, {})

    assert [list(check_case(case)) for case in cases] == [
        [],
        [],
        ["asks and expects the same as the case `other`"],
    ]


def an_agent(*tools: str) -> dict[str, Any]:
    return {"name": "a", "tool_declarations": [{"function_declarations": [{"name": name} for name in tools]}]}


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        (None, []),
        ({"agent_details": {}}, []),
        ({"agent_details": {"a": an_agent("find"), "b": an_agent("buy", "ship")}}, []),
        (
            {"agent_details": {"a": an_agent("look", "ask")}},
            [
                (
                    "turn 1 expects `find`, which its `app_details` do not declare: no agent there could "
                    "call it (they declare `ask` and `look`)"
                )
            ],
        ),
        ({"agent_details": {"a": {"tool_declarations": "?"}, "b": None}}, []),
    ],
)
def test_tools_that_nobody_has(details: dict[str, Any] | None, expected: list[str]) -> None:
    turn = replace(a_turn(expected=a_reply("a", a_call("find"), a_call("find"))), app_details=details)

    assert said_by(UndeclaredToolsLint(), a_case("c", turn)) == [("c", each) for each in expected]


TRPC = {
    "evalSetId": "s",
    "evalCases": [
        {
            "evalId": "c",
            "sessionInput": {},
            "expectedRunnerEnabled": True,
            "conversation": [
                {"userContent": {"content": "a"}},
                {"userContent": {"content": "b"}, "toolMock": {"actual": [{"name": "f"}]}},
            ],
        }
    ],
}


def test_what_a_file_asks_of_its_own_engine() -> None:
    (case,) = TrpcFormat().read_eval_set(parse_json(json.dumps(TRPC).encode(), "s.evalset.json")).cases

    assert said_by(IgnoredFeaturesLint(), case) == [
        ("c", "`expectedRunnerEnabled` is passed over: only what is written counts"),
        ("c", "turn 2: the rule of `toolMock` for `f` has no `result`; the case will not be run"),
    ]
    assert said_by(IgnoredFeaturesLint(), a_case()) == []


def test_prompts_that_nobody_begins() -> None:
    native = {"orchestrate": {"user_prompts": ["more"]}}

    ((_, sentence),) = said_by(
        IgnoredFeaturesLint(), EvalCase("c", scenario=Scenario("", "story"), native=native)
    )

    assert sentence.startswith("`user_prompts` are passed over: without a `starting_sentence`")


def test_thresholds_that_no_score_misses(tmp_path: Path) -> None:
    file = tmp_path / "t.metrics.json"
    text = {"criterion": {"finalResponse": {"text": {}}}, "evaluatorName": "final_response_avg_score"}
    file.write_text(json.dumps([{"metricName": "m", **text}, {"metricName": "n", "threshold": 0.1, **text}]))

    assert list(lint_thresholds(load_thresholds(file, "t.metrics.json"))) == [
        "t.metrics.json:1: no score misses the threshold 0 of `m`: only a baseline can hold it to anything"
    ]


EVAL_SET = """{"eval_set_id": "s", "eval_cases": [
 {"eval_id": "one", "conversation": [{"user_content": {"parts": [{"text": "Hi"}]}}]},
 {"eval_id": "two", "conversation": [{"user_content": {"parts": [{"text": "Hi"}]}}]}
]}"""


def test_warnings_have_a_place_and_leave_the_exit_code_alone(tmp_path: Path) -> None:
    (tmp_path / "s.evalset.json").write_text(EVAL_SET)
    (tmp_path / "test_config.json").write_text('{"criteria": {"response_match_score": 0.0}}')

    done = evalgate("validate", "s.evalset.json", cwd=tmp_path)

    assert done.code == 0
    nothing = "1 turn without an expected response: `response_match_score` compares with nothing there"
    never = (
        "no score misses the threshold 0 of `response_match_score`: only a baseline can hold it to anything"
    )
    assert done.out.splitlines() == [
        "s.evalset.json: 2 cases, scored with response_match_score",
        f"test_config.json:1: {never}",
        f"s.evalset.json:2: one: {nothing}",
        f"s.evalset.json:3: two: {nothing}",
        "s.evalset.json:3: two: asks and expects the same as the case `one`",
        "1 eval set: 4 warnings, no error.",
    ]
