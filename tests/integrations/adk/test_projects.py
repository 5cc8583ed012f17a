"""Projects of Google ADK as they are, through the command."""

import json
from pathlib import Path

import pytest

from tests.cli.test_cli import RUN, project, record
from tests.commands import evalgate

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


def test_an_expected_final_state_is_asserted_without_a_criterion(project: Path) -> None:
    expect_state(project, first={"order_confirmed": True})

    done = evalgate(*RUN, cwd=project)

    assert done.code == 1, done.out + done.err
    cases = record(project)["cases"]
    assert {**cases[0]["metrics"][1], "fingerprint": ""} == {
        "fingerprint": "",
        "name": "final_session_state",
        "score": 0.0,
        "threshold": 1.0,
        "status": "failed",
        "reason": "state `order_confirmed`: expected true, got false",
    }
    assert cases[1]["status"] == "passed"
    assert record(project)["metrics"][1]["n"] == 1


@pytest.mark.parametrize(("state", "threshold"), [({"order_confirmed": False}, 1), ({"x": 1}, 0), ({}, 1)])
def test_a_state_that_is_reached_or_not_expected_passes(
    project: Path, state: dict[str, object], threshold: int
) -> None:
    expect_state(project, first=state, second=state)
    criteria = {"response_match_score": 0.8, **({} if threshold else {"final_session_state": 0})}
    (project / "test_config.json").write_text(json.dumps({"criteria": criteria}))

    assert evalgate(*RUN, cwd=project).code == 0


JUDGED = ("safety_v1", "hallucinations_v1", "rubric_based_final_response_quality_v1")


def test_each_criterion_that_needs_a_judge_is_reported_with_its_line(project: Path) -> None:
    rules = {"version": 1, "criteria": {"response_match_score": 0.8, **dict.fromkeys(JUDGED, 0.5)}}
    (project / "evalgate.json").write_text(json.dumps(rules, indent=1))
    columns = [len(f'  "{name}": ') + 1 for name in JUDGED]

    done = evalgate("validate", "demo.evalset.json", cwd=project)

    assert done.code == 2
    assert [line for line in done.err.splitlines() if "evalgate.json" in line] == [
        f"evalgate.json:{line}:{column}: `{name}` is judged by a model; no judging model is configured: name "
        "one in the thresholds file (`judge: {provider: openai, model: gpt-4.1-mini}`) or with --judge "
        "PROVIDER/MODEL"
        for line, (name, column) in enumerate(zip(JUDGED, columns, strict=True), start=5)
    ]


@pytest.mark.parametrize("criterion", [0.8, {"threshold": 0.8, "judge_model_options": {"num_samples": 3}}])
def test_google_adks_default_judge_is_asked_if_a_file_of_its_names_none(
    project: Path, criterion: object
) -> None:
    (project / "test_config.json").write_text(
        json.dumps({"criteria": {"final_response_match_v2": criterion}})
    )
    default = "No criterion names a judge, so Google ADK's default judges: gemini-2.5-flash."

    checked = evalgate("validate", "demo.evalset.json", cwd=project)
    done = evalgate(*RUN, cwd=project)

    assert (checked.code, default in checked.out) == (0, True), checked.out + checked.err
    assert (done.code, default in done.err) == (2, True), done.out + done.err
    assert "no key for provider `gemini`" in done.err


METRICS = """\
def brevity(actual_invocation, expected_invocation, criterion):
    return 1.0 if len(actual_invocation.final_response.parts[0].text) <= 9 else 0.0
"""


def test_a_custom_metric_of_google_adk_decides_the_verdict(project: Path) -> None:
    (project / "my_package").mkdir()
    (project / "my_package/metrics.py").write_text(METRICS)
    config = {
        "criteria": {"response_brevity": 1.0},
        "custom_metrics": {"response_brevity": {"code_config": {"name": "my_package.metrics.brevity"}}},
    }
    (project / "test_config.json").write_text(json.dumps(config))

    done = evalgate(*RUN, cwd=project)

    assert done.code == 1, done.out + done.err
    assert [case["metrics"][0]["score"] for case in record(project)["cases"]] == [0.0, 1.0]


def test_a_custom_metric_has_a_range_of_its_own(project: Path) -> None:
    (project / "grades.py").write_text("def grade(case, run):\n    return 40\n")
    rules = (
        "version: 1\neval_sets: demo.evalset.json\nagent: {entry: 'agent.py:answer'}\ncriteria: {grade: 35}\n"
        "custom_metrics:\n  grade: {entry: 'grades.py:grade', range: [0, 100]}\n"
    )
    (project / "evalgate.yaml").write_text(rules)
    assert evalgate("run", cwd=project).code == 0
    assert record(project)["metrics"][0]["range"] == [0.0, 100.0]
    (project / "evalgate.yaml").write_text(rules.replace("100", "39"))
    broken = evalgate("run", cwd=project)
    assert (broken.code, "the metric gave 40, which is not in its range of 0 to 39" in broken.out) == (
        3,
        True,
    )


def test_a_custom_metric_that_raises_leads_to_no_verdict(project: Path) -> None:
    (project / "evalgate.yaml").write_text(
        "version: 1\neval_sets: demo.evalset.json\nagent: {entry: 'agent.py:answer'}\n"
        "criteria: {mine: 1.0, response_match_score: 0.8}\ncustom_metrics: {mine: nowhere.function}\n"
    )

    done = evalgate("run", cwd=project)

    assert done.code == 3, done.out + done.err
    assert "cannot load the metric `nowhere:function`: there is no module `nowhere`" in done.out


def test_a_custom_metric_cannot_replace_a_built_in_one(project: Path) -> None:
    (project / "evalgate.yaml").write_text(
        "version: 1\ncriteria: {trajectory_recall: 1.0}\ncustom_metrics:\n  trajectory_recall: a.b\n"
    )

    done = evalgate("validate", "demo.evalset.json", cwd=project)

    assert done.code == 2
    assert "evalgate.yaml:4:3: `trajectory_recall` is a metric of evalgate's own" in done.err
