"""What is said and done in a conversation, expected or real."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from evalgate.frozen import frozen

JsonObject: TypeAlias = Mapping[str, object]
"""A decoded JSON object. Numbers are finite, strings hold no lone surrogates."""

NO_JSON: JsonObject = {}


@frozen
class ToolCall:
    """The agent called a tool."""

    name: str
    args: JsonObject | None = None
    """None when the source names no arguments; an empty object is a call with none."""
    id: str | None = None
    author: str | None = None
    type: Literal["tool_call"] = "tool_call"
    other_args: object = None
    """Arguments that are no JSON object (a text, a list), where a source has such; `args` is None then."""


@frozen
class ToolResult:
    """A tool answered the agent."""

    name: str
    result: object = None
    id: str | None = None
    author: str | None = None
    type: Literal["tool_result"] = "tool_result"


@frozen
class Message:
    """The agent said something on its way to the final response."""

    text: str
    author: str | None = None
    type: Literal["message"] = "message"
    payload: JsonObject | None = None
    """What a widget in the message holds, where it asks the user to choose or confirm."""


Event: TypeAlias = ToolCall | ToolResult | Message


@frozen
class Reply:
    """What an agent does in one turn: the expected one and the actual one have the same shape."""

    response: str | None = None
    """Text of the final response; None when there is none."""
    events: tuple[Event, ...] = ()
    """Everything before the final response, in order."""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls alone, in order."""
        return tuple([event for event in self.events if isinstance(event, ToolCall)])


@frozen
class UserMessage:
    """What the user says in one turn."""

    text: str
    attachments: tuple[JsonObject, ...] = ()
    """Parts of the message that are not text, as the eval set holds them."""


NOTHING_EXPECTED = Reply()
