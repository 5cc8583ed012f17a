"""Marks around what an agent wrote, so that none of it can pose as a part of the prompt."""

import hashlib

_DIGITS = 16


def fence_mark(*texts: str) -> str:
    """Hexadecimal digits that none of the texts holds, always the same for the same texts.

    Whoever wrote the texts cannot close the fence: the mark depends on every character of them.
    """
    number = 0
    while True:
        found = hashlib.sha256("\0".join([str(number), *texts]).encode("utf-8", "replace")).hexdigest()
        mark = found[:_DIGITS]
        if not any(mark in text for text in texts):
            return mark
        number += 1


def indent_later_lines(text: str) -> str:
    """Return the text with blanks before each line but the first, so that none poses as a heading."""
    return "\n  ".join(text.splitlines())
