"""Find problems in a text that should be JSON, and describe them so that a user can fix them."""

import json
import math
import re
from collections.abc import Iterator
from itertools import islice
from json.decoder import JSONDecodeError
from typing import TypeAlias

from evalgate.core.lazy_pattern import compile_lazily
from evalgate.core.sanitize import shorten_text
from evalgate.documents.strict_json import find_lone_surrogates, skip_blanks

LineColumn: TypeAlias = tuple[int, int]
"""Line and column, 1-based."""

# --- syntax -------------------------------------------------------------------------------------------------

_CONTROL_CHARACTERS = {
    "\n": ("line break", r"\n"),
    "\t": ("tab", r"\t"),
    "\r": ("carriage return", r"\r"),
}
_FOR_PYTHON = {"True": "true", "False": "false", "None": "null", "undefined": "null"}


def explain_decode_error(error: JSONDecodeError) -> str:
    """Return a sentence about a syntax error in JSON, with the correction if it is known."""
    text, at = error.doc, error.pos
    if error.msg.startswith("Unterminated string"):
        return "not JSON: this text has no closing quote"
    if error.msg.startswith("Invalid control character"):
        unknown = f"control character U+{ord(text[at]):04X}", f"\\u{ord(text[at]):04x}"
        name, escape = _CONTROL_CHARACTERS.get(text[at], unknown)
        return f"not JSON: a text holds a raw {name}: write `{escape}`"
    if error.msg.startswith("Invalid \\"):
        return "not JSON: this is no escape that JSON knows; a backslash itself is written `\\\\`"
    if skip_blanks(text, at) >= len(text):
        return "not JSON: the file ends too early: a value or a closing bracket is missing"
    return f"not JSON: {_explain_unexpected(text, at, error.msg)}"


def find_error_position(error: JSONDecodeError) -> LineColumn:
    """Return line and column of a decoder's error.

    For a comma before a closing bracket, return the position of the comma.
    """
    text, at = error.doc, error.pos
    before = _skip_blanks_back(text, at)
    trailing = text[at : at + 1] in {"]", "}"} and before and text[before - 1] == ","
    return get_line_column(text, before - 1 if trailing else at)


def _explain_unexpected(text: str, at: int, complaint: str) -> str:
    ahead, before = text[at], _skip_blanks_back(text, at)
    trailing = before if before and text[before - 1] == "," else None
    if ahead in "/#":
        return "comments are not allowed: remove this one"
    if complaint.startswith("Illegal trailing comma") or (trailing and ahead in "]}"):
        return "remove the comma before the closing bracket"
    if ahead == "'":
        return "text stands in double quotes, not in single ones"
    found = re.compile(r"[\w.+-]{1,30}|.", re.DOTALL).match(text, at)
    word = found.group() if found else ""
    if word in _FOR_PYTHON:
        return f"write `{_FOR_PYTHON[word]}` for `{word}`"
    return f"expected {_describe_expected(complaint)}, found `{word}`"


def _describe_expected(complaint: str) -> str:
    if complaint.startswith("Expecting property name"):
        return "a key in double quotes"
    if complaint.startswith("Expecting ',' delimiter"):
        return "a comma or a closing bracket"
    if complaint.startswith("Expecting ':' delimiter"):
        return "`:` after the key"
    if complaint.startswith("Extra data"):
        return "nothing after the end of the value (a JSON file holds one)"
    return "a value"


def _skip_blanks_back(text: str, at: int) -> int:
    """Return the offset at which the whitespace before `at` begins; `at` if no whitespace is before it."""
    while at and text[at - 1] in " \t\n\r":
        at -= 1
    return at


# --- values -------------------------------------------------------------------------------------------------

_MOST_REPORTED = 100
_LONGEST_LITERAL = 60
_MOST_DIGITS = 4300  # Python's own limit: reading more takes quadratic time

_token = compile_lazily(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:]|[^\s{}\[\]:,"]+', re.DOTALL)


def find_value_problems(text: str, deepest: int) -> list[tuple[LineColumn, str]]:
    """Return position and message of each problem in syntactically valid JSON, in file order; at most 100.

    Problems are NaN and infinities, numbers beyond a double's range, whole numbers of more than 4,300
    digits, halves of surrogate pairs, a key given twice in one object, and nesting deeper than `deepest`
    levels. Behind the first place that is nested too deep, only halves of surrogate pairs are found. The
    search does not recurse.
    """
    found = [
        *islice(_find_bad_tokens(text, deepest), _MOST_REPORTED),
        *(
            (half.start(), f"`{half.group()}` is half of a surrogate pair: write the whole character")
            for half in islice(find_lone_surrogates(text), _MOST_REPORTED)
        ),
    ]
    return [(get_line_column(text, offset), message) for offset, message in sorted(found)[:_MOST_REPORTED]]


def _find_bad_tokens(text: str, deepest: int) -> Iterator[tuple[int, str]]:
    open_objects: list[dict[str, int]] = []
    last: re.Match[str] | None = None
    for token in _token.finditer(text):
        match token.group()[0]:
            case "{" | "[":
                if len(open_objects) == deepest:
                    yield token.start(), f"nested more than {deepest} levels deep"
                    return
                open_objects.append({})
            case "}" | "]":
                open_objects[-1:] = []
            case ":" if last and open_objects:
                start, literal = last.start(), last.group()
                # Decoded: "a" and "\u0061" are the same key.
                decoded = str(json.loads(literal)) if "\\" in literal else literal[1:-1]
                first = open_objects[-1].setdefault(decoded, start)
                if first != start:
                    key = shorten_text(literal, _LONGEST_LITERAL)
                    line, column = get_line_column(text, first)
                    yield start, f"the key {key} is given twice in this object, first at {line}:{column}"
            case '"':
                last = token
            case _:
                message = _describe_bad_number(token.group())
                if message:
                    yield token.start(), message


def _describe_bad_number(literal: str) -> str:
    if literal in ("NaN", "Infinity", "-Infinity"):
        return f"`{literal}` is no JSON number: write a finite number or null"
    if literal[-1].isdigit() and literal.lstrip("-").isdigit():
        digits = len(literal.lstrip("-"))
        too_long = f"a whole number of {digits:,} digits is too long to read: the limit is {_MOST_DIGITS:,}"
        return too_long if digits > _MOST_DIGITS else ""
    if literal[-1].isdigit() and not math.isfinite(float(literal)):
        number = shorten_text(literal, _LONGEST_LITERAL)
        return f"`{number}` is beyond the largest number that can be read, about 1.8e308"
    return ""


def get_line_column(text: str, offset: int) -> LineColumn:
    """Return line and column, both from 1, of the character at `offset`."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
