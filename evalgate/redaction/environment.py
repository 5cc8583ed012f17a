"""Find secrets in environment variables and `::add-mask::` lines, and distinguish them from ordinary words.

Redacting `postgres` or `order_id` everywhere would make reports unreadable and protect nothing. So ordinary
words are recognized by lists and patterns, without statistics. Short values, numbers and paths stay visible.
In a URL, only the password, Sentry's key or a token as user name is redacted. If the variable has the name of
a secret with `webhook` or `dsn` in it, the whole URL is redacted, too.

Any other value of a variable with the name of a secret is redacted, with three exceptions:

- A value of one or two words of the lists below. If a list lacks a word, too much is redacted.
- A value that consists only of placeholder words, however many.
- A value that looks like a column name, if the name of the variable ends in a bare `key`, as `SORT_KEY`.
"""

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import unquote, urlsplit

from evalgate.core.lazy_pattern import compile_lazily

_ANNOUNCEMENT = compile_lazily(r"(?im)^[^\S\n]*::add-mask[^:\n]*::([^\r\n]+)|##\[add-mask[^]\n]*\]([^\r\n]+)")
_ESCAPES = (("%0D", "\r"), ("%0A", "\n"), ("%25", "%"))


def may_announce(text: str) -> bool:
    """Return True if a text may hold an `::add-mask::` line, which announces a secret to a CI runner."""
    return "add-mask" in text.lower()


def find_announced_masks(text: str) -> Iterator[str]:
    """Yield the values of `::add-mask::` and `##[add-mask]` lines, decoded as by GitHub's runner."""
    if not may_announce(text):
        return
    for match in _ANNOUNCEMENT.finditer(text):
        value = match[1] or match[2]
        for escape, character in _ESCAPES:
            value = value.replace(escape, character)
        yield value.strip()


_PLACEHOLDERS = (
    "absent anonymous anthropic any api auth bar changeme credential credentials default demo disabled "
    "dummy empty enabled example fake false foo here ignored key keyless local localhost me missing mock "
    "needed nil no none not null off on open openai optional passwd password placeholder private public "
    "replace required sample secret set some stub test testing tests token true undefined unknown unset "
    "unused used value yes your"
)
"""Placeholder words: values such as `not-needed` and `your-api-key-here` consist of these."""
_SERVICES = (
    "admin administrator agent amazon app application aws azure backend bedrock bucket cache celery "
    "client cloud cluster cohere consul database db deepseek developer development docker elastic "
    "elasticsearch frontend gateway gemini github gitlab google grafana groq guest host http https index "
    "jenkins kafka keycloak kubernetes llama llamacpp llm lm localstack mariadb master memcached minio "
    "mistral mongo mongodb mysql nginx node ollama only operator oracle postgres postgresql prod "
    "production prometheus proxy queue rabbitmq ray read readonly redis replica root router schema server "
    "service services sqlite stage staging studio supabase superuser system task topic user username "
    "vault vertex vllm web worker write"
)
"""Names of servers, accounts and environments."""
_FIELDS = (
    "account action address age amount article asset at author batch birthday body booking brand buyer by "
    "campaign card cart case category channel city code color comment company composite content context "
    "conversation cost count country created creation currency customer data dataset date day delivery "
    "department description device document domain email employee end entity entry environment event "
    "expires field file filter first flag folder foreign format full group hash header hour id identifier "
    "image input integer invoice item job kind label language last length level line link list location "
    "log login media member merchant message metadata method metric minute mode model modified month name "
    "namespace natural note number object offset option order organization output owner page parent part "
    "partition path payment person phone plan position post postcode price primary priority process "
    "product profile project property provider purchase quantity query question range rank rating record "
    "ref reference region release request resource response result role room row run sales score search "
    "second secondary section seller sequence session shard shipment sid size slug sort source start "
    "state status step stock store street string subject subscription supplier surrogate tag target team "
    "template tenant text thread ticket time timestamp title total trace transaction type unit update "
    "updated url uuid vendor version view visit warehouse week weight workflow workspace year zip zone"
)
"""Words in the names of columns and fields."""
_PLACEHOLDER_WORDS = frozenset(_PLACEHOLDERS.split())
_LISTED = frozenset(f"{_PLACEHOLDERS} {_SERVICES} {_FIELDS}".split())
_COLUMN = compile_lazily(
    r"[a-z]{2,15}(?:_[a-z]{2,15}){0,3}"
    r"_(?:id|ids|at|by|on|no|name|code|type|date|time|uuid|slug|key)"
)
_PARTS = compile_lazily(r"[-_./: ]+|(?<=[a-z])(?=[A-Z])")
_MOST_PARTS = 2

_BARE_KEY = compile_lazily(r"(?:^|[_.\- ])keys?\d*$")
"""Pattern of the end of a name such as `SORT_KEY`. The key may be a secret, or one for sorting or caching."""


def is_ordinary(value: str) -> bool:
    """Return True if a value consists of one or two listed words, or only of placeholder words.

    Listed words are placeholders, names of services and accounts, and words in column names. A value such as
    `postgres` is no secret, even in a variable with the name of a secret.
    """
    parts = [part for part in _PARTS.split(value) if part]
    listed = _LISTED if len(parts) <= _MOST_PARTS else _PLACEHOLDER_WORDS
    return bool(parts) and all(part.lower() in listed for part in parts)


def is_column(value: str) -> bool:
    """Return True if a value looks like the name of a column, such as `shipment_ref_id`."""
    return _COLUMN.fullmatch(value) is not None


def is_bare_key_name(words: str) -> bool:
    """Return True if a name in snake case ends in the word `key` or `keys`, perhaps with a number."""
    return _BARE_KEY.search(words) is not None


NAMING_WORDS = "key|auth|pass|pwd|pat|dsn|jwt|cookie|bearer|salt|otp"
"""Regex alternatives that mark the name of a secret if they match a whole word of the name.

An `s` and a number may follow, as in `KEYS2`.
"""
NAMING_PARTS = (
    r"token(?!iz)|secret(?!ar[iy])|passw(?:or)?d(?!less)|passphrase|credential|authorization"
    r"|(?:api|access|private|account|signing|encryption|master)[_-]?key|webhook"
)
"""Regex alternatives that mark the name of a secret if they match anywhere in the name."""
_SECRET_WORD = compile_lazily(rf"(?:^|[_.\- ])(?:{NAMING_WORDS})s?\d*(?=$|[_.\- ])|{NAMING_PARTS}")
_NOT_SECRET_NAME = compile_lazily(
    r"(?:^|[_-])(?:public|cache|max|num|min)(?:$|[_-])"
    r"|[_-](?:file|path|dir|sock|home|name|type|mode|method|provider|enabled|count|limit|length|size|ttl|expiry"
    r"|region|algorithm|version|host|port|user|username|id|email|scheme|scope|scopes|issuer|audience"
    r"|status|strength|policy|attempts|usage|budget|lifetime|format|prefix|last4|amount|reason"
    r"|(?:expires|expired|expiration|issued|created|updated|changed|rotated)(?:_(?:at|in|on))?)$"
    r"|(?:^|[_-])(?:(?:next|prev|previous)_page|continuation|pagination)_token$"
)
_PRIVATE_KEY_ID = compile_lazily(r"private[_-]?key[_-]?id$")
"""Pattern of `private_key_id`, part of a Google service account's credentials: a secret in spite of `id`."""
_SENTRY_KEY = compile_lazily(r"[0-9a-f]{32}")
_CAMEL = compile_lazily(r"(?<=[a-z0-9])(?=[A-Z])")

_SPECIFIC_KEY = compile_lazily(r"(?:api|access|private|account|signing|encryption|master)[_-]?keys?\d*$")
_SECRET_LIST_NAME = compile_lazily(
    r"(?:token|secret|passw(?:or)?d|passphrase|pwd|credential|key)s?[_\- ]?\d*$"
)
"""Pattern of the end of names, such as `API_TOKENS`, of lists in which each text is a secret."""
_LAST_WORD = compile_lazily(r"[^_.\- ]*$")
_NUMBER = compile_lazily(r"[\d.,:+\-_/ ]{1,12}")
_FOLDERS = (
    "app bin data dev etc github home lib mnt opt private proc root run srv tmp usr Users var workspace"
)
_PATH = compile_lazily(rf"(?:~|\.{{1,2}}|/(?:{_FOLDERS.replace(' ', '|')})|[A-Za-z]:[\\/][\w .]+)(?:[\\/]|$)")
_URL = compile_lazily(r"[A-Za-z][A-Za-z0-9+.\-]{1,20}://")
USER_TOKEN = compile_lazily(
    r"(?i:https?)://(?=(?:[^\s\d/?#:@]{0,255}\d){3})(?P<value>[\w.~+%\-]{20,255})(?::[^\s/?#@\"'<>]{0,255})?@"
)
"""Pattern of a URL with a token as user name, perhaps with a password such as `x-oauth-basic`.

A user name counts as a token if it has at least 20 characters and three digits.
"""
_LOCATION = compile_lazily(r"(?i)[a-z][a-z0-9+.\-]{1,12}://|[a-z]:\\|[./~$%]|arn:")
_WORD_MARKS = {ord(character): None for character in "-_./:"}

_ASSIGNMENT = compile_lazily(
    r"(?m)^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][\w.\-]{0,99})[ \t]*[=:][ \t]*(?P<value>[^\s=].*)$"
)
_HEADING = compile_lazily(r"-----|\[[^\]]*\]$")
"""Pattern of a line that holds no secret: `-----BEGIN …` or `-----END …` of a key, or `[section]` in INI."""
_STRUCTURE = compile_lazily(r"(?:[^\S\n]*+(?:[;#][^\n]*+)?\n)*+[^\S\n]*+[{\[]")
"""Pattern of the start of a JSON or INI text, perhaps after blank lines and comments."""

_WORKING_FOLDERS = ("PWD", "OLDPWD")  # the shell's folders; the names look like those of passwords
_MOST_QUOTES = 3
_SHORTEST = 6
_SHORTEST_WORD = 8


def find_secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in an environment that are long and rare enough to be redacted everywhere.

    The secrets are values of variables with the name of a secret, lines of such values, passwords in URLs,
    and secrets in values that are JSON objects or lists. A secret may be yielded twice.
    """
    for name, value in environ.items():
        if name not in _WORKING_FOLDERS:
            yield from _find_value_secrets(name, value.strip())


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return True if the name of a variable or key marks its value as a secret, as `GITHUB_TOKEN` does."""
    words = _CAMEL.sub("_", name).lower()
    if _PRIVATE_KEY_ID.search(words):
        return True
    return bool(_SECRET_WORD.search(words)) and not _NOT_SECRET_NAME.search(words)


def is_worth_hiding(value: str) -> bool:
    """Return True if a value is long and rare enough to be redacted everywhere without harm to other text.

    Return False for these values:

    - values of fewer than 6 characters, or of fewer than 8 if all are letters,
    - values with fewer than 4 different characters, or with `***`,
    - numbers of at most 12 characters, and paths,
    - values for which `is_ordinary` returns True.
    """
    if len(value) < _SHORTEST or len(set(value)) < 4 or "***" in value:
        return False
    if is_ordinary(value) or (value.isalpha() and len(value) < _SHORTEST_WORD):
        return False
    return not (_NUMBER.fullmatch(value) or _PATH.match(value))


def is_mixed(value: str) -> bool:
    """Return True if a value has letters and also other characters, such as digits, so that it is no word.

    The characters `-_./:` do not count as other characters, because they may occur in words. Return False for
    values of fewer than 6 characters, paths, URLs, and values with `***`.
    """
    if len(value) < _SHORTEST or "***" in value or _LOCATION.match(value):
        return False
    return any(map(str.isalpha, value)) and not value.translate(_WORD_MARKS).isalpha()


def _find_value_secrets(name: str, value: str) -> Iterator[str]:
    """Yield the secrets in the value of the variable `name`, with and without quotes around the value.

    Some programs remove quotes around a value, others keep them. So the value is searched as it is, and again
    after each removed pair of quotes. At most three pairs are removed.
    """
    yield from _find_unstripped_secrets(name, value)
    for _ in range(_MOST_QUOTES):
        if not value or value[0] not in "'\"" or value[0] != value[-1]:
            return
        value = value[1:-1].strip()
        yield from _find_unstripped_secrets(name, value)


def _find_unstripped_secrets(name: str, value: str) -> Iterator[str]:
    """Yield the secrets in the value of the variable `name`, without removing quotes around the value."""
    if _URL.match(value):
        yield from _find_url_secrets(name, value)
    elif is_secret_name(name) and is_worth_hiding(value) and not _is_column_name(name, value):
        yield value
        yield from _iter_parts(name, value)
    elif _STRUCTURE.match(value):
        found = _parse_container(value)
        yield from _iter_assigned_secrets(value) if found is None else _iter_leaf_secrets(name, found)


def _is_column_name(name: str, value: str) -> bool:
    """Return True if a value is the name of a column, as in `SORT_KEY=shipment_ref_id`, and thus no secret.

    For a variable such as `API_KEY` or `DB_PASSWORD`, return False for every value.
    """
    words = _CAMEL.sub("_", name).lower()
    if not is_bare_key_name(words) or _SECRET_WORD.search(_LAST_WORD.sub("", words) + "_"):
        return False
    return not _SPECIFIC_KEY.search(words) and is_column(value)


def _find_url_secrets(name: str, value: str) -> Iterator[str]:
    try:
        parts = urlsplit(value)
        user, password = parts.username or "", parts.password or ""
    except ValueError:
        user, password = "", ""
    if not _SENTRY_KEY.fullmatch(user):
        token = USER_TOKEN.search(value)
        user = token["value"] if token else ""
    for spelling in dict.fromkeys((user, unquote(user), password, unquote(password))):
        if is_worth_hiding(spelling):
            yield spelling
    if is_secret_name(name) and ("webhook" in name.lower() or "dsn" in name.lower()):
        yield value


def _iter_parts(name: str, value: str) -> Iterator[str]:
    """Yield parts of a secret that a text may show without the rest, such as single lines of a private key.

    The parts of JSON are the secrets in the JSON. The parts of a text with several lines are the lines that
    are worth hiding, and the secrets in lines `NAME = VALUE`. Other values have no parts.
    """
    found = _parse_container(value)
    if found is not None:
        yield from _iter_leaf_secrets(name, found)
    elif "\n" in value:
        lines = (line.strip() for line in value.splitlines())
        yield from (line for line in lines if not _HEADING.match(line) and is_worth_hiding(line))
        yield from _iter_assigned_secrets(value)


def _iter_assigned_secrets(text: str) -> Iterator[str]:
    """Yield the secrets in the lines `NAME = VALUE` of an INI text."""
    for match in _ASSIGNMENT.finditer(text):
        yield from _find_value_secrets(match["name"], match["value"].strip("'\" \t\r"))


def _parse_container(value: str) -> object:
    """Return the value of a JSON object or list; None for any other text."""
    if value[:1] not in ("{", "["):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _iter_leaf_secrets(name: str, found: object) -> Iterator[str]:
    """Yield the secrets among the texts of the JSON document `found`. Each text is judged by its key.

    At the top level the key is `name`, the name of the variable with the document. A text in a list is judged
    by the key of the list if `_is_named_by_list` returns True for the text, else by the empty key "".
    """
    todo: list[tuple[str, object]] = [(name, found)]
    while todo:
        name, node = todo.pop()
        if isinstance(node, dict):
            todo += node.items()
        elif isinstance(node, list):
            # A list such as `WEBHOOK_EVENTS` may hold ordinary words. Their key is "", which is the name of
            # no secret.
            todo += [(name if _is_named_by_list(name, item) else "", item) for item in node]
        elif isinstance(node, str):
            yield from _find_value_secrets(name, node.strip())


def _is_named_by_list(name: str, item: object) -> bool:
    """Return True if an item of a JSON list may be a secret because of the name of the list.

    In a list with a name such as `tokens`, any item may be a secret. A list with another name, such as
    `WEBHOOK_EVENTS`, may hold ordinary words. So of its texts only URLs and texts that look like tokens may
    be secrets. For an item that is no text, such as an object, return True.
    """
    if not isinstance(item, str) or _SECRET_LIST_NAME.search(_CAMEL.sub("_", name).lower()):
        return True
    item = item.strip()
    return bool(_URL.match(item)) or (is_mixed(item) and not any(map(str.isspace, item)))
