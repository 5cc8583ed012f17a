"""How one secret is spelt in different kinds of text."""

import base64
import html
import json
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

_LEAST_BASE64 = 7
"""Characters of base64 that stand for a secret alone, whatever is encoded around it."""


def spellings(secret: str) -> Iterator[str]:
    """The secret itself, and as JSON, in JSON inside JSON, as Python's repr, in URLs, HTML and base64.

    May name one spelling twice.
    """
    yield secret
    yield from _in_literals(secret)
    yield from _in_urls(secret)
    yield html.escape(secret)
    yield html.escape(secret, quote=False)
    if "\n" not in secret:
        yield from _in_base64(secret)
    else:
        yield base64.b64encode(_utf8(secret)).decode()
        yield base64.b64encode(_utf8(f"{secret}\n")).decode()


def _in_literals(secret: str) -> Iterator[str]:
    for escaped in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield escaped
        yield escaped.replace("/", "\\/")
        yield json.dumps(escaped, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield ascii(secret)[1:-1]
    yield repr(_utf8(secret))[2:-1]


def _in_urls(secret: str) -> Iterator[str]:
    for written in (
        quote(secret, safe="", errors="replace"),
        quote(secret, errors="replace"),
        quote_plus(secret, errors="replace"),
    ):
        yield written
        yield _lower_escapes(written)


def _lower_escapes(written: str) -> str:
    head, *rest = written.split("%")
    return head + "".join(f"%{piece[:2].lower()}{piece[2:]}" for piece in rest)


def _in_base64(secret: str) -> Iterator[str]:
    """The characters that its bytes alone decide, at each place where it can start in a group of three."""
    data = _utf8(secret)
    for before in range(3):
        first, end = -(-before * 8 // 6), (before + len(data)) * 8 // 6
        core = base64.b64encode(b"\0" * before + data).decode()[first:end]
        if len(core) >= _LEAST_BASE64:
            yield core
            yield core.translate({ord("+"): "-", ord("/"): "_"})


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
