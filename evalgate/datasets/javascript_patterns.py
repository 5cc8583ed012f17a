"""Translate regular expressions of JavaScript to RE2's syntax, with the same meaning.

One difference remains, to keep patterns readable: in RE2, `.` also matches CR, U+2028 and U+2029.
"""

import re

# The same characters as JavaScript's `\s`; RE2's `\s` knows those of ASCII only.
_BLANKS = r"\s\v\p{Z}\x{FEFF}"
_TOKEN = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)|(\(\?)|(.)", re.DOTALL)
_SAME = frozenset("bBdDwWnrtvf0x")
_GROUPS = ("(?:", "(?=", "(?!", "(?<")


class UnknownPatternError(ValueError):
    """Error for a pattern that is wrong, or that RE2 cannot express; the text names the unsuitable part."""


def translate_pattern(pattern: str) -> str:
    """Return an equivalent pattern for RE2.

    Look-around and back-references are not translated; RE2 rejects them when it compiles the result.

    Raises:
        UnknownPatternError: any other part of the pattern has no equivalent in RE2.
    """
    found: list[str] = []
    is_in_class = False
    for match in _TOKEN.finditer(pattern):
        code, escaped, group, character = match.groups()
        if code:
            found.append(rf"\x{{{code}}}")
        elif escaped:
            found.append(_translate_escape(escaped, pattern, is_in_class=is_in_class))
        elif group and not is_in_class:
            if not pattern.startswith(_GROUPS, match.start()):
                raise UnknownPatternError("with flags in the pattern, which JavaScript does not read")
            found.append(group)
        elif character == "[" and not is_in_class:
            if re.match(r"\[\^?\]", pattern[match.start() :]):
                raise UnknownPatternError("with an empty class")
            is_in_class = True
            found.append(character)
        elif character == "[":
            found.append(r"\[")
        elif character == "]":
            found.append(character if is_in_class else r"\]")
            is_in_class = False
        else:
            found.append(group or character)
    return "".join(found)


def _translate_escape(letter: str, pattern: str, *, is_in_class: bool) -> str:
    if letter == "s":
        return _BLANKS if is_in_class else f"[{_BLANKS}]"
    if letter == "S":
        if is_in_class and not re.search(r"\[(?:\\s\\S|\\S\\s)\]", pattern):
            raise UnknownPatternError(r"with `\S` in a class")
        return r"\S" if is_in_class else f"[^{_BLANKS}]"
    if letter in "uck" or (letter == "b" and is_in_class):
        raise UnknownPatternError(rf"with `\{letter}`")
    if letter in _SAME or letter.isdigit():
        return f"\\{letter}"
    return letter if letter.isalpha() else re.escape(letter)
