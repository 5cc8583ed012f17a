"""The secrets that a program announces to GitHub's runner, so that it hides them in the log."""

import re
from collections.abc import Iterator

_ANNOUNCEMENT = re.compile(r"(?im)^[^\S\n]*::add-mask[^:\n]*::([^\r\n]+)|##\[add-mask[^]\n]*\]([^\r\n]+)")
_ESCAPES = (("%0D", "\r"), ("%0A", "\n"), ("%25", "%"))


def announced(text: str) -> Iterator[str]:
    """The values of `::add-mask::` and `##[add-mask]` lines, as the runner reads them."""
    if "add-mask" not in text.lower():
        return
    for match in _ANNOUNCEMENT.finditer(text):
        value = match[1] or match[2]
        for escape, character in _ESCAPES:
            value = value.replace(escape, character)
        yield value.strip()
