"""Google's guide, "Full end-to-end example with result capture"; the imports of evalgate's names are changed."""

import asyncio
import os
from evalgate.api.adk import AgentEvaluator
from google.adk.evaluation.eval_case import EvalCase, Invocation, IntermediateData
from google.adk.evaluation.eval_set import EvalSet
from google.adk.evaluation.eval_config import EvalConfig
from google.adk.evaluation.eval_metrics import PrebuiltMetrics, ToolTrajectoryCriterion
from evalgate.api.adk import LocalEvalSetResultsManager
from google.genai import types

# --- Build eval cases --------------------------------------------------------
cases = [
    EvalCase(
        eval_id="unit_conversion",
        conversation=[
            Invocation(
                user_content=types.Content(
                    role="user",
                    parts=[types.Part(text="Convert 100 Fahrenheit to Celsius.")],
                ),
                final_response=types.Content(
                    role="model",
                    parts=[types.Part(text="37.78")],
                ),
                intermediate_data=IntermediateData(
                    tool_uses=[
                        types.FunctionCall(
                            name="convert_temperature",
                            args={"value": 100, "from_unit": "F", "to_unit": "C"},
                        )
                    ]
                ),
            )
        ],
    ),
    EvalCase(
        eval_id="multi_turn_booking",
        conversation=[
            Invocation(
                user_content=types.Content(
                    role="user",
                    parts=[types.Part(text="Book a flight to Paris.")],
                ),
                final_response=types.Content(
                    role="model",
                    parts=[types.Part(text="Which date would you like to travel?")],
                ),
            ),
            Invocation(
                user_content=types.Content(
                    role="user",
                    parts=[types.Part(text="June 15th.")],
                ),
                final_response=types.Content(
                    role="model",
                    parts=[types.Part(text="Done! Flight booked for June 15th to Paris.")],
                ),
                intermediate_data=IntermediateData(
                    tool_uses=[
                        types.FunctionCall(
                            name="book_flight",
                            args={"destination": "Paris", "date": "2026-06-15"},
                        )
                    ]
                ),
            ),
        ],
    ),
]

eval_set = EvalSet(eval_set_id="travel_agent_suite", eval_cases=cases)

eval_config = EvalConfig(
    criteria={
        PrebuiltMetrics.TOOL_TRAJECTORY_AVG_SCORE.value: ToolTrajectoryCriterion(
            threshold=1.0,
            match_type=ToolTrajectoryCriterion.MatchType.IN_ORDER,
        ),
        PrebuiltMetrics.RESPONSE_MATCH_SCORE.value: 0.5,
    }
)


# --- Run evaluation ----------------------------------------------------------
async def main():
    result = await AgentEvaluator.evaluate_eval_set(
        agent_module="my_package.travel_agent",
        eval_set=eval_set,
        eval_config=eval_config,
        num_runs=2,
        print_detailed_results=True,
    )
    # After evaluate_eval_set completes, save results
    results_manager = LocalEvalSetResultsManager(results_dir="./eval_results")
    await results_manager.save_eval_set_result(result)
    trajectory = next(each for each in result.criteria if each.metric == "tool_trajectory_avg_score")
    print("match_type:", trajectory.options["match_type"])


asyncio.run(main())

from google.adk.evaluation.local_eval_set_results_manager import (
    LocalEvalSetResultsManager as GoogleManager,
)

manager = GoogleManager(agents_dir="./eval_results")
(app,) = os.listdir("eval_results")
(result_id,) = manager.list_eval_set_results(app)
saved = manager.get_eval_set_result(app, result_id)
for each in saved.eval_case_results:
    print(each.eval_id, each.final_eval_status.name, bool(each.session_id), each.user_id)
