"""Messages that have the converted form already are returned as they are, as the long way would."""

from itertools import product
from typing import Any

import pytest

from evalgate.agents.tracing.chat_messages import parse_messages

TEXTS = ["", " ", "Hi", '{"a": 1}', "[]"]
IDS = [*TEXTS, None, 7]
VALUES = [None, {}, {"a": 1}, {"type": "json", "value": "[1]"}, [{"text": "[2]"}], '{"b": 2}', 3]
PARTS: list[dict[str, Any]] = [
    *({"type": kind, "content": text} for kind in ("text", "image") for text in TEXTS),
    *({"type": "tool_call", "id": id_, "name": "f", "arguments": each} for id_, each in product(IDS, VALUES)),
    *({"type": "tool_call", "id": "1", "name": name, "arguments": {}} for name in IDS),
    *({"type": "tool_call_response", "id": id_, "response": each} for id_, each in product(IDS, VALUES)),
    *({"type": "text", "content": "a", more: True} for more in ("thought", "message_content")),
]
SIMPLE: list[dict[str, Any]] = [
    {"type": "text", "content": "Hi"},
    {"type": "tool_call", "id": "1", "name": "f", "arguments": {}},
    {"type": "tool_call_response", "id": "1", "response": {}},
]


@pytest.mark.parametrize("role", ["user", "assistant", "system", "tool", "model", ""])
def test_a_converted_message_stays_as_it_is(role: str) -> None:
    for parts in [[], *([part] for part in PARTS), *map(list, product(SIMPLE, SIMPLE))]:
        message = {"role": role, "parts": parts}
        long_way = {**message, "finish_reason": "stop"}  # a further key takes it
        assert parse_messages(message, "user") == parse_messages(long_way, "user"), message
