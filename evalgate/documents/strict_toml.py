"""TOML with a position for every error, decoded in linear time."""

import re
import tomllib
from collections.abc import Iterator

from evalgate.core.errors import InvalidInputError, Problem

DEEPEST = 200
"""Levels of nesting, and parts of a dotted key, that are read: as of JSON. `tomllib` calls itself for each
level, and takes memory that grows with the square of the parts."""
_MOST_DIGITS = 4300
"""Of a whole number that Python reads."""

_word = r"""(?:[\w+-]++|"(?:\\.|[^"\\\n])*+"|'[^'\n]*+')"""
_token = re.compile(
    rf'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|#[^\n]*+|[\[\]{{}}]|{_word}(?:[ \t]*+\.[ \t]*+{_word})*+',
    re.DOTALL,
)
_own_position = re.compile(r" ?\(at (?:line (\d+), column (\d+)|end of document)\)")


def load_toml(text: str, shown_as: str) -> dict[str, object]:
    """Decode TOML.

    Raises:
        InvalidInputError: it is none, or nothing that can be read; with the place.
    """
    extremes = [
        Problem(shown_as, *_get_line_column(text, at), message) for at, message in _find_extremes(text)
    ]
    try:
        if not extremes:
            return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _own_position.search(str(error))
        position = (int(found[1]), int(found[2])) if found and found[1] else _get_line_column(text, len(text))
        extremes = [Problem(shown_as, *position, f"not TOML: {_own_position.sub('', str(error))}")]
    except (RecursionError, ValueError):
        extremes = [Problem(shown_as, 1, 1, "not TOML that can be read")]
    raise InvalidInputError(extremes) from None


def _find_extremes(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first place of each kind that `tomllib` would not end well with."""
    depth = 0
    for token in _token.finditer(text):
        word = token.group()
        if word in "[{":
            depth += 1
            if depth > DEEPEST:
                yield token.start(), f"nested more than {DEEPEST} levels deep"
                return
        elif word in "]}":
            depth -= 1
        elif word[0] in "#\"'" and word[:3] in {'"""', "'''"}:
            continue
        elif len(word) > DEEPEST and word[0] != "#":
            message = _describe_extreme_word(word)
            if message:
                yield token.start(), message
                return


def _describe_extreme_word(word: str) -> str:
    digits = word.replace("_", "").lstrip("+-")
    if len(digits) > _MOST_DIGITS and digits.isdigit():
        return (
            f"a whole number of {len(digits):,} digits is too long to read: the limit is {_MOST_DIGITS:,}; "
            "put it in quotes if it is text"
        )
    parts = len(re.findall(_word, word))
    return f"a key of {parts:,} parts is nested more than {DEEPEST} levels deep" if parts > DEEPEST else ""


def _get_line_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
