"""Projects of Google ADK as they are, through the command."""

import json
from pathlib import Path

import pytest

from tests.test_cli import RUN, evalgate, project, record

__all__ = ["project"]

AGENT = """\
def answer(text, session):
    session.state["order_confirmed"] = text == "yes"
    return text
"""


def expect_state(folder: Path, **states: object) -> None:
    path = folder / "demo.evalset.json"
    eval_set = json.loads(path.read_text())
    for case, state in zip(eval_set["eval_cases"], states.values(), strict=False):
        case["final_session_state"] = state
    path.write_text(json.dumps(eval_set))
    (folder / "agent.py").write_text(AGENT)


def test_an_expected_final_state_is_asserted_though_no_criterion_names_it(project: Path) -> None:
    expect_state(project, first={"order_confirmed": True})

    done = evalgate(*RUN, cwd=project)

    assert done.code == 1, done.out + done.err
    cases = record(project)["cases"]
    assert cases[0]["metrics"][1] == {
        "name": "final_session_state",
        "score": 0.0,
        "threshold": 1.0,
        "status": "failed",
        "reason": "state `order_confirmed`: expected true, got false",
    }
    assert cases[1]["status"] == "passed"
    assert record(project)["metrics"][1]["n"] == 1


@pytest.mark.parametrize(("state", "threshold"), [({"order_confirmed": False}, 1), ({"x": 1}, 0), ({}, 1)])
def test_a_state_that_is_reached_or_not_asked_for_opens_the_gate(
    project: Path, state: dict[str, object], threshold: int
) -> None:
    expect_state(project, first=state, second=state)
    criteria = {"response_match_score": 0.8, **({} if threshold else {"final_session_state": 0})}
    (project / "test_config.json").write_text(json.dumps({"criteria": criteria}))

    assert evalgate(*RUN, cwd=project).code == 0
