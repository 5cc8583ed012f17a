"""Find tokens, keys and labeled passwords in texts by patterns; tokens are found even if they are cut.

A text is never redacted for its randomness alone, because eval sets are full of digests, UUIDs and ids.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator
from os.path import commonprefix

from evalgate.core.lazy_pattern import compile_lazily
from evalgate.redaction.encodings import SHORTEST_ENCODED, TextSpan, decode_parts
from evalgate.redaction.environment import USER_TOKEN, is_mixed, is_secret_name

_MARK = compile_lazily(r"…|\.\.\.")
"""Pattern of the ellipsis at the place where a text was cut."""
_FEWEST = 6

CREDENTIAL_START = (
    # the prefix of a known provider, at least six characters with a digit, and the mark
    r"(?<![A-Za-z0-9])(?:gh[pousr]_|github_pat_|gl(?:pat|cbt|rt|ptt|dt)-|[sr]k_(?:live|test)_|sk-|A[KS]IA|xox[abcdeoprs]-|xapp-|AIza"
    r"|ya29\.|GOCSPX-|eyJ|npm_|pypi-|hf_|gsk_|xai-|nvapi-|r8_|pplx-|tvly-|lsv2_|dapi|SG\.|shp(?:at|ca|pa|ss)_)"
    r"(?=[A-Za-z_.\-]{0,60}\d)[A-Za-z0-9_.\-]{6,255}?(?=…|\.\.\.)"
)


def is_truncated(text: str) -> bool:
    """Return True if a text has an ellipsis (`…` or `...`), the mark of a shortened text."""
    return "…" in text or "..." in text


def find_truncated_secrets(text: str, needles: tuple[str, ...]) -> Iterator[TextSpan]:
    """Yield the span of each token or known secret that is cut off, with `…` or `...` directly after the cut.

    `needles` are the spellings of known secrets. A cut secret is found if at least half of its characters
    are left, and at least six.
    """
    yield from (match.span() for match in re.finditer(CREDENTIAL_START, text))
    for needle in needles:
        # A shorter beginning of a secret occurs too often in ordinary text.
        head = needle[: max(_FEWEST, (len(needle) + 1) // 2)]
        start = text.find(head)
        while start >= 0:
            shared = commonprefix((needle, text[start : start + len(needle)]))  # noqa: RUF071  of characters
            end = start + len(shared)
            if _MARK.match(text, end):
                yield start, end
            start = text.find(head, start + len(head))


def has_needle(text: str, needles: tuple[str, ...]) -> bool:
    """Return True if the text holds a known secret, or the start of a known secret before `…` or `...`.

    `needles` are the spellings of known secrets.
    """
    if any(needle in text for needle in needles):
        return True
    if not is_truncated(text):
        return False
    tokens = set(find_truncated_secrets(text, ()))  # starts of tokens, which are found without `needles`
    return not tokens.issuperset(find_truncated_secrets(text, needles))


_AFTER = r"(?<![A-Za-z0-9])"
_SLASH = r"\\{0,4}/"
_SENTRY = r"[0-9a-f]{32}(?::[0-9a-f]{32})?(?=@[A-Za-z0-9.\-]{1,253}(?::\d{1,5})?[\\/])"
PRIVATE_KEY = "PRIVATE KEY"
"""Sign of private keys: the only key of `SHAPES` that contains a blank."""
SHAPES = {
    "gh": rf"{_AFTER}gh[pousr]_[A-Za-z0-9]{{20,255}}",  # GitHub
    "github_pat_": r"github_pat_[A-Za-z0-9_]{20,255}",
    # GitLab: tokens of people, jobs, runners, triggers, deployments, …; newer tokens end in `.xx.xxxxxxx`
    "gl": rf"{_AFTER}gl(?:pat|cbt|rt|ptt|dt|ft|soat|agent|imt|oas|ffct|wt)-[A-Za-z0-9_\-]{{20,255}}"
    r"(?:\.[0-9a-z]{2}\.[0-9a-z]{7,9})?",
    "sk-": rf"{_AFTER}sk-(?=[A-Za-z_\-]{{0,60}}\d)[A-Za-z0-9_\-]{{20,255}}",  # OpenAI, Anthropic, OpenRouter
    "sk_": rf"{_AFTER}[sr]k_(?:live|test)_[A-Za-z0-9]{{16,255}}",  # Stripe
    "rk_": rf"{_AFTER}rk_(?:live|test)_[A-Za-z0-9]{{16,255}}",
    "whsec_": r"whsec_[A-Za-z0-9+/=]{20,255}",
    "AKIA": rf"{_AFTER}AKIA[0-9A-Z]{{16}}(?![0-9A-Za-z])",  # AWS
    "ASIA": rf"{_AFTER}ASIA[0-9A-Z]{{16}}(?![0-9A-Za-z])",
    "xox": r"xox[abcdeoprs](?:\.[a-z]+)?-[A-Za-z0-9\-]{10,255}",  # Slack
    "xapp-": r"xapp-\d-[A-Za-z0-9\-]{10,255}",
    "hooks.slack.com/": r"(?<=hooks\.slack\.com/)(?:services|workflows|triggers)/[A-Za-z0-9_/\-]{20,255}",
    # the path of a Slack webhook without its host; JSON may escape the slashes
    "/T": rf"(?:services|workflows|triggers){_SLASH}T[A-Z0-9]{{6,14}}{_SLASH}[A-Z0-9]{{6,24}}"
    rf"(?:{_SLASH}\d{{10,24}})?{_SLASH}[A-Za-z0-9]{{16,64}}",
    "webhooks": rf"webhooks{_SLASH}\d{{16,21}}{_SLASH}[A-Za-z0-9_\-]{{50,100}}",  # Discord
    "AIza": rf"{_AFTER}AIza[0-9A-Za-z_\-]{{30,60}}",  # Google
    "ya29.": rf"{_AFTER}ya29\.[0-9A-Za-z_\-]{{20,2048}}",
    "GOCSPX-": r"GOCSPX-[0-9A-Za-z_\-]{20,60}",
    # a JSON Web Token: header, claims, signature
    "eyJ": rf"{_AFTER}eyJ[A-Za-z0-9_\-]{{8,4096}}\.[A-Za-z0-9_\-]{{8,8192}}(?:\.[A-Za-z0-9_\-]{{0,4096}})?",
    "npm_": rf"{_AFTER}npm_[A-Za-z0-9]{{30,60}}",
    "pypi-": r"pypi-AgE[A-Za-z0-9_\-]{20,1024}",
    "hf_": rf"{_AFTER}hf_[A-Za-z0-9]{{20,60}}",  # Hugging Face
    "gsk_": rf"{_AFTER}gsk_[A-Za-z0-9]{{30,80}}",  # Groq
    "xai-": rf"{_AFTER}xai-[A-Za-z0-9]{{40,120}}",
    "nvapi-": r"nvapi-[A-Za-z0-9_\-]{40,120}",
    "r8_": rf"{_AFTER}r8_[A-Za-z0-9]{{30,60}}",  # Replicate
    "pplx-": rf"{_AFTER}pplx-[A-Za-z0-9]{{30,60}}",
    "tvly-": rf"{_AFTER}tvly-[A-Za-z0-9\-]{{20,60}}",
    "lsv2_": rf"{_AFTER}lsv2_[a-z]{{2}}_[A-Za-z0-9_]{{30,80}}",  # LangSmith
    "dapi": rf"{_AFTER}dapi[0-9a-f]{{32}}",  # Databricks
    "SG.": rf"{_AFTER}SG\.[A-Za-z0-9_\-]{{16,64}}\.[A-Za-z0-9_\-]{{16,64}}",  # SendGrid
    "shp": rf"{_AFTER}shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{{32}}",  # Shopify
    "dop_v1_": r"dop_v1_[a-f0-9]{64}",  # DigitalOcean
    "ATATT3": rf"{_AFTER}ATATT3[A-Za-z0-9_=\-]{{30,255}}",  # Atlassian, Bitbucket
    "ATCTT3": rf"{_AFTER}ATCTT3[A-Za-z0-9_=\-]{{30,255}}",
    "ATBB": rf"{_AFTER}ATBB[A-Za-z0-9]{{24,64}}",
    "bkua_": rf"{_AFTER}bkua_[A-Za-z0-9]{{30,60}}",  # Buildkite
    "dckr_": r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{20,60}",  # Docker
    "hvs.": rf"{_AFTER}hvs\.[A-Za-z0-9_\-]{{24,255}}",  # Vault
    "glsa_": r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}",  # Grafana
    "lin_api_": r"lin_api_[A-Za-z0-9]{32,60}",  # Linear
    "ntn_": rf"{_AFTER}ntn_[A-Za-z0-9]{{36,60}}",  # Notion
    "NRAK-": rf"{_AFTER}NRAK-[A-Z0-9]{{27}}",  # New Relic
    "pcsk_": rf"{_AFTER}pcsk_[A-Za-z0-9_]{{30,90}}",  # Pinecone
    "sbp_": rf"{_AFTER}sbp_[a-f0-9]{{40}}",  # Supabase
    "sntry": r"sntry[su]_[A-Za-z0-9+/=_\-]{40,512}",  # Sentry
    # the address of a Sentry project, which holds its key
    "://": rf"(?<=://){_SENTRY}",
    ":\\/\\/": rf"(?<=:\\/\\/){_SENTRY}",
    # the id of the private key in the file of a Google service account; the key has the pattern below
    "private_key_id": r"private_key_id[^\w\n]{1,16}([0-9a-f]{40})(?![0-9A-Za-z])",
    "sq0": rf"{_AFTER}sq0(?:atp|csp)-[A-Za-z0-9_\-]{{22,60}}",  # Square
    ":AA": r"(?<!\d)\d{8,10}:AA[A-Za-z0-9_\-]{33}(?![A-Za-z0-9_\-])",  # Telegram
    "AGE-SECRET-KEY-": r"AGE-SECRET-KEY-1[0-9A-Z]{50,70}",
    PRIVATE_KEY: (
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:\s|\\{1,4}[nrt])*+(?:Proc-Type|DEK-Info|Version|Comment): ?[^\n\\]{0,80})*+"
        r"(?:(?:\s|\\{1,4}[nrt]|[\"'+,])*+[A-Za-z0-9+/]{16,}+={0,2})++"
        r"(?:(?:\s|\\{1,4}[nrt]|[\"'+,=])*+(?!-)[A-Za-z0-9+/]{1,64}={0,2}(?![A-Za-z0-9+/]))?"
        r"(?:(?:\s|\\{1,4}[nrt]|[\"'+,])*+-----END [A-Z0-9 ]{1,40}-----)?"
    ),
}
"""Patterns of tokens by sign. A sign is a fixed text in every such token, or directly before the token.

A text is searched for the sign first, and for the pattern only if the sign was found. If a pattern has a
group, only the text of the group is the token.
"""
_MOST_LAYERS = 2
_MIN_TOKEN_LENGTH = 14
"""Minimum length of the words that are searched for the signs of tokens.

Every token and the label `private_key_id` have at least this length. A private key is several words, and one
of its words has at least this length."""


def find_pattern_spans(text: str) -> Iterator[TextSpan]:
    """Yield the spans of tokens, and the spans of secrets after a label such as `password`.

    The spans have no order and may overlap. The time is linear in the length of `text`.
    """
    # A text repeats most of its words, and only one sign contains a blank: to look for signs only in the
    # distinct words takes a fraction of the time.
    words = {*text.split()}
    yield from _find_token_spans(text, words, _MOST_LAYERS)
    yield from _find_labeled_secrets(text, " ".join(words))


def _find_token_spans(text: str, words: Collection[str], layers: int) -> Iterator[TextSpan]:
    """Yield the spans of tokens and keys that match `SHAPES`; `words` are the distinct words of `text`.

    Tokens in base64 or URL encoding are found as well, if they were encoded at most `layers` times.
    """
    words = [word for word in words if len(word) >= _MIN_TOKEN_LENGTH]
    if not words:
        return
    if layers and max(map(len, words)) >= SHORTEST_ENCODED:
        for part in decode_parts(text, words):
            spans = _find_token_spans(part.text, {*part.text.split()}, layers - 1)
            yield from map(part.locate, spans)
    joined = " ".join(words)
    for sign, shape in SHAPES.items():
        if sign in (text if sign is PRIVATE_KEY else joined):
            for match in re.finditer(shape, text):  # compiled only when the first such sign occurs
                yield match.span(match.re.groups)


LABELS = (
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
_STRONG = compile_lazily(
    r"passw(?:or)?d|passphrase|pwd|secret|credential|authorization|(?:^|[_.\-])auth$"
    r"|(?:api|access|private|account|signing|shared)[_\-.]?key"
    r"|(?:access|auth|refresh|session|bearer|api|bot|id)[_\-.]?token"
)
"""Pattern of labels after which any value except a plain word is a secret.

After other labels, a value is a secret only if it looks random.
"""

SCHEMES = ("bearer", "basic", "token", "digest")
_QUOTES = r"[\\\"'`]"
VALUE_CHARACTER = r"[^\s\"'`\\,;&<>{}\[\]()|]"
_NAMED_VALUE = rf",?[ \t]{{0,3}}{_QUOTES}{{0,6}}value{_QUOTES}{{0,6}}[ \t]{{0,3}}[:=]"
"""Pattern of the middle of `"name": "password", "value": "…"` and `<add key="password" value="…"/>`."""
_AFTER_SIGN = compile_lazily(
    rf"(?i)(?P<suffix>orization|s|\d{{1,2}}|[_-][a-z0-9]{{1,12}})?{_QUOTES}{{0,6}}"
    rf"(?:[ \t]{{0,3}}(?P<separator>=>|[:=]=?|>|%3[ad]|u003d|{_NAMED_VALUE})[ \t]{{0,3}}|[ \t])"
    rf"(?:[bfru]{{0,2}}{_QUOTES}{{1,6}})?"
    rf"(?:(?:{'|'.join(SCHEMES)})[ \t]{{1,3}})?(?P<value>{VALUE_CHARACTER}{{6,2048}})"
)
_SCHEME = compile_lazily(r"(?<![a-z])(?:bearer|basic)[ \t]{1,3}(?P<value>[a-z0-9+/=_.~\-]{16,4096})")
_USERINFO = compile_lazily(r"://[^\s/?#:@\"'<>]{0,80}:(?P<value>[^\s/?#@\"'<>]{3,255})@")
_SIGNATURE = compile_lazily(r"(?<=[?&]sig=)(?P<value>[A-Za-z0-9%+/_\-]{30,512}=*)")
_CURLS_USER = compile_lazily(r"(?:(?<![\w-])-u|--user)[ =]?[\"']?[^\s:\"']{0,80}:(?P<value>[^\s\"']{3,255})")
_SEPARATORS = ("=", ":", "--", ">", "%3", "u003")

_NAME_BEFORE = compile_lazily(r"[A-Za-z0-9_.\-]{0,40}\Z")
_LONGEST_NAME = 40
_CAMEL = compile_lazily(r"(?<=[a-z0-9])(?=[A-Z])")
_TIME = compile_lazily(
    r"\d{4}-\d\d-\d\d[T ]\d\d:?\d\d(?::?\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|P(?:\d{1,6}[YMWD]){0,4}(?:T(?:\d{1,6}[HMS]){1,3})?"
    r"|\d{1,6}(?:ms|sec(?:ond)?s?|min(?:ute)?s?|hours?|days?|weeks?|months?|years?)"
)
"""Pattern of a time or duration, such as the values of `password_changed_at` and `token_valid_for`."""
_MECHANISMS = (
    "2fa 3ds 3ds2 3dsecure 3dsecure2 aes aes128 aes256 argon2 argon2id aws4 bcrypt cbc ecdsa ed25519 es256 "
    "es384 es512 fido2 gcm hmac hs256 hs384 hs512 jwe jws jwt kerberos5 md5 mfa mtls mtls1 ntlmv2 oauth "
    "oauth1 oauth2 oidc pbkdf2 pkce ps256 rs256 rs384 rs512 rsa rsa2048 rsa4096 s256 saml saml2 scram sha "
    "sha1 sha256 sha384 sha512 sigv4 sms tls tls1 totp webauthn webauthn2 x509 "
    "0 1 2 3 128 256 384 512 1024 2048 3072 4096"
)
"""Words in the names of authentication and signing methods, which are values of `auth` and the like."""
_MECHANISM_PARTS = frozenset(_MECHANISMS.split())
_REFERENCE = compile_lazily(r"[A-Z]{1,6}(?:[-_/]\d{1,8}){1,3}")
_REFERRING_NAME = compile_lazily(r"(?:authorizations?|account[_\-.]?keys?)$")
"""Pattern of names that may also stand for a case number instead of a secret: `prior_authorization`."""
_FILE_NAME = compile_lazily(
    r"(?i).*\.(?:csv|docx?|gif|gz|html?|jpe?g|jsonl?|log|md|mp[34]|parquet|pdf|png|pptx?|py|svg|tar|tsx?|txt|wav|webp"
    r"|xlsx?|xml|ya?ml|zip)"
)
_HEX = compile_lazily(r"[0-9a-fA-F\-]+")
_MIN_LABELED_LENGTH = 9
"""Minimum length of a text that can hold a label with its value, or a URL with a user name and password."""

_SHORT = 64
"""Maximum length of a value that may itself be a label, as `password` in `key="password" value="…"`."""

_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _find_labeled_secrets(text: str, words: str) -> Iterator[TextSpan]:
    """Yield the spans of values that follow a label of a secret, such as `password`. Spans may overlap.

    Passwords and signatures in URLs, passwords in curl's options, and values after `Bearer` or `Basic` are
    found, too. `words` are the distinct words of `text`, joined by blanks.
    """
    if len(text) < _MIN_LABELED_LENGTH:
        return
    if "://" in words:
        yield from (span for span in _iter_values(_USERINFO, text) if "***" not in text[slice(*span)])
        yield from _iter_values(USER_TOKEN, text)
    found = words.lower()
    signs: list[str] = []
    if any(separator in words for separator in _SEPARATORS):
        signs = [sign for sign in LABELS if sign in found]
        yield from _find_request_secrets(text, words)
    has_scheme = "bearer" in found or "basic" in found
    if not signs and not has_scheme:
        return
    lower = text.lower()
    if len(lower) != len(text):  # spans must fit `text`, but the lower case of `İ` is two characters
        lower = text.translate(_LOWER)
    for sign in signs:
        yield from _find_after_sign(sign, text, lower)
    if has_scheme:
        yield from (span for span in _iter_values(_SCHEME, lower) if is_mixed(text[slice(*span)]))


def _find_request_secrets(text: str, words: str) -> Iterator[TextSpan]:
    """Yield the spans of signatures in shared URLs, and of passwords in curl's options.

    `words` are the distinct words of `text`, joined by blanks.
    """
    if "sig=" in words:
        yield from _iter_values(_SIGNATURE, text)
    if "-u" in words:
        yield from (span for span in _iter_values(_CURLS_USER, text) if is_mixed(text[slice(*span)]))


def is_secret_value(key: str, value: str) -> bool:
    """Return True if a value in a mapping is a secret, judged by its key and its form.

    The key must be the name of a secret. A scheme such as `Bearer` before a blank is ignored; the rest of the
    value must have no white space. A word, a number, a path, a time, or the name of a signing method is no
    secret. If the key may have another meaning, such as `sort_key`, the value must look random.
    """
    if not key or not is_secret_name(key):
        return False
    scheme, _, rest = value.partition(" ")
    if rest and scheme.lower() in SCHEMES:
        value = rest
    return not any(map(str.isspace, value)) and _is_named_secret(key, value)


def _find_after_sign(sign: str, text: str, lower: str) -> Iterator[TextSpan]:
    start = lower.find(sign)
    while start >= 0:
        end = start + len(sign)
        match = _AFTER_SIGN.match(text, end)
        if match:
            value = match["value"].rstrip(".:!?")
            before = _NAME_BEFORE.search(text[max(0, start - _LONGEST_NAME) : start])
            name = (before[0] if before else "") + text[start:end] + (match["suffix"] or "")
            if (match["separator"] or name.startswith("--")) and _is_named_secret(name, value):
                yield match.start("value"), match.start("value") + len(value)
            # Go on after a long value: otherwise a line of `key=key=key=…` takes quadratic time. Go on within
            # a short value, which may be a label itself.
            if match["separator"]:
                end = match.end() if len(value) > _SHORT else match.start("value")
        start = lower.find(sign, end)


def _is_named_secret(name: str, value: str) -> bool:
    if not is_secret_name(name) or _TIME.fullmatch(value) or _is_mechanism(value):
        return False
    words = _CAMEL.sub("_", name).lower()
    if not _STRONG.search(words):
        return _is_random(value)
    return is_mixed(value) and not (_REFERRING_NAME.search(words) and _REFERENCE.fullmatch(value))


def _is_mechanism(value: str) -> bool:
    """Return True if a value names an authentication or signing method, such as `AWS4-HMAC-SHA256`."""
    return len(value) < _SHORT and _MECHANISM_PARTS.issuperset(re.split(r"[-_./+ ]", value.lower()))


def _iter_values(pattern: re.Pattern[str], text: str) -> Iterator[TextSpan]:
    return (match.span("value") for match in pattern.finditer(text))


def _is_random(value: str) -> bool:
    """Return True for 16 or more characters that look random.

    Such a value has lower-case and upper-case letters, digits, and few repetitions. Return False for a
    hexadecimal digest, a UUID, a path or the name of a file.
    """
    if len(value) < 16 or not is_mixed(value) or _HEX.fullmatch(value) or _FILE_NAME.fullmatch(value):
        return False
    kinds = (str.islower, str.isupper, str.isdigit)
    if not all(any(map(kind, value)) for kind in kinds):
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares) >= 3.5  # bits of entropy per character
