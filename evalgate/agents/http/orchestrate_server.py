"""Client of watsonx Orchestrate: its list of agents, its runs and the events of a run.

The paths and events are those that IBM's evaluation framework 1.6.9 uses in `agentops.runtime_adapter`.
"""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from evalgate.agents.http.connection import AgentConnection
from evalgate.agents.http.dialect import TurnAnswer
from evalgate.agents.http.errors import build_format_error, build_unsupported_error
from evalgate.agents.http.response_body import iter_lines, parse_json_body, run_off_loop
from evalgate.agents.workers.protocol import WorkerProtocolError, parse_untrusted_json
from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.protocols import AgentError
from evalgate.core.sanitize import shorten_text
from evalgate.core.types import (
    EvalCase,
    Event,
    Failure,
    JsonObject,
    Message,
    Reply,
    ToolCall,
    ToolResult,
    UserMessage,
)

_AGENTS = "/v1/orchestrate/agents"
_RUNS = "/v1/orchestrate/runs"
HEALTH_PATH = _AGENTS
_LAST_EVENT = "done"
_ERRORS = {"error", "run.failed"}
_MAX_SHOWN_AGENTS = 10


class OrchestrateDialect:
    """`Dialect` (wire format) for watsonx Orchestrate. It keeps the server's list of agents."""

    def __init__(self, connection: AgentConnection, agent: str | None = None) -> None:
        """Store the connection and the name of the agent.

        Without a name, each case is sent to the agent that the case names. A case without the name of an
        agent is sent to the server's only agent.
        """
        self._connection = connection
        self._agent = agent
        self._ids: dict[str, str] | None = None
        """Ids of the server's agents, by name."""

    def open_conversation(self, case: EvalCase) -> "OrchestrateConversation":
        """Return a conversation; the server creates its thread with the first message."""
        return OrchestrateConversation(self._connection, self, case)

    async def find_agent_id(self, case: EvalCase) -> str:
        """Return the id of the agent for a case; the first call requests the server's list of agents.

        Raises:
            AgentError: the request failed, or the server does not have the named agent. Or no agent is named,
                and the server has several agents or none.
        """
        if self._ids is None:
            listed = await self._connection.request_json("GET", self._connection.build_url(_AGENTS))
            self._ids = {
                name: id_
                for agent in _iter_objects(listed)
                if isinstance(name := agent.get("name"), str) and isinstance(id_ := agent.get("id"), str)
            }
        name = self._agent or case.session.app_name
        if name in self._ids:
            return self._ids[name]
        if not name and len(self._ids) == 1:
            return next(iter(self._ids.values()))
        known = ", ".join(sorted(self._ids)[:_MAX_SHOWN_AGENTS]) or "none"
        sentence = f"the server has several agents or none ({known}): name one as `app`"
        if name:
            sentence = f"the server has no agent `{name}`.{did_you_mean(name, self._ids)} It has: {known}"
        raise AgentError(Failure("no_agent", shorten_text(sentence, 2_000)), "faulted")


class OrchestrateConversation:
    """`RemoteConversation` for watsonx Orchestrate, in one thread of the server."""

    def __init__(self, connection: AgentConnection, dialect: OrchestrateDialect, case: EvalCase) -> None:
        self._connection = connection
        self._dialect = dialect
        self._case = case
        self.session_id = ""
        """Id that the server gave the thread; "" before the first answer."""

    async def ask_agent(self, message: UserMessage) -> TurnAnswer:
        """Start a run on the server with the message, and read its events. The server reports no usage.

        Raises:
            AgentError: a request failed, the events are malformed or report an error, or the case has
                attachments or earlier messages, which cannot be sent.
        """
        if message.attachments or self._case.context_messages:
            raise build_unsupported_error("Orchestrate takes no attachments and no earlier messages")
        body = await self._build_request(message)
        url = self._connection.build_url(_RUNS)
        url += f"{'&' if '?' in url else '?'}stream=true"
        events = OrchestrateEvents()
        async with self._connection.open_response("POST", url, body) as response:
            async for line in iter_lines(response, events.is_over):
                await run_off_loop(len(line), partial(events.read_line, line))
        reply = events.build_reply()
        self.session_id = self.session_id or events.thread_id
        if not self.session_id:
            raise build_format_error("no event of the run has a `thread_id`")
        return TurnAnswer(reply)

    async def end_conversation(self) -> None:
        """Do nothing: threads stay on the server, as they do after a chat in its user interface."""

    async def _build_request(self, message: UserMessage) -> JsonObject:
        body: dict[str, object] = {
            "message": {"role": "user", "content": message.text},
            "agent_id": await self._dialect.find_agent_id(self._case),
        }
        if self.session_id:
            body["thread_id"] = self.session_id
        if self._case.session.state:
            body["context"] = self._case.session.state
        return body


class OrchestrateEvents:
    """Collector of the events of one run on the server: one turn, as lines of JSON or server-sent events."""

    def __init__(self) -> None:
        self.thread_id = ""
        self._events: list[Event] = []
        self._call_ids: set[str] = set()
        self._is_over = False

    def is_over(self) -> bool:
        """Return True once the run's last event, `done`, was read."""
        return self._is_over

    def read_line(self, line: bytes) -> None:
        """Read one line of the stream; ignore a line without a JSON object, such as `event: message`.

        Raises:
            AgentError: the JSON is malformed, or the event reports an error.
        """
        text = line.removeprefix(b"data:").strip()
        if not text.startswith(b"{"):
            return
        event = parse_json_body(text)
        if isinstance(event, dict):
            self.read_event(event)

    def read_event(self, event: JsonObject) -> None:
        """Read one event; raise AgentError if the event reports an error."""
        name, data = event.get("event"), _as_object(event.get("data"))
        if isinstance(thread := data.get("thread_id"), str):
            self.thread_id = thread
        if name in _ERRORS:
            sentence = f"the agent's server reports an error: {_describe_error(event)}"
            raise AgentError(Failure("exception", shorten_text(sentence, 2_000)))
        self._read_steps(_as_object(data.get("delta")).get("step_details"))
        if name == "message.created":
            self._read_message(_as_object(data.get("message")))
        self._is_over = self._is_over or name == _LAST_EVENT

    def build_reply(self) -> Reply:
        """Return the reply of the run. The response is the last message that is not a widget, or None.

        A widget is an element of the chat's user interface, such as a list of options.

        Raises:
            AgentError: the run has no tool calls, results or messages. Or the stream ended with neither a
                message nor the event `done`.
        """
        if not self._events:
            raise build_format_error("the run ended without a message")
        if not self._is_over and not any(isinstance(each, Message) for each in self._events):
            raise build_format_error("the stream ended before the run did, and without a message")
        texts = [each for each in self._events if isinstance(each, Message) and each.payload is None]
        last = texts[-1] if texts else None
        # Compared by identity, so that an earlier message with the same text is kept.
        others = tuple(event for event in self._events if event is not last)
        return Reply(None if last is None else last.text, others)

    def _read_steps(self, steps: object) -> None:
        for step in _iter_objects(steps):
            match step.get("type"):
                case "tool_calls":
                    for call in _iter_objects(step.get("tool_calls")):
                        self._add_call(call)
                case "tool_call":
                    self._add_call(step)
                case "tool_response":
                    self._events.append(
                        ToolResult(
                            str(step.get("name") or ""), _parse_content(step.get("content")), _read_id(step)
                        )
                    )

    def _add_call(self, call: JsonObject) -> None:
        identifier = _read_id(call)
        # The server repeats a call next to its result.
        if identifier is None or identifier not in self._call_ids:
            args = _parse_content(call.get("args"))
            arguments = args if isinstance(args, dict) else {}
            self._events.append(ToolCall(str(call.get("name") or ""), arguments, identifier))
        if identifier is not None:
            self._call_ids.add(identifier)

    def _read_message(self, message: JsonObject) -> None:
        if message.get("role") in (None, "", "user"):  # since release 2.2, a message without a role is a copy
            return
        for item in _iter_objects(message.get("content")):
            text = next((item[key] for key in ("text", "description") if isinstance(item.get(key), str)), "")
            if item.get("response_type") == "option":
                self._events.append(Message(text, payload=_build_widget(item)))
            elif text:
                self._events.append(Message(text))


def _build_widget(item: JsonObject) -> JsonObject:
    """Return `{"title": …, "description": …}` for a widget, as IBM's recordings store it; "" if missing."""
    meta = _as_object(_as_object(item.get("_meta")).get("com.ibm.orchestrate/widget"))
    description = meta.get("description", item.get("description", ""))
    return {"title": meta.get("title", ""), "description": description}


def _iter_objects(value: object) -> Iterator[dict[str, Any]]:
    yield from (each for each in value if isinstance(each, dict)) if isinstance(value, list) else ()


def _as_object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _read_id(step: JsonObject) -> str | None:
    found = step.get("tool_call_id") or step.get("id")
    return found if isinstance(found, str) else None


def _parse_content(value: object) -> object:
    """Return the object or list in a JSON text, and any other value unchanged."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return parse_untrusted_json(value)
    except (json.JSONDecodeError, WorkerProtocolError):
        return value


def _describe_error(event: JsonObject) -> str:
    data = _as_object(event.get("data"))
    found = next((data[key] for key in ("error", "last_error", "message") if data.get(key)), data or event)
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
