"""The parts of a text that are encoded in base64 or as in a URL, decoded, and where they stand."""

import binascii
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from evalgate.redaction.span import Span

SHORTEST_ENCODED = 20
"""Characters of base64 for the 15 of the shortest token."""

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_ESCAPED_WORD = re.compile(r"[^\s%]*+(?:%[0-9A-Fa-f]{2}[^\s%]*+)++")
_BASE64 = re.compile(rf"[A-Za-z0-9+/_\-]{{{SHORTEST_ENCODED},}}+")
_LINE_END = r"(?:\r?\n|\\r\\n|\\n)[ \t]*+"
_WRAPPED = re.compile(rf"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{{56,80}}+{_LINE_END})++[A-Za-z0-9+/]*+")
"""Lines of base64, as `base64` and mail wrap them."""
_BREAK = re.compile(_LINE_END)
_URL_SAFE = str.maketrans("-_", "+/")
_BLANKED = bytes(byte if 0x21 <= byte <= 0x7E else 0x20 for byte in range(256))
_SHORTEST_DECODED = 15
_GROUP = 4


@dataclass(frozen=True)
class DecodedPart:
    """A decoded part of a text. Bytes stand as characters of Latin-1, so that places can be told."""

    text: str
    locate: Callable[[Span], Span]
    """From a span of `text` to the span of the whole text that spells it."""


def decode_parts(text: str) -> Iterator[DecodedPart]:
    """Decode each part of `text` that is long enough for a token, in time linear in its length."""
    if "%" in text:
        yield from (_decode_url(match) for match in _ESCAPED_WORD.finditer(text))
    for match in _BASE64.finditer(text):
        run = match[0]
        # Digests and words in one case are no base64 of a token, and there are many of them.
        if not (run.islower() or run.isupper() or run.isdigit()):
            yield from _decode_base64(run, range(*match.span()))
    if "\n" in text or "\\n" in text:
        for match in _WRAPPED.finditer(text):
            yield from _decode_wrapped(match)


def _decode_url(match: re.Match[str]) -> DecodedPart:
    word, begin = match[0], match.start()
    decoded = unquote_to_bytes(word.encode("latin-1", "replace")).decode("latin-1")

    def locate(span: Span) -> Span:
        places: list[int] = []
        done = 0
        for escape in _ESCAPE.finditer(word):
            places += range(done, escape.start() + 1)
            done = escape.end()
        places += range(done, len(word) + 1)
        return begin + places[span[0]], begin + places[span[1]]

    return DecodedPart(decoded, locate)


def _decode_base64(run: str, places: Sequence[int]) -> Iterator[DecodedPart]:
    """Decode a run from each of its first four characters: it may follow others, as in `path/…` or `id-…`."""
    run = run.translate(_URL_SAFE)
    for skipped in range(_GROUP):
        rest = run[skipped:]
        # One character more than whole groups spells no byte; two or three need the padding they may lack.
        rest = rest[: len(rest) - (len(rest) % _GROUP == 1)]
        try:
            decoded = binascii.a2b_base64(rest + "=" * (-len(rest) % _GROUP))
        except binascii.Error:
            continue
        # What is no text, such as an image, has no word that is long enough for a token.
        if max(map(len, decoded.translate(_BLANKED).split()), default=0) >= _SHORTEST_DECODED:
            yield DecodedPart(decoded.decode("latin-1"), _locator(places[skipped : skipped + len(rest)]))


def _decode_wrapped(match: re.Match[str]) -> Iterator[DecodedPart]:
    places: list[int] = []
    done = match.start()
    for line_end in _BREAK.finditer(match.string, match.start(), match.end()):
        places += range(done, line_end.start())
        done = line_end.end()
    places += range(done, match.end())
    yield from _decode_base64("".join([match.string[place] for place in places]), places)


def _locator(places: Sequence[int]) -> Callable[[Span], Span]:
    def locate(span: Span) -> Span:
        first, last = span[0] * 8 // 6, min(len(places), -(-span[1] * 8 // 6)) - 1
        return places[first], places[last] + 1

    return locate
