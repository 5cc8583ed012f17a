"""The same requests to Google's `LocalEvalService` and to the library's, with Google's own types."""

import asyncio
from pathlib import Path

from evalgate.api import adk as ours
from google.adk.evaluation import base_eval_service, eval_metrics
from google.adk.evaluation.eval_case import EvalCase, IntermediateData, Invocation, SessionInput
from google.adk.evaluation.eval_set import EvalSet
from google.adk.evaluation.in_memory_eval_sets_manager import InMemoryEvalSetsManager
from google.adk.evaluation.local_eval_service import LocalEvalService
from google.adk.evaluation.local_eval_sets_manager import LocalEvalSetsManager
from google.adk.evaluation.local_eval_set_results_manager import LocalEvalSetResultsManager
from google.genai import types
from my_package.agent import root_agent


def said(text, answer, *calls):
    return Invocation(
        user_content=types.Content(role="user", parts=[types.Part(text=text)]),
        final_response=types.Content(role="model", parts=[types.Part(text=answer)]),
        intermediate_data=IntermediateData(tool_uses=list(calls)),
    )


CALL = types.FunctionCall(name="get_weather", args={"city": "London"})
CASES = [
    EvalCase(eval_id="right", conversation=[said("What's the weather?", "It's currently 18°C and partly cloudy.", CALL)]),
    EvalCase(
        eval_id="wrong",
        conversation=[said("What is 15 + 27?", "It is 43"), said("And then?", "I do not know.")],
        session_input=SessionInput(app_name="app", user_id="ada", state={}),
    ),
]
METRICS = [
    eval_metrics.EvalMetric(
        metric_name="tool_trajectory_avg_score",
        threshold=1.0,
        criterion=eval_metrics.ToolTrajectoryCriterion(
            threshold=1.0, match_type=eval_metrics.ToolTrajectoryCriterion.MatchType.IN_ORDER
        ),
    ),
    eval_metrics.EvalMetric(
        metric_name="response_match_score", threshold=0.8, criterion=eval_metrics.BaseCriterion(threshold=0.8)
    ),
]


async def evaluate(service, types_, sets, results):
    sets.create_eval_set("app", "suite")
    for case in CASES:
        sets.add_eval_case("app", "suite", case)
    assert isinstance(sets.get_eval_set("app", "suite"), EvalSet)
    request = types_.InferenceRequest(
        app_name="app", eval_set_id="suite", inference_config=types_.InferenceConfig()
    )
    made = [each for _ in range(2) async for each in service.perform_inference(request)]
    assert all(each.status == ours.InferenceStatus.SUCCESS for each in made)
    evaluation = types_.EvaluateRequest(
        inference_results=made, evaluate_config=types_.EvaluateConfig(eval_metrics=METRICS)
    )
    found = [each async for each in service.evaluate(evaluation)]
    (result_id,) = results.list_eval_set_results("app")
    assert len(results.get_eval_set_result("app", result_id).eval_case_results) == len(found)
    return sorted(
        (
            each.eval_id,
            each.final_eval_status.name,
            each.user_id,
            [(metric.metric_name, metric.score, metric.eval_status.name, metric.threshold)
             for metric in each.overall_eval_metric_results],
            [[(metric.metric_name, metric.score, metric.eval_status.name) for metric in turn.eval_metric_results]
             for turn in each.eval_metric_result_per_invocation],
            [turn.actual_invocation.final_response.parts[0].text
             for turn in each.eval_metric_result_per_invocation],
        )
        for each in found
    )


google_results, our_results = LocalEvalSetResultsManager("google"), ours.LocalEvalSetResultsManager("ours")
google_sets, our_sets = InMemoryEvalSetsManager(), ours.InMemoryEvalSetsManager()
theirs = asyncio.run(
    evaluate(
        LocalEvalService(root_agent, google_sets, eval_set_results_manager=google_results),
        base_eval_service,
        google_sets,
        google_results,
    )
)
service = ours.LocalEvalService(root_agent, our_sets, eval_set_results_manager=our_results)
own = asyncio.run(evaluate(service, ours, our_sets, our_results))
assert own == theirs, f"{own}\n{theirs}"
# The library's service with Google's requests, which take only Google's results.
mixed_results, mixed_sets = ours.LocalEvalSetResultsManager("mixed"), ours.InMemoryEvalSetsManager()
service = ours.LocalEvalService(root_agent, mixed_sets, eval_set_results_manager=mixed_results)
mixed = asyncio.run(evaluate(service, base_eval_service, mixed_sets, mixed_results))
assert mixed == theirs, f"{mixed}\n{theirs}"
print(len(own), "equal results:", {each[1] for each in own})

# Each reads what the other has written.
local = LocalEvalSetsManager("sets")
local.create_eval_set("app", "suite")
for case in CASES:
    local.add_eval_case("app", "suite", case)
mine = ours.LocalEvalSetsManager("sets")
assert mine.get_eval_set("app", "suite") == local.get_eval_set("app", "suite")
mine.delete_eval_case("app", "suite", "wrong")
mine.update_eval_case("app", "suite", CASES[0].model_copy(update={"creation_timestamp": 5.0}))
assert local.get_eval_set("app", "suite").eval_cases[0].creation_timestamp == 5.0
assert [case.eval_id for case in local.get_eval_set("app", "suite").eval_cases] == ["right"]
Path("sets/app/camel.evalset.json").write_text('{"evalSetId": "camel", "evalCases": [{"evalId": "a", "conversation": []}]}')
assert [case.eval_id for case in mine.get_eval_set("app", "camel").eval_cases] == ["a"]
Path("sets/app/camel.evalset.json").unlink()
assert mine.list_eval_sets("app") == local.list_eval_sets("app") == ["suite"]
for reader, folder in ((LocalEvalSetResultsManager("ours"), "ours"), (ours.LocalEvalSetResultsManager("google"), "google")):
    (result_id,) = reader.list_eval_set_results("app")
    assert reader.get_eval_set_result("app", result_id).eval_set_id == "suite"
print("each reads the other's files")
