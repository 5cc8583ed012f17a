"""Strict JSON with positions."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.documents.strict_json import DEEPEST, parse_json, read_json


def problems(data: bytes | str) -> str:
    with pytest.raises(InvalidInputError) as caught:
        parse_json(data.encode() if isinstance(data, str) else data, "f.json")
    return str(caught.value)


UTF_16 = (
    "this is UTF-16 or UTF-32: save the file as UTF-8 (`iconv -f UTF-16 -t UTF-8`; in PowerShell "
    "`Out-File -Encoding utf8`, for `>` writes UTF-16)"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":1,}', "f.json:1:7: not JSON: remove the comma before the closing bracket"),
        ("[1,\n ]", "f.json:1:3: not JSON: remove the comma before the closing bracket"),
        ("[1, // one\n 2]", "f.json:1:5: not JSON: comments are not allowed: remove this one"),
        ("[1] # end", "f.json:1:5: not JSON: comments are not allowed: remove this one"),
        ("[1 2]", "f.json:1:4: not JSON: expected a comma or a closing bracket, found `2`"),
        ('{"a" 1}', "f.json:1:6: not JSON: expected `:` after the key, found `1`"),
        ("{'a':1}", "f.json:1:2: not JSON: text stands in double quotes, not in single ones"),
        ("{a:1}", "f.json:1:2: not JSON: expected a key in double quotes, found `a`"),
        ("[True]", "f.json:1:2: not JSON: write `true` for `True`"),
        ("[None]", "f.json:1:2: not JSON: write `null` for `None`"),
        ("nul", "f.json:1:1: not JSON: expected a value, found `nul`"),
        ('["é", x]', "f.json:1:7: not JSON: expected a value, found `x`"),
        (
            '{"a":1}\n{"b":2}',
            "f.json:2:1: not JSON: expected nothing after the end of the value (a JSON file holds one), found `{`",
        ),
        ('["abc', "f.json:1:2: not JSON: this text has no closing quote"),
        ('["a\nb"]', "f.json:1:4: not JSON: a text holds a raw line break: write `\\n`"),
        ('["a\x01b"]', "f.json:1:4: not JSON: a text holds a raw control character U+0001: write `\\u0001`"),
        (
            '["\\x"]',
            "f.json:1:3: not JSON: this is no escape that JSON knows; a backslash itself is written `\\\\`",
        ),
        ("[1,2", "f.json:1:5: not JSON: the file ends too early: a value or a closing bracket is missing"),
        ("{", "f.json:1:2: not JSON: the file ends too early: a value or a closing bracket is missing"),
        ("", "f.json:1:1: the file is empty"),
        (" \n", "f.json:1:1: the file is empty"),
    ],
)
def test_a_syntax_error_says_where_and_what_to_do(text: str, expected: str) -> None:
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[NaN]", "f.json:1:2: `NaN` is no JSON number: write a finite number or null"),
        ("[-Infinity]", "f.json:1:2: `-Infinity` is no JSON number: write a finite number or null"),
        ("1e400", "f.json:1:1: `1e400` is beyond the largest number that can be read, about 1.8e308"),
        (
            "[" + "1" * 4301 + "]",
            "f.json:1:2: a whole number of 4,301 digits is too long to read: the limit is 4,300",
        ),
        ('["\\ud800"]', "f.json:1:3: `\\ud800` is half of a surrogate pair: write the whole character"),
        ('["\\uDC00x"]', "f.json:1:3: `\\uDC00` is half of a surrogate pair: write the whole character"),
        (
            '{"a":{"b":1,\n"b":2}}',
            'f.json:2:1: the key "b" is given twice in this object, first at 1:7',
        ),
        (
            '{"\\u0061":1,"a":2}',
            'f.json:1:13: the key "a" is given twice in this object, first at 1:2',
        ),
    ],
)
def test_a_value_that_python_would_let_pass_is_a_problem(text: str, expected: str) -> None:
    assert problems(text) == expected


def test_all_value_problems_of_a_file_come_at_once() -> None:
    assert problems('{"a": NaN,\n "b": ["\\ud800", 1e999],\n "a": 1}').splitlines() == [
        "f.json:1:7: `NaN` is no JSON number: write a finite number or null",
        "f.json:2:9: `\\ud800` is half of a surrogate pair: write the whole character",
        "f.json:2:18: `1e999` is beyond the largest number that can be read, about 1.8e308",
        'f.json:3:2: the key "a" is given twice in this object, first at 1:2',
    ]


def test_a_thousand_problems_are_cut_to_a_hundred() -> None:
    assert len(problems("[" + "NaN," * 999 + "NaN]").splitlines()) == 100


@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 10_000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"[":', "}]")])
def test_deep_nesting_is_a_clean_error(depth: int, opening: str, closing: str) -> None:
    levels = -(-depth // (opening.count("[{") + 1))
    message = problems(opening * levels + "1" + closing * levels)

    assert message.endswith(f"nested more than {DEEPEST} levels deep")


def test_deep_nesting_that_never_ends_is_a_clean_error() -> None:
    assert "nested more than" in problems("[" * 10_000)


@pytest.mark.parametrize("text", ["[" * DEEPEST + "]" * DEEPEST, '["]", ["\\"[{", "\\\\"], {"}": "]"}]'])
def test_brackets_are_counted_where_they_count(text: str) -> None:
    assert parse_json(text.encode(), "f.json").value == json.loads(text)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'[1,\n"\xc3\xa9\xff"]', "f.json:2:3: byte 0xff is not valid UTF-8: save the file as UTF-8"),
        ("{}".encode("utf-16"), "f.json:1:1: " + UTF_16),
        ("{}".encode("utf-16-le"), "f.json:1:1: " + UTF_16),
    ],
)
def test_another_encoding_is_named(data: bytes, expected: str) -> None:
    assert problems(data) == expected


def test_a_byte_order_mark_is_no_character() -> None:
    document = parse_json(b'\xef\xbb\xbf{"a": [1]}', "f.json")

    assert document.value == {"a": [1]}
    assert document.find_position(("a", 0)) == (1, 8)


def test_whole_characters_as_surrogate_pairs_are_fine() -> None:
    assert parse_json(b'["\\ud83d\\ude00", "\\\\ud800"]', "f.json").value == ["😀", "\\ud800"]


def test_a_missing_value_is_reported_at_its_nearest_parent() -> None:
    document = parse_json(b'{"a": [\n  {"b": 1}\n]}', "f.json")

    assert document.find_position(("a", 0, "c", "d")) == (2, 3)
    assert document.find_position(("a", 5)) == (1, 7)
    assert document.find_position(("a", 0, "b", "c")) == (2, 9)
    assert document.find_position(()) == (1, 1)


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_every_value_is_read_back_and_found_where_it_stands(
    value: Any, indent: int | None, ensure_ascii: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    document = parse_json(text.encode(), "f.json")
    lines = text.split("\n")
    decoder = json.JSONDecoder()

    assert document.value == value
    for location, inner in _places(value, ()):
        line, column = document.find_position(location)
        offset = sum(len(before) + 1 for before in lines[: line - 1]) + column - 1
        assert decoder.raw_decode(text, offset)[0] == inner


def _places(value: Any, location: tuple[str | int, ...]) -> list[tuple[tuple[str | int, ...], Any]]:
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    inner = [place for key, member in members for place in _places(member, (*location, key))]
    return [(location, value), *inner]


TOKENS = st.sampled_from(
    [
        *(
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "-",
            " ",
            "\n",
            '"',
            '"a"',
            '"b"',
            '"\\u0061"',
            '"\\ud800"',
            '"\\ud83d\\ude00"',
        ),
        *('"[', "\\", "//", "é", "1", "0.5", "1e400", "NaN", "-Infinity", "null", "true", '{"a":1}', "[[]]"),
    ]
)


@given(st.lists(TOKENS, max_size=14).map("".join))
def test_every_text_is_read_or_refused_at_a_place(text: str) -> None:
    value, found = _read_or_problems(text)

    assert all(problem.line and problem.column for problem in found)
    assert found or value == json.loads(text)


def _read_or_problems(text: str) -> tuple[object, tuple[Problem, ...]]:
    try:
        return parse_json(text.encode(), "f.json").value, ()
    except InvalidInputError as error:
        return None, error.problems


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"^a\.json: no such file$"):
        read_json(tmp_path / "a.json", "a.json")
    with pytest.raises(InvalidInputError, match=r"^a: is a folder, and has to be a file: "):
        read_json(tmp_path, "a")
