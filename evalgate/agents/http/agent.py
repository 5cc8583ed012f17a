"""`Agent` and `AgentSession` for an agent behind a URL, in any dialect (wire format).

At its start, the agent probes the server until the server answers. No session starts earlier.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

from evalgate.agents.http.connection import AgentConnection, AgentServer
from evalgate.agents.http.dialect import Dialect, RemoteConversation, TurnAnswer, turn_timer
from evalgate.core.protocols import (
    AgentError,
    AgentUnreachableError,
    RecordsSpans,
    SessionResult,
    SupportsToolMocks,
    SupportsToolRecordings,
)
from evalgate.core.types import EvalCase, Failure, JsonObject, Outcome, Reply, TraceSpan, Usage, UserMessage
from evalgate.system.loop_timer import LoopTimeout

_FIRST_PROBE_S = 0.05
_MAX_PROBE_S = 1.0
_HEALTH_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """Time limits in seconds, and the address of the health check."""

    timeout_s: float
    """Seconds that one turn may take."""
    health: str
    """URL of the health check. It must answer before the first case starts."""
    start_timeout_s: float = 60.0
    """Seconds to wait, at the start, until `health` answers for the first time."""


class RemoteAgent:
    """`Agent` over HTTP, in the dialect (wire format) that `dialect_factory` returns."""

    def __init__(
        self,
        server: AgentServer,
        dialect_factory: Callable[[AgentConnection], Dialect],
        options: RemoteOptions,
    ) -> None:
        self._connection = AgentConnection(server)
        self._dialect = dialect_factory(self._connection)
        self._options = options
        self._startup: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._connection.open()
        self._startup = asyncio.create_task(self._wait_for_server())
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._startup is not None:
            self._startup.cancel()
            await asyncio.gather(self._startup, return_exceptions=True)
        await self._connection.close()

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> "RemoteSession":
        """Return a session with a new conversation. Nothing is sent before the first turn.

        `run` and `alone` have no effect: all conversations use the same server.
        """
        del run, alone
        return RemoteSession(self, self._dialect.open_conversation(case), self._options.timeout_s)

    def redact_failure(self, failure: Failure) -> Failure:
        """Return a copy of the failure with `[hidden]` in place of the server's secret values."""
        hide = self._connection.hide_secrets
        return replace(failure, message=hide(failure.message), detail=hide(failure.detail))

    async def wait_until_ready(self) -> None:
        """Wait until the server answers.

        Raises:
            AgentUnreachableError: no answer came within `start_timeout_s`, or the certificate is not trusted.
            RuntimeError: the agent was not entered as a context manager.
        """
        if self._startup is None:
            raise RuntimeError("the agent was not entered")
        # All sessions await the same task: the cancellation of one must not cancel it for the others.
        await asyncio.shield(self._startup)

    async def is_healthy(self) -> bool:
        """Return True if the server passes its health check within a second.

        Raises:
            AgentUnreachableError: the server's certificate is not trusted.
        """
        try:
            async with asyncio.timeout(_HEALTH_TIMEOUT_S):
                return not await self._connection.probe_url(self._options.health)
        except TimeoutError:
            return False

    async def _wait_for_server(self) -> None:
        options, pause = self._options, _FIRST_PROBE_S
        end = asyncio.get_running_loop().time() + options.start_timeout_s
        why = "no answer"
        while (left := end - asyncio.get_running_loop().time()) > 0:
            try:
                async with asyncio.timeout(left):
                    why = await self._connection.probe_url(options.health)
            except TimeoutError:
                break
            except AgentUnreachableError as error:
                raise AgentUnreachableError(self.redact_failure(error.failure)) from None
            if not why:
                return
            await asyncio.sleep(min(pause, max(left, 0)))
            pause = min(pause * 2, _MAX_PROBE_S)
        sentence = (
            f"the agent at {options.health} cannot be reached within {options.start_timeout_s:g} s: {why}"
        )
        raise AgentUnreachableError(self.redact_failure(Failure("unreachable", sentence)))


class RemoteSession:
    """`AgentSession` over HTTP. `async with` returns the session itself, without a request."""

    def __init__(self, agent: RemoteAgent, conversation: RemoteConversation, timeout_s: float) -> None:
        self._agent = agent
        self._conversation = conversation
        self._timeout_s = timeout_s
        self._turns = 0
        self._usage: Usage | None = None
        self._state: JsonObject | None = None

    async def __aenter__(self) -> Self:
        await self._agent.wait_until_ready()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        """End the conversation on the server; ignore errors, since all answers have arrived.

        Send nothing if there was no turn, or if the `with` block raised an exception other than AgentError.
        After a cancellation, for example, evalgate must end without waiting for the server.
        """
        if self._turns and (kind is None or issubclass(kind, AgentError)):
            with suppress(AgentError, TimeoutError):
                await self._conversation.end_conversation()

    @property
    def session_id(self) -> str:
        """Return the id of the conversation on the server; "" if the dialect has no such id."""
        return getattr(self._conversation, "session_id", "")

    @property
    def user_id(self) -> str:
        """Return the id of the user on the server; "" if the dialect has no such id."""
        return getattr(self._conversation, "user_id", "")

    def take_spans(self) -> Sequence[TraceSpan]:
        """Return the steps of the last turn, and remove them; () if the dialect records no spans."""
        conversation = self._conversation
        return conversation.take_spans() if isinstance(conversation, RecordsSpans) else ()

    @property
    def applies_mocks(self) -> bool:
        """Return True if evalgate can answer the agent's tool calls with mocks in this dialect."""
        return isinstance(self._conversation, SupportsToolMocks) and self._conversation.applies_mocks

    @property
    def applies_recordings(self) -> bool:
        """Return True if evalgate can answer the agent's tool calls from a recording in this dialect."""
        conversation = self._conversation
        return isinstance(conversation, SupportsToolRecordings) and conversation.applies_recordings

    async def run_turn(self, message: UserMessage) -> Reply:
        """Send the message and return the reply.

        Raises:
            AgentError: there is no usable answer, or the turn took longer than its time limit.
        """
        self._turns += 1
        try:
            answer = await self._ask_with_timeout(message)
        except TimeoutError:
            raise self._build_error(
                Failure("timeout", f"no answer within {self._timeout_s:g} s"), "timed_out"
            ) from None
        except AgentError as error:
            spent = self._usage if error.usage is None else (self._usage or Usage()) + error.usage
            raise self._build_error(error.failure, error.outcome, spent, error.retry_after_s) from None
        if answer.usage is not None:
            self._usage = (self._usage or Usage()) + answer.usage
        self._state = answer.state if answer.state is not None else self._state
        return answer.reply

    async def end(self) -> SessionResult:
        """Return the usage of all turns and the last state that the server reported."""
        return self.interim_result

    @property
    def interim_result(self) -> SessionResult:
        """Return the usage of the turns so far, and the last state that the server reported."""
        return SessionResult(self._usage, self._state)

    async def _ask_with_timeout(self, message: UserMessage) -> TurnAnswer:
        async with LoopTimeout(self._timeout_s) as timer:
            token = turn_timer.set(timer)
            try:
                return await self._conversation.ask_agent(message)
            finally:
                turn_timer.reset(token)

    def _build_error(
        self,
        failure: Failure,
        outcome: Outcome,
        usage: Usage | None = None,
        retry_after_s: float | None = None,
    ) -> AgentError:
        # Only the session knows the number of the turn, so it is added to the message here.
        numbered = replace(failure, message=f"{failure.message} (turn {self._turns})")
        return AgentError(self._agent.redact_failure(numbered), outcome, usage or self._usage, retry_after_s)
