"""Values that are ordinary words although a variable such as `SORT_KEY` or `DB_PASSWORD` holds them.

To hide `postgres` or `order_id` everywhere would make reports unreadable and protect nothing. The rule has
no statistics in it. A value stays visible only if it is one or two words of the lists below, a few words
that stand in for a secret, or the name of a column in a variable whose name ends in `key` and says no more.
A value with a digit and one with a word that is not listed are hidden as before: a list that is too short
hides too much, and a passphrase of several words stays hidden.
"""

import re

_STAND_INS = (
    "absent anonymous anthropic any api auth bar changeme credential credentials default demo disabled "
    "dummy empty enabled example fake false foo here ignored key keyless local localhost me missing mock "
    "needed nil no none not null off on open openai optional passwd password placeholder private public "
    "replace required sample secret set some stub test testing tests token true undefined unknown unset "
    "unused used value yes your"
)
"""Of what is written where no secret is needed, such as `not-needed` and `your-api-key-here`."""
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
"""Of servers, accounts and environments."""
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
"""Of columns and fields."""
_REPLACING = frozenset(_STAND_INS.split())
_LISTED = frozenset(f"{_STAND_INS} {_SERVICES} {_FIELDS}".split())
_COLUMN = re.compile(
    r"[a-z]{2,15}(?:_[a-z]{2,15}){0,3}"
    r"_(?:id|ids|at|by|on|no|name|code|type|date|time|uuid|slug|key)"
)
_PARTS = re.compile(r"[-_./: ]+|(?<=[a-z])(?=[A-Z])")
_MOST_PARTS = 2

_BARE_KEY = re.compile(r"(?:^|[_.\- ])keys?\d*$")
"""The end of a name that says only that it is some key: of a sort, a partition, a cache."""


def is_ordinary(value: str) -> bool:
    """Return True if a value is made of few and listed words only, and so is no secret under any name."""
    parts = [part for part in _PARTS.split(value) if part]
    listed = _LISTED if len(parts) <= _MOST_PARTS else _REPLACING
    return bool(parts) and all(part.lower() in listed for part in parts)


def is_column(value: str) -> bool:
    """Return True if a value looks like the name of a column, such as `shipment_ref_id`."""
    return _COLUMN.fullmatch(value) is not None


def names_a_bare_key(words: str) -> bool:
    """Return True if a name in snake case ends in `key` and says nothing about what it opens."""
    return _BARE_KEY.search(words) is not None
