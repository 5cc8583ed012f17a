"""Redaction of nested data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.core.sanitize import strip_invisible
from evalgate.redaction.redactor import TOO_DEEP, Redactor, TextCollector, rewrite_tree
from tests.builders import a_case_result, a_record
from tests.situations import hostile

CANARY = "canary-value-1"
REDACTOR = Redactor.from_environment({"A_TOKEN": CANARY})


class Word(StrEnum):
    CANARY = "canary-value-1"


class Pair(NamedTuple):
    left: str
    right: object


@dataclass(frozen=True, slots=True)
class Leaf:
    text: str
    number: float = 1.5


@dataclass(frozen=True)
class Node:
    leaves: tuple[Leaf, ...]
    data: Mapping[str, object] = field(default_factory=dict)
    kind: type = Leaf


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (CANARY, "***"),
        ([1, CANARY, None], [1, "***", None]),
        ((CANARY, 2), ("***", 2)),
        ({CANARY: 1}, {"***": 1}),
        ({CANARY: 1, f"{CANARY}{CANARY}": 2}, {"***": 1, "*** (2)": 2}),
        (frozenset({CANARY}), frozenset({"***"})),
        (Pair(CANARY, [CANARY]), Pair("***", ["***"])),
        (MappingProxyType({"a": CANARY}), {"a": "***"}),
        (Node((Leaf("a"), Leaf(CANARY))), Node((Leaf("a"), Leaf("***")))),
        (Node((), {"a": {"b": [CANARY]}}), Node((), {"a": {"b": ["***"]}})),
        ({"password": "abc123"}, {"password": "***"}),
        ({"headers": {"Authorization": "abc-1234"}}, {"headers": {"Authorization": "***"}}),
        ({"Authorization": "Bearer abc123"}, {"Authorization": "***"}),
        ({"api_keys": ["abc123", "def456"]}, {"api_keys": ["***", "***"]}),
    ],
)
def test_every_text_in_it_is_redacted(value: object, expected: object) -> None:
    redacted = REDACTOR.redact_tree(value)
    assert redacted == expected
    assert REDACTOR.redact_tree(redacted) is redacted


@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        1.5,
        True,
        b"canary-value-1",
        "text",
        [],
        {"password": "required", "password2": 123456, "keys": ["a", "b"], "token": "abc"},
        {"Authorization": "Bearer token"},
        {"secret": "two words 2", "key": "9f86d081884c7d659a2feaa0c55ad015", "password": ""},
        {"token_count": 512, "key": "customer_id", "auth": {"type": "bearer", "method": "oauth2"}},
        {"password_expires_at": "2026-11-28T10:00:00Z", "authorizations": ["PA-2024-1", "PA-2024-2"]},
        Word.CANARY,
        Leaf,
        Node((Leaf("a"),), {"x": [1, {"y": "z"}]}),
    ],
)
def test_what_holds_no_secret_is_the_same_object(value: object) -> None:
    assert REDACTOR.redact_tree(value) is value


def test_what_does_not_change_is_shared() -> None:
    kept = Leaf("kept")
    assert REDACTOR.redact_tree(Node((kept, Leaf(CANARY)))).leaves[0] is kept


def test_a_record_without_secrets_is_the_same_object() -> None:
    record = hostile()
    assert REDACTOR.redact_tree(record) is record


def test_what_is_too_deep_to_look_through_is_told() -> None:
    deep: object = CANARY
    for _ in range(5000):
        deep = [deep]
    shown = REDACTOR.redact_tree(deep)
    while isinstance(shown, list):
        shown = shown[0]
    assert shown == TOO_DEEP


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(JSON)
def test_a_tree_keeps_its_shape(value: Any) -> None:
    assert _shape(Redactor().redact_tree(value)) == _shape(value)


def _shape(value: object) -> object:
    if isinstance(value, dict):
        return [_shape(item) for item in value.values()]
    if isinstance(value, list):
        return [_shape(item) for item in value]
    return type(value)


@dataclass(frozen=True)
class Judged:
    status: Literal["passed", "failed"]
    before: Literal["passed", "failed"] | None
    text: str


def test_words_that_only_we_write_stay() -> None:
    redactor = Redactor.from_environment({}, ["passed"])
    judged = Judged("passed", "passed", "it passed")
    assert redactor.redact_tree([judged]) == [Judged("passed", "passed", "it ***")]


ANY_TEXT = st.text() | st.sampled_from(
    [
        CANARY,
        "canary-\u200bvalue-1",
        "canary-",
        "value-1",
        "password=",
        "abc123",
        "\x1b]0;",
        "\x07",
        "-----BEGIN PRIVATE KEY-----",
        "MIIEowIBAAKCAQEA",
    ]
)
KEYS = st.sampled_from(["a", "password", "api_key", CANARY])
DATA = st.recursive(ANY_TEXT, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=8)


@given(st.lists(st.builds(Node, st.just(()), st.dictionaries(KEYS, DATA))))
def test_looking_at_all_texts_at_once_misses_none(nodes: list[Node]) -> None:
    each = [rewrite_tree(node, REDACTOR._redact_member) for node in nodes]
    assert REDACTOR.redact_tree(nodes) == each


@pytest.mark.parametrize(
    "text", ["canary-\u200bvalue-1", "can\x1b[1mary-value-1", "canary-value\u2060-1 and canary-value-1"]
)
def test_a_secret_broken_by_what_nobody_sees_is_one(text: str) -> None:
    assert CANARY not in strip_invisible(REDACTOR.redact_text(text))
    assert CANARY not in strip_invisible(REDACTOR.redact_tree([Leaf(text)])[0].text)


def test_a_record_is_searched_as_one_text() -> None:
    # Text by text, the search of a run without secrets takes a quarter of all its time.
    texts = TextCollector()
    texts.gather_texts(a_record(a_case_result()))

    assert texts.is_complete


def test_texts_of_named_tuples_are_gathered() -> None:
    texts = TextCollector()
    texts.gather_texts([Pair("left", ["right"])])

    assert texts.found == ["left", "right"]
    assert texts.is_complete
