"""Translate regular expressions of Python to RE2's syntax, with the same meaning."""

import re
import warnings

from evalgate.datasets.javascript_patterns import UnknownPatternError

_BLANKS = r"\s\v\x{1C}-\x{1F}\x{85}\p{Z}"
_CLASSES = {"d": r"\p{Nd}", "w": r"\p{L}\p{N}_", "s": _BLANKS}
"""Letter of a class such as `\\d` to the characters of this class in Python, in RE2's syntax.

In RE2, `\\d`, `\\w` and `\\s` match only ASCII characters.
"""
_TOKEN = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)|\{,(\d*)\}|(.)", re.DOTALL)
_SAME = frozenset("nrtvfaxA")


def translate_full_match(pattern: str, *, ignore_case: bool = False) -> str:
    r"""Return an RE2 pattern that accepts the same texts as `fullmatch` of Python's `re`.

    The pattern also accepts these texts with additional blanks before or after them. Look-around and
    references to named groups are not translated; RE2 rejects them when it compiles the result.

    Raises:
        UnknownPatternError: Python's `re` rejects the pattern, or a part such as `\1` has no form in RE2.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UnknownPatternError(f"with a pattern that Python does not read: {error}") from None
    flags = re.match(r"\(\?([a-zA-Z]+)\)", pattern)
    if flags and set(flags[1]) - set("ims"):
        raise UnknownPatternError(f"with the flags `{flags[1]}`")
    letters = "".join(dict.fromkeys((flags[1] if flags else "") + ("i" if ignore_case else "")))
    found = _translate(pattern[flags.end() :] if flags else pattern)
    return f"{rf'(?{letters})' if letters else ''}\\A[{_BLANKS}]*(?:{found})[{_BLANKS}]*\\z"


def _translate(pattern: str) -> str:
    found: list[str] = []
    is_in_class = False
    for match in _TOKEN.finditer(pattern):
        code, escaped, most, character = match.groups()
        if code:
            found.append(rf"\x{{{code}}}")
        elif escaped:
            found.append(_translate_escape(escaped, is_in_class=is_in_class))
        elif most is not None and not is_in_class:
            found.append(f"{{0,{most}}}")
        elif character == "[" and is_in_class:
            found.append(r"\[")
        elif character == "]" and found and found[-1] in {"[", "[^"}:
            found.append(r"\]")  # a literal at the beginning of a class
        elif character == "^" and is_in_class and found[-1] == "[":
            found[-1] = "[^"
        else:
            is_in_class = (is_in_class or character == "[") and character != "]"
            found.append(character or match[0])
    return "".join(found)


def _translate_escape(letter: str, *, is_in_class: bool) -> str:
    if letter in _CLASSES:
        return _CLASSES[letter] if is_in_class else f"[{_CLASSES[letter]}]"
    if letter.lower() in _CLASSES and not is_in_class:
        return f"[^{_CLASSES[letter.lower()]}]"
    if letter == "Z":
        return r"\z"
    if letter in _SAME and not (letter == "A" and is_in_class):
        return f"\\{letter}"
    if letter.isalnum():
        raise UnknownPatternError(rf"with `\{letter}`")
    return re.escape(letter)
