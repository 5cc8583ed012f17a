"""Google ADK's `api_server`: its sessions, its two run endpoints and its events."""

import asyncio
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from pydantic.alias_generators import to_camel

from evalgate.agents.http.connection import Connection, parsed
from evalgate.agents.http.conversation import Answer, below, broken
from evalgate.agents.http.off_loop import run_off_loop
from evalgate.agents.http.response_body import events as sent_events
from evalgate.agents.http.response_body import whole
from evalgate.core.protocols import AgentFailed
from evalgate.core.sanitize import shortened
from evalgate.core.types import (
    EvalCase,
    Event,
    Failure,
    JsonObject,
    Message,
    Reply,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)


def reply_of(events: Iterable[object]) -> tuple[Reply, Usage | None]:
    """One turn: the final response is that of the last final event with text, everything else came before.

    One without text (a long-running call) stands in where none has any.
    Pieces of a text that is still being streamed (`partial`) are left out: the whole follows.

    Raises:
        AgentFailed: what was sent are no events, or they end with an error and no response.
    """
    said = _said(events)
    reply, usage = recorded_reply(said), _usage(said)
    if reply.response is None:
        _check_model(said, usage)
    return reply, usage


def recorded_reply(events: Iterable[object]) -> Reply:
    """The same, of a turn that may have ended with an error of its model: then there is no response.

    Raises:
        AgentFailed: they are no events.
    """
    said = _said(events)
    finals = [event for event in reversed(said) if _parts(event) and _is_final(event)]
    final = next(filter(text_of, finals), finals[0] if finals else None)
    events_before = tuple(found for event in said for found in _events(event, is_final=event is final))
    return Reply(None if final is None else text_of(final), events_before)


def _said(events: Iterable[object]) -> list[dict[str, Any]]:
    whole = [_object(event) for event in events]
    return [
        event for event in whole if _get(event, "partial") is not True and _get(event, "author") != "user"
    ]


def _check_model(said: Sequence[JsonObject], usage: Usage | None) -> None:
    error = next((event for event in reversed(said) if _get(event, "error_code")), None)
    if error is not None:
        why = f": {message}" if (message := _get(error, "error_message")) else ""
        code = _get(error, "error_code")
        sentence = f"the model of `{_get(error, 'author')}` gave the error {code}{why}"
        raise AgentFailed(Failure("model", shortened(sentence, 2_000)), usage=usage)


def _is_final(event: JsonObject) -> bool:
    """As `Event.is_final_response` of ADK."""
    actions = _get(event, "actions")
    if isinstance(actions, dict) and _get(actions, "skip_summarization"):
        return True
    if _get(event, "long_running_tool_ids"):
        return True
    parts = _parts(event)
    acts = any(_get(part, "function_call") or _get(part, "function_response") for part in parts)
    return not acts and not (parts and _get(parts[-1], "code_execution_result"))


def _events(event: JsonObject, *, is_final: bool) -> Iterator[Event]:
    author = _get(event, "author")
    author = author if isinstance(author, str) else None
    is_response = is_final and not any(_get(part, "function_call") for part in _parts(event))
    for part in _parts(event):
        call, answer, text = (_get(part, name) for name in ("function_call", "function_response", "text"))
        if isinstance(call, dict):
            args = call.get("args")
            yield ToolCall(_name(call), args if isinstance(args, dict) else {}, _id(call), author)
        elif isinstance(answer, dict):
            yield ToolResult(_name(answer), answer.get("response"), _id(answer), author)
        elif isinstance(text, str) and text and not is_response:
            yield Message(text, author)


def _usage(events: list[dict[str, Any]]) -> Usage | None:
    """Return what the events say that was consumed; None if they do not, or one says less than nothing."""
    found = [usage for event in events if isinstance(usage := _get(event, "usage_metadata"), dict)]
    counts = [_count(usage, name) for usage in found for name in _GIVEN + _MADE]
    if not found or min(counts) < 0:
        return None
    return Usage.of_tokens(
        sum(_count(usage, name) for usage in found for name in _GIVEN),
        sum(_count(usage, name) for usage in found for name in _MADE),
    )


_GIVEN = ("prompt_token_count", "tool_use_prompt_token_count")
_MADE = ("candidates_token_count", "thoughts_token_count")


def _get(found: Mapping[str, Any], name: str) -> Any:
    """A field, in ADK's own spelling or in that of its JSON."""
    value = found.get(to_camel(name))
    return found.get(name) if value is None else value


def _object(event: object) -> dict[str, Any]:
    if not isinstance(event, dict):
        raise broken("the agent sent an event that is not a JSON object")
    if "error" in event and "author" not in event:
        raise AgentFailed(
            Failure("exception", shortened(f"the agent's server reports an error: {event['error']}", 2_000))
        )
    return event


def _parts(event: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = event.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def text_of(event: Mapping[str, Any]) -> str:
    """What an event says."""
    return "\n".join(
        part["text"] for part in _parts(event) if isinstance(part.get("text"), str) and part["text"]
    )


def _name(found: Mapping[str, Any]) -> str:
    name = found.get("name")
    if not isinstance(name, str):
        raise broken("the agent sent a function call or response without a name")
    return name


def _id(found: Mapping[str, Any]) -> str | None:
    return found["id"] if isinstance(found.get("id"), str) else None


def _count(usage: Mapping[str, Any], name: str) -> int:
    count = _get(usage, name)
    return count if isinstance(count, int) else 0


_GOODBYE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdkServerOptions:
    """Which app of the server is asked, and how."""

    app: str | None = None
    """None: the one that the case names if the server has it, else the only one that it has."""
    stream: bool = False


class AdkServerDialect:
    """See `Dialect`."""

    def __init__(self, connection: Connection, options: AdkServerOptions) -> None:
        self._connection = connection
        self._options = options
        self._apps: list[str] | None = None

    def open(self, case: EvalCase) -> "AdkServerConversation":
        """See `Dialect.open`."""
        return AdkServerConversation(self._connection, self._options, self, case)

    async def app_for(self, case: EvalCase) -> str:
        """The app that plays a case. Raises AgentFailed: it cannot be told."""
        if self._options.app is not None:
            return self._options.app
        if self._apps is None:
            listed = await self._connection.json("GET", self._connection.at("/list-apps"))
            self._apps = [app for app in listed if isinstance(app, str)] if isinstance(listed, list) else []
        if case.session.app_name in self._apps:
            return case.session.app_name
        if len(self._apps) != 1:
            known = ", ".join(self._apps[:10]) or "none"
            sentence = f"the server has several apps or none ({known}): name one as `app`"
            raise AgentFailed(Failure("no_app", sentence), "faulted")
        return self._apps[0]


class AdkServerConversation:
    """See `Conversation`."""

    def __init__(
        self, connection: Connection, options: AdkServerOptions, dialect: AdkServerDialect, case: EvalCase
    ) -> None:
        self._connection = connection
        self._options = options
        self._dialect = dialect
        self._case = case
        self._app = ""
        self._user = case.session.user_id or f"evalgate-{uuid.uuid4()}"  # whose state nobody else's case sees
        self._session = ""

    async def ask(self, message: UserMessage) -> Answer:
        """See `Conversation.ask`."""
        if not self._session:
            await self._create()
        at, body = self._connection.at, self._body(message)
        if self._options.stream:
            headers = {"Accept": "text/event-stream"}
            async with self._connection.answer("POST", at("/run_sse"), body, headers) as response:
                data = [each async for each in sent_events(response)]
            size = sum(map(len, data))
            reply, usage = await run_off_loop(size, lambda: reply_of([parsed(each) for each in data]))
        else:
            async with self._connection.answer("POST", at("/run"), body) as response:
                answer = await whole(response)
            reply, usage = await run_off_loop(len(answer), lambda: reply_of(_events_in(answer)))
        return Answer(reply, usage, await self._state())

    async def leave(self) -> None:
        """See `Conversation.leave`."""
        if self._session:
            async with asyncio.timeout(_GOODBYE_S):
                await self._connection.json("DELETE", self._session_url)

    @property
    def _session_url(self) -> str:
        return below(self._sessions_url, f"/{quote(self._session, safe='')}")

    @property
    def _sessions_url(self) -> str:
        app, user = quote(self._app, safe=""), quote(self._user, safe="")
        return self._connection.at(f"/apps/{app}/users/{user}/sessions")

    async def _create(self) -> None:
        self._app = await self._dialect.app_for(self._case)
        made = await self._connection.json("POST", self._sessions_url, {"state": self._case.session.state})
        id_ = made.get("id") if isinstance(made, dict) else None
        if not isinstance(id_, str) or not id_:
            raise broken("the server made a session without an id")
        self._session = id_

    async def _state(self) -> JsonObject | None:
        found = await self._connection.json("GET", self._session_url)
        state = found.get("state") if isinstance(found, dict) else None
        return state if isinstance(state, dict) else None

    def _body(self, message: UserMessage) -> JsonObject:
        parts: list[JsonObject] = [{"text": message.text}, *message.attachments]
        return {
            "appName": self._app,
            "userId": self._user,
            "sessionId": self._session,
            "newMessage": {"role": "user", "parts": parts},
            "streaming": self._options.stream,
        }


def _events_in(body: bytes) -> list[object]:
    """Return the events of an answer. Raises AgentFailed: it is no list."""
    found = parsed(body)
    if not isinstance(found, list):
        raise broken("the agent's answer is not a list of events")
    return found
