"""Minimal changes of a JSON file's text."""

import copy
import difflib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.documents.json_edits import align_items, is_same_json, update_json

_SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-2, 2) | st.text(max_size=4)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
_LAYOUTS = st.sampled_from(
    [
        {"indent": 2},
        {"indent": 4},
        {"indent": "\t"},
        {"indent": None},
        {"separators": (",", ":")},
        {"ensure_ascii": False},
    ]
)


def _change(data: st.DataObject, value: Any) -> Any:
    """Return a copy of `value` with one change; unchanged parts are the same objects."""
    if isinstance(value, dict) and value and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.booleans()):
            return {other: item for other, item in value.items() if other != key}
        return {**value, key: _change(data, value[key])}
    if isinstance(value, list) and value and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(value) - 1))
        kind = data.draw(st.sampled_from(["delete", "insert", "move", "change"]))
        rest = [*value[:at], *value[at + 1 :]]
        if kind == "delete":
            return rest
        if kind == "change":
            return [*value[:at], _change(data, value[at]), *value[at + 1 :]]
        to = data.draw(st.integers(0, len(rest)))
        item = value[at] if kind == "move" else data.draw(_VALUES)
        return [*rest[:to], item, *rest[to:]] if kind == "move" else [*value[:to], item, *value[to:]]
    return data.draw(_VALUES)


@given(data=st.data(), value=_VALUES, layout=_LAYOUTS)
def test_the_new_text_decodes_to_the_new_value_and_back(
    data: st.DataObject, value: Any, layout: dict[str, Any]
) -> None:
    text = "\n " + json.dumps(value, **layout) + "\n"
    old = json.loads(text)
    new = _change(data, old)
    wanted = copy.deepcopy(new)

    found = update_json(text, old, new)

    assert is_same_json(json.loads(found), wanted)
    assert update_json(text, old, old) == text
    assert is_same_json(json.loads(update_json(found, json.loads(found), old)), old)


_FILE = """{
  "id" : "a\\u00e9",
  "cases": [
    {"id": 1.50, "parts": [{"text": "hi"}]},

    {"id": 2e0,
     "parts": [ ]}
  ],
  "z": {}
}

"""


def _edit(change: Any) -> list[str]:
    old = json.loads(_FILE)
    found = update_json(_FILE, old, change(old))
    lines = difflib.unified_diff(_FILE.splitlines(), found.splitlines(), lineterm="", n=0)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


@pytest.mark.parametrize(
    ("change", "diff"),
    [
        (
            lambda old: {**old, "cases": [*old["cases"], {"id": 3, "parts": [{"text": "ü"}]}]},
            [
                '-     "parts": [ ]}',
                '+     "parts": [ ]},',
                "+",
                '+    {"id": 3, "parts": [{"text": "\\u00fc"}]}',
            ],
        ),
        (
            lambda old: {**old, "cases": [{**old["cases"][0], "id": 7}, old["cases"][1]]},
            [
                '-    {"id": 1.50, "parts": [{"text": "hi"}]},',
                '+    {"id": 7, "parts": [{"text": "hi"}]},',
            ],
        ),
        (
            lambda old: {**old, "z": {"n": [1, {"k": None}]}},
            [
                '-  "z": {}',
                '+  "z": {',
                '+    "n": [',
                "+      1,",
                "+      {",
                '+        "k": null',
                "+      }",
                "+    ]",
                "+  }",
            ],
        ),
        (lambda old: {key: value for key, value in old.items() if key != "id"}, ['-  "id" : "a\\u00e9",']),
        (
            lambda old: {**old, "cases": old["cases"][1:]},
            ['-    {"id": 1.50, "parts": [{"text": "hi"}]},', "-"],
        ),
    ],
    ids=["append", "change", "fill", "delete a key", "delete an item"],
)
def test_only_the_lines_of_the_change_differ(change: Any, diff: list[str]) -> None:
    assert _edit(change) == diff


def test_items_that_moved_keep_their_text_and_windows_line_ends_stay() -> None:
    text = '[\r\n  1e2,\r\n  {"a": 1.0},\r\n  {"b" : 2}\r\n]\r\n'
    old = json.loads(text)

    moved = update_json(text, old, [old[2], old[0], old[1], {"c": 3}])

    assert moved == '[\r\n  {"b" : 2},\r\n  1e2,\r\n  {"a": 1.0},\r\n  {"c": 3}\r\n]\r\n'


def test_new_parts_are_on_one_line_where_their_neighbours_are() -> None:
    text = '[\n  {\n    "name": "a",\n    "parts": [{"text": "x"}]\n  }\n]'
    old = json.loads(text)

    found = update_json(text, old, [*old, {"name": "b", "parts": [{"text": "y"}]}])

    assert found.endswith(',\n  {\n    "name": "b",\n    "parts": [{"text": "y"}]\n  }\n]')


@pytest.mark.parametrize(
    ("text", "new", "found"),
    [
        ('{"a": 1}', {"a": {"b": [2]}}, '{"a": {"b": [2]}}'),
        ('{"a":1}\n', {"a": {"b": [2, 3]}}, '{"a":{"b":[2,3]}}\n'),
        ('[{"a": "x"}, 5]', [{"a": [{"b": 2}]}, {"c": {}}], '[{"a": [{"b": 2}]}, {"c": {}}]'),
        ('{"a": {"b": 1}}', {"a": [1, {"b": 2}]}, '{"a": [1, {"b": 2}]}'),
        ('{\n  "a": {"b": 1}\n}', {"a": {"b": {"c": 2}}}, '{\n  "a": {"b": {"c": 2}}\n}'),
    ],
)
def test_a_value_on_one_line_is_replaced_by_one_on_one_line(text: str, new: object, found: str) -> None:
    assert update_json(text, json.loads(text), new) == found


def test_items_are_aligned_by_identity_then_equality_then_place() -> None:
    a, b, c = {"v": 1}, {"v": 1}, {"v": 2}

    assert align_items([a, b, c], [b, c], is_same_json) == [1, 2]
    assert align_items([a, b, c], [c, a, b], is_same_json) == [2, 0, 1]
    assert align_items([a, c], [a, {"v": 3}, {"v": 4}], is_same_json) == [0, 1, None]
    assert align_items([1, 2, 3], [1, 9, 3], is_same_json) == [0, 1, 2]
