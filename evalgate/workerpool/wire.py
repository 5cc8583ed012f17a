"""One message per line: JSON out of the gate, and untrusted JSON into it."""

import json
import math
import re

from pydantic_core import from_json

from evalgate.model import Failure, JsonObject

MAX_LINE_BYTES = 64 * 1024 * 1024
"""Of a line that has not ended: whose it is can no longer be told."""
MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""What an agent may send in one turn: all cases may wait while JSON without objects is read."""
TOO_LARGE = (
    f"the agent sent more than {MAX_ANSWER_BYTES >> 20} MiB in one turn; "
    "let it send large data as a reference"
)
MAX_DEPTH = 100
_MAX_QUOTED = 120
_HEAD_BYTES = 200

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_NAMED_SESSION = re.compile(rb'\{"type": ?"[a-z_]{1,20}", ?"session": ?"([0-9]{1,12})"')
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class NotTheProtocol(Exception):
    """A worker wrote something that is no message. Nothing that it writes afterwards can be trusted."""

    def __init__(self, sentence: str, kind: str = "protocol") -> None:
        super().__init__(sentence)
        self.failure = Failure(kind, sentence)


def _finite(text: str) -> float | str:
    value = float(text)
    if math.isfinite(value):
        return value
    return "Infinity" if value > 0 else "-Infinity"


# parse_constant: NaN, Infinity and -Infinity stay what they are called.
_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=str)


def _same(value: dict[str, object]) -> dict[str, object]:
    return value


def _whole_number(text: str) -> int:
    return int(text)


# Calls Python for each object and number, and in between other threads may run: the plain decoder is in C and
# lets none run. Of 16 MiB of tool calls the event loop waited 1,650 ms for that one, and 16 ms for this one.
_YIELDING_DECODER = json.JSONDecoder(
    parse_float=_finite, parse_int=_whole_number, parse_constant=str, object_hook=_same
)
LARGE = 64 * 1024
"""Bytes of JSON from which on it is worth a thread: fewer are read in 7 ms, small objects in 10 ms."""
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def encode(message: JsonObject) -> bytes:
    """One line, ASCII."""
    return _ENCODER.encode(message).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, object]:
    """The message in a line. Bytes that are not UTF-8 and lone surrogates become U+FFFD.

    Raises:
        NotTheProtocol: it is not a JSON object, or one that nests or counts beyond all measure.
    """
    value = _plain_value(line)
    if isinstance(value, dict):
        return value
    text = line.decode("utf-8", "replace")
    try:
        value = json_value(text)
    except json.JSONDecodeError:
        raise _no_message(text) from None
    if not isinstance(value, dict):
        raise _no_message(text)
    return value


def _plain_value(line: bytes) -> object:
    """The same in half the time for nearly every line; None where only the longer way can tell.

    And short texts that are equal, as the keys of every call of a tool, are one in memory.
    """
    if _MAY_OVERFLOW.search(line) or line.count(b"{") + line.count(b"[") > MAX_DEPTH:
        return None
    try:
        return from_json(line, allow_inf_nan=False)
    except ValueError:
        return None


# Of 309 digits and more, or with an exponent that takes even fewer digits there.
_MAY_OVERFLOW = re.compile(rb"[eE]\+?\d{3}|\d{200}")


def session_of_large(line: bytes) -> str | None:
    """Return the session that a line names, without reading all of it; None if its head does not tell."""
    found = _NAMED_SESSION.match(line[:_HEAD_BYTES])
    return None if found is None else found[1].decode()


def json_value(text: str) -> object:
    """What an untrusted JSON text says, as the model can hold it.

    Raises:
        json.JSONDecodeError: it is not JSON.
        NotTheProtocol: it nests or counts beyond all measure.
    """
    try:
        value: object = (_DECODER if len(text) <= LARGE else _YIELDING_DECODER).decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # int() refuses to read on
        raise NotTheProtocol("the agent sent a number of more than 4,300 digits") from None
    except RecursionError:
        raise _too_deep() from None
    # Both walks are rarely needed: what they look for leaves a trace in the text.
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth_exceeds(value, MAX_DEPTH):
        raise _too_deep()
    return _clean(value) if _ESCAPED_SURROGATE.search(text) else value


def _no_message(text: str) -> NotTheProtocol:
    return NotTheProtocol(
        "the agent wrote something that is not the protocol on stdout: "
        f"{quote(text)}; print to stderr instead"
    )


def _too_deep() -> NotTheProtocol:
    return NotTheProtocol(f"the agent sent a value that nests deeper than {MAX_DEPTH} levels")


def quote(text: str) -> str:
    """`text` in quotes, with escapes, shortened."""
    return ascii(text if len(text) <= _MAX_QUOTED else text[:_MAX_QUOTED] + "...")


def _depth_exceeds(value: object, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [child for parent in level for child in _children(parent) if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def _children(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _clean(value: object) -> object:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [_clean(each) for each in value]
    if isinstance(value, dict):
        return {without_surrogates(key): _clean(each) for key, each in value.items()}
    return value


def without_surrogates(text: str) -> str:
    """`text` with lone surrogates replaced: it can be encoded."""
    return _LONE_SURROGATE.sub("�", text)
