"""The beginnings of secrets that are left where somebody shortened a text before it came here."""

import re
from collections.abc import Iterator
from itertools import takewhile

from evalgate.redaction.span import Span

_MARK = re.compile(r"…|\.\.\.")
"""What stands where a text was cut."""
_FEWEST = 6

_BEGUN = (
    # how a token begins whose maker is known, six characters with a digit among them, and the mark
    r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|gl(?:pat|cbt|rt|ptt|dt)-|[sr]k_(?:live|test)_|sk-|A[KS]IA|xox[abcdeoprs]-|xapp-|AIza"
    r"|ya29\.|GOCSPX-|eyJ|npm_|pypi-|hf_|gsk_|xai-|nvapi-|r8_|pplx-|tvly-|lsv2_|dapi|SG\.|shp(?:at|ca|pa|ss)_)"
    r"(?=[A-Za-z_.\-]{0,60}\d)[A-Za-z0-9_.\-]{6,255}?(?=…|\.\.\.)"
)


def is_cut(text: str) -> bool:
    """Whether something may have been shortened."""
    return "…" in text or "..." in text


def cut_secrets(text: str, needles: tuple[str, ...]) -> Iterator[Span]:
    """Where the first half of a needle or more, or the beginning of a token, stands before a mark."""
    yield from (match.span() for match in re.finditer(_BEGUN, text))
    for needle in needles:
        head = needle[: max(_FEWEST, (len(needle) + 1) // 2)]
        start = text.find(head)
        while start >= 0:
            end = start + _shared(needle, text[start : start + len(needle)])
            if _MARK.match(text, end):
                yield start, end
            start = text.find(head, start + len(head))


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
