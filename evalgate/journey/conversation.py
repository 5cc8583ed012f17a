"""A run of a case as one conversation: what was called, said and shown, whichever turn it was in."""

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from evalgate.frozen import frozen
from evalgate.judge.fencing import indent_later_lines
from evalgate.model import (
    CaseRun,
    EvalCase,
    Event,
    JsonObject,
    Message,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)


@frozen
class Conversation:
    """One conversation, in order."""

    calls: tuple[ToolCall, ...]
    texts: tuple[str, ...]
    """What the agent said, responses and messages alike, but not what its widgets asked."""
    widgets: tuple[JsonObject, ...]
    """What the agent showed."""
    last_said: str
    """The agent's last text, be it a widget's; "" when it said nothing."""
    transcript: str
    """Lines of `user: …` and `assistant: …`, those of tool calls and results as JSON."""


def conversation_of(case: EvalCase, run: CaseRun) -> Conversation:
    """The conversation that a run was."""
    replies = [reply for reply in run.replies if reply is not None]
    events = [event for reply in replies for event in reply.events]
    said = [text for reply in replies for text in _texts(reply, with_widgets=True)]
    return Conversation(
        calls=tuple(event for event in events if isinstance(event, ToolCall)),
        texts=tuple(text for reply in replies for text in _texts(reply)),
        widgets=tuple(
            event.payload for event in events if isinstance(event, Message) and event.payload is not None
        ),
        last_said=said[-1] if said else "",
        transcript="\n".join(_lines(_said(case, run), run.replies)),
    )


def _texts(reply: Reply, *, with_widgets: bool = False) -> Iterator[str]:
    for event in reply.events:
        if isinstance(event, Message) and (with_widgets or event.payload is None):
            yield event.text
    if reply.response is not None:
        yield reply.response


def _said(case: EvalCase, run: CaseRun) -> Sequence[UserMessage]:
    return run.said or [turn.user for turn in case.turns]


def _lines(said: Sequence[UserMessage], replies: Sequence[Reply | None]) -> Iterator[str]:
    for message, reply in zip_longest(said, replies):
        if message is not None:
            yield f"user: {indent_later_lines(message.text)}"
        if reply is not None:
            lines = [*map(_line, reply.events), reply.response or ""]
            yield from (f"assistant: {indent_later_lines(line)}" for line in lines if line)


def _line(event: Event) -> str:
    told: JsonObject
    match event:
        case Message():
            return event.text
        case ToolCall():
            told = {"type": "tool_call", "name": event.name, "args": event.args, "id": event.id}
        case ToolResult():
            told = {"type": "tool_response", "content": event.result, "name": event.name, "id": event.id}
    return json.dumps(told, ensure_ascii=False, default=str)
