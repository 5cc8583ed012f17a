"""Random strings beside a word that tells what they are: `password=…`, `"api_key": "…"`, `Bearer …`.

Nothing is hidden for its randomness alone: an eval set is full of digests, UUIDs and ids.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator

from evalgate.redaction.environment import names_a_secret
from evalgate.redaction.span import Span

_SIGNS = (
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "credential",
    "key",
    "token",
    "auth",
    "cookie",
)
_STRONG = re.compile(
    r"passw(?:or)?d|passphrase|pwd|secret|credential|authorization|(?:^|[_.\-])auth$"
    r"|(?:api|access|private|account|signing|shared)[_\-.]?key"
    r"|(?:access|auth|refresh|session|bearer|api|bot|id)[_\-.]?token"
)
"""Beside one of these, a value need only be no word; beside the other signs it must look random."""

_SCHEMES = ("bearer", "basic", "token", "digest")
_QUOTES = r"[\\\"'`]"
_VALUE = r"[^\s\"'`\\,;&<>{}\[\]()|]{6,2048}"
_NAMED_VALUE = rf",?[ \t]{{0,3}}{_QUOTES}{{0,6}}value{_QUOTES}{{0,6}}[ \t]{{0,3}}[:=]"
"""As in `"name": "password", "value": "…"` and `<add key="password" value="…"/>`."""
_AFTER_SIGN = re.compile(
    rf"(?i)(?P<suffix>orization|s|\d{{1,2}}|[_-][a-z0-9]{{1,12}})?{_QUOTES}{{0,6}}"
    rf"(?:[ \t]{{0,3}}(?P<separator>=>|[:=]=?|>|%3[ad]|u003d|{_NAMED_VALUE})[ \t]{{0,3}}|[ \t])"
    rf"(?:[bfru]{{0,2}}{_QUOTES}{{1,6}})?"
    rf"(?:(?:{'|'.join(_SCHEMES)})[ \t]{{1,3}})?(?P<value>{_VALUE})"
)
_SCHEME = re.compile(r"(?<![a-z])(?:bearer|basic)[ \t]{1,3}(?P<value>[a-z0-9+/=_.~\-]{16,4096})")
_USERINFO = re.compile(r"://[^\s/?#:@\"'<>]{0,80}:(?P<value>[^\s/?#@\"'<>]{3,255})@")
_SIGNATURE = re.compile(r"(?<=[?&]sig=)(?P<value>[A-Za-z0-9%+/_\-]{30,512}=*)")
_CURLS_USER = re.compile(r"(?:(?<![\w-])-u|--user)[ =]?[\"']?[^\s:\"']{0,80}:(?P<value>[^\s\"']{3,255})")
_SEPARATORS = ("=", ":", "--", ">", "%3", "u003")

_NAME_BEFORE = re.compile(r"[A-Za-z0-9_.\-]{0,40}\Z")
_LONGEST_NAME = 40
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_HEX = re.compile(r"[0-9a-fA-F\-]+")
_PLACE = re.compile(r"(?i)[a-z][a-z0-9+.\-]{1,12}://|[./~$%]|arn:")
_SHORTEST = 9
"""No less holds a word that tells, something between and a value; nor a user and password in a URL."""

_SHORT = 64
"""Characters of a value that may be a name itself, as in `key="password" value="…"`."""

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def told_by_neighbours(text: str) -> Iterator[Span]:
    """Where a value stands that the words before it call a secret. Spans may overlap."""
    if len(text) < _SHORTEST:
        return
    if "://" in text:
        yield from (span for span in _values(_USERINFO, text) if "***" not in text[slice(*span)])
    lower = _lowered(text)
    if any(separator in text for separator in _SEPARATORS):
        for sign in _SIGNS:
            if sign in lower:
                yield from _after(sign, text, lower)
        yield from _in_requests(text)
    if "bearer" in lower or "basic" in lower:
        yield from (span for span in _values(_SCHEME, lower) if _mixed(text[slice(*span)]))


def _in_requests(text: str) -> Iterator[Span]:
    """Signatures of shared addresses, and what curl is given."""
    if "sig=" in text:
        yield from _values(_SIGNATURE, text)
    if "-u" in text:
        yield from (span for span in _values(_CURLS_USER, text) if _mixed(text[slice(*span)]))


def secret_under(key: str, value: str) -> bool:
    """Whether a value in a mapping is a secret for the key that it stands under."""
    if not key or not names_a_secret(key):
        return False
    scheme, _, rest = value.partition(" ")
    if rest and scheme.lower() in _SCHEMES:
        value = rest
    return not any(map(str.isspace, value)) and _secret_named(key, value)


def _after(sign: str, text: str, lower: str) -> Iterator[Span]:
    start = lower.find(sign)
    while start >= 0:
        end = start + len(sign)
        match = _AFTER_SIGN.match(text, end)
        if match:
            value = match["value"].rstrip(".:!?")
            name = _name_before(text, start) + text[start:end] + (match["suffix"] or "")
            if (match["separator"] or name.startswith("--")) and _secret_named(name, value):
                yield match.start("value"), match.start("value") + len(value)
            # a long value is looked at once, or a line of `key=key=key=` would take long
            if match["separator"]:
                end = match.end() if len(value) > _SHORT else match.start("value")
        start = lower.find(sign, end)


def _name_before(text: str, end: int) -> str:
    found = _NAME_BEFORE.search(text[max(0, end - _LONGEST_NAME) : end])
    return found[0] if found else ""


def _secret_named(name: str, value: str) -> bool:
    if not names_a_secret(name):
        return False
    strong = _STRONG.search(_CAMEL.sub("_", name).lower())
    return _mixed(value) if strong else _random(value)


def _values(pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    return (match.span("value") for match in pattern.finditer(text))


def _mixed(value: str) -> bool:
    """No word, number, place or stand-in: letters with digits or with an unusual character."""
    if len(value) < 6 or "***" in value or _PLACE.match(value):
        return False
    return any(map(str.isalpha, value)) and not value.translate(_USUAL).isalpha()


def _random(value: str) -> bool:
    """A long mixture of cases and digits, and no digest, UUID or place."""
    if len(value) < 16 or not _mixed(value) or _HEX.fullmatch(value):
        return False
    kinds = (str.islower, str.isupper, str.isdigit)
    return all(any(map(kind, value)) for kind in kinds) and _bits(value) >= 3.5


def _bits(value: str) -> float:
    """Shannon's entropy of a character, in bits."""
    return -sum(n / len(value) * math.log2(n / len(value)) for n in Counter(value).values())


def _lowered(text: str) -> str:
    """In lower case, every character in its place."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.translate(_LOWER)


_USUAL = {ord(character): None for character in "-_./:"}
