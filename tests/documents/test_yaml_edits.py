"""Edits of values in YAML keep the rest of its text."""

from datetime import date

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.documents.strict_yaml import compose_yaml
from evalgate.documents.yaml_edits import set_yaml_value

BLOCK = """\
# top
a:
  b:  # two
    c: 1
    d: [x,   y]

  e: {f: 1, g: 2}
# end
"""


@pytest.mark.parametrize(
    ("path", "value", "before", "after"),
    [
        ("a.b.c", 2, "    c: 1\n", "    c: 2\n"),
        ("a.b.d", {"k": "v: w"}, "    d: [x,   y]\n", "    d: {k: 'v: w'}\n"),
        ("a.b.new", None, "", ""),
        ("a.b.new.deep", True, "    d: [x,   y]\n", "    d: [x,   y]\n    new: {deep: true}\n"),
        ("a.e.f", [1], "{f: 1, g: 2}", "{f: [1], g: 2}"),
        ("a.e.h", "x", "{f: 1, g: 2}", "{f: 1, g: 2, h: x}"),
        ("a.e.f", None, "{f: 1, g: 2}", "{g: 2}"),
        ("a.e.g", None, "{f: 1, g: 2}", "{f: 1}"),
        ("a.b.c", None, "    c: 1\n", ""),
        ("z", 1, "# end\n", "z: 1\n# end\n"),
        ("a.e", None, "  e: {f: 1, g: 2}\n", ""),
    ],
)
def test_only_the_value_changes(path: str, value: object, before: str, after: str) -> None:
    found = set_yaml_value(BLOCK, path.split("."), value, "n")
    assert found == BLOCK.replace(before, after, 1)


def test_empty_objects_are_filled_and_removed() -> None:
    assert set_yaml_value("", ("a", "b"), 1, "n") == "a: {b: 1}\n"
    assert set_yaml_value("a:\nb: 2\n", ("a", "c"), "x", "n") == "a: {c: x}\nb: 2\n"
    assert set_yaml_value("{}\n", ("a",), 1, "n") == "{a: 1}\n"
    assert set_yaml_value("a:\n  b:\n    c: 1\nd: 2\n", ("a", "b", "c"), None, "n") == "d: 2\n"
    assert set_yaml_value("a: {b: {c: 1}, d: 2}\n", ("a", "b", "c"), None, "n") == "a: {d: 2}\n"


def test_a_long_value_is_written_on_several_lines() -> None:
    value = {
        "tools": {"order": ["look_up_the_order", "issue_the_refund"]},
        "response": {"contains": "w" * 60},
    }
    text = set_yaml_value("a:\n   b: 1\n", ("a", "c"), [value, 2], "n")
    assert text.splitlines()[2:] == [
        "   c:",
        "     - tools: {order: [look_up_the_order, issue_the_refund]}",
        f"       response: {{contains: {'w' * 60}}}",
        "     - 2",
    ]


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (
            "a:  # first\n- b: 1  # one\n  # inside\n- c: |\n    text\n# below\nd: 2\n",
            "a:  # first\n- b: 1  # one\n  # inside\n- c: |\n    text\n- {e: 3}\n# below\nd: 2\n",
        ),
        (
            "a:\n  - b: 1  # one\n  - {c: [2]}  # two",
            "a:\n  - b: 1  # one\n  - {c: [2]}  # two\n  - {e: 3}\n",
        ),
        ("a: [1,  # one\n  2 # two\n]\n", "a: [1,  # one\n  2, {e: 3} # two\n]\n"),
        ("a: [1, 2,]\n", "a: [1, 2, {e: 3},]\n"),
    ],
)
def test_a_list_that_grows_keeps_its_comments(text: str, after: str) -> None:
    held = compose_yaml(text, "n")[1]
    assert isinstance(held, dict)
    found = set_yaml_value(text, ("a",), [*held["a"], {"e": 3}], "n")
    assert compose_yaml(found, "n")[1] == {**held, "a": [*held["a"], {"e": 3}]}
    assert found.replace("- e: 3", "- {e: 3}") == after


def test_an_alias_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="n:1:11: evalgate cannot change `c` here"):
        set_yaml_value("a: &x {c: 1}\nb: *x\n", ("b", "c"), 2, "n")


@pytest.mark.parametrize("value", [1e22, 1e-7, -0.0, 10**30, "1e22", "a\x85\u2028\ufeff", None, True])
def test_values_stay_themselves_next_to_breaks_in_a_new_file(value: object) -> None:
    for whole in ([value], {"a\nb": [value]}, {"a": {"b": value}}):
        text = set_yaml_value("# only a comment\n", ("x", "y"), whole, "n")
        assert repr(compose_yaml(text, "n")[1]) == repr({"x": {"y": whole}})


def test_a_date_next_to_a_break_is_written_as_in_iso_8601() -> None:
    text = set_yaml_value("", ("x",), {"when": date(2026, 11, 23), "why": "a\nb"}, "n")
    assert text == 'x: {"when": 2026-11-23, "why": "a\\nb"}\n'
