"""The secrets that a program announces to GitHub's runner, so that it hides them in the log."""

import re
from collections.abc import Iterator

_ANNOUNCEMENT = re.compile(r"(?im)^[^\S\n]*::add-mask[^:\n]*::([^\r\n]+)|##\[add-mask[^]\n]*\]([^\r\n]+)")
_ESCAPES = (("%0D", "\r"), ("%0A", "\n"), ("%25", "%"))


def may_announce(text: str) -> bool:
    """Whether it is worth a closer look."""
    return "add-mask" in text.lower()


def announced(text: str) -> Iterator[str]:
    """The values of `::add-mask::` and `##[add-mask]` lines, as the runner reads them."""
    if not may_announce(text):
        return
    for match in _ANNOUNCEMENT.finditer(text):
        value = match[1] or match[2]
        for escape, character in _ESCAPES:
            value = value.replace(escape, character)
        yield value.strip()
