"""Messages of a worker: any bytes are either a clean message or refused."""

import json
import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.agents.workers.protocol import (
    WorkerProtocolError,
    decode_message,
    encode_message,
    parse_untrusted_json,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


def parts(value: object) -> Iterator[object]:
    """Yield every value and key in `value`."""
    yield value
    if isinstance(value, dict):
        yield from value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from parts(child)


def is_clean(value: object) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    return not isinstance(value, float) or math.isfinite(value)


@given(
    st.binary(max_size=100) | st.text(alphabet='{}[]":,\\ude0189.eE+-NaInfity ', max_size=60).map(str.encode)
)
def test_any_bytes_are_a_message_or_refused(line: bytes) -> None:
    try:
        message = decode_message(line)
    except WorkerProtocolError as error:
        refused = error.failure
        message = {"kind": refused.kind, "printable": refused.message.isprintable()}
        expected = {"kind": "protocol", "printable": True}
    else:
        expected = message
    assert message == expected
    assert all(is_clean(value) for value in parts(message))


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_any_json_comes_through_clean(message: dict[str, object]) -> None:
    decoded = decode_message(json.dumps(message).encode())
    assert all(is_clean(value) for value in parts(decoded))


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,400})(\.[0-9]{1,400})?([eE][-+]?[0-9]{1,5})?", fullmatch=True)


@given(NUMBERS | JSON.map(json.dumps))
def test_fast_and_strict_parser_agree(text: str) -> None:
    assert repr(decode_message(f'{{"a": {text}}}'.encode())) == repr({"a": parse_untrusted_json(text)})


def test_equal_keys_and_short_texts_share_memory() -> None:
    one, other = (decode_message(b'{"args": {"the_query": "two words"}}')["args"] for _ in range(2))
    assert isinstance(one, dict)
    assert isinstance(other, dict)
    assert [*map(id, one), *map(id, one.values())] == [*map(id, other), *map(id, other.values())]


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.integers(), max_size=4))
def test_encoded_message_is_one_line_and_decodes_to_itself(message: dict[str, object]) -> None:
    line = encode_message(message)
    assert (line.count(b"\n"), line.endswith(b"\n"), line.isascii()) == (1, True, True)
    assert decode_message(line) == message


@pytest.mark.parametrize(
    ("depth", "fits"), [(99, True), (100, True), (101, False), (5000, False), (200_000, False)]
)
def test_nesting(depth: int, fits: bool) -> None:
    line = b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
    if fits:
        assert "a" in decode_message(line)
    else:
        with pytest.raises(WorkerProtocolError, match="nests deeper than 100 levels"):
            decode_message(line)


def test_many_shallow_values_are_not_too_deep() -> None:
    assert len(decode_message(json.dumps({str(n): [n] for n in range(500)}).encode())) == 500


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"a":"\xff"}', {"a": "�"}),
        (b'{"\\udc00":["\\ud83d\\ude00","\\ud83d"]}', {"�": ["\U0001f600", "�"]}),
        (
            b'{"a":NaN,"b":-Infinity,"c":-1e400,"d":1e-400}',
            {"a": "NaN", "b": "-Infinity", "c": "-Infinity", "d": 0.0},
        ),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b'{"a":1E+400,"b":1e0400,"c":"e123+45"}', {"a": "Infinity", "b": "Infinity", "c": "e123+45"}),
        (b'{"a":' + b"9" * 309 + b".0}", {"a": "Infinity"}),
    ],
)
def test_decode(line: bytes, message: dict[str, object]) -> None:
    assert decode_message(line) == message
