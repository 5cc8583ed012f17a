"""Streams of tool calls in the forms of several chat-completion providers, with the calls that they encode.

Each stream is a list with the `tool_calls` of each chunk.
"""

from typing import Any

Pieces = list[dict[str, Any]]
Call = tuple[str, str, dict[str, Any]]
"""Id, name and arguments."""


def build_piece(
    index: int | None, id_: str | None, name: str | None, arguments: str | None
) -> dict[str, Any]:
    """Build an item of `tool_calls`; a value of None is left out."""
    function = {"name": name, "arguments": arguments}
    piece = {"index": index, "id": id_, "type": "function" if id_ is not None else None}
    present = {key: value for key, value in piece.items() if value is not None}
    return {**present, "function": {key: value for key, value in function.items() if value is not None}}


OPENAI = [
    [build_piece(0, "call_1", "forecast", "")],
    [build_piece(0, None, None, '{"city":')],
    [build_piece(0, None, None, '"Paris"}')],
    [build_piece(1, "call_2", "forecast", "")],
    [build_piece(1, None, None, '{"city":"Rome"}')],
]
ANTHROPIC = [
    [build_piece(0, "toolu_1", "forecast", "")],
    [build_piece(0, None, None, '{"city": "Par')],
    [build_piece(0, None, None, 'is"}')],
    [build_piece(1, "toolu_2", "list_orders", "")],
    [build_piece(1, None, None, "{}")],
]
PARIS, ROME = '{"city":"Paris"}', '{"city":"Rome"}'
TWO: list[Call] = [("call_1", "forecast", {"city": "Paris"}), ("call_2", "forecast", {"city": "Rome"})]
WITHOUT_IDS: list[Call] = [("", "forecast", {"city": "Paris"}), ("", "forecast", {"city": "Rome"})]

STREAMS: dict[str, tuple[list[Pieces], list[Call]]] = {
    "OpenAI": (OPENAI, TWO),
    "Azure, whose first chunk is empty": ([[], *OPENAI], TWO),
    "Anthropic": (
        ANTHROPIC,
        [("toolu_1", "forecast", {"city": "Paris"}), ("toolu_2", "list_orders", {})],
    ),
    "calls of the first chunk, and one more whose index is used already": (
        [
            [build_piece(0, "a", "first", "{}"), build_piece(1, "b", "second", "{}")],
            [build_piece(0, "c", "third", "{}")],
        ],
        [("a", "first", {}), ("b", "second", {}), ("c", "third", {})],
    ),
    "Gemini": (
        [[build_piece(0, "", "forecast", PARIS)], [build_piece(0, "", "forecast", ROME)]],
        WITHOUT_IDS,
    ),
    "Gemini, without an index": (
        [[build_piece(None, "", "forecast", PARIS)], [build_piece(None, "", "forecast", ROME)]],
        WITHOUT_IDS,
    ),
    "Gemini, of two functions": (
        [
            [build_piece(0, "", "list_orders", "{}")],
            [build_piece(0, "", "forecast", PARIS)],
            [build_piece(0, "", "list_orders", "{}")],
        ],
        [("", "list_orders", {}), ("", "forecast", {"city": "Paris"}), ("", "list_orders", {})],
    ),
    "Gemini with ids": (
        [
            [build_piece(0, "function-call-1", "forecast", PARIS)],
            [build_piece(0, "function-call-2", "forecast", ROME)],
        ],
        [
            ("function-call-1", "forecast", {"city": "Paris"}),
            ("function-call-2", "forecast", {"city": "Rome"}),
        ],
    ),
    "Gemini, split": (
        [
            [build_piece(None, "function-call-1", "forecast", '{"city":')],
            [build_piece(None, None, None, '"Paris"}')],
            [build_piece(None, "function-call-2", "forecast", ROME)],
        ],
        [
            ("function-call-1", "forecast", {"city": "Paris"}),
            ("function-call-2", "forecast", {"city": "Rome"}),
        ],
    ),
    "Mistral": (
        [[build_piece(0, "call_1", "forecast", PARIS), build_piece(1, "call_2", "forecast", ROME)]],
        TWO,
    ),
    "Mistral of 2024, without an index": (
        [[build_piece(None, "call_1", "forecast", PARIS), build_piece(None, "call_2", "forecast", ROME)]],
        TWO,
    ),
    "Groq": (
        [[build_piece(0, "call_1", "forecast", PARIS)], [build_piece(1, "call_2", "forecast", ROME)]],
        TWO,
    ),
    "Ollama": (
        [[build_piece(0, "call_1", "forecast", PARIS)], [build_piece(0, "call_2", "forecast", ROME)]],
        TWO,
    ),
    "vLLM": (
        [
            [build_piece(0, "call_1", "forecast", None)],
            [build_piece(0, None, None, '{"city":"')],
            [build_piece(0, None, None, "Paris")],
            [build_piece(0, None, None, '"}')],
            [build_piece(0, None, None, "")],
            [build_piece(1, "call_2", "forecast", None)],
            [build_piece(1, None, None, ROME)],
        ],
        TWO,
    ),
    "vLLM, which repeats id and name with the last piece": (
        [
            [build_piece(0, "call_1", "forecast", '{"city":')],
            [build_piece(0, "call_1", "forecast", '"Paris"}')],
            [build_piece(0, "call_1", "forecast", "")],
        ],
        TWO[:1],
    ),
    "a gateway that repeats id and name": (
        [
            [build_piece(0, "call_1", "forecast", "")],
            [build_piece(0, "call_1", "forecast", '{"city":')],
            [build_piece(0, "call_1", "forecast", '"Paris"}')],
            [build_piece(1, "call_2", "forecast", '{"city":')],
            [build_piece(1, "call_2", "forecast", '"Rome"}')],
        ],
        TWO,
    ),
    "a gateway that repeats the name alone": (
        [
            [build_piece(0, "call_1", "forecast", "")],
            [build_piece(0, "", "forecast", '{"city":')],
            [build_piece(0, "", "forecast", '"Paris"}')],
            [build_piece(0, "", "forecast", "")],
        ],
        TWO[:1],
    ),
    "Qwen, with empty ids and names": (
        [
            [build_piece(0, "call_1", "forecast", '{"city": "')],
            [build_piece(0, "", "", 'Paris"}')],
            [build_piece(0, "", "", "")],
        ],
        TWO[:1],
    ),
    "another id with each piece": (
        [
            [build_piece(0, "call_1", "forecast", "")],
            [build_piece(0, "call_8", None, '{"city":')],
            [build_piece(0, "call_9", None, '"Paris"}')],
        ],
        TWO[:1],
    ),
    "the name after the arguments": (
        [[build_piece(0, "call_1", None, PARIS)], [build_piece(0, None, "forecast", "")]],
        TWO[:1],
    ),
    "pieces of two functions, all without an id": (
        [
            [build_piece(0, None, "forecast", '{"city":')],
            [build_piece(0, None, None, '"Paris"}')],
            [build_piece(0, None, "list_orders", "{")],
            [build_piece(0, None, None, "}")],
        ],
        [("", "forecast", {"city": "Paris"}), ("", "list_orders", {})],
    ),
}
