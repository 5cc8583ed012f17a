"""Runs of workers of pytest-xdist, merged into one record."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evalgate.api.evaluation_plan import EvaluationOptions, load_sources
from evalgate.api.testing.groups import (
    EvaluationGroup,
    build_message,
    dump_messages,
    load_messages,
    merge_messages,
)
from evalgate.api.testing.project import Project
from evalgate.core.errors import InvalidInputError, NoVerdictError
from evalgate.core.types import ModelUsage
from evalgate.runner.checkpoint.row_codec import dump_run, load_run
from tests.api.test_evaluation import build_case, build_set, greet

CRITERIA = {"response_match_score": 1.0}
CASES = [("greetings", "ada"), ("greetings", "bob")]


@pytest.fixture
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.chdir(tmp_path)
    project = Project(request.config)
    project.folder = tmp_path
    return project


def build_group(project: Project, agent: object = greet, **options: Any) -> EvaluationGroup:
    given = EvaluationOptions(CRITERIA, folder=project.folder, **options)
    group = EvaluationGroup("test_x.py::agent", project, agent, given, in_worker=True, selected=set(CASES))
    cases = [build_case("ada"), build_case("bob", "Bob", "Hello Bob"), build_case("cy")]
    for eval_set in load_sources(build_set(*cases), None, project.folder):
        group.add_set(eval_set)
    return group


def run_worker(group: EvaluationGroup, *ids: str) -> list[bytes]:
    """Run cases as a worker does, and return its messages as the controller gets them."""
    for eval_id in ids:
        group.get_result(("greetings", eval_id), eval_id)
    return dump_messages([build_message(group)])


def test_two_workers_make_one_record(project: Project) -> None:
    sent = [run_worker(build_group(project), "ada"), run_worker(build_group(project), "bob")]
    record = merge_messages(project, [load_messages(each)[0] for each in sent], time.time())

    assert [(case.eval_id, case.status) for case in record.cases] == [("ada", "passed"), ("bob", "passed")]
    assert record.agent.what == "tests.api.test_evaluation.greet"
    assert record.passed


def test_a_case_without_a_run_leaves_no_verdict(project: Project) -> None:
    messages = load_messages(run_worker(build_group(project), "ada"))

    with pytest.raises(NoVerdictError, match="1 of 2 cases have no result"):
        merge_messages(project, messages, time.time())


def test_what_judges_cost_is_added_up(project: Project) -> None:
    [message] = load_messages(run_worker(build_group(project), "ada", "bob"))
    usage = ModelUsage(calls=2, input_tokens=10)
    runs = {
        key: [dump_run(replace(load_run(each), judge=usage)) for each in made]
        for key, made in message.runs.items()
    }

    judge = merge_messages(project, [replace(message, runs=runs)], time.time()).judge
    assert judge is not None
    assert (judge.calls, judge.input_tokens) == (4, 20)


def test_an_agent_that_cannot_start_is_the_reason(project: Project) -> None:
    group = build_group(project, agent=3)
    with pytest.raises(InvalidInputError, match="agent: it is a value of type int"):
        group.get_result(CASES[0], "ada")
    messages = load_messages(dump_messages([build_message(group)]))

    with pytest.raises(NoVerdictError, match="agent: it is a value of type int"):
        merge_messages(project, messages, time.time())


def test_arguments_that_cannot_be_sent_are_the_reason(project: Project) -> None:
    group = build_group(project, timeout=30.0)
    message = replace(build_message(group), sources=(lambda: None,))  # type: ignore[arg-type]
    [received] = load_messages(dump_messages([message]))

    with pytest.raises(NoVerdictError, match="cannot be sent to the controller of pytest-xdist: "):
        merge_messages(project, [received], time.time())
