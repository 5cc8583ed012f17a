"""The library's interface of Google ADK 2.3.0 beside Google's own package, of that release and a newer one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from evalgate.api.adk import LocalEvalSetResultsManager
from evalgate.api.record import Record
from tests.frameworks import AGENTS
from tests.frameworks.venvs import python_with
from tests.situations import GOLDEN

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def run_script(python: str, name: str, folder: Path) -> str:
    """Run a script in a copy of its folder, and return what it printed."""
    project = folder / "project"
    shutil.copytree(AGENTS / "adk_library", project)
    for each in ("eval_data", "tests/eval_data"):
        (project / each).mkdir(parents=True)
    env = {**os.environ, "PYTHONPATH": f"{ROOT}:{project}"}
    done = subprocess.run(
        [python, "-W", "ignore", name], cwd=project, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_minimal_example_and_assertions(adk: str, tmp_path: Path) -> None:
    said = run_script(adk, "guide_minimal.py", tmp_path)

    for name in ("test_arithmetic", "test_agent_regression", "test_wrong_expectation", "test_sub_agent"):
        assert f"{name} passed" in said
    assert "AssertionError: Following are all the test failures." in said
    assert "Google's manager stored: ['FAILED', 'FAILED']" in said
    assert "response_match_score for None Failed. Expected 0.8, but got 0.0." in said
    assert "| EvalStatus.FAILED" in said or "| FAILED" in said


def test_full_example_and_its_saved_results(adk: str, tmp_path: Path) -> None:
    said = run_script(adk, "guide_full.py", tmp_path)

    assert "match_type: 1\n" in said  # IN_ORDER, as Google's own type writes it
    assert said.splitlines()[-4:] == [
        f"{name} PASSED True test_user_id"
        for name in ("unit_conversion", "unit_conversion", "multi_turn_booking", "multi_turn_booking")
    ]


def test_files_migration_and_config(adk: str, tmp_path: Path) -> None:
    assert run_script(adk, "guide_files.py", tmp_path).splitlines() == [
        "{'tool_trajectory_avg_score': 1.0, 'response_match_score': 0.7}",
        "1 migration warning",
        "migrated alike",
        "test_with_single_test_file passed",
    ]


def test_custom_metric(adk: str, tmp_path: Path) -> None:
    assert run_script(adk, "guide_metrics.py", tmp_path) == "response_brevity 1.0\n"


def test_a_custom_metric_gets_googles_types(adk: str, tmp_path: Path) -> None:
    assert run_script(adk, "google_metrics.py", tmp_path) == "1.0 passed 1.0\n"


def test_service_and_managers_beside_googles(adk: str, tmp_path: Path) -> None:
    said = run_script(adk, "service.py", tmp_path).splitlines()
    assert said[-2].startswith("4 equal results:")
    assert said[-1] == "each reads the other's files"


SERVICE_PARAMETERS = (
    "metric_evaluator_registry",
    "session_service",
    "artifact_service",
    "eval_set_results_manager",
    "session_id_supplier",
    "user_simulator_provider",
    "memory_service",
)


def test_signatures_are_those_of_the_release(tmp_path: Path) -> None:
    assert run_script(python_with("adk-2.3.0"), "signatures.py", tmp_path).splitlines() == [
        # Theirs also take the guide's `results_dir` and `eval_storage_dir`, and a whole record.
        "LocalEvalSetResultsManager.__init__: agents_dir",
        "LocalEvalSetResultsManager.save_eval_set_result: eval_set_id, eval_case_results",
        "GcsEvalSetResultsManager.__init__: ",
        "GcsEvalSetResultsManager.save_eval_set_result: eval_set_id, eval_case_results",
        # No services: each conversation has its own. The rest are keywords.
        f"LocalEvalService.__init__: {', '.join(SERVICE_PARAMETERS)}",
        "35 equal",
    ]


READ = """
import sys
from google.adk.evaluation.local_eval_set_results_manager import LocalEvalSetResultsManager
for folder in sys.argv[1:]:
    manager = LocalEvalSetResultsManager(agents_dir=folder)
    for result_id in manager.list_eval_set_results("agent"):
        result = manager.get_eval_set_result("agent", result_id)
        print(folder, len(result.eval_case_results), result.eval_set_result_name == result_id)
"""


def test_reports_are_read_by_googles_manager(adk: str, tmp_path: Path) -> None:
    runs = {}
    for name, build in GOLDEN.items():
        record = Record.from_core(build())
        record.write(tmp_path / name, ["adk"])
        runs[name] = [sum(len(case.runs) for case in cases) for cases in record.group_cases().values()]
    folders = {
        name: str(tmp_path / name / "adk") for name in ("regression", "crash_and_timeout", "quarantine")
    }
    done = subprocess.run(
        [adk, "-W", "ignore", "-c", READ, *folders.values()], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{folder} {count} True" for name, folder in folders.items() for count in runs[name]
    ]
    for name, folder in folders.items():
        assert len(LocalEvalSetResultsManager(folder).list_eval_set_results("agent")) == len(runs[name])
