"""The reply of one turn, as its messages arrive."""

from evalgate.model import Event, JsonObject, Message, Reply, ToolCall
from evalgate.workerpool import messages


class Transcript:
    """Collects the events of one turn."""

    __slots__ = ("_events", "_final", "size", "tells_usage")

    def __init__(self) -> None:
        self.size = 0
        """Bytes that the turn has sent so far."""
        self.tells_usage = False
        """Whether the agent itself reported what it consumed."""
        self._events: list[Event] = []
        self._final: int | None = None

    def add(self, event: Event) -> None:
        """One more event."""
        self._events.append(event)

    def add_message(self, message: JsonObject) -> None:
        """Something the agent said; the last that is marked final is the response unless `done` names one.

        Raises:
            BadMessage: a field is wrong.
        """
        if message.get("final") is True:
            self._final = len(self._events)
        self._events.append(messages.said(message))

    def add_captured(self, events: tuple[Event, ...]) -> None:
        """Put what was captured before what the agent reported, unless that has tool calls of its own."""
        if any(isinstance(event, ToolCall) for event in self._events):
            return
        texts = {event.text for event in self._events if isinstance(event, Message)}
        new = [event for event in events if not isinstance(event, Message) or event.text not in texts]
        self._events[:0] = new
        if self._final is not None:
            self._final += len(new)

    def reply(self, done: JsonObject) -> Reply:
        """The whole reply, now that the turn is over.

        Raises:
            BadMessage: a field of `done` is wrong.
        """
        response = messages.response(done)
        final = self._final
        if final is None:
            return Reply(response, tuple(self._events))
        said = self._events[final]
        if isinstance(said, Message) and response in (None, said.text):
            # The final message is the response, not an event before it.
            return Reply(said.text, (*self._events[:final], *self._events[final + 1 :]))
        return Reply(response, tuple(self._events))
