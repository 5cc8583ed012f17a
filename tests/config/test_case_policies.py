"""The section `cases` of a thresholds file: selection of cases, and order of rules."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from evalgate.config.cli_overrides import Overrides
from evalgate.config.loader import load_thresholds
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import CasePolicy, Criterion, EvalCase, EvalSet, ScopedThreshold
from evalgate.integrations.adk.metrics.response_match import ResponseMatch
from evalgate.metrics.scoring import BoundMetric
from evalgate.runner.case_policies import resolve_case_policies
from evalgate.runner.validation import check_files

SETS = (
    EvalSet("home", (EvalCase("lights"), EvalCase("refund_1", tags=("money",))), "evals/home.evalset.json"),
    EvalSet("shop", (EvalCase("refund_1"), EvalCase("refund_2")), "evals/shop.evalset.json"),
)
CRITERIA = "criteria: {response_match_score: 0.8, tool_trajectory_avg_score: 1.0}\n"


def found(folder: Path, text: str) -> dict[str, CasePolicy]:
    (folder / "evalgate.yaml").write_text(CRITERIA + text)
    rules = load_thresholds(folder / "evalgate.yaml", "evalgate.yaml")
    own = resolve_case_policies(rules, rules.config.cases, SETS)
    return {":".join(key): policy for key, policy in own.items()}


@pytest.mark.parametrize(
    ("rules", "chosen"),
    [
        ("[{ids: lights, weight: 2}]", {"home:lights"}),
        ("[{ids: 'refund_*', weight: 2}]", {"home:refund_1", "shop:refund_1", "shop:refund_2"}),
        ("[{ids: 'shop:*', weight: 2}]", {"shop:refund_1", "shop:refund_2"}),
        (
            "[{ids: ['evals/home.evalset.json:lights', refund_2], weight: 2}]",
            {"home:lights", "shop:refund_2"},
        ),
        ("[{tags: money, weight: 2}]", {"home:refund_1"}),
        ("[{ids: lights, tag: dark}, {tags: [dark, money], weight: 2}]", {"home:lights", "home:refund_1"}),
    ],
)
def test_rules_select_cases(tmp_path: Path, rules: str, chosen: set[str]) -> None:
    own = found(tmp_path, f"cases: {rules}\n")
    assert {name for name, policy in own.items() if policy.weight == 2} == chosen


@pytest.mark.parametrize(
    ("common", "own", "expected"),
    [
        (None, "0.6", None),
        (0.7, "0.6", 0.7),
        (0.8, "0.6", 0.6),
        (0.7, "{threshold: 0.6, min_mean: 0.5}", 0.5),
        (None, "{threshold: 0.6, min_mean: 0.5}", 0.5),
    ],
    ids=["none", "inherited", "that of the threshold", "its own", "its own alone"],
)
def test_some_cases_have_a_minimum_of_their_mean(
    tmp_path: Path, common: float | None, own: str, expected: float | None
) -> None:
    rules = found(tmp_path, f"cases: [{{ids: lights, criteria: {{response_match_score: {own}}}}}]\n")
    criterion = Criterion("response_match_score", 0.8, min_mean=common)
    scoped = rules["home:lights"].thresholds["response_match_score"]
    bound = BoundMetric(criterion, ResponseMatch()).apply_threshold(scoped).criterion
    assert (bound.threshold, bound.min_mean) == (0.6, expected)


def test_tags_add_up_and_the_later_rule_wins(tmp_path: Path) -> None:
    own = found(
        tmp_path,
        """cases:
  - {ids: "refund_*", tag: [shop, money], protected: true, criteria: {response_match_score: 0.5}}
  - {tags: shop, weight: 3, criteria: {response_match_score: 0.6, tool_trajectory_avg_score: 0}}
  - {ids: "home:refund_1", protected: false}
""",
    )
    thresholds = {
        "response_match_score": ScopedThreshold(0.6, "tag shop"),
        "tool_trajectory_avg_score": ScopedThreshold(0.0, "tag shop"),
    }
    assert own["shop:refund_2"] == CasePolicy(("shop", "money"), 3, True, thresholds)
    assert own["home:refund_1"] == CasePolicy(("money", "shop"), 3, False, thresholds)
    assert "home:lights" not in own


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("cases: [{ids: lamps, tag: x}]\n", ["evalgate.yaml:2:9: no case is called `lamps`"]),
        # A name with a slip is an error also next to one without: its case would not be protected.
        (
            "cases: [{ids: ['*', lamps], tags: [nope], tag: x}]\n",
            ["evalgate.yaml:2:9: no case is called `lamps`"],
        ),
        ("cases: [{ids: [], tag: x}]\n", ["evalgate.yaml:2:10: `cases[0].ids` must not be empty"]),
        (
            "cases: [{ids: lamps, tags: [x], weight: 2}]\n",
            ["evalgate.yaml:2:9: no case is called `lamps` or tagged `x`"],
        ),
        (
            "cases: [{ids: lights, criteria: {response_match_scores: 1}}]\n",
            [
                (
                    "evalgate.yaml:2:34: `response_match_scores` is not among the file's `criteria`. "
                    "Did you mean `response_match_score`?"
                )
            ],
        ),
        ("cases: [{weight: 2}]\n", ["evalgate.yaml:2:9: `cases[0]` must select cases with `ids` or `tags`"]),
        (
            "cases: [{ids: lights, tags: [dark]}]\n",
            ["evalgate.yaml:2:9: `cases[0]` sets nothing: `tags` selects cases, and `tag` gives them a tag"],
        ),
        (
            "cases: [{ids: lights, weight: 0}]\n",
            ["evalgate.yaml:2:23: `cases[0].weight` should be greater than or equal to 0.000000001"],
        ),
        (  # sums of such weights are beyond the range of floats
            "cases: [{ids: lights, weight: 1.0e+308}]\n",
            ["evalgate.yaml:2:23: `cases[0].weight` should be less than or equal to 1000000000"],
        ),
        (
            "cases: [{ids: lights, weight: 1.0e-320}]\n",
            ["evalgate.yaml:2:23: `cases[0].weight` should be greater than or equal to 0.000000001"],
        ),
    ],
)
def test_a_rule_that_means_nothing_is_an_error(tmp_path: Path, text: str, problems: list[str]) -> None:
    with pytest.raises(InvalidInputError) as raised:
        found(tmp_path, text)
    assert [str(problem) for problem in raised.value.problems] == problems


def test_rules_for_other_cases_are_ignored_when_cases_are_selected(tmp_path: Path) -> None:
    (tmp_path / "evalgate.yaml").write_text(
        CRITERIA + "cases: [{ids: lamps, weight: 3}, {ids: lights, weight: 2}]\n"
    )
    rules = load_thresholds(tmp_path / "evalgate.yaml", "evalgate.yaml")

    own = resolve_case_policies(rules, rules.config.cases, SETS, is_part=True)

    assert own["home", "lights"].weight == 2


@pytest.mark.parametrize(
    ("eval_sets", "picked", "is_right"),
    [
        ("eval_sets: [a.evalset.json, b.evalset.json]\n", (), True),
        ("eval_sets: [a.evalset.json, b.evalset.json]\n", ("a.evalset.json",), True),
        ("eval_sets: [a.evalset.json]\n", (), False),
        ("", ("a.evalset.json", "b.evalset.json"), True),
        ("", ("a.evalset.json:one",), True),
        ("", ("a.evalset.json",), False),
    ],
)
def test_one_case_can_be_run_again(
    tmp_path: Path, eval_sets: str, picked: tuple[str, ...], is_right: bool
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.evalset.json").write_text(an_eval_set(name))
    rule = f"cases: [{{ids: 'b:one', weight: 2}}]\nagent: {{entry: 'agent.py:answer'}}\n{eval_sets}"
    (tmp_path / "evalgate.yaml").write_text(CRITERIA + rule)

    with nullcontext() if is_right else pytest.raises(InvalidInputError, match="no case is called `b:one`"):
        list(check_files(Overrides(eval_sets=picked), thresholds_file=None, folder=tmp_path))


def an_eval_set(name: str) -> str:
    turn = {"user_content": {"parts": [{"text": "hi"}]}, "final_response": {"parts": [{"text": "ho"}]}}
    return json.dumps({"eval_set_id": name, "eval_cases": [{"eval_id": "one", "conversation": [turn]}]})


@pytest.mark.parametrize("limit", ["20", "{max: 20}", "{threshold: 20}"])
def test_a_budget_has_another_limit_for_some_cases(tmp_path: Path, limit: str) -> None:
    (tmp_path / "evalgate.yaml").write_text(
        "criteria: {budget/tokens: {max: 6}}\n"
        f"cases: [{{ids: lights, criteria: {{budget/tokens: {limit}}}}}]\n"
    )
    (rule,) = load_thresholds(tmp_path / "evalgate.yaml", "evalgate.yaml").config.cases
    assert rule.criteria["budget/tokens"].threshold == 20


def test_the_limit_of_a_score_is_no_max(tmp_path: Path) -> None:
    (tmp_path / "evalgate.yaml").write_text(
        f"{CRITERIA}cases: [{{ids: lights, criteria: {{response_match_score: {{max: 1}}}}}}]\n"
    )
    with pytest.raises(InvalidInputError, match="threshold"):
        load_thresholds(tmp_path / "evalgate.yaml", "evalgate.yaml")
