"""`Agent` that adds to each reply the tool calls, messages and usage that OpenTelemetry spans report."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from types import TracebackType
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, Strict

from evalgate.agents.tracing.collector import CollectorEndpoint, SpanCollector
from evalgate.agents.tracing.genai import is_genai, read_transcript
from evalgate.agents.tracing.trace_context import create_turn_trace, current_turn, is_trace_wanted
from evalgate.agents.tracing.trace_formats import Span
from evalgate.core.formatting import pluralize
from evalgate.core.protocols import Agent, AgentError, AgentSession, ChecksEntry, RecordsSpans, SessionResult
from evalgate.core.types import EvalCase, Failure, Message, Reply, TraceSpan, Usage, UserMessage

_FAILED_WAIT_S = 0.5
"""Seconds to wait for the spans of a failed turn, if the run keeps a trace."""


class OtelSettings(BaseModel):
    """Endpoint at which evalgate receives the agent's OpenTelemetry spans."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    port: Annotated[int, Strict()] | None = Field(default=None, ge=0, le=65_535)
    """Port at which evalgate listens. When absent, port 4318 for an agent of kind `http`, which runs already,
    and any free port for an agent that evalgate starts."""
    host: str = "127.0.0.1"
    """IP address or host name at which evalgate listens for spans."""
    wait: Annotated[float, Strict()] = Field(default=10.0, gt=0, allow_inf_nan=False)
    """Largest number of seconds to wait for the spans of a turn, counted from the agent's answer."""


OtelOption = bool | OtelSettings


def resolve_otel_settings(option: OtelOption) -> OtelSettings | None:
    """Return the settings of the option `otel`: the defaults for true, None for false."""
    return (OtelSettings() if option else None) if isinstance(option, bool) else option


class _SpanCounts:
    """Number of spans, and of GenAI spans, in all answered turns of the agent."""

    def __init__(self) -> None:
        self.spans = 0
        self.genai = 0
        """Number of spans that describe a tool, a model or an agent."""

    def add_spans(self, spans: list[Span]) -> None:
        self.spans += len(spans)
        self.genai += sum(map(is_genai, spans))


class TracedAgent:
    """`Agent` that wraps another agent, the inner agent, and reads its OpenTelemetry spans.

    The inner agent is built after the collector of spans has started, because the inner agent's environment
    has the collector's address.
    """

    def __init__(
        self,
        build_agent: Callable[[Mapping[str, str]], Agent],
        settings: OtelSettings,
        *,
        port: int,
        resolve_endpoint: Callable[[CollectorEndpoint], CollectorEndpoint] | None = None,
    ) -> None:
        """Store the options. `async with` starts the collector and builds and starts the inner agent.

        Args:
            build_agent: Function that builds the inner agent from the environment variables of its
                OpenTelemetry exporter.
            settings: Options of the user.
            port: Port of the collector unless `settings` has one; 0: any free port.
            resolve_endpoint: Function that converts the endpoint of the settings to an endpoint that the
                agent can reach; it is called in a thread. None: the endpoint of the settings is used.
        """
        self._build_agent = build_agent
        self._settings = settings
        self._endpoint = CollectorEndpoint(settings.host, port if settings.port is None else settings.port)
        self._resolve_endpoint = resolve_endpoint
        self._collector: SpanCollector | None = None
        self._agent: Agent | None = None
        self._seen = _SpanCounts()

    async def __aenter__(self) -> Self:
        endpoint = self._endpoint
        if self._resolve_endpoint is not None:
            endpoint = await asyncio.to_thread(self._resolve_endpoint, endpoint)
        # The collector starts first, because the agent's environment contains its port.
        collector = SpanCollector(endpoint)
        await collector.__aenter__()
        try:
            agent = self._build_agent(_build_exporter_env(collector))
            await agent.__aenter__()
        except BaseException:
            await collector.__aexit__()
            raise
        self._collector, self._agent = collector, agent
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            if self._agent is not None:
                await self._agent.__aexit__(*exc)
        finally:
            if self._collector is not None:
                await self._collector.__aexit__()

    @property
    def notices(self) -> tuple[str, ...]:
        """Return sentences for the user about dropped spans, and about a run without any GenAI span."""
        return tuple(self._iter_notices())

    def _iter_notices(self) -> Iterator[str]:
        if self._collector is not None and self._collector.dropped_spans:
            dropped = pluralize(self._collector.dropped_spans, "OpenTelemetry span")
            yield f"{dropped} that belonged to no turn yet were left out: more than 200,000 came at once."
        if not self._seen.spans or self._seen.genai:
            return
        spans = pluralize(self._seen.spans, "span")
        sentence = (
            f"The agent sent {spans}, and none tells of a model, a tool or an agent: no tool call and no "
            "usage could be read. Instrument its model and tool calls with the conventions of OpenTelemetry "
            "GenAI, OpenInference or OpenLLMetry: docs/opentelemetry.md lists what is read."
        )
        yield sentence

    async def check_entry(self) -> None:
        """Check that the inner agent finds its entry point; do nothing if it does not support this check.

        Raises:
            InvalidInputError: the inner agent does not find its entry point.
        """
        agent: object = self._agent
        if isinstance(agent, ChecksEntry):
            await agent.check_entry()

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> "_TracedSessionContext":
        """Return an asynchronous context manager that opens a session of the inner agent.

        The session reads the spans of its turns. With `alone`, no other conversation may use the same
        process of the inner agent.

        Raises:
            AgentUnreachableError: the inner agent cannot open sessions.
            RuntimeError: the agent was not entered as a context manager.
        """
        if self._agent is None or self._collector is None:
            raise RuntimeError("the agent was not entered")
        inner = self._agent.open_session(case, run, alone=alone)
        return _TracedSessionContext(inner, self._collector, self._settings.wait, self._seen)


class _TracedSessionContext:
    """Asynchronous context manager that opens a session of the inner agent as a `TracedSession`."""

    def __init__(
        self,
        inner: AbstractAsyncContextManager[AgentSession],
        collector: SpanCollector,
        wait_s: float,
        seen: _SpanCounts,
    ) -> None:
        self._inner = inner
        self._collector = collector
        self._wait_s = wait_s
        self._seen = seen

    async def __aenter__(self) -> "TracedSession":
        return TracedSession(await self._inner.__aenter__(), self._collector, self._wait_s, self._seen)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)


class TracedSession:
    """`AgentSession` that completes each reply with the events of the turn's spans."""

    def __init__(
        self, inner: AgentSession, collector: SpanCollector, wait_s: float, seen: _SpanCounts
    ) -> None:
        self._inner = inner
        self._collector = collector
        self._wait_s = wait_s
        self._seen = seen
        self._id = str(uuid.uuid4())
        self._turns = 0
        self._usage: Usage | None = None
        self._began_at = 0
        """Nanoseconds since the epoch at which the last turn began."""
        self._spans: list[Span] = []
        """Spans of the last turn, if the run keeps a trace."""

    @property
    def applies_mocks(self) -> bool:
        """Return True if the inner session can answer tool calls with the case's mocks."""
        return getattr(self._inner, "applies_mocks", False) is True

    @property
    def applies_recordings(self) -> bool:
        """Return True if the inner session can answer tool calls from the case's recording."""
        return getattr(self._inner, "applies_recordings", False) is True

    async def run_turn(self, message: UserMessage) -> Reply | None:
        """Run the turn of the inner session, and add the events and usage that the turn's spans report.

        Raises:
            AgentError: the turn failed in the inner session, or no span of the turn arrived within
                `otel.wait` seconds.
            SessionLostError: the inner session was lost, perhaps because of another session.
        """
        self._turns += 1
        trace = create_turn_trace(self._id, self._turns)
        token = current_turn.set(trace)
        self._began_at, self._spans = time.time_ns(), []
        try:
            reply = await self._inner.run_turn(message)
        except AgentError:
            if is_trace_wanted.get():
                self._spans = await self._collector.take_spans(trace, _FAILED_WAIT_S)
            raise
        finally:
            current_turn.reset(token)
        spans = await self._collector.take_spans(trace, self._wait_s)
        if is_trace_wanted.get():
            self._spans = spans
        if not spans:
            sentence = (
                f"no span of turn {self._turns} arrived at {self._collector.url} within {self._wait_s:g} s: "
                "the agent must send its traces there, and continue the trace that it is given"
            )
            raise AgentError(Failure("telemetry", sentence), usage=self._usage)
        self._seen.add_spans(spans)
        transcript = read_transcript(spans)
        if transcript.usage is not None:
            self._usage = (self._usage or Usage()) + transcript.usage
        return merge_replies(reply or Reply(), transcript.reply)

    def take_spans(self) -> Sequence[TraceSpan]:
        """Return the steps of the last turn, and remove them from the session.

        The steps are read from the turn's spans. Without spans, they are the steps that the inner session
        recorded.
        """
        from evalgate.agents.tracing.span_steps import convert_turn_spans

        reported = self._inner.take_spans() if isinstance(self._inner, RecordsSpans) else ()
        spans, self._spans = self._spans, []
        return convert_turn_spans(spans, self._began_at) if spans else reported

    async def end(self) -> SessionResult:
        """End the inner session and return its result. If the result has no usage, add that of the spans."""
        end = await self._inner.end()
        return end if end.usage is not None else replace(end, usage=self._usage)


def merge_replies(reply: Reply, traced: Reply) -> Reply:
    """Return the agent's reply, completed from `traced`, the reply that the agent's spans describe.

    The agent's own response is kept if there is one. If the agent reported tool calls itself, the events of
    `traced` are ignored. Otherwise, these events are added before the agent's own, except messages with a
    text that the reply already has.
    """
    response = traced.response if reply.response is None else reply.response
    if reply.tool_calls:
        return replace(reply, response=response)
    known = {event.text for event in reply.events if isinstance(event, Message)} | {response}
    events = [event for event in traced.events if not isinstance(event, Message) or event.text not in known]
    return Reply(response, (*events, *reply.events))


def _build_exporter_env(collector: SpanCollector) -> dict[str, str]:
    """Return the variables that make every OpenTelemetry SDK export to the collector within 100 ms."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        # The one protocol that every SDK has: Python's has no JSON, and gRPC would need a second server.
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_BSP_SCHEDULE_DELAY": "100",  # milliseconds; 5 s by default, which each turn would wait for
    }
