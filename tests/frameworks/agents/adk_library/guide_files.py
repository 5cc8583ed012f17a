"""Google's guide on files, their migration and their config, and the notebook's test of one file."""

import asyncio
import json
import warnings
from evalgate.api.adk import AgentEvaluator
from google.adk.evaluation.agent_evaluator import AgentEvaluator as GoogleEvaluator
from google.adk.evaluation.eval_config import EvalConfig as GoogleConfig

OLD = [{"query": "What is 15 + 27?", "expected_tool_use": [], "reference": "42"}]
with open("tests/eval_data/old_tests.test.json", "w") as file:
    json.dump(OLD, file)
with open("tests/eval_data/test_config.json", "w") as file:
    json.dump({"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.7}}, file)
with open("tests/initial_session.json", "w") as file:
    json.dump({"app_name": "app", "user_id": "ada", "state": {"unit": "C"}}, file)

# Load it manually
config = AgentEvaluator.find_config_for_test_file("tests/eval_data/my_suite.evalset.json")
print(config.criteria)  # {"tool_trajectory_avg_score": 1.0, ...}
assert isinstance(config, GoogleConfig)
assert config == GoogleEvaluator.find_config_for_test_file("tests/eval_data/my_suite.evalset.json")


async def main():
    await AgentEvaluator.evaluate(
        agent_module="my_package.agent",
        eval_dataset_file_path_or_dir="tests/eval_data/",  # .test.json or directory
        num_runs=2,
        initial_session_file="tests/initial_session.json",
    )


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    asyncio.run(main())
print(len([each for each in caught if "older format" in str(each.message)]), "migration warning")

for evaluator, name in ((AgentEvaluator, "ours"), (GoogleEvaluator, "googles")):
    evaluator.migrate_eval_data_to_new_schema(
        old_eval_data_file="tests/eval_data/old_tests.test.json",
        new_eval_data_file=f"{name}.evalset.json",
        initial_session_file="tests/initial_session.json",
    )
from google.adk.evaluation.eval_set import EvalSet

ours, googles = (EvalSet.model_validate_json(open(f"{name}.evalset.json").read()) for name in ("ours", "googles"))
for one, other in zip(ours.eval_cases, googles.eval_cases, strict=True):
    assert one.session_input == other.session_input
    for turn, expected in zip(one.conversation, other.conversation, strict=True):
        assert turn.user_content.parts[0].text == expected.user_content.parts[0].text
        assert turn.final_response.parts[0].text == expected.final_response.parts[0].text
print("migrated alike")


async def test_with_single_test_file():
    """Test the agent's basic ability via a session file."""
    await AgentEvaluator.evaluate(
        agent_module="my_package.agent",
        eval_dataset_file_path_or_dir="ours.evalset.json",
    )


asyncio.run(test_with_single_test_file())
print("test_with_single_test_file passed")
