"""Decode parts of a text in base64 or URL encoding, and list the spellings of a secret in other formats."""

import base64
import binascii
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias
from urllib.parse import quote, quote_plus, unquote_to_bytes

from evalgate.core.frozen import frozen
from evalgate.core.lazy_pattern import compile_lazily

TextSpan: TypeAlias = tuple[int, int]
"""Start and end (exclusive) of a part of a text, in characters."""


SHORTEST_ENCODED = 20
"""Minimum length of a base64 text to decode. 20 characters encode 15 bytes, the length of a short token."""

_ESCAPE = compile_lazily(r"%[0-9A-Fa-f]{2}")
_ESCAPED_WORD = compile_lazily(r"[^\s%]*+(?:%[0-9A-Fa-f]{2}[^\s%]*+)++")
_BASE64 = re.compile(rf"[A-Za-z0-9+/_\-]{{{SHORTEST_ENCODED},}}+")
_LINE_END = r"(?:\r?\n|\\r\\n|\\n)[ \t]*+"
_SHORTEST_LINE = 56
_WRAPPED = compile_lazily(
    rf"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{{{_SHORTEST_LINE},80}}+{_LINE_END})++[A-Za-z0-9+/]*+"
)
"""Pattern of base64 text on several lines, as mail programs and the command `base64` wrap it."""
_BREAK = compile_lazily(_LINE_END)
_URL_SAFE = str.maketrans("-_", "+/")
_BLANKED = bytes(byte if 0x21 <= byte <= 0x7E else 0x20 for byte in range(256))
_SHORTEST_DECODED = 15
_GROUP = 4


@frozen
class DecodedPart:
    """A decoded part of a text. Each decoded byte is one Latin-1 character of `text`."""

    text: str
    locate: Callable[[TextSpan], TextSpan]
    """Function that maps a span of the decoded `text` to its span in the original text."""


def decode_parts(text: str, words: Iterable[str]) -> Iterator[DecodedPart]:
    """Decode each part of `text` that may be a token in base64 or with URL escapes.

    `words` are the distinct words of `text`, separated by white space; those of fewer than 20 characters may
    be left out. The time is linear in the length of `text`.
    """
    if "%" in text:
        yield from (_decode_url(match) for match in _ESCAPED_WORD.finditer(text))
    # Base64 has no white space, and prose has few words that are as long. To look only at long words is
    # several times faster than to try the patterns at every character.
    long = [word for word in words if len(word) >= SHORTEST_ENCODED]
    encoded = {word for word in long if any(map(_may_encode_token, _BASE64.findall(word)))}
    end = 0
    for word in text.split() if encoded else ():
        if len(word) < SHORTEST_ENCODED:
            continue
        start = text.index(word, end)
        end = start + len(word)
        for match in _BASE64.finditer(text, start, end) if word in encoded else ():
            if _may_encode_token(match[0]):
                yield from _decode_base64(match[0], range(*match.span()))
    if max(map(len, long), default=0) >= _SHORTEST_LINE and ("\n" in text or "\\n" in text):
        for match in _WRAPPED.finditer(text):
            yield from _decode_wrapped(match)


def _may_encode_token(run: str) -> bool:
    """Return True if `run`, a text of base64 characters, may be a token in base64.

    Return False if all letters have the same case, or if there are only digits. Words, numbers and
    hexadecimal digests have this form and are frequent, but no token in base64 has this form.
    """
    return not (run.islower() or run.isupper() or run.isdigit())


def _decode_url(match: re.Match[str]) -> DecodedPart:
    word, begin = match[0], match.start()
    decoded = unquote_to_bytes(word.encode("latin-1", "replace")).decode("latin-1")

    def locate(span: TextSpan) -> TextSpan:
        positions: list[int] = []
        done = 0
        for escape in _ESCAPE.finditer(word):
            positions += range(done, escape.start() + 1)
            done = escape.end()
        positions += range(done, len(word) + 1)
        return begin + positions[span[0]], begin + positions[span[1]]

    return DecodedPart(decoded, locate)


def _decode_base64(run: str, positions: Sequence[int]) -> Iterator[DecodedPart]:
    """Decode a base64 text four times: from its first, second, third and fourth character on.

    Base64 is decoded in groups of four characters, and `run` may begin with some characters of other text. So
    one of the four results is right, however many such characters there are. Yield only results that have a
    word of at least 15 characters. `positions` has the position of each character of `run` in the whole text.
    """
    run = run.translate(_URL_SAFE)
    for skipped in range(_GROUP):
        rest = run[skipped:]
        # A single character after the last whole group encodes no byte. Two or three may lack their padding.
        rest = rest[: len(rest) - (len(rest) % _GROUP == 1)]
        try:
            decoded = binascii.a2b_base64(rest + "=" * (-len(rest) % _GROUP))
        except binascii.Error:
            continue
        # Decoded bytes that are no text, such as an image, have no word that is as long as a token.
        if max(map(len, decoded.translate(_BLANKED).split()), default=0) >= _SHORTEST_DECODED:
            yield DecodedPart(
                decoded.decode("latin-1"), _create_locator(positions[skipped : skipped + len(rest)])
            )


def _decode_wrapped(match: re.Match[str]) -> Iterator[DecodedPart]:
    positions: list[int] = []
    done = match.start()
    for line_end in _BREAK.finditer(match.string, match.start(), match.end()):
        positions += range(done, line_end.start())
        done = line_end.end()
    positions += range(done, match.end())
    yield from _decode_base64("".join([match.string[position] for position in positions]), positions)


def _create_locator(positions: Sequence[int]) -> Callable[[TextSpan], TextSpan]:
    def locate(span: TextSpan) -> TextSpan:
        first, last = span[0] * 8 // 6, min(len(positions), -(-span[1] * 8 // 6)) - 1
        return positions[first], positions[last] + 1

    return locate


_MIN_BASE64_LENGTH = 7
"""Minimum length of a secret's base64 spelling. Shorter spellings would also occur in other text."""


def iter_spellings(secret: str) -> Iterator[str]:
    """Yield the secret itself, and its spellings in JSON, JSON in JSON, Python's repr, URLs, HTML and base64.

    The same spelling may be yielded twice.
    """
    yield secret
    yield from _iter_literals(secret)
    yield from _iter_url_forms(secret)
    yield html.escape(secret)
    yield html.escape(secret, quote=False)
    if "\n" not in secret:
        yield from _iter_base64_forms(secret)
    else:
        yield base64.b64encode(_encode_utf8(secret)).decode()
        yield base64.b64encode(_encode_utf8(f"{secret}\n")).decode()


def _iter_literals(secret: str) -> Iterator[str]:
    for escaped in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield escaped
        yield escaped.replace("/", "\\/")
        yield json.dumps(escaped, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield ascii(secret)[1:-1]
    yield repr(_encode_utf8(secret))[2:-1]


def _iter_url_forms(secret: str) -> Iterator[str]:
    for quoted in (
        quote(secret, safe="", errors="replace"),
        quote(secret, errors="replace"),
        quote_plus(secret, errors="replace"),
    ):
        yield quoted
        # Python writes escapes in upper case (`%2F`), other programs write them in lower case.
        yield _ESCAPE.sub(lambda escape: escape[0].lower(), quoted)


def _iter_base64_forms(secret: str) -> Iterator[str]:
    """Yield the texts that may stand for a secret within the base64 of a longer text.

    Base64 encodes groups of three bytes, so there are three such texts: one for each position of the secret's
    first byte in its group. Each text is yielded in both base64 alphabets. Characters at both ends that also
    encode neighbouring bytes are left out. Texts of fewer than `_MIN_BASE64_LENGTH` characters are skipped.
    """
    data = _encode_utf8(secret)
    for before in range(3):
        first, end = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        core = base64.b64encode(b"\0" * before + data).decode()[first:end]
        if len(core) >= _MIN_BASE64_LENGTH:
            yield core
            yield core.translate({ord("+"): "-", ord("/"): "_"})


def _encode_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
