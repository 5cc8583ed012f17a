"""Client of Google ADK's `api_server`: its sessions, its two run endpoints and its events."""

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pydantic.alias_generators import to_camel

from evalgate.agents.http import response_body
from evalgate.agents.http.connection import AgentConnection, append_path
from evalgate.agents.http.dialect import TurnAnswer
from evalgate.agents.http.errors import build_format_error
from evalgate.agents.http.response_body import parse_json_body, read_body, run_off_loop
from evalgate.agents.tracing.trace_context import is_trace_wanted
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
    TraceSpan,
    Usage,
    UserMessage,
)


def read_adk_reply(events: Iterable[object]) -> tuple[Reply, Usage | None]:
    """Return the reply and the usage of one turn.

    An event is final if ADK's `is_final_response` is True. The response is the text of the last final event
    with text. It is "" if final events exist but have no text, as with a long-running call. It is None if
    there is no final event. All other texts, calls and results are the reply's events.

    Two kinds of events are ignored: events of the author `user`, and partial events, which whole events
    repeat. The usage is None if no event reports usage.

    Raises:
        AgentError: an event is malformed, or is the server's report of an error. Or an event reports an
            error of the model, and no event is final.
    """
    selected = _select_events(events)
    reply, usage = read_recorded_reply(selected), _sum_usage(selected)
    if reply.response is None:
        _raise_model_error(selected, usage)
    return reply, usage


def read_recorded_reply(events: Iterable[object]) -> Reply:
    """Return the reply of one recorded turn. The response is None if there is no final event.

    The response is the text of the last final event with text, or "" if no final event has text. An event is
    final if ADK's `is_final_response` is True. All other texts, calls and results are the reply's events.

    Raises:
        AgentError: an event is malformed, or is the server's report of an error.
    """
    selected = _select_events(events)
    finals = [event for event in reversed(selected) if _list_parts(event) and _is_final(event)]
    final = next(filter(get_event_text, finals), finals[0] if finals else None)
    events_before = tuple(
        found for event in selected for found in _iter_events(event, is_final=event is final)
    )
    return Reply(None if final is None else get_event_text(final), events_before)


def _select_events(events: Iterable[object]) -> list[dict[str, Any]]:
    whole = [_require_event(event) for event in events]
    return [
        event
        for event in whole
        if _get_field(event, "partial") is not True and _get_field(event, "author") != "user"
    ]


def _raise_model_error(events: Sequence[JsonObject], usage: Usage | None) -> None:
    error = next((event for event in reversed(events) if _get_field(event, "error_code")), None)
    if error is not None:
        why = f": {message}" if (message := _get_field(error, "error_message")) else ""
        code = _get_field(error, "error_code")
        sentence = f"the model of `{_get_field(error, 'author')}` gave the error {code}{why}"
        raise AgentError(Failure("model", shorten_text(sentence, 2_000)), usage=usage)


def _is_final(event: JsonObject) -> bool:
    """Return True if ADK's `Event.is_final_response` is True for `event`. No partial event may be passed."""
    actions = _get_field(event, "actions")
    if isinstance(actions, dict) and _get_field(actions, "skip_summarization"):
        return True
    if _get_field(event, "long_running_tool_ids"):
        return True
    parts = _list_parts(event)
    acts = any(_get_field(part, "function_call") or _get_field(part, "function_response") for part in parts)
    return not acts and not (parts and _get_field(parts[-1], "code_execution_result"))


def _iter_events(event: JsonObject, *, is_final: bool) -> Iterator[Event]:
    author = _get_field(event, "author")
    author = author if isinstance(author, str) else None
    is_response = is_final and not any(_get_field(part, "function_call") for part in _list_parts(event))
    for part in _list_parts(event):
        call, answer, text = (
            _get_field(part, name) for name in ("function_call", "function_response", "text")
        )
        if isinstance(call, dict):
            args = call.get("args")
            yield ToolCall(
                _require_name(call), args if isinstance(args, dict) else {}, _read_id(call), author
            )
        elif isinstance(answer, dict):
            yield ToolResult(_require_name(answer), answer.get("response"), _read_id(answer), author)
        elif isinstance(text, str) and text and not is_response:
            yield Message(text, author)


def _sum_usage(events: list[dict[str, Any]]) -> Usage | None:
    """Return the sum of the events' tokens; None if no event has `usage_metadata`, or a count is negative."""
    found = [usage for event in events if isinstance(usage := _get_field(event, "usage_metadata"), dict)]
    counts = [_read_count(usage, name) for usage in found for name in _INPUT_COUNTS + _OUTPUT_COUNTS]
    if not found or min(counts) < 0:
        return None
    return Usage.from_tokens(
        sum(_read_count(usage, name) for usage in found for name in _INPUT_COUNTS),
        sum(_read_count(usage, name) for usage in found for name in _OUTPUT_COUNTS),
    )


_INPUT_COUNTS = ("prompt_token_count", "tool_use_prompt_token_count")
_OUTPUT_COUNTS = ("candidates_token_count", "thoughts_token_count")


def _get_field(found: Mapping[str, Any], name: str) -> Any:
    """Return the value of a key that is written in camelCase or snake_case; None if the key is missing.

    `name` is the key in snake_case. If both keys are present, the value of the key in camelCase is returned.
    """
    value = found.get(to_camel(name))
    return found.get(name) if value is None else value


def _require_event(event: object) -> dict[str, Any]:
    if not isinstance(event, dict):
        raise build_format_error("the agent sent an event that is not a JSON object")
    if "error" in event and "author" not in event:
        raise AgentError(
            Failure(
                "exception", shorten_text(f"the agent's server reports an error: {event['error']}", 2_000)
            )
        )
    return event


def _list_parts(event: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = event.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def get_event_text(event: Mapping[str, Any]) -> str:
    """Return the texts of an event's parts, joined by line ends; "" if no part has text."""
    return "\n".join(
        part["text"] for part in _list_parts(event) if isinstance(part.get("text"), str) and part["text"]
    )


def _require_name(found: Mapping[str, Any]) -> str:
    name = found.get("name")
    if not isinstance(name, str):
        raise build_format_error("the agent sent a function call or response without a name")
    return name


def _read_id(found: Mapping[str, Any]) -> str | None:
    return found["id"] if isinstance(found.get("id"), str) else None


def _read_count(usage: Mapping[str, Any], name: str) -> int:
    count = _get_field(usage, name)
    return count if isinstance(count, int) else 0


# Seconds to wait for the deletion of a session, which takes place after the last answer.
_DELETE_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdkServerOptions:
    """Options of the dialect: the app of the server, and streaming."""

    app: str | None = None
    """App of the server. None: the app that the case names if the server has it, else the only app."""
    stream: bool = False
    """True: turns are sent to `/run_sse`, which streams events; False: to `/run`."""


class AdkServerDialect:
    """`Dialect` (wire format) for ADK's `api_server`. It keeps the server's list of apps."""

    def __init__(self, connection: AgentConnection, options: AdkServerOptions) -> None:
        self._connection = connection
        self._options = options
        self._apps: list[str] | None = None

    def open_conversation(self, case: EvalCase) -> "AdkServerConversation":
        """Return a conversation that creates its session with the first message."""
        return AdkServerConversation(self._connection, self._options, self, case)

    async def choose_app(self, case: EvalCase) -> str:
        """Return the name of the app for a case.

        Without the option `app`, the first call requests the server's list of apps.

        Raises:
            AgentError: the request failed. Or the case names no app of the server, and the server has
                several apps or none.
        """
        if self._options.app is not None:
            return self._options.app
        if self._apps is None:
            listed = await self._connection.request_json("GET", self._connection.build_url("/list-apps"))
            self._apps = [app for app in listed if isinstance(app, str)] if isinstance(listed, list) else []
        if case.session.app_name in self._apps:
            return case.session.app_name
        if len(self._apps) != 1:
            known = ", ".join(self._apps[:10]) or "none"
            sentence = f"the server has several apps or none ({known}): name one as `app`"
            raise AgentError(Failure("no_app", sentence), "faulted")
        return self._apps[0]


class AdkServerConversation:
    """`RemoteConversation` for ADK's `api_server`, in one session of the server."""

    def __init__(
        self,
        connection: AgentConnection,
        options: AdkServerOptions,
        dialect: AdkServerDialect,
        case: EvalCase,
    ) -> None:
        self._connection = connection
        self._options = options
        self._dialect = dialect
        self._case = case
        self._app = ""
        # A new user if the case names none: ADK shares `user:` state between the sessions of a user.
        self.user_id = case.session.user_id or f"evalgate-{uuid.uuid4()}"
        self.session_id = ""
        """Id that the server gave the session; "" before the first turn."""
        self._trace = None
        if is_trace_wanted.get():
            from evalgate.agents.http.adk_server_trace import AdkServerTrace

            self._trace = AdkServerTrace(connection)

    async def ask_agent(self, message: UserMessage) -> TurnAnswer:
        """Run the turn in the session and return its reply, its usage and the session's state.

        Raises:
            AgentError: a request failed, or the events are malformed or end with an error.
        """
        if not self.session_id:
            await self._create_session()
        if self._trace is not None:
            self._trace.begin_turn()
        at, body = self._connection.build_url, self._build_body(message)
        if self._options.stream:
            headers = {"Accept": "text/event-stream"}
            async with self._connection.open_response("POST", at("/run_sse"), body, headers) as response:
                data = [each async for each in response_body.iter_events(response)]
            size = sum(map(len, data))
            reply, usage = await run_off_loop(
                size, lambda: read_adk_reply([parse_json_body(each) for each in data])
            )
        else:
            async with self._connection.open_response("POST", at("/run"), body) as response:
                answer = await read_body(response)
            reply, usage = await run_off_loop(len(answer), lambda: read_adk_reply(_parse_events(answer)))
        # The events hold only the changes of the state; the session holds the whole state.
        found = await self._connection.request_json("GET", self._session_url)
        state = found.get("state") if isinstance(found, dict) else None
        if self._trace is not None:
            await self._trace.request_spans(self._app, self.session_id)
        return TurnAnswer(reply, usage, state if isinstance(state, dict) else None)

    def take_spans(self) -> Sequence[TraceSpan]:
        """Return the steps of the last turn, read from the spans that `adk web` stores, and remove them."""
        return () if self._trace is None else self._trace.take_spans()

    async def end_conversation(self) -> None:
        """Delete the session on the server, if there is one.

        Raises:
            AgentError: the request failed.
            TimeoutError: the request took longer than 5 s.
        """
        if self.session_id:
            async with asyncio.timeout(_DELETE_TIMEOUT_S):
                await self._connection.request_json("DELETE", self._session_url)

    @property
    def _session_url(self) -> str:
        return append_path(self._sessions_url, f"/{quote(self.session_id, safe='')}")

    @property
    def _sessions_url(self) -> str:
        app, user = quote(self._app, safe=""), quote(self.user_id, safe="")
        return self._connection.build_url(f"/apps/{app}/users/{user}/sessions")

    async def _create_session(self) -> None:
        self._app = await self._dialect.choose_app(self._case)
        created = await self._connection.request_json(
            "POST", self._sessions_url, {"state": self._case.session.state}
        )
        id_ = created.get("id") if isinstance(created, dict) else None
        if not isinstance(id_, str) or not id_:
            raise build_format_error("the server made a session without an id")
        self.session_id = id_

    def _build_body(self, message: UserMessage) -> JsonObject:
        parts: list[JsonObject] = [{"text": message.text}, *message.attachments]
        return {
            "appName": self._app,
            "userId": self.user_id,
            "sessionId": self.session_id,
            "newMessage": {"role": "user", "parts": parts},
            "streaming": self._options.stream,
        }


def _parse_events(body: bytes) -> list[object]:
    """Return the events of an answer; raise AgentError if the answer is not a list."""
    found = parse_json_body(body)
    if not isinstance(found, list):
        raise build_format_error("the agent's answer is not a list of events")
    return found
