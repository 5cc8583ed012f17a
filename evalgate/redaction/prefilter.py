"""Check JSON for secrets quickly.

The full search is `Redactor`. `JsonPrefilter` checks new JSON, by two searches with the regex engine of
pydantic-core, in linear time. It misses no secret that the full search finds, but it may also suspect text
without secrets. Most of its expressions are derived from the patterns of the full search.

`may_contain_secret` checks JSON that was redacted before, for secrets that are known only now.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from evalgate.core.sanitize import strip_invisible
from evalgate.redaction.encodings import SHORTEST_ENCODED
from evalgate.redaction.environment import NAMING_PARTS, NAMING_WORDS, may_announce
from evalgate.redaction.patterns import (
    CREDENTIAL_START,
    LABELS,
    PRIVATE_KEY,
    SCHEMES,
    SHAPES,
    VALUE_CHARACTER,
)

# Passes that remove 1 or 2 levels each. 150 levels are more than agents send; `rewrite_tree` cuts at 200.
_LEVELS = 75
_MAX_SHALLOW_BRACKETS = 2 * _LEVELS

_INVISIBLE_ESCAPE = re.compile(r'\\[^nt"\\]')
"""Pattern of a JSON escape that may stand for an invisible character within a secret.

The pattern also matches in `\\\\x`, an escaped backslash before a letter. Data with such a text are then
searched in full for nothing.
"""


def may_contain_secret(text: str, needles: tuple[str, ...]) -> bool:
    """Return True if a line of JSON may hold a known secret or announce a mask.

    `needles` are the spellings of known secrets. Also return True if the line has invisible characters: a
    secret with such a character in it is not found by its spellings. Patterns of tokens are not searched for.
    """
    return (
        has_invisible_characters(text)
        or ("\\" in text and _INVISIBLE_ESCAPE.search(text) is not None)
        or may_announce(text)
        or any(needle in text for needle in _escape_needles(needles))
    )


def has_invisible_characters(line: str) -> bool:
    """Return True if a line of JSON holds an unescaped invisible character; escapes are not decoded."""
    # Among ASCII characters, only DEL is possible: JSON escapes all other control characters.
    return "\x7f" in line if line.isascii() else strip_invisible(line) != line


@lru_cache(maxsize=4)
def _escape_needles(needles: tuple[str, ...]) -> tuple[str, ...]:
    """Return the needles and their JSON-escaped forms, because a text may itself hold escaped JSON."""
    escaped = (json.dumps(needle, ensure_ascii=False)[1:-1] for needle in needles)
    return tuple(dict.fromkeys((*needles, *escaped)))


class JsonPrefilter:
    """A quick check of compact JSON for known secrets, patterns of secrets and `add-mask` commands."""

    def __init__(self, needles: tuple[str, ...]) -> None:
        # Two searches: with one, the engine would create its states again for each id of random letters.
        self._has_encoded = _compile("|".join(_iter_encoded()))
        self._matches = _compile("|".join(_iter_expressions(needles)))

    def is_clean(self, text: bytes) -> bool:
        """Return True if a JSON text in UTF-8 certainly holds no secret; False if it may hold a secret.

        The JSON must have escapes only for quotes, backslashes and control characters.
        """
        hides = b"\x7f" in text if text.isascii() else has_invisible_characters(text.decode())
        if hides or self._has_encoded(text) or self._matches(text):
            return False
        # The depth is at most the number of opening brackets, so it is computed only if there are many.
        return text.count(b"[") + text.count(b"{") <= _MAX_SHALLOW_BRACKETS or not _is_deep(text)


def _is_deep(text: bytes) -> bool:
    """Return True if a JSON text has more than 150 levels, and False if it has at most 75.

    For 76 to 150 levels, the result may be True or False. The text must have no escaped backslashes, which
    would be misread here; for such texts `is_clean` does not call this function.
    """
    structure = "".join(text.decode().replace('\\"', "").split('"')[::2])
    brackets = "".join([character for character in structure if character in "[]{}"])
    for _ in range(_LEVELS):
        if not brackets:
            return False
        brackets = brackets.replace("[]", "").replace("{}", "")
    return True


def _compile(expression: str) -> Callable[[bytes], bool]:
    """Return a function that returns True if an expression matches anywhere in a text in UTF-8.

    If the expression is too large for the engine, the returned function returns True for every text.
    """
    from pydantic_core import SchemaError, SchemaValidator

    try:
        return SchemaValidator(
            {"type": "str", "pattern": expression, "regex_engine": "rust-regex"}
        ).isinstance_python
    except SchemaError:  # there are too many secrets for the engine
        return lambda _: True


# --- the expression -----------------------------------------------------------------------------------------


_MOST_REPEATED = 16
"""Maximum repetition count in an expression. The engine takes time and memory for each repetition."""
_SIGNS_ALONE = (PRIVATE_KEY, "private_key_id")
"""Signs that are searched for without their patterns: the patterns match escaped line ends or tabs."""
_MARK = r"(?:…|\.\.\.)"
_BLANK = r"(?:[ \t]|\\t)"
_QUOTES = r"[\\\"'`]*"
_LETTER = r"[A-Za-z\x{80}-\x{10FFFF}]"
_NO_LETTER = VALUE_CHARACTER.replace("[^", r"[^A-Za-z\-_./:")
_MIXED = (
    rf"{VALUE_CHARACTER}*(?:{_LETTER}{VALUE_CHARACTER}*{_NO_LETTER}|{_NO_LETTER}{VALUE_CHARACTER}*{_LETTER})"
)
_BASE64 = r"A-Za-z0-9+/_\-"


def _iter_expressions(needles: tuple[str, ...]) -> Iterator[str]:
    yield from (
        r"\\[^nt\"]",  # escapes that may hide a secret
        r"\\.[^\"\\]*\":",  # a key with an escape
        r"(?i:add-mask)",
        r"%[0-9A-Fa-f]{2}",
        *_SIGNS_ALONE,
        *(widen_pattern(shape) for sign, shape in SHAPES.items() if sign not in _SIGNS_ALONE),
        widen_pattern(CREDENTIAL_START) + _MARK,
    )
    yield from _iter_labels()
    yield from dict.fromkeys(map(_build_needle, needles))


def _iter_encoded() -> Iterator[str]:
    """Yield expressions that together match every base64 text that may be a token.

    A base64 text may be a token if it has at least 20 characters, with upper-case and lower-case letters. The
    expressions also match some other words.
    """
    # One expression for each position of the first capital letter: the engine then needs few states for an
    # id of random letters.
    start, small, last = rf"(?:^|[^{_BASE64}])", r"a-z0-9+/_\-", SHORTEST_ENCODED - 1
    yield from (rf"{start}[{small}]{{{before}}}[A-Z][{_BASE64}]{{{last - before}}}" for before in range(last))
    yield rf"{start}[{small}]{{{last},}}[A-Z]"
    yield r"[A-Za-z0-9+/]{56}\\n"  # a line of a longer text


def widen_pattern(pattern: str) -> str:
    """Return `pattern` without lookarounds and upper limits of repetitions, for a fast regex engine.

    The result matches wherever `pattern` matches, and in more places.
    """
    wide = re.sub(r"\(\?<![^()]*\)", "", pattern).replace("(?<=", "(?:")
    wide = re.sub(r"\(\?[=!](?:[^()]|\([^()]*\))*\)", "", wide)
    wide = re.sub(r"\{(\d+),\d+\}", lambda least: f"{{{min(int(least[1]), _MOST_REPEATED)},}}", wide)
    return re.sub(r"\\d\{\d+,\}", r"\\d+", wide)


def _iter_labels() -> Iterator[str]:
    """Yield expressions that match a secret after a label such as `password`, and secrets in requests.

    The label may be in a text, or be the JSON key of the secret. Secrets in requests are passwords and
    signatures in URLs, values after `Bearer` or `Basic`, and passwords in curl's options.
    """
    labels, schemes = "|".join(LABELS), "|".join(SCHEMES)
    named_value = rf",?{_BLANK}*{_QUOTES}(?i:value){_QUOTES}{_BLANK}*[:=]"
    separator = rf"{_QUOTES}{_BLANK}*(?:=>|[:=]=?|>|(?i:u003d)|{named_value}){_BLANK}*"
    yield (
        rf"(?i:{labels})(?i:orization|s|\d+|[_-][^\s\"]*)?{separator}"
        rf"(?i:[bfru]*){_QUOTES}(?:(?i:{schemes}){_BLANK}+)?{_MIXED}"
    )
    yield rf"--[A-Za-z0-9_.\-]*(?i:{labels})"
    yield rf"(?i:(?:bearer|basic){_BLANK}+[a-z0-9+/=_.~\-]{{16}})"
    yield r"://[^\s/?#:@\"'<>]*:[^\s/?#@\"'<>]{3,}@"
    yield r"(?i:https?)://[^\s/?#:@\"'<>]{16,}(?::[^\s/?#@\"'<>]*)?@"
    yield r"[?&]sig="
    yield r"(?:-u|--user)[ =]?[\\\"']*[^\s:\"']*:[^\s\"']{3}"
    # In camel case, a word begins with a capital after a small letter or a digit, and ends before a capital.
    inner = "|".join(f"{word[0].upper()}(?i:{word[1:]})" for word in NAMING_WORDS.split("|"))
    word = rf"(?:[\"_.\- ](?i:{NAMING_WORDS})|[a-z0-9](?:{inner}))(?i:s?)\d*(?:[_.\- A-Z][^\"]*)?"
    yield (
        rf"(?:{word}|(?i:{widen_pattern(NAMING_PARTS)})[^\"]*)\":"
        rf"(?:\[|\"(?:(?i:{schemes}) )?[^\s\"]*[^\sA-Za-z\-_./:\"])"
    )


_LONGEST_START = 32
_FEWEST = 6


def _build_needle(needle: str) -> str:
    """Return an expression that matches a known secret in JSON, whole or cut by `…` or `...`.

    `needle` is a spelling of the secret.
    """
    # The first 32 characters of a needle are enough, because a text that they match is searched in full.
    start = _escape(needle[:_LONGEST_START])
    half = max(_FEWEST, (len(needle) + 1) // 2)
    return start if half >= _LONGEST_START else rf"{start}|{_escape(needle[:half])}.*{_MARK}"


def _escape(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="replace").decode()
    return "".join([f"\\x{{{ord(character):x}}}" for character in written])
