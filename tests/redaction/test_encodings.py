"""Tokens that are recognised by their pattern are also found in base64 and URL encoding."""

import base64
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.redaction.encodings import decode_parts
from evalgate.redaction.redactor import Redactor
from tests.redaction.test_redactor import ALNUM, TOKENS, _pem

PLAIN = Redactor()
HEX = "0123456789abcdef" * 2
DISCORD = "webhooks/123456789012345678/" + ALNUM + ALNUM[:28]
SLACK = "services/T00000000/B00000000/" + ALNUM[:24]
SECRETS = [
    *TOKENS,
    f"https://discord.com/api/{DISCORD}",
    f"https://{HEX}@o1.ingest.sentry.io/45",
    SLACK,
    _pem(),
]


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _wrapped(text: str) -> str:
    encoded = _base64(f"{'padding ' * 12}{text}")
    return "\n".join(encoded[start : start + 76] for start in range(0, len(encoded), 76))


ENCODINGS: dict[str, Callable[[str], str]] = {
    "base64": _base64,
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 after a name": lambda text: f"file-{_base64(text)}",
    "base64 twice": lambda text: _base64(_base64(text)),
    "base64 in a URL": lambda text: quote(_base64(text), safe=""),
    "base64 in lines": _wrapped,
    "base64 in lines in JSON": lambda text: json.dumps(_wrapped(text)),
    "URL": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "URL twice": lambda text: quote("".join(f"%{byte:02X}" for byte in text.encode()), safe=""),
}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("before", ["", "x", "é: "])
def test_a_token_is_found_in_an_encoding(encode: Callable[[str], str], before: str) -> None:
    for secret in SECRETS:
        written = encode(f'{before}"{secret}" is it')
        shown = PLAIN.redact_text(f"see {written} there")
        assert "***" in shown, secret
        assert written not in shown


def test_only_the_characters_that_spell_the_token_are_hidden() -> None:
    shown = PLAIN.redact_text(_base64(json.dumps({"user": "me", "token": TOKENS[0], "n": 5})))
    before, _, after = shown.partition("***")
    whole = len(before) // 4 * 4
    assert base64.b64decode(before[:whole]).startswith(b'{"user": "me", "token":')
    assert base64.b64decode(after[-8:]).endswith(b'": 5}')


@given(st.binary(max_size=90), st.sampled_from(SECRETS), st.binary(max_size=90))
def test_no_bytes_around_a_token_hide_it(before: bytes, secret: str, after: bytes) -> None:
    written = base64.b64encode(before + b" " + secret.encode() + b" " + after).decode()
    assert "***" in PLAIN.redact_text(written)


@given(
    st.text(st.characters(codec="latin-1"), min_size=15, max_size=60), st.integers(0, 14), st.integers(1, 9)
)
def test_a_place_in_what_is_decoded_is_found_in_the_text(text: str, start: int, length: int) -> None:
    for encode in (_base64, quote):
        written = encode(text)
        for part in decode_parts(f"<{written}>", [f"<{written}>"]):
            if part.text == text.encode().decode("latin-1"):
                first, last = part.locate((start, start + length))
                assert 0 < first < last <= len(written) + 1


@pytest.mark.parametrize(
    "text",
    [
        _base64("The quick brown fox jumps over the lazy dog."),
        "sha256:" + "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "data:image/png;base64," + base64.b64encode(bytes(range(256))).decode(),
        quote("Grüße aus München, 100 % Öl; see https://example.org/a?b=c&d=e"),
        "/usr/lib/python3/dist-packages/SomeLongPackageName/andAnotherFolder_withWords",
    ],
)
def test_what_decodes_to_no_token_stays(text: str) -> None:
    assert PLAIN.redact_text(text) is text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"https://discord.com/api/{DISCORD}", "https://discord.com/api/***"),
        (
            f"https://discordapp.com/api/v10/{DISCORD}?wait=true",
            "https://discordapp.com/api/v10/***?wait=true",
        ),
        (json.dumps(f"/api/{DISCORD}").replace("/", "\\/"), '"\\/api\\/***"'),
        (f"POST /{SLACK} 200", "POST /*** 200"),
        (SLACK.replace("/", "\\/"), "***"),
        ("triggers/T0123ABCD/1234567890123/" + HEX, "***"),
        (f"https://{HEX}@o1.ingest.us.sentry.io/45", "https://***@o1.ingest.us.sentry.io/45"),
        (f"https://{HEX}:{HEX}@sentry.example:9000/a/45 x", "https://***@sentry.example:9000/a/45 x"),
        (f"https:\\/\\/{HEX}@o1.ingest.sentry.io\\/45", "https:\\/\\/***@o1.ingest.sentry.io\\/45"),
        (f'{{"private_key_id": "{HEX}{HEX[:8]}", "x": 1}}', '{"private_key_id": "***", "x": 1}'),
        (f"private_key_id: {HEX}{HEX[:8]}", "private_key_id: ***"),
        (f"private_key_id {HEX}{HEX[:8]}", "private_key_id ***"),
        (f"private_key_id -> {HEX}{HEX[:8]}", "private_key_id -> ***"),
        ("webhooks/123456789012345678 and services/TEAM/page", None),
        (f"https://example.org/{HEX}@x/1 commit {HEX}{HEX[:8]}", None),
    ],
)
def test_addresses_and_files_that_are_secrets(text: str, expected: str | None) -> None:
    assert PLAIN.redact_text(text) == (text if expected is None else expected)


def test_the_id_of_a_private_key_is_hidden_where_data_holds_it() -> None:
    account = {"type": "service_account", "private_key_id": HEX + HEX[:8], "private_key": _pem(), "x": "y"}
    hidden = {"type": "service_account", "private_key_id": "***", "private_key": "***", "x": "y"}
    assert PLAIN.redact_tree({"file": account}) == {"file": hidden}
