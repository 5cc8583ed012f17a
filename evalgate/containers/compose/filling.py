"""`${NAME}` in a Compose file: https://github.com/compose-spec/compose-spec/blob/main/12-interpolation.md."""

import re
from collections.abc import Mapping

_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<plain>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<how>:?[-?+])(?P<word>[^{}]*))?\}|(?P<wrong>))"
)


class CannotFill(Exception):
    """A text names a variable that has no value, or in a way that is none; the message says which."""


def filled(text: str, values: Mapping[str, str]) -> str:
    """`text` with values for its variables; one that nobody set and that has no default is empty.

    Raises:
        CannotFill: it demands a variable that is not set, or holds a lone dollar sign.
    """

    def value(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        if found["plain"]:
            return values.get(found["plain"], "")
        if not found["name"]:
            raise CannotFill("holds a `$` that names no variable (a plain one is written `$$`)")
        return _with_operator(found["name"], found["how"] or "", found["word"] or "", values)

    return _VARIABLE.sub(value, text)


def _with_operator(name: str, how: str, word: str, values: Mapping[str, str]) -> str:
    found = values.get(name)
    is_there = found is not None and (found != "" or not how.startswith(":"))
    match how[-1:]:
        case "-":
            return found if is_there and found is not None else word
        case "+":
            return word if is_there else ""
        case "?" if not is_there:
            raise CannotFill(f"needs ${{{name}}}, which has no value{f': {word}' if word else ''}")
    return found or ""
