"""evalgate's own JSON over HTTP: one POST a turn, answered by one object or by a stream of events.

`docs/agents-http.md` describes it for those who write the server.
"""

import uuid
from functools import partial

from evalgate.agents.http.connection import Connection, parsed
from evalgate.agents.http.conversation import Answer, broken
from evalgate.agents.http.off_loop import run_off_loop
from evalgate.agents.http.response_body import events, lines, whole
from evalgate.agents.workers import wire
from evalgate.agents.workers.wire import BadMessage, Transcript
from evalgate.core.protocols import AgentFailed
from evalgate.core.types import EvalCase, JsonObject, Usage, UserMessage

PROTOCOL = 1
_STREAMS = {"text/event-stream", "application/x-ndjson", "application/jsonl"}
_ACCEPT = {"Accept": "application/json, application/x-ndjson, text/event-stream"}


class TurnDialect:
    """See `Dialect`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def open(self, case: EvalCase) -> "TurnConversation":
        """See `Dialect.open`."""
        return TurnConversation(self._connection, case)


class TurnConversation:
    """See `Conversation`. Sends what a server needs that remembers nothing."""

    def __init__(self, connection: Connection, case: EvalCase) -> None:
        self._connection = connection
        self._case = case
        self._session = str(uuid.uuid4())
        self._state: JsonObject = case.session.state
        self._history: list[JsonObject] = []

    async def ask(self, message: UserMessage) -> Answer:
        """See `Conversation.ask`."""
        turn = _Turn()
        asked = self._request(message)
        async with self._connection.answer("POST", self._connection.url, asked, _ACCEPT) as response:
            if response.content_type == "text/event-stream":
                async for data in events(response, turn.is_over):
                    await run_off_loop(len(data), partial(turn.read_event, data))
            elif response.content_type in _STREAMS:
                async for line in lines(response, turn.is_over):
                    await run_off_loop(len(line), partial(turn.read_event, line))
            else:
                body = await whole(response)
                await run_off_loop(len(body), partial(turn.read_whole, body))
        answer = turn.answer()
        if answer.state is not None:
            self._state = answer.state
        said = ("user", message.text), ("agent", answer.reply.response or "")
        self._history += [{"role": role, "text": text} for role, text in said]
        return answer

    async def leave(self) -> None:
        """See `Conversation.leave`: nothing is kept that had to be forgotten."""

    def _request(self, message: UserMessage) -> JsonObject:
        case, given = self._case, self._case.session
        body: dict[str, object] = {
            "protocol": PROTOCOL,
            "session": self._session,
            "case": case.eval_id,
            "turn": len(self._history) // 2 + 1,
            "app_name": given.app_name,
            "user_id": given.user_id,
            "state": self._state,
            "history": self._history,
            "text": message.text,
        }
        if message.attachments:
            body["attachments"] = message.attachments
        if case.context_messages:
            body["context_messages"] = case.context_messages
        return body


class _Turn:
    """Collects one answer."""

    def __init__(self) -> None:
        self._transcript = Transcript()
        self._usage: Usage | None = None
        self._done: Answer | None = None

    def read_whole(self, body: bytes) -> None:
        """Read the body that is the whole answer. Raises AgentFailed."""
        self.whole(parsed(body))

    def read_event(self, data: bytes | str) -> None:
        """Read one event of the turn. Raises AgentFailed."""
        self.event(parsed(data))

    def whole(self, found: object) -> None:
        """The object that is the whole answer. Raises AgentFailed."""
        if found is None:
            raise broken("the agent's answer is empty: it must be a JSON object")
        if not isinstance(found, dict):
            raise broken("the agent's answer is not a JSON object")
        for name in ("events", "tool_calls"):
            if not isinstance(found.get(name, []), list | None):
                raise broken(f"the agent's answer has `{name}` that is not a list")
        for event in found.get("events") or ():
            self.event(event)
        for number, call in enumerate(found.get("tool_calls") or (), start=1):
            self._call_with_result(call, str(number))
        if isinstance(usage := found.get("usage"), dict):
            self.event({**usage, "type": "usage"})
        if found.get("error") is not None:
            error = found["error"]
            self.event({**(error if isinstance(error, dict) else {"message": error}), "type": "error"})
        self.event({"type": "done", "response": found.get("response"), "state": found.get("state")})

    def event(self, event: object) -> None:
        """One event of the turn. Raises AgentFailed."""
        if event is None:  # an empty line
            return
        if not isinstance(event, dict):
            raise broken("the agent sent an event that is not a JSON object")
        if self._done is not None:
            raise broken("the agent sent an event after `done`")
        try:
            self._take(event)
        except BadMessage as error:
            raise broken(str(error)) from None

    def is_over(self) -> bool:
        """Whether the agent said that it is done."""
        return self._done is not None

    def answer(self) -> Answer:
        """The answer, now that everything has arrived. Raises AgentFailed: it has no end."""
        if self._done is None:
            raise broken("the agent's answer ended without `done`")
        return self._done

    def _take(self, event: JsonObject) -> None:
        match event.get("type"):
            case "tool_call":
                self._transcript.add(wire.tool_call(event))
            case "tool_result":
                self._transcript.add(wire.tool_result(event))
            case "message":
                self._transcript.add_message(event)
            case "usage":
                self._usage = (self._usage or Usage()) + wire.usage(event)
            case "done":
                self._done = Answer(self._transcript.reply(event), self._usage, wire.state(event))
            case "error":
                failure = wire.failure(event, kind="exception")
                wanted_s = wire.retry_after(event)
                raise AgentFailed(failure, wire.outcome_of(failure), self._usage, wanted_s)
            case other:
                raise broken(f"the agent sent an event of type {str(other)[:60]!r}, which does not exist")

    def _call_with_result(self, call: object, id_: str) -> None:
        if not isinstance(call, dict):
            raise broken("the agent's answer has a tool call that is not a JSON object")
        event = {"id": id_, **call}
        self.event({**event, "type": "tool_call"})
        if "result" in call:
            self.event({**event, "type": "tool_result"})
