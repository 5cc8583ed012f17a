"""Client of agents that speak A2A over JSON-RPC.

The agent card names the address. If an answer leaves a task unfinished, the task is polled until it ends or
waits for the user.
"""

import asyncio
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from evalgate.agents.http.a2a_messages import (
    A2aEndpoint,
    A2aPart,
    A2aResult,
    TaskState,
    build_send_params,
    get_method_name,
    parse_agent_card,
    parse_result,
)
from evalgate.agents.http.connection import AgentConnection
from evalgate.agents.http.dialect import TurnAnswer
from evalgate.agents.http.errors import build_format_error, build_unsupported_error
from evalgate.agents.http.response_body import iter_events, parse_json_body, read_body, run_off_loop
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

# The second address is that of releases before 0.3.
_CARDS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_PENDING_STATES: frozenset[TaskState] = frozenset({"submitted", "working"})
_ANSWERED_STATES: frozenset[TaskState] = frozenset({"completed", "input-required"})
_FIRST_POLL_S = 0.1
_MAX_POLL_S = 2.0


class A2aDialect:
    """`Dialect` (wire format) for A2A. It fetches the agent's card once, and keeps the card's endpoint."""

    def __init__(self, connection: AgentConnection, *, stream: bool | None = None) -> None:
        self._connection = connection
        self._stream = stream
        """True: answers are streamed. False: they are not. None: they are if the agent's card offers that."""
        self._endpoint: A2aEndpoint | None = None
        self._card_lock = asyncio.Lock()

    def open_conversation(self, case: EvalCase) -> "A2aConversation":
        """Return a conversation that starts a new A2A context with its first message."""
        return A2aConversation(self, case)

    async def resolve_endpoint(self) -> A2aEndpoint:
        """Return the endpoint that the agent's card names. The first call fetches the card.

        Raises:
            AgentError: the card cannot be fetched or read. Or the card names an http address, although the
                agent's URL has https and `headers` are sent.
        """
        async with self._card_lock:  # conversations start at the same time, and one request is enough
            if self._endpoint is None:
                offered = parse_agent_card(await self._fetch_card(), self._connection.url)
                found = replace(offered, url=self._connection.relocate_url(offered.url))
                _refuse_plaintext(self._connection, found.url)
                self._endpoint = found
            return self._endpoint

    async def post_message(self, message: JsonObject, turn: "_A2aTurn") -> None:
        """Send a message to the agent, and add each result of the agent to `turn`.

        `message` holds the parameters of the request, as `build_send_params` returns them.

        Raises:
            AgentError: the request failed, or the answer reports an error or is not A2A.
        """
        endpoint = await self.resolve_endpoint()
        streams = endpoint.streaming if self._stream is None else self._stream
        if not streams:
            turn.add_result(
                parse_result(
                    await self._call_method(endpoint, get_method_name(endpoint.release, "send"), message)
                )
            )
            return
        body = _build_request(get_method_name(endpoint.release, "stream"), message)
        headers = {"Accept": "text/event-stream", **_build_version_header(endpoint)}
        async with self._connection.open_response("POST", endpoint.url, body, headers) as response:
            if response.content_type != "text/event-stream":  # refused before the stream began
                answer = await read_body(response)
                turn.add_result(await run_off_loop(len(answer), partial(_parse_answer, answer)))
                return
            async for data in iter_events(response, turn.is_over):
                turn.add_result(await run_off_loop(len(data), partial(_parse_answer, data)))

    async def fetch_task(self, id_: str) -> A2aResult:
        """Return the current state of a task. A server of release 1.0 is asked to leave out the history.

        Raises:
            AgentError: the request failed, or the answer reports an error or is not A2A.
        """
        endpoint = await self.resolve_endpoint()
        params = {"id": id_, "historyLength": 0} if endpoint.release == "1.0" else {"id": id_}
        return parse_result(
            await self._call_method(endpoint, get_method_name(endpoint.release, "get"), params)
        )

    async def _call_method(self, endpoint: A2aEndpoint, method: str, params: JsonObject) -> object:
        body, headers = _build_request(method, params), _build_version_header(endpoint)
        return _read_result(await self._connection.request_json("POST", endpoint.url, body, headers))

    async def _fetch_card(self) -> object:
        url = self._connection.url
        if url.endswith(".json"):
            return await self._connection.request_json("GET", url)
        try:
            return await self._connection.request_json("GET", self._connection.build_url(_CARDS[0]))
        except AgentError:
            return await self._connection.request_json("GET", self._connection.build_url(_CARDS[1]))


def _parse_answer(answer: bytes | str) -> A2aResult:
    return parse_result(_read_result(parse_json_body(answer)))


def _refuse_plaintext(connection: AgentConnection, url: str) -> None:
    """Raise AgentError if the agent's URL has https but `url`, from the agent's card, has http.

    If the user has configured no headers, such a `url` is accepted: no secret can be read on the way.
    """
    if connection.sends_headers and connection.url.startswith("https:") and not url.startswith("https:"):
        raise build_format_error(
            f"the agent's card leads from https to {shorten_text(url, 300)}, where `headers` "
            f"could be read on "
            "the way: the card must name an address with https"
        )


class A2aConversation:
    """`RemoteConversation` for A2A, in one A2A context."""

    def __init__(self, dialect: A2aDialect, case: EvalCase) -> None:
        self._dialect = dialect
        self.session_id = ""
        """Id of the context; "" before the server's first answer."""
        self._task: str | None = None
        self._seen_ids: set[str] = set()
        self._artifacts: Mapping[str, tuple[A2aPart, ...]] = {}
        """Artifacts, by id, of the task that waits for the next message; {} if no task waits."""
        self._is_unsupported = bool(case.context_messages or case.session.state)

    async def ask_agent(self, message: UserMessage) -> TurnAnswer:
        """Send the message, poll the task while it is pending, and return the reply. A2A reports no usage.

        Raises:
            AgentError: a request failed, or the task ended without an answer. Or A2A cannot transmit a part
                of the case: an attachment, a session state, or messages that precede the conversation.
        """
        if self._is_unsupported:
            raise build_unsupported_error(
                "A2A has no place for a session's state or for the messages before it"
            )
        endpoint = await self._dialect.resolve_endpoint()
        params = build_send_params(
            endpoint.release, message, id_=str(uuid.uuid4()), context=self.session_id or None, task=self._task
        )
        turn = _A2aTurn(self._seen_ids, self._artifacts)
        await self._dialect.post_message(params, turn)
        pause = _FIRST_POLL_S
        while turn.task and turn.state in _PENDING_STATES:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_POLL_S)
            turn.add_result(await self._dialect.fetch_task(turn.task))
        self.session_id = turn.context or self.session_id
        # A task that waits for the user goes on with the next message; an ended task does not.
        goes_on = turn.state == "input-required"
        self._task, self._artifacts = (turn.task, turn.artifacts) if goes_on else (None, {})
        return TurnAnswer(turn.build_reply())

    async def end_conversation(self) -> None:
        """Do nothing: A2A has no request that ends a context or deletes its tasks."""


class _A2aTurn:
    """Collector of the results that answer one message."""

    def __init__(self, seen_ids: set[str], earlier: Mapping[str, tuple[A2aPart, ...]]) -> None:
        self.task = ""
        self.context = ""
        self.state: TaskState | None = None
        self._seen_ids = seen_ids
        """Ids of the messages of this turn and of earlier ones."""
        self._messages: list[tuple[A2aPart, ...]] = []
        self.artifacts = dict(earlier)
        """Artifacts of the task by id, including those of earlier turns."""
        self._earlier = dict(earlier)
        """Artifacts of earlier turns that were not sent again in this turn."""

    def add_result(self, result: A2aResult) -> None:
        """Add a result of the turn; skip messages in the result that were added before.

        The same message may arrive several times: in a status, and in the history of a task.
        """
        self.task, self.context = result.task or self.task, result.context or self.context
        self.state = result.state or self.state
        for id_, parts in result.artifacts:
            self.artifacts[id_] = (*self.artifacts.get(id_, ()), *parts) if result.append else parts
            # A task always lists all of its artifacts; an update of an artifact is the answer to this turn.
            if result.kind == "artifact" and not result.append:
                self._earlier.pop(id_, None)
        for message in result.messages:
            # A repeated message may lack its id: its parts are compared with those of the previous message.
            if (
                message.parts
                and message.id not in self._seen_ids
                and message.parts not in self._messages[-1:]
            ):
                self._messages.append(message.parts)
            if message.id:
                self._seen_ids.add(message.id)

    def is_over(self) -> bool:
        """Return True if the task ended or waits for input, or if a message came without a task."""
        return bool(self._messages) if self.state is None else self.state not in _PENDING_STATES

    def build_reply(self) -> Reply:
        """Return the reply of the turn, built from the messages and new artifacts of the turn.

        The response is the text of the new artifacts. If the artifacts have no text, or if the agent asks for
        input, the response is the text of the last message. It is None if there is no text at all.

        Raises:
            AgentError: the task's state is neither `completed` nor `input-required`, or the stream ended
                before any answer.
        """
        if self.state is not None and self.state not in _ANSWERED_STATES:
            why = shorten_text("".join(_join_texts(parts, "\n") for parts in self._messages[-1:]), 1_000)
            sentence = f"the agent's task ended as `{self.state}`" + (f": {why}" if why else "")
            raise AgentError(Failure("exception", sentence))
        if self.state is None and not self._messages:
            raise build_format_error("the agent's stream ended before its answer did")
        before, artifacts = list(self._messages), list(self._iter_new_artifacts())
        # The parts of an artifact are the pieces in which it was streamed.
        response = "\n".join(filter(None, (_join_texts(parts, "") for parts in artifacts)))
        answer = artifacts
        if self.state == "input-required" or not response:
            before, answer = [*before[:-1], *artifacts], before[-1:]
            response = "\n".join(_join_texts(parts, "\n") for parts in answer)
        events = [*_iter_events(before, texts=True), *_iter_events(answer, texts=False)]
        return Reply(response or None, tuple(events))

    def _iter_new_artifacts(self) -> Iterator[tuple[A2aPart, ...]]:
        """Yield, for each artifact, the parts that this turn appended to it.

        Yield all parts of an artifact that is new, or that no longer begins with its earlier parts.
        """
        for id_, parts in self.artifacts.items():
            earlier = self._earlier.get(id_, ())
            yield parts[len(earlier) :] if parts[: len(earlier)] == earlier else parts


def _iter_events(groups: Iterable[tuple[A2aPart, ...]], *, texts: bool) -> Iterator[Event]:
    """Yield the tool calls and results in `groups`; if `texts` is True, also each text, as a `Message`.

    Each group has the parts of one message or artifact.
    """
    for part in (part for parts in groups for part in parts):
        event = _read_tool_event(part)
        if event is not None:
            yield event
        elif texts and part.text:
            yield Message(part.text)


def _read_tool_event(part: A2aPart) -> Event | None:
    """Return the tool call or tool result in a part; None for any other part.

    A2A itself has no tool events. Google ADK sends them as data parts with `adk_type` in the metadata.
    """
    kind = part.metadata.get("adk_type")
    if not isinstance(part.data, dict) or not isinstance(name := part.data.get("name"), str):
        return None
    id_ = part.data["id"] if isinstance(part.data.get("id"), str) else None
    if kind == "function_call":
        args = part.data.get("args")
        return ToolCall(name, args if isinstance(args, dict) else {}, id_)
    return ToolResult(name, part.data.get("response"), id_) if kind == "function_response" else None


def _join_texts(parts: Iterable[A2aPart], separator: str) -> str:
    texts = []
    for part in parts:
        if _read_tool_event(part) is None:
            # Data that is no tool event is part of the answer; as JSON, metrics of texts can compare it.
            data = "" if part.data is None else json.dumps(part.data, ensure_ascii=False)
            texts.append(data if part.text is None else part.text)
    return separator.join(filter(None, texts))


def _build_version_header(endpoint: A2aEndpoint) -> dict[str, str]:
    """Return the version header for release 1.0; {} for 0.3, because servers assume 0.3 without a header."""
    return {"A2A-Version": "1.0"} if endpoint.release == "1.0" else {}


def _build_request(method: str, params: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": params}


def _read_result(found: object) -> object:
    if not isinstance(found, dict):
        raise build_format_error("the agent's answer is not JSON-RPC")
    error = found.get("error")
    if isinstance(error, dict):
        sentence = f"the agent answered with error {error.get('code')}: {error.get('message')}"
        detail = shorten_text(json.dumps(error["data"]), 8_000) if error.get("data") else ""
        raise AgentError(Failure("exception", shorten_text(sentence, 2_000), detail))
    if "result" not in found:
        raise build_format_error("the agent's answer is JSON-RPC without a result")
    return found["result"]
