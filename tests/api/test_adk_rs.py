"""adk-rs' interface in Python: the document's example, the published vectors, and the report."""

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from evalgate.api.adk_rs import (
    EvalReport,
    EvalRunner,
    EvalScore,
    EvalSet,
    EvalStatus,
    Evaluator,
    Invocation,
    ResponseMatch,
    TrajectoryMatch,
    combine_scores,
    load_eval_set_from_file,
    load_eval_set_from_str,
)
from evalgate.core.errors import InvalidInputError
from tests.conformance.test_adk_rs import Vector, rows, vectors

HELLO_WORLD: dict[str, Any] = {
    "eval_set_id": "hello-world-set",
    "name": "Hello world",
    "creation_timestamp": 0.0,
    "eval_cases": [
        {
            "eval_id": "case-1",
            "name": "greeting with a tool call",
            "session_input": None,
            "conversation": [
                {
                    "invocation_id": "inv-1",
                    "user_content": {"role": "user", "parts": [{"text": "What's the weather in Paris?"}]},
                    "final_response": {
                        "role": "model",
                        "parts": [{"text": "It is sunny in Paris, 22 degrees."}],
                    },
                    "intermediate_data": {
                        "tool_uses": [{"name": "get_weather", "args": {"city": "Paris"}}],
                        "intermediate_responses": [],
                    },
                }
            ],
        }
    ],
}
"""The eval set of adk-rs' document."""


class WeatherAgent:
    """Answers as the document's case expects."""

    def invoke(self, text: str, session: Any) -> str:
        session.tool_call("get_weather", {"city": "Paris"})
        session.message("One moment.", author="greeter")
        return "It is sunny in Paris, 22 degrees."


async def test_the_example_of_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "hello_world.evalset.json"
    path.write_text(json.dumps(HELLO_WORLD))
    agent = WeatherAgent().invoke

    # The document's lines, with Python's words for Rust's `let`, `Arc::new`, `.await?` and `println!`.
    data = path.read_bytes()
    set_ = EvalSet.model_validate_json(data)
    runner = EvalRunner(
        agent,
        "hello_world",
        "eval-user",
        [
            TrajectoryMatch(1.0),
            ResponseMatch(0.5),
        ],
    )
    report = await runner.run_set(set_)
    for r in report.results:
        print(f"{r.eval_case_id} -> {r.overall_status}")  # noqa: T201

    assert capsys.readouterr().out == "case-1 -> PASSED\n"
    score = {"score": 1.0, "status": "PASSED", "details": {"per_invocation": [1.0]}}
    assert json.loads(report.model_dump_json(indent=2)) == {
        "results": [
            {
                "eval_set_id": "hello-world-set",
                "eval_case_id": "case-1",
                "scores": {"tool_trajectory_avg_score": score, "final_response_match_v1": score},
                "overall_status": "PASSED",
            }
        ]
    }


class TestFiles:
    """Reading and writing of eval sets."""

    def test_both_spellings_of_ids(self) -> None:
        older = {"id": "s", "eval_cases": [{"id": "c", "conversation": []}]}
        found = EvalSet.model_validate(older)

        assert (found.id, found.eval_cases[0].id) == ("s", "c")
        written = json.loads(found.model_dump_json())
        assert (written["eval_set_id"], written["eval_cases"][0]["eval_id"]) == ("s", "c")
        assert EvalSet.model_validate(written) == found

    def test_what_is_written_is_what_adk_rs_writes(self) -> None:
        written = json.loads(EvalSet.model_validate(HELLO_WORLD).model_dump_json())

        case = dict(HELLO_WORLD["eval_cases"][0], creation_timestamp=0.0)
        del case["session_input"]
        case["conversation"] = [dict(case["conversation"][0], creation_timestamp=0.0)]
        assert written == {**HELLO_WORLD, "eval_cases": [case]}

    def test_nulls_and_unknown_keys_of_python_are_absent(self) -> None:
        content = {"role": "user", "parts": [{"text": "Hi", "thought": None, "inline_data": None}]}
        use = {"name": "t", "args": {"a": None}, "id": "adk-1"}
        turn = {"user_content": content, "intermediate_data": {"tool_uses": [use]}, "rubrics": None}
        found = EvalSet.model_validate(
            {"eval_set_id": "s", "eval_cases": [{"eval_id": "c", "conversation": [turn]}]}
        )
        (invocation,) = found.eval_cases[0].conversation

        assert invocation.user_content.parts == [{"text": "Hi"}]
        assert invocation.intermediate_data.tool_uses[0].model_dump() == {"name": "t", "args": {"a": None}}

    async def test_files_are_read_and_problems_have_lines(self, tmp_path: Path) -> None:
        path = tmp_path / "s.evalset.json"
        path.write_text(json.dumps(HELLO_WORLD))
        assert await load_eval_set_from_file(path) == EvalSet.model_validate(HELLO_WORLD)

        with pytest.raises(InvalidInputError, match="no such file"):
            await load_eval_set_from_file(tmp_path / "missing.json")
        with pytest.raises(InvalidInputError) as caught:
            load_eval_set_from_str('{"eval_set_id": "s",\n "eval_cases": [{"eval_id": "c"}]}')
        (problem,) = caught.value.problems
        assert (problem.line, "conversation" in problem.message) == (2, True)

    @pytest.mark.parametrize(
        ("function", "value"), [(load_eval_set_from_str, None), (TrajectoryMatch, "1"), (ResponseMatch, True)]
    )
    def test_arguments_of_a_wrong_type_are_named(
        self, function: Callable[[Any], object], value: object
    ) -> None:
        with pytest.raises(InvalidInputError, match=r"must be a (text|number)"):
            function(value)


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector.id)
async def test_scores_are_those_of_the_vectors(vector: Vector) -> None:
    kinds: dict[str, Callable[[float], Evaluator]] = {
        "tool_trajectory_avg_score": TrajectoryMatch,
        "final_response_match_v1": ResponseMatch,
    }
    evaluator = kinds[vector.metric](vector.threshold)
    sides = (Invocation.model_validate(each) for each in (vector.expected, vector.actual))
    score = await evaluator.evaluate(*sides)

    assert (evaluator.name, score.score) == (vector.metric, vector.score)
    assert score.status == ("PASSED" if vector.passed else "FAILED")
    assert vector.details in (None, score.details)


def a_turn(text: str = "Hi") -> dict[str, Any]:
    response = {"role": "model", "parts": [{"text": "Hello"}]}
    return {"user_content": {"role": "user", "parts": [{"text": text}]}, "final_response": response}


def a_set(*conversations: Sequence[dict[str, Any]], **more: Any) -> EvalSet:
    cases = [
        {"eval_id": f"c{at}", "conversation": list(turns), **more} for at, turns in enumerate(conversations)
    ]
    return EvalSet.model_validate({"eval_set_id": "s", "eval_cases": cases})


class Scripted:
    """Gives the scores that a row names."""

    def __init__(self, name: str, scores: Sequence[dict[str, Any]]) -> None:
        self.name = name
        self._scores = iter(scores)

    async def evaluate(self, expected: Invocation, actual: Invocation) -> EvalScore:
        return EvalScore.model_validate(next(self._scores))


AGGREGATES = [
    {
        "id": "one fails",
        "per_invocation": {"m": [{"score": 1.0, "status": "PASSED"}, {"score": 0.0, "status": "FAILED"}]},
        "expected": {
            "scores": {"m": {"score": 0.5, "status": "FAILED", "details": {"per_invocation": [1.0, 0.0]}}},
            "overall_status": "FAILED",
        },
    },
    *rows("aggregate.json"),
]


@pytest.mark.parametrize("row", AGGREGATES, ids=lambda row: row["id"])
async def test_scores_are_combined_as_in_the_vectors(row: dict[str, Any]) -> None:
    for name, scores in row["per_invocation"].items():
        runner = EvalRunner(lambda text: "Hello", "app", "user", [Scripted(name, scores)])
        (result,) = (await runner.run_set(a_set([a_turn()] * len(scores)))).results

        assert result.model_dump(mode="json")["scores"] == {name: row["expected"]["scores"][name]}
        passed = row["expected"]["scores"][name]["status"] == "PASSED"
        assert result.overall_status == ("PASSED" if passed else "FAILED")


class TestRunner:
    """What the runner gives to the agent and to the evaluators."""

    async def test_a_session_for_each_case_with_the_names_of_the_runner(self) -> None:
        seen: list[tuple[Any, ...]] = []

        def answer(text: str, session: Any) -> str:
            seen.append((session.case, session.app_name, session.user_id, dict(session.state), text))
            session.state["turns"] = session.state.get("turns", 0) + 1
            return "Hello"

        session_input = {"app_name": "other", "user_id": "other", "state": {"unit": "C"}}
        eval_set = a_set([a_turn("1"), a_turn("2")], [a_turn("3")], session_input=session_input)
        await EvalRunner(answer, "app", "ada").run_set(eval_set)

        assert seen == [
            ("c0", "app", "ada", {"unit": "C"}, "1"),
            ("c0", "app", "ada", {"unit": "C", "turns": 1}, "2"),
            ("c1", "app", "ada", {"unit": "C"}, "3"),
        ]

    async def test_a_thresholds_file_is_not_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "evalgate.yaml").write_text("version: 1\nrunz: 3\n")
        runner = EvalRunner(lambda text: "Hello", "app", "user", [ResponseMatch()])
        (result,) = (await runner.run_set(a_set([a_turn()]))).results
        assert result.overall_status == "PASSED"

    async def test_an_own_evaluator_sees_what_the_agent_did(self) -> None:
        seen = []

        class Own:
            name = "own"

            async def evaluate(self, expected: Invocation, actual: Invocation) -> EvalScore:
                seen.append(actual)
                return EvalScore(score=0.25, status=EvalStatus.ERROR, details={"why": "unsure"})

        eval_set = EvalSet.model_validate(HELLO_WORLD)
        runner = EvalRunner(WeatherAgent().invoke, "app", "user", [Own()])
        result = await runner.run_case("other-set", eval_set.eval_cases[0])

        assert (result.eval_set_id, result.overall_status) == ("other-set", "FAILED")
        assert result.scores["own"].status == EvalStatus.ERROR
        (actual,) = seen
        call = {"name": "get_weather", "args": {"city": "Paris"}}
        assert [use.model_dump() for use in actual.intermediate_data.tool_uses] == [call]
        assert actual.intermediate_data.intermediate_responses == [
            ("", [{"functionCall": call}]),
            ("greeter", [{"text": "One moment."}]),
        ]

    async def test_a_crash_fails_its_case_alone(self) -> None:
        def answer(text: str) -> str:
            if text == "boom":
                raise RuntimeError("gone")
            return "Hello"

        eval_set = a_set([a_turn("Hi"), a_turn("boom")], [a_turn("Hi")], [])
        report = await EvalRunner(answer, "app", "user", [ResponseMatch()]).run_set(eval_set)

        assert [result.overall_status for result in report.results] == ["FAILED", "PASSED", "FAILED"]
        details = report.results[0].scores["final_response_match_v1"].details
        assert details["per_invocation"] == [1.0, 0.0]
        assert "gone" in details["error"]

    async def test_an_error_of_an_evaluator_ends_the_set(self) -> None:
        class Broken:
            name = "broken"

            async def evaluate(self, expected: Invocation, actual: Invocation) -> EvalScore:
                raise RuntimeError("no judge")

        with pytest.raises(RuntimeError, match="no judge"):
            await EvalRunner(lambda text: "Hello", "app", "user", [Broken()]).run_set(a_set([a_turn()]))

    @pytest.mark.parametrize("returned", [None, 0.5])
    async def test_an_evaluator_that_returns_no_score(self, returned: Any) -> None:
        class Wrong:
            name = "wrong"

            async def evaluate(self, expected: Invocation, actual: Invocation) -> EvalScore:
                score: EvalScore = returned
                return score

        with pytest.raises(InvalidInputError, match=r"the evaluator `wrong` returned (NoneType|float)"):
            await EvalRunner(lambda text: "Hello", "app", "user", [Wrong()]).run_set(a_set([a_turn()]))

    @pytest.mark.parametrize("score", [math.nan, math.inf])
    async def test_a_score_that_is_not_finite_is_an_error(self, score: float) -> None:
        row = {"score": score, "status": "PASSED"}
        runner = EvalRunner(lambda text: "Hello", "app", "user", [Scripted("m", [row])])
        (result,) = (await runner.run_set(a_set([a_turn()]))).results

        assert (result.scores["m"].status, result.overall_status) == ("ERROR", "FAILED")
        assert json.loads(result.model_dump_json())["scores"]["m"]["score"] == 0.0

    def test_evaluators_that_evaluate_nothing(self) -> None:
        with pytest.raises(InvalidInputError, match="`evaluators` is empty"):
            EvalRunner(len, "app", "user", [])
        with pytest.raises(InvalidInputError, match="two evaluators have the name `final_response_match_v1`"):
            EvalRunner(len, "app", "user", [ResponseMatch(0.5), ResponseMatch(0.8)])
        for threshold in (-1, math.nan, math.inf):
            with pytest.raises(InvalidInputError, match="must be a number of at least 0"):
                ResponseMatch(threshold)

    async def test_defaults_are_those_of_the_command(self) -> None:
        report = await EvalRunner(lambda text: "Hello", "app", "user").run_set(a_set([a_turn()]))

        # adk-rs scores a trajectory without calls 0.0.
        assert {name: score.status.value for name, score in report.results[0].scores.items()} == {
            "tool_trajectory_avg_score": "FAILED",
            "final_response_match_v1": "PASSED",
        }

    async def test_an_unusable_agent_is_wrong_input(self) -> None:
        with pytest.raises(InvalidInputError, match="agent"):
            await EvalRunner(5, "app", "user").run_set(a_set([a_turn()]))


def test_a_report_is_read_back() -> None:
    score = combine_scores([EvalScore.from_threshold(0.5, 0.5)])
    report = EvalReport.model_validate(
        {
            "results": [
                {"eval_set_id": "s", "eval_case_id": "c", "scores": {"m": score}, "overall_status": "PASSED"}
            ]
        }
    )
    assert EvalReport.model_validate_json(report.model_dump_json()) == report
