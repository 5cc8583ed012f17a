"""Properties of redaction for any secret and any text."""

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from evalgate.redaction import patterns
from evalgate.redaction.environment import is_worth_hiding
from evalgate.redaction.redactor import REPLACEMENT, Redactor

TOKENS = (
    "AKIAIOSFODNN7EXAMPLE",
    "sk-abcdefghij1234567890",
    "https://u:hunter22@db",
    "?sig=" + "a1B2" * 9,
    "curl -u me:hunter2x",
    "private_key_id: " + "0123456789abcdef" * 2 + "01234567",
    "Bearer abc123def456ghi789",
    "token%3DaB3dE6gH9jK2mN5pQ8",
)
SECRETS = st.text(st.characters(codec="utf-8"), min_size=8, max_size=60).map(str.strip)
CONTEXTS = st.text(max_size=20)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


SPELLINGS: dict[str, Callable[[str], str]] = {
    "itself": str,
    "JSON": lambda text: json.dumps(text)[1:-1],
    "JSON, not only ASCII": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "JSON with slashes escaped": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
    "repr": lambda text: repr(text)[1:-1],
    "ascii": lambda text: ascii(text)[1:-1],
    "repr of bytes": lambda text: repr(text.encode())[2:-1],
    "URL": lambda text: quote(text, safe=""),
    "URL path": quote,
    "form": quote_plus,
    "HTML": html.escape,
    "base64": _base64,
}


@example("back\\slash/and\"quote'9", "", "")
@example("päss wörd+99/&<>", "=", "=")
@example("line one 1\nline two 2", "", "")
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
@given(SECRETS, CONTEXTS, CONTEXTS)
def test_a_planted_secret_never_survives(
    spelling: Callable[[str], str], secret: str, before: str, after: str
) -> None:
    assume(is_worth_hiding(secret) and secret not in before and secret not in after)
    written = spelling(secret)
    shown = Redactor.from_environment({"A_TOKEN": secret}).redact_text(f"{before} {written} {after}")
    assert written not in shown
    assert REPLACEMENT in shown


@given(SECRETS, st.binary(max_size=9), st.binary(max_size=9))
def test_a_secret_in_a_longer_base64_text_never_survives(secret: str, before: bytes, after: bytes) -> None:
    assume(is_worth_hiding(secret) and "\n" not in secret)
    written = base64.b64encode(before + secret.encode() + after).decode()
    assert REPLACEMENT in Redactor.from_environment({"A_TOKEN": secret}).redact_text(written)


PIECES = st.sampled_from(
    [
        "password",
        "api_key",
        "token",
        "Authorization",
        "Bearer ",
        "--token ",
        "=",
        ": ",
        '"',
        "'",
        "\\",
        " ",
        "\n",
        "***",
        "*",
        "hunter2",
        "canary-value-1",
        "canary-",
        "value-1",
        "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
        "ghp_",
        "sk-",
        "://u:",
        "@",
        "-----BEGIN PRIVATE KEY-----",
        "MIIEowIBAAKCAQEA",
        "-----END PRIVATE KEY-----",
        "İ",
    ]
)
TEXTS = st.text() | st.lists(PIECES, max_size=14).map("".join)


@given(TEXTS)
def test_it_is_idempotent(text: str) -> None:
    redactor = Redactor.from_environment({"A_TOKEN": "canary-value-1"}, ["a***b", "lue-1"])
    once = redactor.redact_text(text)
    assert redactor.redact_text(once) is once


@given(st.text(st.characters(categories=("L", "Nd", "Zs", "Po"), exclude_characters=":=")))
def test_prose_is_returned_as_it_is(text: str) -> None:
    assert Redactor.from_environment({"A_TOKEN": "canary-value-1"}).redact_text(text) is text


@given(
    st.sampled_from(["sha256:{}", "commit {}", '{{"trace_id": "{}"}}', "cache_key={}", "etag: {}", "{}"]),
    st.uuids().map(str) | st.binary(min_size=20, max_size=32).map(bytes.hex) | st.integers().map(str),
)
def test_ids_and_digests_are_not_mangled(frame: str, value: str) -> None:
    text = frame.format(value)
    assert Redactor.from_environment({"A_TOKEN": "canary-value-1"}).redact_text(text) is text


@given(st.lists(PIECES | st.sampled_from(TOKENS) | st.text(max_size=3), max_size=14).map("".join))
def test_signs_in_words_find_what_signs_in_the_text_find(text: str) -> None:
    every_token = {
        match.span(match.re.groups)
        for shape in patterns.SHAPES.values()
        for match in re.finditer(shape, text)
    }
    labeled = {*patterns._find_labeled_secrets(text, text)}
    assert every_token | labeled <= {*patterns.find_pattern_spans(text)}
