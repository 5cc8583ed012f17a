"""Google's guide, "Minimal example" and "pytest integration"; only the first import is changed."""

import asyncio
from evalgate.api.adk import AgentEvaluator
from google.adk.evaluation.eval_case import EvalCase, Invocation, SessionInput
from google.adk.evaluation.eval_set import EvalSet
from google.adk.evaluation.local_eval_set_results_manager import LocalEvalSetResultsManager
from google.adk.evaluation.eval_metrics import PrebuiltMetrics
from google.adk.evaluation.eval_config import EvalConfig
from google.genai import types

# Define a single-turn eval case
case = EvalCase(
    eval_id="add_two_numbers",
    conversation=[
        Invocation(
            user_content=types.Content(
                role="user",
                parts=[types.Part(text="What is 15 + 27?")],
            ),
            final_response=types.Content(
                role="model",
                parts=[types.Part(text="42")],
            ),
        )
    ],
)

eval_set = EvalSet(
    eval_set_id="arithmetic_suite",
    eval_cases=[case],
)

eval_config = EvalConfig(
    criteria={
        PrebuiltMetrics.RESPONSE_MATCH_SCORE.value: 0.8,
    }
)


# Run — agent_module must expose `root_agent` or `get_agent_async`
async def test_arithmetic():
    await AgentEvaluator.evaluate_eval_set(
        agent_module="my_package.agent",
        eval_set=eval_set,
        eval_config=eval_config,
        num_runs=1,
    )


# Serialise to JSON file for reuse
with open("eval_data/full_regression.evalset.json", "w") as f:
    f.write(eval_set.model_dump_json(indent=2))

EVAL_SET = EvalSet.model_validate_json(
    open("eval_data/full_regression.evalset.json").read()
)
EVAL_CONFIG = EvalConfig(
    criteria={
        PrebuiltMetrics.TOOL_TRAJECTORY_AVG_SCORE.value: 1.0,
        PrebuiltMetrics.RESPONSE_MATCH_SCORE.value: 0.7,
    }
)


async def test_agent_regression():
    await AgentEvaluator.evaluate_eval_set(
        agent_module="my_package.agent",
        eval_set=EVAL_SET,
        eval_config=EVAL_CONFIG,
        num_runs=2,
    )


async def test_wrong_expectation():
    wrong = eval_set.model_copy(deep=True)
    wrong.eval_cases[0].conversation[0].final_response.parts[0].text = "43"
    manager = LocalEvalSetResultsManager(agents_dir="agents")
    try:
        await AgentEvaluator.evaluate_eval_set(
            agent_module="my_package.agent",
            eval_set=wrong,
            eval_config=eval_config,
            app_name="calculator",
            eval_set_results_manager=manager,
        )
    except AssertionError as error:
        print("AssertionError:", error)
    else:
        raise RuntimeError("nothing was asserted")
    (result_id,) = manager.list_eval_set_results("calculator")
    stored = manager.get_eval_set_result("calculator", result_id).eval_case_results
    print("Google's manager stored:", [each.final_eval_status.name for each in stored])


async def test_sub_agent():
    case.conversation[0].final_response.parts[0].text = "I am special."
    await AgentEvaluator.evaluate_eval_set(
        agent_module="my_package.agent",
        eval_set=eval_set,
        eval_config=eval_config,
        agent_name="specialist_bot",
    )


for test in (test_arithmetic, test_agent_regression, test_wrong_expectation, test_sub_agent):
    asyncio.run(test())
    print(test.__name__, "passed")
