"""Configurations of promptfoo become cases with goals, and every part without a counterpart is listed."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.types import Goal
from evalgate.datasets.promptfoo import PromptfooProject, _parse_csv_assertion, read_promptfoo

ANY = {"IGNORE": None}


def read(folder: Path, tests: object, **more: object) -> PromptfooProject:
    config = {"prompts": ["{{query}}"], "providers": ["echo"], "tests": tests, **more}
    (folder / "promptfooconfig.json").write_text(json.dumps(config), encoding="utf-8")
    return read_promptfoo(folder / "promptfooconfig.json", "config.json")


def goals(folder: Path, *asserted: dict[str, Any]) -> list[Goal]:
    project = read(folder, [{"vars": {"query": "hi", "color": "red"}, "assert": list(asserted)}])
    assert project.lost == ()
    (case,) = project.eval_set.cases
    assert case.journey is not None
    return list(case.journey.goals)


def test_texts_become_keywords_responses_and_checks(tmp_path: Path) -> None:
    found = goals(
        tmp_path,
        {"type": "contains", "value": "{{ color }} one"},
        {"type": "icontains-all", "value": ["a", 7]},
        {"type": "contains-all", "value": "x, y"},
        {"type": "equals", "value": "It is {{color}}"},
        {"type": "assert-set", "assert": [{"type": "llm-rubric", "value": "is kind"}]},
    )
    assert [(goal.type, goal.keywords, goal.response, goal.check) for goal in found] == [
        ("text", ("red one",), None, ""),
        ("text", ("a", "7"), None, ""),
        ("text", ("x", "y"), None, ""),
        ("text", (), "It is red", ""),
        ("check", (), None, "is kind"),
    ]


def test_several_assertions_about_one_call_are_one_goal(tmp_path: Path) -> None:
    project = read(
        tmp_path,
        [
            {
                "vars": {"query": "move me"},
                "assert": [
                    {"type": "trajectory:tool-used", "value": ["lookup", "update", "notify"]},
                    {
                        "type": "trajectory:tool-args-match",
                        "value": {"name": "update", "args": {"seat": "14C"}},
                    },
                    {"type": "trajectory:tool-sequence", "value": {"steps": ["lookup", {"name": "update"}]}},
                ],
            }
        ],
    )
    journey = project.eval_set.cases[0].journey
    assert journey is not None
    assert [(goal.name, goal.tool_name, goal.args) for goal in journey.goals] == [
        ("step-1-lookup", "lookup", ANY),
        ("step-2-update", "update", {"seat": "14C"}),
        ("used-notify", "notify", ANY),
    ]
    assert journey.order == {"step-1-lookup": ("step-2-update",), "step-2-update": (), "used-notify": ()}
    assert project.is_ordered


@pytest.mark.parametrize(
    ("asserted", "sentence"),
    [
        ({"type": "regex", "value": "a"}, "assert `regex`"),
        ({"type": "not-equals", "value": "a"}, "assert `not-equals`"),
        ({"type": "contains", "value": "file://x.txt"}, "assert `contains` with a value in a file"),
        ({"type": "contains", "value": {"a": 1}}, "assert `contains` with a value that is no text"),
        ({"type": "equals", "value": "{{ query | upper }}"}, "a template with more than `{{ name }}`"),
        ({"type": "equals", "value": "{{ gone }}"}, "no value for `{{ gone }}`"),
        ({"type": "equals", "value": "a", "transform": "output.x"}, "assert `equals` with a transform"),
        ({"value": "a"}, "an assertion without a type"),
        ("a", "an assertion without a type"),
        ({"type": "assert-set", "threshold": 0.5, "assert": []}, "assert `assert-set`"),
        (
            {"type": "trajectory:tool-used", "value": {"name": "a", "max": 2}},
            "assert `trajectory:tool-used` with more than names of tools",
        ),
        (
            {"type": "trajectory:tool-args-match", "value": {"name": "a", "args": {}, "mode": "exact"}},
            "assert `trajectory:tool-args-match` of `a`: only some arguments of one call",
        ),
    ],
)
def test_an_assertion_without_a_counterpart_is_listed_with_its_line(
    asserted: object, sentence: str, tmp_path: Path
) -> None:
    kept = {"type": "contains", "value": "kept"}
    project = read(tmp_path, [{"vars": {"query": "hi"}, "assert": [kept, asserted]}])
    assert project.lost == (f"config.json:1: test-1: {sentence}",)
    assert len(project.eval_set.cases) == 1


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


def test_texts_that_are_transformed_are_no_goals(tmp_path: Path) -> None:
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
    assert case.journey is not None
    assert [goal.name for goal in case.journey.goals] == ["used-weather"]
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


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("Paris", {"type": "equals", "value": "Paris"}),
        ("note: this", {"type": "equals", "value": "note: this"}),
        ("icontains:bonjour", {"type": "icontains", "value": "bonjour"}),
        ("contains-all: a, b", {"type": "contains-all", "value": ["a", "b"]}),
        ("not-contains:x", {"type": "not-contains", "value": "x"}),
        ("similar(0.8):hello", {"type": "similar", "value": "hello"}),
        ("grade:is kind", {"type": "llm-rubric", "value": "is kind"}),
        ("is-json", {"type": "is-json", "value": ""}),
        ("fn:output.length", {"type": "javascript", "value": "fn:output.length"}),
    ],
)
def test_cells_of_a_csv_name_their_assertion(cell: str, expected: object) -> None:
    assert _parse_csv_assertion(cell) == expected


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
    assert all(case.journey and case.journey.goals for case in project.eval_set.cases)
