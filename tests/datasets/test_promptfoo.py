"""Configurations of promptfoo become cases with checks, and every part without a counterpart is listed."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.datasets.promptfoo import PromptfooProject, read_promptfoo
from evalgate.datasets.promptfoo_values import parse_csv_assertion


def read(folder: Path, tests: object, **more: object) -> PromptfooProject:
    config = {"prompts": ["{{query}}"], "providers": ["echo"], "tests": tests, **more}
    (folder / "promptfooconfig.json").write_text(json.dumps(config), encoding="utf-8")
    return read_promptfoo(folder / "promptfooconfig.json", "config.json")


def test_equal_checks_of_several_cases_are_one(tmp_path: Path) -> None:
    test: dict[str, Any] = {
        "assert": [{"type": "contains", "value": "x"}, {"type": "equals", "value": "{{query}}"}]
    }
    tests = [{**test, "vars": {"query": query}} for query in ("a", "b")]
    every = {"type": "not-contains", "value": "error", "metric": "No error!"}
    last: dict[str, Any] = {"vars": {"query": "c"}, "options": {"disableDefaultAsserts": True}}
    tests.append({**last, "assert": [{"type": "regex", "value": "["}, {"type": "javascript", "value": "1"}]})
    tests.append({"vars": {"query": "d"}, "assert": []})
    project = read(tmp_path, tests, defaultTest={"assert": [every]})
    assert project.checks == {
        "No_error_": {"response": {"not_contains": "error"}},
        "contains": {"ids": ["test-1", "test-2"], "response": {"contains": "x"}},
        "test-1_equals": {"ids": ["test-1"], "response": {"equals": "a"}},
        "test-2_equals": {"ids": ["test-2"], "response": {"equals": "b"}},
    }
    assert project.lost == (
        "config.json:1: test-3: assert `regex` with a pattern that RE2 does not read: missing ]: [",
        "config.json:1: test-3: assert `javascript` (code)",
        "config.json:1: test-3: no assertion is carried over, so there is no case",
    )


def test_a_check_of_every_case_names_none(tmp_path: Path) -> None:
    tests = [{"vars": {"query": "a"}}, {"vars": {"query": "b"}}]
    default = {"assert": [{"type": "icontains", "value": "x"}, {"type": "cost"}], "threshold": 1}
    project = read(tmp_path, tests, defaultTest=default)
    assert project.checks == {"icontains": {"response": {"contains": "x", "ignore_case": True}}}
    assert project.lost == ("config.json:1: defaultTest: assert `cost` with no `threshold` above 0",)


def test_limits_of_every_test_are_budgets(tmp_path: Path) -> None:
    tests = [
        {"vars": {"query": "a"}, "assert": [{"type": "latency", "threshold": 2000}]},
        {"vars": {"query": "b"}, "assert": [{"type": "latency", "threshold": 1500}]},
        {"vars": {"query": "c"}, "assert": [{"type": "latency", "threshold": 2000}]},
    ]
    default = {"assert": [{"type": "cost", "threshold": 0.01}, {"type": "contains", "value": "x"}]}
    project = read(tmp_path, tests, defaultTest=default)
    assert project.budgets == {
        "budget/cost_usd": {"max": 0.01, "gates": True},
        "budget/latency_s": {"max": 2.0, "gates": True},
    }
    assert project.case_rules == ({"ids": ["test-2"], "criteria": {"budget/latency_s": 1.5}},)
    assert project.checks.keys() == {"contains"}
    assert project.lost == ()


def test_a_limit_of_some_tests_is_told(tmp_path: Path) -> None:
    tests = [
        {"vars": {"query": "a"}, "assert": [A_TEXT, {"type": "cost", "threshold": 1}]},
        {"vars": {"query": "b"}, "assert": [A_TEXT]},
    ]
    project = read(tmp_path, tests)
    assert project.budgets == {}
    assert project.lost == (
        "config.json: `budget/cost_usd`: a budget limits every case, and some tests have none",
    )


A_TEXT = {"type": "contains", "value": "x"}


def test_prompts_are_rendered_and_only_one_is_gated(tmp_path: Path) -> None:
    (tmp_path / "prompts.txt").write_text("Say {{query}} to {{user.name}}\n---\nAnother {{query}}\n")
    tests = [
        {"vars": {"query": "hello", "user": {"name": "Ada"}}, "assert": [{"type": "contains", "value": "x"}]}
    ]
    project = read(tmp_path, tests, prompts=["file://prompts.txt", "file://prompt.py"])
    assert [case.turns[0].user.text for case in project.eval_set.cases] == ["Say hello to Ada"]
    assert project.lost == (
        "config.json:1: the prompt `file://prompt.py`: only text and JSON files are read",
        "config.json:1: prompts 2 to 2: a gate runs one, the first",
    )


def test_of_a_chat_the_user_says_the_messages_of_the_user(tmp_path: Path) -> None:
    chat = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "{{query}}"}]
    project = read(
        tmp_path,
        [{"vars": {"query": "hello"}, "assert": [{"type": "contains", "value": "x"}]}],
        prompts=[json.dumps(chat)],
    )
    assert project.eval_set.cases[0].turns[0].user.text == "hello"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "hi"}, {"type": "text", "text": "there"}], "hi\nthere"),
        ([{"type": "image_url", "image_url": {"url": "x"}}], None),
        (None, ""),
    ],
)
def test_parts_of_a_message_are_texts_or_named(content: object, text: str | None, tmp_path: Path) -> None:
    test = {"vars": {"query": "x"}, "assert": [{"type": "contains", "value": "x"}]}
    project = read(tmp_path, [test], prompts=[json.dumps([{"role": "user", "content": content}])])
    assert [case.turns[0].user.text for case in project.eval_set.cases] == ([] if text is None else [text])
    assert any("a message with parts that are no text" in each for each in project.lost) == (text is None)


@pytest.mark.parametrize(("value", "text"), [("hi", "hi"), ({"a": True}, '{"a": true}'), (7, "7")])
def test_without_a_prompt_the_only_variable_is_the_message(value: object, text: str, tmp_path: Path) -> None:
    test = {"vars": {"query": value}, "assert": [{"type": "contains", "value": "x"}]}
    (case,) = read(tmp_path, [test], prompts=[]).eval_set.cases
    assert case.turns[0].user.text == text


def test_a_date_is_a_text(tmp_path: Path) -> None:
    path = tmp_path / "promptfooconfig.yaml"
    path.write_text(
        "providers: [x]\ntests:\n- vars: {day: 2024-01-01}\n  assert: [{type: contains, value: x}]\n"
    )
    project = read_promptfoo(path, path.name)
    assert "2024-01-01" in project.eval_set.cases[0].turns[0].user.text


def test_texts_that_are_transformed_are_not_checked(tmp_path: Path) -> None:
    """As in promptfoo's examples: `output[0].name` is compared, and not what the agent says."""
    kept = {"type": "trajectory:tool-used", "value": "weather"}
    test = {
        "vars": {"query": "hi"},
        "options": {"transform": "output[0].name", "prefix": "Please: ", "suffix": "!", "storeOutputAs": "x"},
        "provider": "other",
        "assert": [{"type": "equals", "value": "weather"}, kept],
    }
    project = read(tmp_path, [test])
    (case,) = project.eval_set.cases
    assert case.turns[0].user.text == "Please: hi!"
    assert project.checks == {"trajectory_tool-used": {"tools": {"require": ["weather"]}}}
    assert project.lost == (
        "config.json:1: test-1: `provider`",
        "config.json:1: test-1: `options.storeOutputAs`",
        "config.json:1: test-1: assert `equals` with a transform",
    )


def test_ids_are_unique_and_defaults_apply_to_each_test(tmp_path: Path) -> None:
    default = {"vars": {"query": "same"}, "assert": [{"type": "contains", "value": "x"}]}
    tests = [{"description": "a test"}, {"description": "a test", "vars": {"query": ["p", "q"]}}]
    project = read(tmp_path, tests, defaultTest=default)
    assert [(case.eval_id, case.turns[0].user.text) for case in project.eval_set.cases] == [
        ("a_test", "same"), ("a_test_1", "p"), ("a_test_2", "q"),
    ]  # fmt: skip


def test_losses_of_a_default_assertion_are_listed_if_the_first_test_has_none(tmp_path: Path) -> None:
    code = {"type": "javascript", "value": "1"}
    first = {"vars": {"query": "a"}, "options": {"disableDefaultAsserts": True}, "assert": [A_TEXT]}
    rest = [{"vars": {"query": query}, "assert": [A_TEXT]} for query in ("b", "c")]
    project = read(tmp_path, [first, *rest], defaultTest={"assert": [code]})
    assert project.lost == ("config.json:1: defaultTest: assert `javascript` (code)",)


def test_losses_of_later_combinations_are_listed_once(tmp_path: Path) -> None:
    variables = {"query": "a", "city": ["Paris", None], "day": ["1", "2"]}
    test = {"vars": variables, "assert": [A_TEXT, {"type": "contains", "value": "{{city}}"}]}
    default = {"assert": [{"type": "icontains", "value": "{{city}}"}]}
    project = read(tmp_path, [test, {**test, "vars": {"query": "b", "city": "Rome"}}], defaultTest=default)
    assert len(project.eval_set.cases) == 5
    assert project.lost == (
        "config.json:1: defaultTest: assert `icontains`: no value for `{{city}}`",
        "config.json:1: test-1: assert `contains`: no value for `{{city}}`",
    )


def test_a_combination_without_a_case_leaves_the_others(tmp_path: Path) -> None:
    asserted = [{"type": "contains", "value": "{{query}}"}]
    project = read(tmp_path, [{"vars": {"query": ["a", "", "b"]}, "assert": asserted}])
    assert [case.eval_id for case in project.eval_set.cases] == ["test-1_1", "test-1_3"]
    assert project.checks == {
        "test-1_1_contains": {"ids": ["test-1_1"], "response": {"contains": "a"}},
        "test-1_3_contains": {"ids": ["test-1_3"], "response": {"contains": "b"}},
    }
    assert project.lost == (
        "config.json:1: test-1: assert `contains` with an empty value",
        "config.json:1: test-1 2: no assertion is carried over, so there is no case",
    )


def test_combinations_without_a_case_are_told_once_for_each_reason(tmp_path: Path) -> None:
    variables: dict[str, Any] = {"query": "a", "city": [None] * 5}
    test = {"vars": variables, "assert": [A_TEXT]}
    other = {**test, "vars": {"query": "b", "city": ["Rome", *[None] * 5]}}
    prompts = ["{{query}} in {{city}}"]
    project = read(tmp_path, [test, other], prompts=prompts)
    assert [case.eval_id for case in project.eval_set.cases] == ["test-2_1"]
    assert project.lost == (
        "config.json:1: test-1: no value for `{{city}}`",
        "config.json:1: test-2 2, test-2 3, test-2 4 and 2 more: no value for `{{city}}`",
    )


def test_combinations_beyond_the_first_thousand_are_listed(tmp_path: Path) -> None:
    numbers = [str(number) for number in range(40)]
    test = {"vars": {"query": numbers, "day": numbers}, "assert": [A_TEXT]}
    project = read(tmp_path, [test])
    assert len(project.eval_set.cases) == 1000
    assert project.lost == (
        "config.json:1: test-1: 600 of its 1,600 combinations of variables: only the first 1,000 become cases",
    )


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("Paris", {"type": "equals", "value": "Paris"}),
        ("note: this", {"type": "equals", "value": "note: this"}),
        ("icontains:bonjour", {"type": "icontains", "value": "bonjour"}),
        ("contains-all: a, b", {"type": "contains-all", "value": ["a", "b"]}),
        ("not-contains:x", {"type": "not-contains", "value": "x"}),
        ("similar(0.8):hello", {"type": "similar", "value": "hello", "threshold": 0.8}),
        ("grade:is kind", {"type": "llm-rubric", "value": "is kind"}),
        ("is-json", {"type": "is-json", "value": ""}),
        ("fn:output.length", {"type": "javascript", "value": "fn:output.length"}),
    ],
)
def test_cells_of_a_csv_name_their_assertion(cell: str, expected: object) -> None:
    assert parse_csv_assertion(cell) == expected


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.sampled_from(["type", "value", "vars", "assert", "steps", "name"]) | st.text(max_size=4), each, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(tests=JSON, default=JSON, prompts=JSON)
def test_any_content_is_read_or_listed(
    tests: object, default: object, prompts: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    project = read(folder, tests, defaultTest=default, prompts=prompts)
    contents: list[Any] = [*project.checks.values()]
    checked = {name for content in contents for name in content.get("ids", ())}
    ids = {case.eval_id for case in project.eval_set.cases}
    assert checked <= ids
    assert not ids or project.checks
