"""A reply's tool calls, each with what the tool answered."""

from dataclasses import dataclass

from evalgate.model import JsonObject, Reply, ToolCall, ToolResult


@dataclass(slots=True)
class ToolRecord:
    """One call and its result; None where there is none, which is not the same as an empty object."""

    name: str
    arguments: object = None
    result: object = None
    id: str = ""
    is_answered: bool = False


def tool_records(reply: Reply) -> list[ToolRecord]:
    """The calls in their order.

    A result belongs to the first unanswered call of its id, or without an id of its tool. A result without a
    call belongs to none and is left out.
    """
    records: list[ToolRecord] = []
    for event in reply.events:
        if isinstance(event, ToolCall):
            records.append(ToolRecord(event.name, _arguments(event), id=event.id or ""))
        elif isinstance(event, ToolResult) and (record := _asked(records, event)) is not None:
            record.result, record.is_answered = event.result, True
    return records


def _arguments(call: ToolCall) -> JsonObject | object:
    return call.other_args if call.args is None else call.args


def _asked(records: list[ToolRecord], result: ToolResult) -> ToolRecord | None:
    for record in records:
        if not record.is_answered and (record.id == result.id if result.id else record.name == result.name):
            return record
    return None
