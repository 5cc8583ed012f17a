"""Agents that speak A2A: found by their card, asked over JSON-RPC, tasks followed to their end."""

import asyncio
import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from evalgate.agents.http.a2a_protocol import (
    Endpoint,
    Found,
    Part,
    State,
    endpoint_in,
    found_in,
    method_name,
    send_params,
)
from evalgate.agents.http.connection import Connection, parsed
from evalgate.agents.http.conversation import Answer, broken, unsupported
from evalgate.agents.http.off_loop import run_off_loop
from evalgate.agents.http.response_body import events, whole
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
    UserMessage,
)

_CARDS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
_GOING_ON: frozenset[State] = frozenset({"submitted", "working"})
_ANSWERED: frozenset[State] = frozenset({"completed", "input-required"})
_FIRST_POLL_S = 0.1
_LONGEST_POLL_S = 2.0


class A2aDialect:
    """See `Dialect`."""

    def __init__(self, connection: Connection, *, stream: bool | None = None) -> None:
        self._connection = connection
        self._stream = stream
        self._endpoint: Endpoint | None = None
        self._asking = asyncio.Lock()

    def open(self, case: EvalCase) -> "A2aConversation":
        """See `Dialect.open`."""
        return A2aConversation(self, case)

    async def endpoint(self) -> Endpoint:
        """Where the agent's card says that it is asked; read once. Raises AgentFailed."""
        async with self._asking:
            if self._endpoint is None:
                offered = endpoint_in(await self._card(), self._connection.url)
                found = replace(offered, url=self._connection.located(offered.url))
                _refuse_in_the_open(self._connection, found.url)
                self._endpoint = found
            return self._endpoint

    async def tell(self, message: JsonObject, turn: "_Turn") -> None:
        """Send the parameters of a message, and add what the agent answers. Raises AgentFailed."""
        endpoint = await self.endpoint()
        streams = endpoint.streaming if self._stream is None else self._stream
        if not streams:
            turn.add(found_in(await self._call(endpoint, method_name(endpoint.release, "send"), message)))
            return
        body = _request(method_name(endpoint.release, "stream"), message)
        headers = {"Accept": "text/event-stream", **_version(endpoint)}
        async with self._connection.answer("POST", endpoint.url, body, headers) as response:
            if response.content_type != "text/event-stream":  # refused before the stream began
                answer = await whole(response)
                turn.add(await run_off_loop(len(answer), partial(_found_in_answer, answer)))
                return
            async for data in events(response, turn.is_over):
                turn.add(await run_off_loop(len(data), partial(_found_in_answer, data)))

    async def task(self, id_: str) -> Found:
        """How a task stands. Raises AgentFailed."""
        endpoint = await self.endpoint()
        params = {"id": id_, "historyLength": 0} if endpoint.release == "1.0" else {"id": id_}
        return found_in(await self._call(endpoint, method_name(endpoint.release, "get"), params))

    async def _call(self, endpoint: Endpoint, method: str, params: JsonObject) -> object:
        body, headers = _request(method, params), _version(endpoint)
        return _result(await self._connection.json("POST", endpoint.url, body, headers))

    async def _card(self) -> object:
        url = self._connection.url
        if url.endswith(".json"):
            return await self._connection.json("GET", url)
        try:
            return await self._connection.json("GET", self._connection.at(_CARDS[0]))
        except AgentFailed:
            return await self._connection.json("GET", self._connection.at(_CARDS[1]))


def _found_in_answer(answer: bytes | str) -> Found:
    return found_in(_result(parsed(answer)))


def _refuse_in_the_open(connection: Connection, url: str) -> None:
    """Never send what went over TLS so far where everybody on the way can read it. Raises AgentFailed."""
    if connection.sends_headers and connection.url.startswith("https:") and not url.startswith("https:"):
        raise broken(
            f"the agent's card leads from https to {shortened(url, 300)}, where `headers` could be read on "
            "the way: the card must name an address with https"
        )


class A2aConversation:
    """See `Conversation`."""

    def __init__(self, dialect: A2aDialect, case: EvalCase) -> None:
        self._dialect = dialect
        self._context: str | None = None
        self._task: str | None = None
        self._told: set[str] = set()
        self._lacks_place = bool(case.context_messages or case.session.state)

    async def ask(self, message: UserMessage) -> Answer:
        """See `Conversation.ask`."""
        if self._lacks_place:
            raise unsupported("A2A has no place for a session's state or for the messages before it")
        endpoint = await self._dialect.endpoint()
        params = send_params(
            endpoint.release, message, id_=str(uuid.uuid4()), context=self._context, task=self._task
        )
        turn = _Turn(self._told)
        await self._dialect.tell(params, turn)
        pause = _FIRST_POLL_S
        while turn.task and turn.state in _GOING_ON:
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_POLL_S)
            turn.add(await self._dialect.task(turn.task))
        self._context = turn.context or self._context
        # A task that waits for the user goes on with the next message; one that is over does not.
        self._task = turn.task if turn.state == "input-required" else None
        return Answer(turn.reply())

    async def leave(self) -> None:
        """See `Conversation.leave`: A2A keeps tasks, and has no word for forgetting them."""


class _Turn:
    """Puts the results of one message together."""

    def __init__(self, told: set[str]) -> None:
        self.task = ""
        self.context = ""
        self.state: State | None = None
        self._told = told
        """Ids of the messages that belong to this turn or to those before it."""
        self._said: list[tuple[Part, ...]] = []
        self._artifacts: dict[str, tuple[Part, ...]] = {}

    def add(self, found: Found) -> None:
        """One result. The same message may come several times: in a status, and in a task's history."""
        self.task, self.context = found.task or self.task, found.context or self.context
        self.state = found.state or self.state
        for id_, parts in found.artifacts:
            self._artifacts[id_] = (*self._artifacts.get(id_, ()), *parts) if found.append else parts
        for said in found.said:
            if said.parts and said.id not in self._told and said.parts not in self._said[-1:]:
                self._said.append(said.parts)
            if said.id:
                self._told.add(said.id)

    def is_over(self) -> bool:
        """Whether the agent has come to an end, or waits."""
        return bool(self._said) if self.state is None else self.state not in _GOING_ON

    def reply(self) -> Reply:
        """The whole. Raises AgentFailed: the task did not come to a good end."""
        if self.state is not None and self.state not in _ANSWERED:
            raise AgentFailed(Failure("exception", self._how_it_ended()))
        if self.state is None and not self._said:
            raise broken("the agent's stream ended before its answer did")
        before, artifacts = list(self._said), list(self._artifacts.values())
        # The parts of an artifact are the pieces in which it was streamed.
        response = "\n".join(filter(None, (_joined(parts, "") for parts in artifacts)))
        answer = artifacts
        if self.state == "input-required" or not response:
            before, answer = [*before[:-1], *artifacts], before[-1:]
            response = "\n".join(_joined(parts, "\n") for parts in answer)
        events = [*_events(before, texts=True), *_events(answer, texts=False)]
        return Reply(response or None, tuple(events))

    def _how_it_ended(self) -> str:
        why = shortened("".join(_joined(parts, "\n") for parts in self._said[-1:]), 1_000)
        return f"the agent's task ended as `{self.state}`" + (f": {why}" if why else "")


def _events(groups: Iterable[tuple[Part, ...]], *, texts: bool) -> Iterator[Event]:
    """The calls and results in messages and artifacts, and with `texts` what they say."""
    for part in (part for parts in groups for part in parts):
        acted = _act(part)
        if acted is not None:
            yield acted
        elif texts and part.text:
            yield Message(part.text)


def _act(part: Part) -> Event | None:
    """A tool call or result: A2A has none, and Google ADK sends them as data that is marked so."""
    kind = part.metadata.get("adk_type")
    if not isinstance(part.data, dict) or not isinstance(name := part.data.get("name"), str):
        return None
    id_ = part.data["id"] if isinstance(part.data.get("id"), str) else None
    if kind == "function_call":
        args = part.data.get("args")
        return ToolCall(name, args if isinstance(args, dict) else {}, id_)
    return ToolResult(name, part.data.get("response"), id_) if kind == "function_response" else None


def _joined(parts: Iterable[Part], separator: str) -> str:
    return separator.join(text for part in parts if _act(part) is None and (text := _text(part)))


def _text(part: Part) -> str:
    if part.text is not None:
        return part.text
    return "" if part.data is None else json.dumps(part.data, ensure_ascii=False)


def _version(endpoint: Endpoint) -> dict[str, str]:
    """The header that 1.0 asks for; without it a request is taken for one of 0.3."""
    return {"A2A-Version": "1.0"} if endpoint.release == "1.0" else {}


def _request(method: str, params: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": params}


def _result(found: object) -> object:
    if not isinstance(found, dict):
        raise broken("the agent's answer is not JSON-RPC")
    error = found.get("error")
    if isinstance(error, dict):
        sentence = f"the agent answered with error {error.get('code')}: {error.get('message')}"
        detail = shortened(json.dumps(error["data"]), 8_000) if error.get("data") else ""
        raise AgentFailed(Failure("exception", shortened(sentence, 2_000), detail))
    if "result" not in found:
        raise broken("the agent's answer is JSON-RPC without a result")
    return found["result"]
