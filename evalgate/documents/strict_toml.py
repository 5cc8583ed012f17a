"""Decode TOML in linear time, and report errors with their position."""

import re
import tomllib
from collections.abc import Iterator

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.documents.json_errors import get_line_column

DEEPEST = 200
"""Most levels of nesting, and most parts of a dotted key; the same limit as for JSON. `tomllib` recurses once
for each level, and its memory grows with the square of the number of parts."""
_MOST_DIGITS = 4300
"""Most digits of a whole number: Python's own default limit."""

_word = r"""(?:[\w+-]++|"(?:\\.|[^"\\\n])*+"|'[^'\n]*+')"""
_token = re.compile(
    rf'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|#[^\n]*+|[\[\]{{}}]|{_word}(?:[ \t]*+\.[ \t]*+{_word})*+',
    re.DOTALL,
)
_own_position = re.compile(r" ?\(at (?:line (\d+), column (\d+)|end of document)\)")


def load_toml(text: str, shown_as: str) -> dict[str, object]:
    """Decode the text of a TOML file; `shown_as` is the name of the file in messages.

    Raises:
        InvalidInputError: the text is not TOML, nests deeper than 200 levels, has a dotted key of more than
            200 parts, or has a whole number of more than 4,300 digits. The error has the position.
    """
    extremes = [
        Problem(shown_as, *get_line_column(text, at), message) for at, message in _find_extremes(text)
    ]
    try:
        if not extremes:
            return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _own_position.search(str(error))
        position = (int(found[1]), int(found[2])) if found and found[1] else get_line_column(text, len(text))
        extremes = [Problem(shown_as, *position, f"not TOML: {_own_position.sub('', str(error))}")]
    except (RecursionError, ValueError):
        extremes = [Problem(shown_as, 1, 1, "not TOML that can be read")]
    raise InvalidInputError(extremes) from None


def _find_extremes(text: str) -> Iterator[tuple[int, str]]:
    """Yield at most one pair: offset and message of the first nesting, number or key beyond a limit.

    The limits are 200 levels of nesting, 200 parts of a key, and 4,300 digits. For a text beyond a limit,
    `tomllib` would raise an error without a position, or take too much memory.
    """
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
