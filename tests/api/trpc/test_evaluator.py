"""Evaluations as users of tRPC-Agent-Go write them: its document's examples in Python, and every option."""

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evalgate.api import trpc
from evalgate.api.trpc.wire import parse_wire
from evalgate.core.errors import EvalgateError, InvalidInputError
from tests.openai_server import Completion, OpenAIServer

APP, SET = "math-eval-app", "math-basic"

# The files of the document, as they stand in it.
EVAL_SET = """
{
  "evalSetId": "math-basic",
  "name": "math-basic",
  "evalCases": [
    {
      "evalId": "calc_add",
      "conversation": [
        {
          "invocationId": "calc_add-1",
          "userContent": {
            "role": "user",
            "content": "calc add 2 3"
          },
          "finalResponse": {
            "role": "assistant",
            "content": "calc result: 5"
          },
          "tools": [
            {
              "id": "tool_use_1",
              "name": "calculator",
              "arguments": {
                "operation": "add",
                "a": 2,
                "b": 3
              },
              "result": {
                "a": 2,
                "b": 3,
                "operation": "add",
                "result": 5
              }
            }
          ]
        }
      ],
      "sessionInput": {
        "appName": "math-eval-app",
        "userId": "user"
      }
    }
  ],
  "creationTimestamp": 1761134484.9804401
}
"""
METRICS = """
[
  {
    "metricName": "tool_trajectory_avg_score",
    "threshold": 1,
    "criterion": {
      "toolTrajectory": {
        "orderSensitive": false,
        "defaultStrategy": {
          "name": {
            "matchStrategy": "exact"
          },
          "arguments": {
            "matchStrategy": "exact"
          },
          "result": {
            "matchStrategy": "exact"
          }
        }
      }
    }
  }
]
"""


def calculate(text: str, session: Any) -> str:
    """An agent with a tool."""
    _, operation, a, b = text.split()
    arguments = {"operation": operation, "a": int(a), "b": int(b)}
    session.tool_call("calculator", arguments, id="call_00")
    result = {**arguments, "result": int(a) + int(b)}
    session.tool_result("calculator", result, id="call_00")
    return f"The result of {a} + {b} is **{result['result']}**."


class TestDocument:
    """The quick start of the document."""

    def test_local(self, tmp_path: Path) -> None:
        (tmp_path / "in" / APP).mkdir(parents=True)
        (tmp_path / "in" / APP / "math-basic.evalset.json").write_text(EVAL_SET)
        (tmp_path / "in" / APP / "math-basic.metrics.json").write_text(METRICS)
        eval_result_manager = trpc.LocalEvalResultManager(tmp_path / "out")
        with trpc.new(
            APP,
            calculate,
            eval_set_manager=trpc.LocalEvalSetManager(tmp_path / "in"),
            metric_manager=trpc.LocalMetricManager(tmp_path / "in"),
            eval_result_manager=eval_result_manager,
            registry=trpc.Registry(),
            num_runs=2,
        ) as evaluator:
            result = evaluator.evaluate("math-basic")

        assert result.overall_status == "passed"
        assert result.execution_time > 0
        [name] = eval_result_manager.list(APP)
        [path] = (tmp_path / "out" / APP).iterdir()
        assert path.name == f"{name}.evalset_result.json"
        first, second = json.loads(path.read_text())["evalCaseResults"]
        assert (first["runId"], second["runId"]) == (1, 2)
        assert first["sessionId"] != second["sessionId"]
        assert self.without_what_changes(first) == self.expected_case_result()

    def without_what_changes(self, result: dict[str, Any]) -> dict[str, Any]:
        del result["runId"], result["score"], result["sessionId"]
        del result["evalMetricResultPerInvocation"][0]["actualInvocation"]["invocationId"]
        return result

    def expected_case_result(self) -> dict[str, Any]:
        """Return the case's result as the document has it, with `value`, which later releases write."""
        case = json.loads(EVAL_SET)["evalCases"][0]
        metric = {
            "metricName": "tool_trajectory_avg_score",
            "score": 1,
            "evalStatus": "passed",
            "threshold": 1,
            "criterion": {
                "toolTrajectory": {
                    "defaultStrategy": {
                        "name": {"matchStrategy": "exact"},
                        "arguments": {"matchStrategy": "exact"},
                        "result": {"matchStrategy": "exact"},
                    }
                }
            },
        }
        expected = case["conversation"][0]
        actual = {
            "userContent": expected["userContent"],
            "finalResponse": {"role": "assistant", "content": "The result of 2 + 3 is **5**."},
            "tools": [{**expected["tools"][0], "id": "call_00"}],
        }
        value = {"kind": "numeric", "numeric": 1}
        return {
            "evalSetId": "math-basic",
            "evalId": "calc_add",
            "finalEvalStatus": "passed",
            "overallEvalMetricResults": [{**metric, "details": {"score": 1}}],
            "evalMetricResultPerInvocation": [
                {
                    "actualInvocation": actual,
                    "expectedInvocation": expected,
                    "evalMetricResults": [{**metric, "details": {"score": 1, "value": value}}],
                }
            ],
            "userId": "user",
        }

    def test_in_memory(self) -> None:
        eval_set_manager = trpc.InMemoryEvalSetManager()
        metric_manager = trpc.InMemoryMetricManager()
        eval_set_manager.create(APP, SET)
        eval_set_manager.add_case(
            APP,
            SET,
            trpc.EvalCase(
                eval_id="calc_add",
                conversation=[
                    trpc.Invocation(
                        invocation_id="calc_add-1",
                        user_content=trpc.Message(role="user", content="calc add 2 3"),
                        final_response=trpc.Message(role="assistant", content="calc result: 5"),
                        tools=[
                            trpc.Tool(
                                id="tool_use_1",
                                name="calculator",
                                arguments={"operation": "add", "a": 2, "b": 3},
                                result={"a": 2, "b": 3, "operation": "add", "result": 5},
                            )
                        ],
                    )
                ],
                session_input=trpc.SessionInput(app_name=APP, user_id="user"),
            ),
        )
        metric_manager.add(
            APP,
            SET,
            trpc.EvalMetric(
                metric_name="tool_trajectory_avg_score",
                threshold=1.0,
                criterion=trpc.Criterion(
                    tool_trajectory=trpc.ToolTrajectoryCriterion(
                        default_strategy=trpc.ToolTrajectoryStrategy(
                            name=trpc.TextCriterion(match_strategy="exact"),
                            arguments=trpc.JSONCriterion(match_strategy="exact"),
                            result=trpc.JSONCriterion(match_strategy="exact"),
                        )
                    )
                ),
            ),
        )
        evaluator = trpc.new(
            APP,
            calculate,
            eval_set_manager=eval_set_manager,
            metric_manager=metric_manager,
            eval_result_manager=trpc.InMemoryEvalResultManager(),
        )
        assert evaluator.evaluate(SET).overall_status == "passed"
        evaluator.close()
        with pytest.raises(InvalidInputError, match="the evaluator is closed"):
            evaluator.evaluate(SET)


def a_case(eval_id: str, *said: str, expected: str = "a", **other: Any) -> trpc.EvalCase:
    turns = [
        trpc.Invocation(
            user_content=trpc.Message(role="user", content=text),
            final_response=trpc.Message(role="assistant", content=expected),
        )
        for text in said or ("q",)
    ]
    return trpc.EvalCase(
        **{
            "eval_id": eval_id,
            "conversation": turns,
            "session_input": trpc.SessionInput(user_id="u"),
            **other,
        }
    )


def a_metric(criterion: trpc.Criterion | None = None, **other: Any) -> trpc.EvalMetric:
    text = trpc.Criterion(final_response=trpc.FinalResponseCriterion(text=trpc.TextCriterion()))
    return trpc.EvalMetric(
        **{
            "metric_name": "final_response_avg_score",
            "threshold": 1.0,
            "criterion": criterion or text,
            **other,
        }
    )


def build(
    runner: object,
    *cases: trpc.EvalCase,
    metrics: Sequence[trpc.EvalMetric] = (),
    **options: Any,
) -> trpc.AgentEvaluator:
    sets, own = trpc.InMemoryEvalSetManager(), trpc.InMemoryMetricManager()
    sets.create(APP, SET)
    for case in cases or [a_case("one")]:
        sets.add_case(APP, SET, case)
    for metric in metrics or [a_metric()]:
        own.add(APP, SET, metric)
    given = {"eval_set_manager": sets, "metric_manager": own, **options}
    return trpc.new(APP, runner, **{"eval_result_manager": trpc.InMemoryEvalResultManager(), **given})


def evaluate_one(runner: object, *cases: trpc.EvalCase, **options: Any) -> trpc.EvalCaseResult:
    [case] = build(runner, *cases, **options).evaluate(SET).eval_cases
    [run] = case.eval_case_results
    return run


class TestInference:
    def test_an_agent_sees_the_session_of_its_case(self) -> None:
        seen: list[Any] = []

        def answer(text: str, session: Any) -> str:
            seen.append(
                (
                    session.id,
                    session.user_id,
                    session.app_name,
                    dict(session.state),
                    session.context_messages,
                )
            )
            return "a"

        session_input = trpc.SessionInput(user_id="u", state={"a": 1})
        system = trpc.Message(role="system", content="You are trpc-agent-go bot.")
        case = a_case("one", "q1", "q2", session_input=session_input, context_messages=[system])
        run = evaluate_one(answer, case, session_id_supplier=lambda: "session-7")
        assert run.final_eval_status == "passed"
        assert (run.session_id, run.user_id) == ("session-7", "u")
        context = [{"role": "system", "content": "You are trpc-agent-go bot."}]
        assert seen == [("session-7", "u", APP, {"a": 1}, context)] * 2

    @pytest.mark.parametrize(("parallel", "at_once"), [(False, 1), (True, 3)])
    def test_cases_run_one_by_one_unless_asked_otherwise(self, parallel: bool, at_once: int) -> None:
        running, most, lock = 0, 0, threading.Lock()

        def answer(text: str) -> str:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.2)
            with lock:
                running -= 1
            return "a"

        cases = [a_case(f"case-{number}") for number in range(6)]
        result = build(
            answer, *cases, eval_case_parallel_inference_enabled=parallel, eval_case_parallelism=3
        ).evaluate(SET)
        assert most == at_once
        assert [case.eval_case_id for case in result.eval_cases] == [case.eval_id for case in cases]

    def test_a_case_that_crashes_fails_alone(self) -> None:
        def answer(text: str) -> str:
            if text == "bad":
                raise ValueError("no")
            return "a"

        result = build(answer, a_case("bad", "bad"), a_case("good")).evaluate(SET)
        bad, good = (case.eval_case_results[0] for case in result.eval_cases)
        assert (bad.final_eval_status, good.final_eval_status) == ("failed", "passed")
        assert bad.error_message.startswith("inference eval case (evalCaseID=bad, sessionID=")
        assert bad.error_message.endswith("ValueError: no")
        assert bad.eval_metric_result_per_invocation == []

    def test_some_cases(self) -> None:
        evaluator = build(lambda text: "a", a_case("one"), a_case("two"), a_case("three"))
        found = evaluator.evaluate(SET, eval_case_ids=["three", "one"])
        assert [case.eval_case_id for case in found.eval_cases] == ["one", "three"]
        with pytest.raises(trpc.NotFoundError, match="has no case 'four'"):
            evaluator.evaluate(SET, eval_case_ids=["four"])

    def test_a_recorded_case_needs_no_runner(self) -> None:
        assert evaluate_one(None, a_case("one", eval_mode="trace")).final_eval_status == "failed"
        compared = a_case("one", eval_mode="trace")
        compared.actual_conversation = compared.conversation
        run = evaluate_one(None, compared)
        assert (run.final_eval_status, run.error_message) == ("passed", "")

    def test_any_other_case_needs_one(self) -> None:
        run = evaluate_one(None)
        assert run.final_eval_status == "failed"
        assert "there is no runner, and the case is not in trace mode" in run.error_message

    def test_an_agent_in_its_own_process_starts_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "agent.py").write_text("import os\n\ndef answer(text):\n    return str(os.getpid())\n")
        monkeypatch.chdir(tmp_path)
        numbers = trpc.Criterion(
            final_response=trpc.FinalResponseCriterion(
                text=trpc.TextCriterion(compare=lambda actual, expected: actual.isdigit())
            )
        )
        result = build("python:agent.py:answer", metrics=[a_metric(numbers)], num_runs=3).evaluate(SET)
        runs = result.eval_cases[0].eval_case_results
        actual = [run.eval_metric_result_per_invocation[0].actual_invocation for run in runs]
        answers = {turn.final_response.content for turn in actual if turn and turn.final_response}
        assert (result.overall_status, len(runs), len(answers)) == ("passed", 3, 1)

    async def test_evaluations_at_the_same_time(self) -> None:
        async def answer(text: str) -> str:
            await asyncio.sleep(0.05)
            return "a"

        evaluator = build(answer, a_case("one"), a_case("two"), num_runs=2)
        found = await asyncio.gather(*[evaluator.evaluate_async(SET) for _ in range(3)])
        assert [result.overall_status for result in found] == ["passed"] * 3
        assert (
            len({result.eval_set_result and result.eval_set_result.eval_set_result_id for result in found})
            == 3
        )

    def test_a_wrong_agent_is_an_error(self) -> None:
        with pytest.raises(EvalgateError, match="nothing"):
            build("nothing:x").evaluate(SET)

    async def test_in_a_running_loop(self) -> None:
        async def answer(text: str) -> str:
            await asyncio.sleep(0)
            return "a"

        assert (await build(answer).evaluate_async(SET)).overall_status == "passed"
        assert build(answer).evaluate(SET).overall_status == "passed"


class TestRuns:
    @pytest.mark.parametrize(("threshold", "status"), [(0.6, "passed"), (0.7, "failed")])
    def test_the_mean_of_the_runs_decides(self, threshold: float, status: str) -> None:
        answers = iter("aba")
        evaluator = build(
            lambda text: next(answers),
            metrics=[a_metric(threshold=threshold)],
            num_runs=3,
        )
        result = evaluator.evaluate(SET)
        [case] = result.eval_cases
        assert (result.overall_status, case.overall_status) == (status, status)
        assert case.metric_results[0].score == pytest.approx(2 / 3)
        assert [run.final_eval_status for run in case.eval_case_results] == ["passed", "failed", "passed"]

    def test_nothing_to_score_with_is_not_evaluated(self) -> None:
        sets = trpc.InMemoryEvalSetManager()
        sets.create(APP, SET)
        evaluator = trpc.new(
            APP,
            lambda text: "a",
            eval_set_manager=sets,
            metric_manager=trpc.InMemoryMetricManager(),
            eval_result_manager=trpc.InMemoryEvalResultManager(),
        )
        assert evaluator.evaluate(SET).overall_status == "not_evaluated"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"num_runs": 0}, "`num_runs` must be at least 1"),
            *[
                ({"num_runs": wrong}, "`num_runs` must be a whole number, not")
                for wrong in ("2", None, 1.5, True)
            ],
            ({"eval_case_parallelism": "2"}, "`eval_case_parallelism` must be a whole number, not '2'"),
            ({"eval_case_parallelism": 0}, "`eval_case_parallelism` must be at least 1"),
            ({"judge": "nonsense"}, "must be PROVIDER/MODEL"),
        ],
    )
    def test_wrong_options(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            build(lambda text: "a", **options)

    @pytest.mark.parametrize(
        ("supply", "message"),
        [
            (lambda: 7, r"`session_id_supplier\(\)` must be a text, not 7"),
            (lambda: "", r"`session_id_supplier\(\)` is empty"),
            (lambda: "\ud800", "no valid Unicode"),
            (lambda: 1 / 0, "`session_id_supplier` raised ZeroDivisionError: division by zero"),
        ],
    )
    def test_session_ids_are_texts(self, supply: Any, message: str) -> None:
        def answer(text: str, session: Any) -> str:
            return str(session.id)

        with pytest.raises(InvalidInputError, match=message):
            build(answer, session_id_supplier=supply).evaluate(SET)

    def test_a_threshold_that_was_changed_is_checked_before_the_agent_runs(self) -> None:
        asked: list[str] = []
        metrics = trpc.InMemoryMetricManager()
        metrics.list = lambda *names: ["own"]  # type: ignore[method-assign]
        changed = a_metric(metric_name="own", evaluator_name="final_response_avg_score")
        changed.threshold = float("nan")
        metrics.get = lambda *names: changed  # type: ignore[method-assign]
        with pytest.raises(InvalidInputError, match="the threshold of 'own' is nan"):
            build(asked.append, metric_manager=metrics).evaluate(SET)
        assert asked == []

    def test_names_are_needed(self) -> None:
        with pytest.raises(InvalidInputError, match="`app_name` is empty"):
            trpc.new("")
        with pytest.raises(InvalidInputError, match="`app_name` must be a text, not 3"):
            trpc.new(3)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="`eval_set_id` is empty"):
            build(lambda text: "a").evaluate("")
        with pytest.raises(trpc.NotFoundError, match="there is no eval set"):
            build(lambda text: "a").evaluate("other")

    def test_secrets_are_hidden_in_results(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_API_KEY", "s3cr3t-0123456789abcdef")
        run = evaluate_one(lambda text: "the key is s3cr3t-0123456789abcdef")
        assert "s3cr3t" not in run.model_dump_json()


class TestComparers:
    """Functions of the user in criteria: `Compare` of the document."""

    @pytest.mark.parametrize(
        ("criterion", "status", "reason"),
        [
            (trpc.TextCriterion(compare=lambda actual, expected: actual.lower() == expected), "passed", ""),
            (
                trpc.TextCriterion(compare=lambda actual, expected: False),
                "failed",
                "final response mismatch: text mismatch: the function that compares them found no match",
            ),
            (
                trpc.TextCriterion(compare=lambda actual, expected: 1 / 0),
                "failed",
                "final response mismatch: text mismatch: division by zero",
            ),
            (trpc.TextCriterion(ignore=True, compare=lambda actual, expected: False), "passed", ""),
        ],
    )
    def test_text(self, criterion: trpc.TextCriterion, status: str, reason: str) -> None:
        metric = a_metric(trpc.Criterion(final_response=trpc.FinalResponseCriterion(text=criterion)))
        run = evaluate_one(lambda text: "A", metrics=[metric])
        assert run.final_eval_status == status
        details = run.overall_eval_metric_results[0].details
        assert details is not None
        assert details.reason == reason

    @pytest.mark.parametrize(
        ("returned", "shown"),
        [
            (1, "int"),
            (float("nan"), "float"),
            ("no", "str"),
            ((False, "why"), "tuple"),
            (None, "NoneType"),
            (asyncio.sleep, "coroutine"),
        ],
    )
    @pytest.mark.parametrize("kind", ["TextCriterion", "JSONCriterion", "FinalResponseCriterion", "tools"])
    def test_a_result_that_is_no_bool_fails_the_case(self, kind: str, returned: object, shown: str) -> None:
        def compare(actual: Any, expected: Any) -> object:
            return returned(0) if callable(returned) else returned

        name, metric_name = kind, "final_response_avg_score"
        if kind == "TextCriterion":
            response = trpc.FinalResponseCriterion(text=trpc.TextCriterion(compare=compare))
        elif kind == "JSONCriterion":
            response = trpc.FinalResponseCriterion(json_=trpc.JSONCriterion(compare=compare))
        else:
            response = trpc.FinalResponseCriterion(compare=compare)
        criterion = trpc.Criterion(final_response=response)
        if kind == "tools":
            name, metric_name = "ToolTrajectoryCriterion", "tool_trajectory_avg_score"
            criterion = trpc.Criterion(tool_trajectory=trpc.ToolTrajectoryCriterion(compare=compare))
        metric = a_metric(criterion, metric_name=metric_name)
        run = evaluate_one(lambda text: "1", a_case("one", expected="1"), metrics=[metric])
        assert run.final_eval_status == "failed"
        assert run.error_message.startswith(
            f"run evaluation for metric {metric_name}: `compare` of {name} returned {shown}: "
            "it must return True or False"
        )

    def test_a_comparer_gets_copies(self) -> None:
        def spoil(actual: trpc.Invocation, expected: trpc.Invocation) -> bool:
            actual.final_response = expected.final_response = None
            return True

        spoiling = a_metric(
            trpc.Criterion(final_response=trpc.FinalResponseCriterion(compare=spoil)),
            metric_name="first",
            evaluator_name="final_response_avg_score",
        )
        run = evaluate_one(lambda text: "b", metrics=[spoiling, a_metric()])
        assert [each.score for each in run.overall_eval_metric_results] == [1.0, 0.0]
        [turn] = run.eval_metric_result_per_invocation
        assert turn.actual_invocation is not None
        assert turn.actual_invocation.final_response == trpc.Message(role="assistant", content="b")

    def test_json(self) -> None:
        seen = []

        def compare(actual: Any, expected: Any) -> bool:
            seen.append((actual, expected))
            return bool(actual["sum"] == expected["sum"])

        criterion = trpc.Criterion(
            final_response=trpc.FinalResponseCriterion(json_=trpc.JSONCriterion(compare=compare))
        )
        case = a_case("one", expected='{"sum": 5}')
        run = evaluate_one(lambda text: '{"sum": 5, "more": 1}', case, metrics=[a_metric(criterion)])
        assert run.final_eval_status == "passed"
        assert seen == [({"sum": 5, "more": 1}, {"sum": 5})]

    @pytest.mark.parametrize(("required", "status"), [("sum", "passed"), ("total", "failed")])
    def test_json_schema(self, required: str, status: str) -> None:
        schema = {"type": "object", "required": [required]}
        rules = trpc.JSONCriterion(match_strategy="skip", schema_=schema)
        criterion = trpc.Criterion(final_response=trpc.FinalResponseCriterion(json_=rules))
        run = evaluate_one(lambda text: '{"sum": 5}', a_case("one"), metrics=[a_metric(criterion)])
        assert run.final_eval_status == status
        assert rules.to_wire() == {"matchStrategy": "skip", "schema": schema}

    def test_json_of_a_tool(self) -> None:
        strategy = trpc.ToolTrajectoryStrategy(
            name=trpc.TextCriterion(),
            arguments=trpc.JSONCriterion(compare=lambda actual, expected: actual["a"] >= expected["a"]),
        )
        criterion = trpc.Criterion(tool_trajectory=trpc.ToolTrajectoryCriterion(default_strategy=strategy))
        case = a_case("one")
        case.conversation[0].tools = [trpc.Tool(name="add", arguments={"a": 1})]
        metric = a_metric(criterion, metric_name="tool_trajectory_avg_score")

        def answer(text: str, session: Any) -> str:
            session.tool_call("add", {"a": 2})
            return "a"

        assert evaluate_one(answer, case, metrics=[metric]).final_eval_status == "passed"

    @pytest.mark.parametrize(("wanted", "status"), [("a", "passed"), ("b", "failed")])
    def test_trajectory(self, wanted: str, status: str) -> None:
        def compare(actual: trpc.Invocation, expected: trpc.Invocation) -> bool:
            assert expected.user_content is not None
            return actual.final_response is not None and actual.final_response.content == wanted

        criterion = trpc.Criterion(tool_trajectory=trpc.ToolTrajectoryCriterion(compare=compare))
        metric = a_metric(criterion, metric_name="tool_trajectory_avg_score")
        run = evaluate_one(lambda text: "a", metrics=[metric])
        assert run.final_eval_status == status


class ContainsAll:
    """The evaluator of a user: the share of the words that an answer must contain."""

    name = "contains_all"
    description = "Share of the expected words."

    def evaluate(
        self,
        actuals: Sequence[trpc.Invocation],
        expecteds: Sequence[trpc.Invocation],
        metric: trpc.EvalMetric,
    ) -> trpc.EvaluateResult:
        turns = [self.evaluate_turn(*pair, metric) for pair in zip(actuals, expecteds, strict=True)]
        score = sum(turn.score for turn in turns) / len(turns)
        return trpc.EvaluateResult(score, "passed" if score >= metric.threshold else "failed", turns)

    def evaluate_turn(
        self, actual: trpc.Invocation, expected: trpc.Invocation, metric: trpc.EvalMetric
    ) -> trpc.PerInvocationResult:
        assert actual.final_response is not None
        assert expected.final_response is not None
        words = expected.final_response.content.split()
        scores = [
            trpc.RubricScore(
                id=word, reason=f"looked for {word}", score=float(word in actual.final_response.content)
            )
            for word in words
        ]
        score = sum(each.score for each in scores) / len(scores)
        details = trpc.PerInvocationDetails(f"{score:.0%} of the words", score, scores)
        return trpc.PerInvocationResult(
            actual, expected, score, "passed" if score >= metric.threshold else "failed", details
        )


class AsyncContainsAll(ContainsAll):
    async def evaluate(self, *args: Any) -> trpc.EvaluateResult:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().evaluate(*args)


class Broken(ContainsAll):
    def evaluate(self, *args: Any) -> trpc.EvaluateResult:
        raise ValueError("no score today")


class Short(ContainsAll):
    def evaluate(self, *args: Any) -> trpc.EvaluateResult:
        return trpc.EvaluateResult(1.0, "passed", [])


class Changed(ContainsAll):
    """Returns its scores with one field replaced: of the whole, of a turn, of its details or a rubric."""

    def __init__(self, where: str, field: str, value: object) -> None:
        self.where, self.field, self.value = where, field, value

    def evaluate(self, *args: Any) -> trpc.EvaluateResult:
        result = super().evaluate(*args)
        [turn] = result.per_invocation_results
        assert turn.details is not None
        places = {
            "whole": result,
            "turn": turn,
            "details": turn.details,
            "rubric": turn.details.rubric_scores[0],
        }
        setattr(places[self.where], self.field, self.value)
        return result


class Spoiling(ContainsAll):
    """Changes everything that it gets, and passes."""

    def evaluate(
        self,
        actuals: Sequence[trpc.Invocation],
        expecteds: Sequence[trpc.Invocation],
        metric: trpc.EvalMetric,
    ) -> trpc.EvaluateResult:
        metric.threshold = 0.0
        for turn in (*actuals, *expecteds):
            turn.final_response = trpc.Message(role="assistant", content="spoilt")
        turns = [trpc.PerInvocationResult(score=1.0, status="passed") for _ in actuals]
        return trpc.EvaluateResult(1.0, "passed", turns)


class TestEvaluators:
    """Evaluators of the user, named in `.metrics.json`."""

    METRIC = '[{"metricName": "words", "evaluatorName": "contains_all", "threshold": 0.5, "mine": 1}]'

    def evaluate(self, folder: Path, evaluator: trpc.Evaluator, **options: Any) -> trpc.EvaluationResult:
        (folder / APP).mkdir(exist_ok=True)
        (folder / APP / f"{SET}.metrics.json").write_text(self.METRIC)
        registry = trpc.Registry()
        registry.register("", evaluator)
        return build(
            lambda text: "red and blue",
            a_case("one", expected="red green blue"),
            metric_manager=trpc.LocalMetricManager(folder),
            registry=registry,
            **options,
        ).evaluate(SET)

    @pytest.mark.parametrize("evaluator", [ContainsAll(), AsyncContainsAll()])
    def test_status_reason_and_rubric_scores_reach_the_result(
        self, tmp_path: Path, evaluator: trpc.Evaluator
    ) -> None:
        result = self.evaluate(tmp_path, evaluator)
        assert result.overall_status == "passed"
        run = result.eval_cases[0].eval_case_results[0].to_wire()
        details = {
            "reason": "67% of the words",
            "score": 2 / 3,
            "rubricScores": [
                {"id": "red", "reason": "looked for red", "score": 1.0},
                {"id": "green", "reason": "looked for green"},
                {"id": "blue", "reason": "looked for blue", "score": 1.0},
            ],
        }
        metric = {"metricName": "words", "score": 2 / 3, "evalStatus": "passed", "threshold": 0.5}
        assert run["overallEvalMetricResults"] == [{**metric, "details": details}]
        [turn] = run["evalMetricResultPerInvocation"]
        value = {"kind": "numeric", "numeric": 2 / 3}
        assert turn["evalMetricResults"] == [{**metric, "details": {**details, "value": value}}]

    @pytest.mark.parametrize(
        ("evaluator", "message"),
        [
            (Broken(), "run evaluation for metric words: no score today"),
            (Short(), "run evaluation for metric words: the evaluator returned 0 results for 1 turns"),
        ],
    )
    def test_an_error_fails_the_case(self, tmp_path: Path, evaluator: trpc.Evaluator, message: str) -> None:
        result = self.evaluate(tmp_path, evaluator)
        run = result.eval_cases[0].eval_case_results[0]
        assert (run.final_eval_status, run.error_message) == ("failed", message)
        assert run.overall_eval_metric_results == []
        assert result.overall_status == "failed"

    @pytest.mark.parametrize("score", [float("nan"), float("inf"), None, "1", True])
    @pytest.mark.parametrize(
        ("where", "field"),
        [("whole", "overall_score"), ("turn", "score"), ("details", "score"), ("rubric", "score")],
    )
    def test_a_score_that_is_no_finite_number_fails_the_case(
        self, tmp_path: Path, where: str, field: str, score: object
    ) -> None:
        result = self.evaluate(tmp_path, Changed(where, field, score))
        run = result.eval_cases[0].eval_case_results[0]
        assert run.final_eval_status == result.overall_status == "failed"
        assert run.error_message == (
            f"run evaluation for metric words: the evaluator returned the score {score!r}: "
            "it must be a finite number"
        )

    @pytest.mark.parametrize(("where", "field"), [("whole", "overall_status"), ("turn", "status")])
    def test_statuses_are_read_in_any_case(self, tmp_path: Path, where: str, field: str) -> None:
        result = self.evaluate(tmp_path, Changed(where, field, "PASSED"))
        assert result.overall_status == "passed"
        for wrong in ("fail", False, None):
            [case] = self.evaluate(tmp_path, Changed(where, field, wrong)).eval_cases
            run = case.eval_case_results[0]
            assert run.final_eval_status == "failed"
            assert f"for metric words: the evaluator returned the status {wrong!r}" in run.error_message

    def test_evaluators_get_copies(self) -> None:
        registry = trpc.Registry()
        registry.register("spoiling", Spoiling())
        first = a_metric(metric_name="first", evaluator_name="spoiling", threshold=0.5)
        run = evaluate_one(lambda text: "b", metrics=[first, a_metric()], registry=registry)
        results = run.overall_eval_metric_results
        assert [(each.score, each.threshold) for each in results] == [(1.0, 0.5), (0.0, 1.0)]
        [turn] = run.eval_metric_result_per_invocation
        assert turn.actual_invocation is not None
        assert turn.actual_invocation.final_response == trpc.Message(role="assistant", content="b")

    def test_one_that_is_not_registered_is_an_error_before_the_agent_runs(self) -> None:
        asked: list[str] = []
        evaluator = build(asked.append, metrics=[a_metric(metric_name="final_response_avg_scor")])
        with pytest.raises(trpc.NotFoundError, match=r"final_response_avg_scor'\. Did you mean"):
            evaluator.evaluate(SET)
        assert asked == []

    def test_a_wrong_criterion_is_an_error_before_the_agent_runs(self) -> None:
        asked: list[str] = []
        text = parse_wire(trpc.TextCriterion, b'{"matchStrategi": "exact"}', "criterion")
        wrong = trpc.Criterion(final_response=trpc.FinalResponseCriterion(text=text))
        for metric in (
            a_metric(wrong),
            a_metric(trpc.Criterion()),
            a_metric(metric_name="llm_final_response"),
        ):
            with pytest.raises(InvalidInputError):
                build(asked.append, metrics=[metric]).evaluate(SET)
        assert asked == []

    def test_registry(self) -> None:
        registry = trpc.Registry()
        built_in = registry.list()
        assert "llm_rubric_knowledge_recall" in built_in
        assert all(registry.get(name).name == name and registry.get(name).description for name in built_in)
        registry.register("words", ContainsAll())
        assert registry.list() == sorted([*built_in, "words"])
        with pytest.raises(InvalidInputError):
            registry.register("nothing", None)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="`name` must be a text, not 3"):
            registry.register(3, ContainsAll())  # type: ignore[arg-type]
        for wrong in (3, object(), ContainsAll):
            with pytest.raises(InvalidInputError, match="must be an object with `evaluate`"):
                registry.register("wrong", wrong)  # type: ignore[arg-type]
        with pytest.raises(trpc.NotFoundError):
            registry.get("nothing")


class TestJudges:
    ANSWER = '{"rubricScores": [{"id": "1", "score": 1, "reason": "yes"}, {"id": "mine", "score": 0, "reason": "rude"}]}'

    def metric(self, url: str) -> trpc.EvalMetric:
        judge = trpc.JudgeModelOptions(
            provider_name="openai", model_name="gpt-4o", base_url=url, api_key="${JUDGE_KEY}", num_samples=1
        )
        rubric = trpc.Rubric(id="1", content=trpc.RubricContent(text="It answers the question."))
        criterion = trpc.Criterion(llm_judge=trpc.LLMCriterion(judge_model=judge, rubrics=[rubric]))
        return a_metric(criterion, metric_name="llm_rubric_response", threshold=0.6)

    def test_rubrics_of_the_metric_and_of_the_case(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("JUDGE_KEY", "sk-0123456789abcdef0123")
        polite = trpc.CaseRubric(
            metric_name="llm_rubric_response", id="mine", content=trpc.RubricContent(text="It is polite.")
        )
        with OpenAIServer(Completion(self.ANSWER), Completion(self.ANSWER)) as server:
            evaluator = build(
                lambda text: "No.",
                a_case("one", rubrics=[polite]),
                metrics=[self.metric(server.url)],
                num_runs=2,
            )
            result = evaluator.evaluate(SET)
        [metric] = result.eval_cases[0].eval_case_results[0].overall_eval_metric_results
        assert (metric.score, metric.eval_status) == (0.5, "failed")
        assert metric.details is not None
        assert [(each.id, each.score, each.reason) for each in metric.details.rubric_scores] == [
            ("1", 1.0, "yes"),
            ("mine", 0.0, "rude"),
        ]
        assert metric.criterion is not None
        assert "JUDGE_KEY" not in metric.criterion.model_dump_json()
        assert metric.criterion.to_wire()["llmJudge"]["judgeModel"]["modelName"] == "gpt-4o"

    def test_rubrics_for_no_metric_fail_the_case(self) -> None:
        lost = trpc.CaseRubric(metric_name="nope", content=trpc.RubricContent(text="It is polite."))
        run = evaluate_one(lambda text: "a", a_case("one", rubrics=[lost]))
        assert (run.final_eval_status, run.error_message) == (
            "failed",
            "the case has rubrics for 'nope', which is no metric",
        )


class TestService:
    """The two phases alone."""

    def test_inference_then_evaluation(self) -> None:
        sets = trpc.InMemoryEvalSetManager()
        sets.create(APP, SET)
        sets.add_case(APP, SET, a_case("one"))
        results = trpc.InMemoryEvalResultManager()
        service = trpc.LocalService(lambda text: "a", eval_set_manager=sets, eval_result_manager=results)

        [found] = service.inference(trpc.InferenceRequest(APP, SET))
        assert (found.status, found.eval_case_id, found.error_message) == ("passed", "one", "")
        [turn] = found.inferences
        assert turn.final_response == trpc.Message(role="assistant", content="a")
        assert results.list(APP) == []

        config = trpc.EvaluateConfig([a_metric()])
        result = service.evaluate(trpc.EvaluateRequest(APP, SET, [found], config))
        assert result.eval_case_results[0].final_eval_status == "passed"
        assert results.list(APP) == [result.eval_set_result_id]

    def test_what_was_made_elsewhere_is_scored(self) -> None:
        sets = trpc.InMemoryEvalSetManager()
        sets.create(APP, SET)
        sets.add_case(APP, SET, a_case("one", "q", "q"))
        service = trpc.LocalService(eval_set_manager=sets)
        made = trpc.InferenceResult(APP, SET, "one", inferences=[trpc.Invocation()], status="passed")
        request = trpc.EvaluateRequest(APP, SET, [made], trpc.EvaluateConfig([a_metric()]))
        [run] = service.evaluate(request).eval_case_results
        assert run.error_message == "the inference has 1 turns, and the case expects 2"
        made.eval_case_id = "none"
        with pytest.raises(trpc.NotFoundError):
            service.evaluate(request)

    @pytest.mark.parametrize(
        ("cases", "metrics", "message"),
        [
            ([a_case("one"), a_case("one", expected="b")], [a_metric()], "2 cases 'one'"),
            ([a_case("one")], [a_metric(), a_metric(threshold=0.0)], "2 metrics 'final_response_avg_score'"),
        ],
    )
    def test_nothing_is_judged_by_another_of_the_same_name(
        self, cases: list[trpc.EvalCase], metrics: list[trpc.EvalMetric], message: str, tmp_path: Path
    ) -> None:
        (tmp_path / APP).mkdir()
        eval_set = trpc.EvalSet(eval_set_id=SET, eval_cases=cases)
        (tmp_path / APP / f"{SET}.evalset.json").write_text(json.dumps(eval_set.to_wire()))
        (tmp_path / APP / f"{SET}.metrics.json").write_text(json.dumps([each.to_wire() for each in metrics]))
        sets, kept = trpc.LocalEvalSetManager(tmp_path), trpc.LocalMetricManager(tmp_path)
        results = trpc.InMemoryEvalResultManager()
        evaluator = build(
            lambda text: "a", eval_set_manager=sets, metric_manager=kept, eval_result_manager=results
        )
        with pytest.raises(InvalidInputError, match=f"the eval set {SET} has {message}"):
            evaluator.evaluate(SET)
        made = trpc.InferenceResult(APP, SET, "one", status="passed")
        request = trpc.EvaluateRequest(APP, SET, [made], trpc.EvaluateConfig(metrics))
        with pytest.raises(InvalidInputError, match=message):
            trpc.LocalService(eval_set_manager=sets).evaluate(request)

    def test_a_misspelt_threshold_of_a_file_is_warned_of(self, tmp_path: Path) -> None:
        metric = {**a_metric().to_wire(), "treshold": 1.0, "threshold": 0.0}
        (tmp_path / APP).mkdir()
        (tmp_path / APP / f"{SET}.metrics.json").write_text(json.dumps([metric]))
        evaluator = build(lambda text: "b", metric_manager=trpc.LocalMetricManager(tmp_path))
        with pytest.warns(UserWarning, match=r"has an unknown key 'treshold'\. Did you mean `threshold`\?$"):
            evaluator.evaluate(SET)

    def test_ids_are_a_list(self) -> None:
        with pytest.raises(
            InvalidInputError, match="`eval_case_ids` must be a list of ids of cases, not 'one'"
        ):
            build(lambda text: "a").evaluate(SET, eval_case_ids="one")

    def test_a_service_of_the_user_is_used_by_the_evaluator(self) -> None:
        class OwnService:
            async def inference_async(self, request: trpc.InferenceRequest) -> list[trpc.InferenceResult]:
                return [trpc.InferenceResult(request.app_name, request.eval_set_id, "own", status="passed")]

            async def evaluate_async(self, request: trpc.EvaluateRequest) -> trpc.EvalSetResult:
                [inference] = request.inference_results
                result = trpc.EvalCaseResult(eval_id=inference.eval_case_id, final_eval_status="passed")
                return trpc.EvalSetResult(eval_set_id=request.eval_set_id, eval_case_results=[result])

        result = build(None, evaluation_service=OwnService(), num_runs=2).evaluate(SET)
        [case] = result.eval_cases
        assert (case.eval_case_id, result.overall_status) == ("own", "not_evaluated")
        assert [run.run_id for run in case.eval_case_results] == [1, 2]


class TestCallbacks:
    """What the vectors of tests/conformance/test_trpc_service.py leave out."""

    def test_order_context_and_requests(self) -> None:
        log: list[object] = []
        callbacks = trpc.Callbacks()

        async def choose(context: trpc.Context, args: trpc.BeforeInferenceSetArgs) -> trpc.CallbackResult:
            args.request.eval_case_ids = ["two"]
            return trpc.CallbackResult({**context, "first": 1})

        def keep(context: trpc.Context, args: trpc.BeforeInferenceSetArgs) -> None:
            log.append(dict(context))

        callbacks.register_before_inference_set("choose", choose)
        callbacks.register_before_inference_set("keep", keep)
        callbacks.register_before_inference_case("keep", keep)
        callbacks.register_after_inference_case("keep", keep)
        callbacks.register_after_inference_set("keep", keep)
        callbacks.register_before_evaluate_set("keep", keep)
        callbacks.register_before_evaluate_case("keep", keep)
        callbacks.register_after_evaluate_case("keep", keep)
        callbacks.register_after_evaluate_set("keep", keep)
        result = build(lambda text: "a", a_case("one"), a_case("two"), callbacks=callbacks).evaluate(SET)
        assert [case.eval_case_id for case in result.eval_cases] == ["two"]
        assert log == [{"first": 1}] * 4 + [{}] * 4

    def test_a_changed_request_holds_for_its_run_only(self) -> None:
        seen: list[tuple[list[str], list[str]]] = []

        def drop_case(context: trpc.Context, args: trpc.BeforeInferenceSetArgs) -> None:
            args.request.eval_case_ids.pop()

        def add_metric(context: trpc.Context, args: trpc.BeforeEvaluateSetArgs) -> None:
            metrics = args.request.evaluate_config.eval_metrics
            metrics.append(a_metric(metric_name="added", evaluator_name="final_response_avg_score"))
            cases = [result.eval_case_id for result in args.request.inference_results]
            seen.append((cases, [metric.metric_name for metric in metrics]))

        callbacks = trpc.Callbacks()
        callbacks.register_before_inference_set("drop", drop_case)
        callbacks.register_before_evaluate_set("add", add_metric)
        names = ["one", "two", "three"]
        evaluator = build(lambda text: "a", *map(a_case, names), callbacks=callbacks, num_runs=2)
        assert evaluator.evaluate(SET, eval_case_ids=names).overall_status == "passed"
        assert seen == [(["one", "two"], ["final_response_avg_score", "added"])] * 2

    def test_an_error_names_component_and_number(self) -> None:
        callbacks, calls = trpc.Callbacks(), list[str]()

        def fail(context: trpc.Context, args: object) -> None:
            raise RuntimeError("boom")

        callbacks.register_before_evaluate_case("first", lambda context, args: calls.append("first"))
        callbacks.register_before_evaluate_case("second", fail)
        callbacks.register_before_evaluate_case("third", lambda context, args: calls.append("third"))
        callbacks.register_after_evaluate_set(
            "last", lambda context, args: calls.append(f"{args.result} {type(args.error).__name__}")
        )
        results = trpc.InMemoryEvalResultManager()
        evaluator = build(lambda text: "a", callbacks=callbacks, eval_result_manager=results)
        with pytest.raises(
            trpc.CallbackError, match=r"BeforeEvaluateCase callback\[1\] \(second\): boom"
        ) as caught:
            evaluator.evaluate(SET)
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert calls == ["first", "None CallbackError"]
        assert results.list(APP) == []

    @pytest.mark.parametrize(
        ("returned", "message"),
        [
            ({}, "it returned dict in the place of None or a CallbackResult"),
            (True, "it returned bool in the place of None or a CallbackResult"),
        ],
    )
    @pytest.mark.parametrize("is_async", [False, True])
    def test_another_result_is_an_error_of_the_callback(
        self, returned: object, message: str, is_async: bool
    ) -> None:
        async def return_later(context: trpc.Context, args: object) -> Any:
            return returned

        callbacks = trpc.Callbacks()
        hook: Any = return_later if is_async else lambda context, args: returned
        callbacks.register_before_evaluate_set("wrong", hook)
        with pytest.raises(trpc.CallbackError) as caught:
            build(lambda text: "a", callbacks=callbacks).evaluate(SET)
        assert f"BeforeEvaluateSet callback[0] (wrong): {message}" in str(caught.value)

    def test_statuses_that_callbacks_set_are_read_in_any_case(self) -> None:
        def evaluate(inferred: Any, scored: Any) -> trpc.EvaluationResult:
            def after_inference(context: trpc.Context, args: trpc.AfterInferenceCaseArgs) -> None:
                args.result.status = inferred

            def after_evaluate(context: trpc.Context, args: trpc.AfterEvaluateCaseArgs) -> None:
                for metric in args.result.overall_eval_metric_results:
                    metric.eval_status = scored
                args.result.final_eval_status = scored

            callbacks = trpc.Callbacks()
            callbacks.register_after_inference_case("infer", after_inference)
            callbacks.register_after_evaluate_case("score", after_evaluate)
            return build(lambda text: "a", callbacks=callbacks).evaluate(SET)

        [case] = evaluate("PASSED", "Failed").eval_cases
        [run] = case.eval_case_results
        assert run.final_eval_status == run.overall_eval_metric_results[0].eval_status == "failed"
        for wrong in ("fail", False):
            with pytest.raises(trpc.CallbackError) as caught:
                evaluate("passed", wrong)
            assert f"AfterEvaluateCase callback[0] (score): the status {wrong!r}" in str(caught.value)
            [case] = evaluate(wrong, "failed").eval_cases
            message = case.eval_case_results[0].error_message
            assert f"AfterInferenceCase callback[0] (infer): the status {wrong!r}" in message

    def test_after_a_failed_inference_the_set_hears_of_it(self) -> None:
        heard: list[object] = []
        callbacks = trpc.Callbacks()
        callbacks.register(
            "log", trpc.Callback(after_inference_set=lambda context, args: heard.append(args.error))
        )
        with pytest.raises(trpc.NotFoundError):
            build(lambda text: "a", callbacks=callbacks).evaluate(SET, eval_case_ids=["none"])
        assert [type(each) for each in heard] == [trpc.NotFoundError]

    def test_an_error_after_inference_fails_its_case(self) -> None:
        def fail(context: trpc.Context, args: trpc.AfterInferenceCaseArgs) -> None:
            if args.result.eval_case_id == "one":
                raise RuntimeError("boom")

        callbacks = trpc.Callbacks()
        callbacks.register_after_inference_case("check", fail)
        result = build(lambda text: "a", a_case("one"), a_case("two"), callbacks=callbacks).evaluate(SET)
        assert [case.overall_status for case in result.eval_cases] == ["failed", "passed"]
        assert (
            "AfterInferenceCase callback[0] (check): boom"
            in result.eval_cases[0].eval_case_results[0].error_message
        )

    def test_parallel_cases_keep_their_contexts_apart(self) -> None:
        callbacks, seen = trpc.Callbacks(), dict[str, object]()

        async def begin(context: trpc.Context, args: trpc.BeforeEvaluateCaseArgs) -> trpc.CallbackResult:
            await asyncio.sleep(0.01)
            return trpc.CallbackResult({"case": args.eval_case_id})

        async def end(context: trpc.Context, args: trpc.AfterEvaluateCaseArgs) -> None:
            seen[args.result.eval_id] = context["case"]

        callbacks.register_before_evaluate_case("begin", begin)
        callbacks.register_after_evaluate_case("end", end)
        cases = [a_case(f"case-{number}") for number in range(5)]
        build(
            lambda text: "a",
            *cases,
            callbacks=callbacks,
            eval_case_parallel_evaluation_enabled=True,
            eval_case_parallelism=5,
        ).evaluate(SET)
        assert seen == {case.eval_id: case.eval_id for case in cases}
