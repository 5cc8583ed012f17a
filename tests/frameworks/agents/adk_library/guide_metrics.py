"""Google's guide, "Custom metrics"; only the import of the evaluator is changed."""

import asyncio
from evalgate.api.adk import AgentEvaluator
from google.adk.agents.common_configs import CodeConfig
from google.adk.evaluation.eval_case import EvalCase, Invocation
from google.adk.evaluation.eval_config import CustomMetricConfig, EvalConfig
from google.adk.evaluation.eval_set import EvalSet
from google.genai import types

config = EvalConfig(
    criteria={
        "response_brevity": 1.0,  # threshold to pass
    },
    custom_metrics={
        "response_brevity": CustomMetricConfig(
            code_config=CodeConfig(name="my_package.metrics.my_length_metric"),
        ),
    },
)
turn = Invocation(user_content=types.Content(role="user", parts=[types.Part(text="What is 15 + 27?")]))
eval_set = EvalSet(eval_set_id="s", eval_cases=[EvalCase(eval_id="c", conversation=[turn])])
record = asyncio.run(
    AgentEvaluator.evaluate_eval_set("my_package.agent", eval_set, eval_config=config, num_runs=1)
)
print(record.metrics[0].name, record.metrics[0].score)
