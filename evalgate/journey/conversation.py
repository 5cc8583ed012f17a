"""A run of a case as one conversation: what was called, said and shown, whichever turn it was in."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from evalgate.frozen import frozen
from evalgate.model import CaseRun, EvalCase, JsonObject, Message, Reply, ToolCall, UserMessage


@frozen
class Conversation:
    """One conversation, in order."""

    calls: tuple[ToolCall, ...]
    texts: tuple[str, ...]
    """What the agent said, responses and messages alike, but not what its widgets asked."""
    widgets: tuple[JsonObject, ...]
    """What the agent showed."""
    transcript: str
    """Lines of `user: …` and `assistant: …`."""


def conversation_of(case: EvalCase, run: CaseRun) -> Conversation:
    """The conversation that a run was."""
    replies = [reply for reply in run.replies if reply is not None]
    events = [event for reply in replies for event in reply.events]
    return Conversation(
        calls=tuple(event for event in events if isinstance(event, ToolCall)),
        texts=tuple(text for reply in replies for text in _texts(reply)),
        widgets=tuple(
            event.payload for event in events if isinstance(event, Message) and event.payload is not None
        ),
        transcript="\n".join(_lines(_said(case, run), run.replies)),
    )


def _texts(reply: Reply) -> Iterator[str]:
    for event in reply.events:
        if isinstance(event, Message) and event.payload is None:
            yield event.text
    if reply.response is not None:
        yield reply.response


def _said(case: EvalCase, run: CaseRun) -> Sequence[UserMessage]:
    return run.said or [turn.user for turn in case.turns]


def _lines(said: Sequence[UserMessage], replies: Sequence[Reply | None]) -> Iterator[str]:
    for message, reply in zip_longest(said, replies):
        if message is not None:
            yield f"user: {message.text}"
        for text in _texts(reply) if reply is not None else ():
            yield f"assistant: {text}"
