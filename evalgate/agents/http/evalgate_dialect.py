"""evalgate's own JSON over HTTP: one POST per turn, answered by one object or by a stream of events.

`docs/agents-http.md` describes the format for authors of servers.
"""

import uuid
from functools import partial

from evalgate.agents.http.connection import AgentConnection
from evalgate.agents.http.dialect import TurnAnswer
from evalgate.agents.http.errors import build_format_error
from evalgate.agents.http.response_body import (
    iter_events,
    iter_lines,
    parse_json_body,
    read_body,
    run_off_loop,
)
from evalgate.agents.workers import protocol
from evalgate.agents.workers.protocol import InvalidMessageError, TurnCollector
from evalgate.core.protocols import AgentError
from evalgate.core.types import EvalCase, JsonObject, Usage, UserMessage

TURN_PROTOCOL_VERSION = 1
_STREAMS = {"text/event-stream", "application/x-ndjson", "application/jsonl"}
_ACCEPT = {"Accept": "application/json, application/x-ndjson, text/event-stream"}


class EvalgateDialect:
    """`Dialect` (wire format) for evalgate's own JSON."""

    def __init__(self, connection: AgentConnection) -> None:
        self._connection = connection

    def open_conversation(self, case: EvalCase) -> "EvalgateConversation":
        """Return a conversation with a random session id and the case's initial state."""
        return EvalgateConversation(self._connection, case)


class EvalgateConversation:
    """`RemoteConversation` for evalgate's JSON. Requests contain history and state for stateless servers."""

    def __init__(self, connection: AgentConnection, case: EvalCase) -> None:
        self._connection = connection
        self._case = case
        self.session_id = str(uuid.uuid4())
        self._state: JsonObject = case.session.state
        self._history: list[JsonObject] = []

    async def ask_agent(self, message: UserMessage) -> TurnAnswer:
        """Post the message with history and state, and return the answer.

        The response may be one JSON object, server-sent events or JSON lines.

        Raises:
            AgentError: the request failed, or the answer is malformed or reports an error.
        """
        turn = _TurnResponse()
        body = self._build_request(message)
        async with self._connection.open_response("POST", self._connection.url, body, _ACCEPT) as response:
            if response.content_type == "text/event-stream":
                async for data in iter_events(response, turn.is_over):
                    await run_off_loop(len(data), partial(turn.read_event, data))
            elif response.content_type in _STREAMS:
                async for line in iter_lines(response, turn.is_over):
                    await run_off_loop(len(line), partial(turn.read_event, line))
            else:
                whole = await read_body(response)
                await run_off_loop(len(whole), partial(turn.read_whole, whole))
        answer = turn.build_answer()
        if answer.state is not None:
            self._state = answer.state
        exchange = ("user", message.text), ("agent", answer.reply.response or "")
        self._history += [{"role": role, "text": text} for role, text in exchange]
        return answer

    async def end_conversation(self) -> None:
        """Do nothing: the format has no request that ends a conversation."""

    def _build_request(self, message: UserMessage) -> JsonObject:
        case, initial = self._case, self._case.session
        body: dict[str, object] = {
            "protocol": TURN_PROTOCOL_VERSION,
            "session": self.session_id,
            "case": case.eval_id,
            "turn": len(self._history) // 2 + 1,
            "app_name": initial.app_name,
            "user_id": initial.user_id,
            "state": self._state,
            "history": self._history,
            "text": message.text,
        }
        if message.attachments:
            body["attachments"] = message.attachments
        if case.context_messages:
            body["context_messages"] = case.context_messages
        return body


class _TurnResponse:
    """Collector of the answer of one turn."""

    def __init__(self) -> None:
        self._collector = TurnCollector()
        self._usage: Usage | None = None
        self._done: TurnAnswer | None = None

    def read_whole(self, body: bytes) -> None:
        """Read a body that is the whole answer.

        Raises:
            AgentError: the body is malformed or reports an error.
        """
        self.accept_answer(parse_json_body(body))

    def read_event(self, data: bytes | str) -> None:
        """Read the JSON of one event; raise AgentError if the event is malformed or reports an error."""
        self.accept_event(parse_json_body(data))

    def accept_answer(self, found: object) -> None:
        """Accept a decoded body that is the whole answer. Its parts are handled like events of a stream.

        Raises:
            AgentError: the object is malformed or reports an error.
        """
        if found is None:
            raise build_format_error("the agent's answer is empty: it must be a JSON object")
        if not isinstance(found, dict):
            raise build_format_error("the agent's answer is not a JSON object")
        for name in ("events", "tool_calls"):
            if not isinstance(found.get(name, []), list | None):
                raise build_format_error(f"the agent's answer has `{name}` that is not a list")
        for event in found.get("events") or ():
            self.accept_event(event)
        for number, call in enumerate(found.get("tool_calls") or (), start=1):
            self._read_call_with_result(call, str(number))
        if isinstance(usage := found.get("usage"), dict):
            self.accept_event({**usage, "type": "usage"})
        if found.get("error") is not None:
            error = found["error"]
            self.accept_event({**(error if isinstance(error, dict) else {"message": error}), "type": "error"})
        self.accept_event({"type": "done", "response": found.get("response"), "state": found.get("state")})

    def accept_event(self, event: object) -> None:
        """Accept one decoded event of the turn; ignore None, which stands for an empty line.

        Raises:
            AgentError: the event is malformed, follows `done`, or reports an error.
        """
        if event is None:  # an empty line
            return
        if not isinstance(event, dict):
            raise build_format_error("the agent sent an event that is not a JSON object")
        if self._done is not None:
            raise build_format_error("the agent sent an event after `done`")
        try:
            self._apply_event(event)
        except InvalidMessageError as error:
            raise build_format_error(str(error)) from None

    def is_over(self) -> bool:
        """Return True after the `done` event."""
        return self._done is not None

    def build_answer(self) -> TurnAnswer:
        """Return the answer, once the body has ended.

        Raises:
            AgentError: there was no `done` event.
        """
        if self._done is None:
            raise build_format_error("the agent's answer ended without `done`")
        return self._done

    def _apply_event(self, event: JsonObject) -> None:
        match event.get("type"):
            case "tool_call":
                self._collector.events.append(protocol.parse_tool_call(event))
            case "tool_result":
                self._collector.events.append(protocol.parse_tool_result(event))
            case "message":
                self._collector.add_message(event)
            case "usage":
                self._usage = (self._usage or Usage()) + protocol.parse_usage(event)
            case "done":
                self._done = TurnAnswer(
                    self._collector.build_reply(event), self._usage, protocol.parse_state(event)
                )
            case "error":
                failure = protocol.parse_failure(event, kind="exception")
                retry_after_s = protocol.read_retry_after(event)
                raise AgentError(failure, protocol.classify_failure(failure), self._usage, retry_after_s)
            case other:
                raise build_format_error(
                    f"the agent sent an event of type {str(other)[:60]!r}, which does not exist"
                )

    def _read_call_with_result(self, call: object, id_: str) -> None:
        if not isinstance(call, dict):
            raise build_format_error("the agent's answer has a tool call that is not a JSON object")
        # The number replaces a missing id, so that the result is assigned to its call.
        event = {"id": id_, **call}
        self.accept_event({**event, "type": "tool_call"})
        if "result" in call:
            self.accept_event({**event, "type": "tool_result"})
