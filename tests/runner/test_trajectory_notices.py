"""Metrics of tool calls that compare with nothing, or let additional calls pass."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.core import plugin_registry
from evalgate.core.protocols import Metric
from evalgate.core.types import EvalCase, EvalSet, Reply, Scenario
from evalgate.datasets.large.large_json import read_large_json
from evalgate.integrations.adk.metrics.response_match import ResponseMatch
from evalgate.integrations.adk.metrics.tool_trajectory import ToolTrajectory
from evalgate.integrations.adk.metrics.trajectory_scores import TrajectoryPrecision, TrajectoryRecall
from evalgate.runner.plan_notices import find_empty_trajectories
from tests.builders import a_call, a_case, a_turn
from tests.commands import evalgate

CALLED = a_case("called", a_turn("Find it.", Reply("Found.", (a_call("find"),))))
QUIET = a_case("quiet", a_turn("Hi", Reply("Hello")), a_turn("Bye", Reply("Bye")))
PLAYED = EvalCase("played", scenario=Scenario("Hi", "Ask."))
EXACT = ToolTrajectory()
IN_ORDER = ToolTrajectory(match_type="IN_ORDER")


@pytest.mark.parametrize(
    ("cases", "metrics", "expected"),
    [
        ((QUIET, CALLED), {"tools": EXACT}, []),
        ((QUIET,), {"words": ResponseMatch()}, []),
        ((PLAYED,), {"tools": EXACT}, []),
        ((), {"tools": EXACT}, []),
        ((QUIET, PLAYED), {"tools": EXACT}, ["`tools` has nothing to compare in f.json: of its 1 case none expects a tool call, so that any agent that calls no tool passes."]),
        ((QUIET, QUIET), {"p": TrajectoryPrecision(), "r": TrajectoryRecall()}, [
            "`p` has nothing to compare in f.json: of its 2 cases none expects a tool call, so that any agent that calls no tool passes.",
            "`r` has nothing to compare in f.json: of its 2 cases none expects a tool call, so that any agent passes.",
        ]),
        ((QUIET,), {"tools": IN_ORDER}, ["`tools` has nothing to compare in f.json: of its 1 case none expects a tool call, so that any agent passes."]),
    ],
)  # fmt: skip
def test_no_case_expects_a_call(
    cases: tuple[EvalCase, ...], metrics: dict[str, Metric], expected: list[str]
) -> None:
    assert list(find_empty_trajectories(EvalSet("s", cases, "f.json"), metrics)) == expected


def a_set(*calls: dict[str, Any], cases: int = 1) -> str:
    turn = {"user_content": {"parts": [{"text": "Hi"}]}, "intermediate_data": {"tool_uses": list(calls)}}
    listed = [{"eval_id": f"c{number}", "conversation": [turn]} for number in range(cases)]
    return json.dumps({"eval_set_id": "s", "eval_cases": listed})


@pytest.mark.parametrize(("calls", "times"), [((), 1), (({"name": "f"},), 0)])
def test_a_set_that_stays_in_its_file(tmp_path: Path, calls: tuple[dict[str, Any], ...], times: int) -> None:
    path = tmp_path / "f.json"
    path.write_text(a_set(*calls, cases=20))
    eval_set = plugin_registry.get_formats()["adk"].read_eval_set(read_large_json(path, "f.json", step=1))

    assert len(list(find_empty_trajectories(eval_set, {"tools": EXACT}))) == times


AGENT = "def answer(message):\n    return 'Hello'\n"
EXTRA = (
    "`tool_trajectory_avg_score` lets any additional tool call pass, wanted or not: "
    "only an exact match holds the agent to the expected calls alone"
)


@pytest.mark.parametrize(
    ("match_type", "warned"), [("EXACT", False), ("IN_ORDER", True), ("ANY_ORDER", True)]
)
def test_validate_warns_of_metrics_that_let_extra_calls_pass(
    tmp_path: Path, match_type: str, warned: bool
) -> None:
    (tmp_path / "s.evalset.json").write_text(a_set({"name": "f"}))
    (tmp_path / "t.yaml").write_text(
        f"version: 1\ncriteria:\n  tool_trajectory_avg_score: {{threshold: 1.0, match_type: {match_type}}}\n"
    )

    done = evalgate("validate", "s.evalset.json", "-c", "t.yaml", cwd=tmp_path)

    assert (f"t.yaml:3: {EXTRA}" in done.out.splitlines()) is warned
    assert done.code == 0


def test_a_run_notes_that_nothing_is_compared(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "s.evalset.json").write_text(a_set())
    (tmp_path / "test_config.json").write_text('{"criteria": {"tool_trajectory_avg_score": 1.0}}')

    done = evalgate("run", "s.evalset.json", "--agent", "python:agent.py:answer", cwd=tmp_path)

    assert done.code == 0
    assert "Note: `tool_trajectory_avg_score` has nothing to compare in s.evalset.json: of its 1" in done.out
