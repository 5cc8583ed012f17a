"""Cases that are selected from a plan which was made for all of them."""

import json
from pathlib import Path

import pytest

from evalgate.api.evaluation_plan import EvaluationOptions, build_evaluation_plan
from evalgate.runner.plan import Plan
from tests.api.test_evaluation import build_case, build_set, greet


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Return the plan of two eval sets with two cases each, all of those that the thresholds file lists."""
    for name in ("a", "b"):
        cases = [build_case("one"), build_case("two")]
        (tmp_path / f"{name}.evalset.json").write_text(json.dumps(build_set(*cases, eval_set_id=name)))
    (tmp_path / "evalgate.yaml").write_text(
        "eval_sets: ['*.evalset.json']\ncriteria: {response_match_score: 1.0}\ngate: {min_cases: 3}\n"
    )
    return build_evaluation_plan((), greet, EvaluationOptions(folder=tmp_path))


def list_cases(plan: Plan) -> list[tuple[str, str]]:
    return [
        (suite.eval_set.eval_set_id, case.eval_id) for suite in plan.suites for case in suite.eval_set.cases
    ]


@pytest.mark.parametrize(
    ("wanted", "whole_sets", "min_cases"),
    [
        ([("a", "one")], set(), 1),
        ([("a", "one"), ("b", "two")], set(), 2),
        ([("a", "one"), ("a", "two")], {"a"}, 3),
        ([("a", "one"), ("a", "two"), ("b", "one")], {"a"}, 3),
    ],
)
def test_the_others_count_as_not_selected(
    plan: Plan, wanted: list[tuple[str, str]], whole_sets: set[str], min_cases: int
) -> None:
    selected = plan.select_cases(wanted)

    assert list_cases(selected) == wanted
    assert selected.is_part
    assert selected.whole_sets is not None
    assert set(selected.whole_sets) == whole_sets
    assert selected.gate.min_cases == min_cases


def test_all_cases_are_no_selection(plan: Plan) -> None:
    selected = plan.select_cases(list_cases(plan))

    assert not plan.is_part
    assert selected == plan


def test_a_case_that_is_not_there_is_ignored(plan: Plan) -> None:
    assert list_cases(plan.select_cases([("a", "one"), ("c", "one")])) == [("a", "one")]
