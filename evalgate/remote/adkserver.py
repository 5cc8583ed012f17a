"""Google ADK's `api_server`: a session a case, `/run` or `/run_sse` for each turn, and the state after it."""

import asyncio
import uuid
from dataclasses import dataclass
from urllib.parse import quote

from evalgate.model import EvalCase, Failure, JsonObject, UserMessage
from evalgate.protocols import AgentFailed
from evalgate.remote.addresses import below
from evalgate.remote.adkevents import reply_of
from evalgate.remote.bodies import events as sent_events
from evalgate.remote.bodies import whole
from evalgate.remote.connection import Connection, parsed
from evalgate.remote.conversation import Answer, broken
from evalgate.remote.offloop import run_off_loop

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
