"""Answers of models, put together from the events of their streams."""

from typing import Any

import pytest

from evalgate.agents.host.capture.model_apis import ChatCompletionsDialect, ModelToolCall
from tests.agents.host.streams import STREAMS, Call, Pieces

PARIS = ModelToolCall("forecast", {"city": "Paris"}, "x")
ROME = ModelToolCall("forecast", {"city": "Rome"}, "y")


def build_piece(id_: str | None, name: str | None, arguments: str, **index: int | None) -> dict[str, Any]:
    return {**index, "id": id_, "function": {"name": name, "arguments": arguments}}


def read_streamed_calls(*chunks: list[dict[str, Any]]) -> list[ModelToolCall]:
    dialect = ChatCompletionsDialect()
    assembler = dialect.create_assembler()
    for pieces in chunks:
        assembler.add_event({"choices": [{"index": 0, "delta": {"tool_calls": pieces}}]})
    assert assembler.body is not None
    answer = dialect.read_answer(assembler.body)
    assert answer is not None
    return answer.calls


@pytest.mark.parametrize(("chunks", "calls"), STREAMS.values(), ids=STREAMS)
def test_the_streamed_calls_of_a_provider(chunks: list[Pieces], calls: list[Call]) -> None:
    found = [(each.id or "", each.name, each.args) for each in read_streamed_calls(*chunks)]
    assert found == calls


@pytest.mark.parametrize("index", [{"index": 0}, {"index": None}, {}])
def test_streamed_calls_with_one_index_are_separated_by_id(index: dict[str, int | None]) -> None:
    calls = read_streamed_calls(
        [build_piece("x", "forecast", '{"city":', **index)],
        [build_piece("x", None, '"Paris"', **index)],
        [build_piece(None, None, "}", **index)],
        [build_piece("y", "forecast", '{"city":"Rome"}', **index)],
    )
    assert calls == [PARIS, ROME]


def test_pieces_of_one_streamed_call_may_have_other_ids() -> None:
    calls = read_streamed_calls(
        [build_piece("x", "forecast", "", index=0)],
        [build_piece("other", None, '{"city":', index=0)],
        [build_piece("third", None, '"Paris"}', index=0)],
    )
    assert calls == [PARIS]


def test_streamed_calls_without_ids_are_separated_by_position() -> None:
    paris, rome = (build_piece(None, "forecast", f'{{"city":"{city}"}}') for city in ("Paris", "Rome"))
    assert read_streamed_calls([paris, rome]) == [PARIS._replace(id=None), ROME._replace(id=None)]


def test_pieces_of_several_streamed_calls_are_joined_by_index() -> None:
    calls = read_streamed_calls(
        [build_piece("x", "forecast", "", index=0), build_piece("y", "forecast", "", index=1)],
        [build_piece(None, None, '{"city":"Rome"}', index=1)],
        [build_piece(None, None, '{"city":"Paris"}', index=0)],
    )
    assert calls == [PARIS, ROME]
