"""Which values of an environment are secrets: those under names that say so, and passwords in URLs."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from evalgate.redaction.ordinary import is_column, is_ordinary, names_a_bare_key

_SECRET_WORD = re.compile(
    r"(?:^|[_.\- ])(?:key|auth|pass|pwd|pat|dsn|jwt|cookie|bearer|salt|otp)s?\d*(?=$|[_.\- ])"
    r"|token(?!iz)|secret|passw(?:or)?d|passphrase|credential|authorization"
    r"|(?:api|access|private|account|signing|encryption|master)[_-]?key|webhook"
)
_NO_SECRET = re.compile(
    r"(?:^|[_-])(?:public|cache|max|num|min)(?:$|[_-])"
    r"|[_-](?:file|path|dir|sock|home|name|type|mode|method|provider|enabled|count|limit|length|size|ttl|expiry"
    r"|region|algorithm|version|host|port|user|username|id|email|scheme|scope|scopes|issuer|audience)$"
)
_KEYS_NAME = re.compile(r"private[_-]?key[_-]?id$")
"""Ends in `id`, and is one half of what a Google service account signs with."""
_SENTRY_KEY = re.compile(r"[0-9a-f]{32}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_SPECIFIC_KEY = re.compile(r"(?:api|access|private|account|signing|encryption|master)[_-]?keys?\d*$")
_LAST_WORD = re.compile(r"[^_.\- ]*$")
_NUMBER = re.compile(r"[\d.,:+\-_/ ]{1,12}")
_FOLDERS = (
    "app bin data dev etc github home lib mnt opt private proc root run srv tmp usr Users var workspace"
)
_PATH = re.compile(rf"(?:~|\.{{1,2}}|/(?:{_FOLDERS.replace(' ', '|')})|[A-Za-z]:[\\/][\w .]+)(?:[\\/]|$)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{1,20}://")

_WORKING_FOLDERS = ("PWD", "OLDPWD")  # a shell's, and no passwords
_SHORTEST = 6
_SHORTEST_WORD = 8


def secrets_in(environ: Mapping[str, str]) -> Iterator[str]:
    """The values to hide; what is too short or too common to be told from ordinary text is left out."""
    for name, value in environ.items():
        if name not in _WORKING_FOLDERS:
            yield from _secrets(name, value.strip())


@lru_cache(maxsize=4096)
def names_a_secret(name: str) -> bool:
    """Whether a variable or key of this name holds a secret: `GITHUB_TOKEN`, `dbPassword`, `X-Api-Key`."""
    words = _CAMEL.sub("_", name).lower()
    if _KEYS_NAME.search(words):
        return True
    return bool(_SECRET_WORD.search(words)) and not _NO_SECRET.search(words)


def worth_hiding(value: str) -> bool:
    """Return True if a value is so long and rare that to hide it everywhere harms no other text.

    Words that are listed in `evalgate.redaction.ordinary` stay visible under any name.
    """
    if len(value) < _SHORTEST or len(set(value)) < 4 or "***" in value:
        return False
    if is_ordinary(value) or (value.isalpha() and len(value) < _SHORTEST_WORD):
        return False
    return not (_NUMBER.fullmatch(value) or _PATH.match(value))


def _secrets(name: str, value: str) -> Iterator[str]:
    if _URL.match(value):
        yield from _secrets_in_url(name, value)
    elif names_a_secret(name) and worth_hiding(value) and not _is_column_under(name, value):
        yield value
        yield from _parts(value)
    elif value[:1] == "{":
        yield from _leaves(value)


def _is_column_under(name: str, value: str) -> bool:
    """Return True for `SORT_KEY=shipment_ref_id`; what `API_KEY` or `DB_PASSWORD` hold is no column."""
    words = _CAMEL.sub("_", name).lower()
    if not names_a_bare_key(words) or _SECRET_WORD.search(_LAST_WORD.sub("", words) + "_"):
        return False
    return not _SPECIFIC_KEY.search(words) and is_column(value)


def _secrets_in_url(name: str, value: str) -> Iterator[str]:
    try:
        parts = urlsplit(value)
        user, password = parts.username or "", parts.password or ""
    except ValueError:
        user, password = "", ""
    if _SENTRY_KEY.fullmatch(user):
        yield user
    for spelling in dict.fromkeys((password, unquote(password))):
        if worth_hiding(spelling):
            yield spelling
    if names_a_secret(name) and ("webhook" in name.lower() or "dsn" in name.lower()):
        yield value


def _parts(value: str) -> Iterator[str]:
    """What to hide when only a part of it is shown: the lines of a key, the secrets of a JSON document."""
    if value[0] in "{[":
        yield from _leaves(value)
    elif "\n" in value:
        lines = (line.strip() for line in value.splitlines())
        yield from (line for line in lines if not line.startswith("-----") and worth_hiding(line))


def _leaves(value: str) -> Iterator[str]:
    try:
        todo: list[tuple[str, object]] = [("", json.loads(value))]
    except (ValueError, RecursionError):
        return
    while todo:
        name, node = todo.pop()
        if isinstance(node, dict):
            todo += node.items()
        elif isinstance(node, list):
            todo += [(name, item) for item in node]
        elif isinstance(node, str):
            yield from _secrets(name, node.strip())
