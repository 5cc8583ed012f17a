"""Agent that is an HTTP server in a container.

One container serves all conversations, and is replaced when it ends. If several turns were in progress, any
of them may have ended the container. All conversations are then lost, and each of them starts again in a
separate container.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from evalgate.agents.containers import docker_client
from evalgate.agents.containers.spec import ContainerSpec
from evalgate.agents.http.agent import RemoteAgent, RemoteSession
from evalgate.core.protocols import AgentError, AgentUnreachableError, SessionLostError, SessionResult
from evalgate.core.types import EvalCase, Failure, Reply, UserMessage

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container


_ADDRESS_S = 10.0
_POLL_S = 0.05
_CHECK_S = 0.5
_FIRST_LOG_POLLS = 40
"""Maximum number of polls for the first line of a log. The line may appear after the server has answered."""
_DYING_S = 1.0
"""Seconds to wait for the container's end after a connection broke: the daemon reports an end late."""
_DEAD_S = 15.0
"""Seconds to wait for the container's end in all, while the server fails its health check.

A busy daemon reports the end of a container late.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """Image and specification of a container that serves the agent."""

    client: "DockerClient"
    image: str
    spec: ContainerSpec
    port: int
    """Port of the server in the container."""
    agent_factory: Callable[[str], RemoteAgent]
    """Function that creates the agent from its URL."""


class ServerContainer:
    """A container that serves the agent from `start` to `stop`."""

    def __init__(self, plan: ServerPlan) -> None:
        self.busy = 0
        """Number of turns in progress."""
        self.affected_turns = 0
        """Number of turns in progress when a connection broke; the largest number if several broke.

        0 before the first broken connection, and again if the container turns out to be running.
        """
        self.end_failure: Failure | None = None
        """Failure that describes the end of the container; None until the end is known."""
        self._plan = plan
        self._container: Container | None = None
        self._agent: RemoteAgent | None = None
        self._end_watch: asyncio.Task[Failure | None] | None = None
        self._logs_nothing = False

    @property
    def agent(self) -> RemoteAgent:
        """Return the agent at the container's address; raise RuntimeError if the container is not started."""
        if self._agent is None:
            raise RuntimeError("the container was not started")
        return self._agent

    async def start(self) -> None:
        """Create the container and wait until its server answers.

        Raises:
            AgentUnreachableError: the container cannot be created, it ends, or the server does not answer.
                If there is no other detail, the error quotes the end of the container's log.
        """
        # Shielded, as a thread cannot be cancelled: until it ends, it is not known which container to remove.
        making = asyncio.ensure_future(asyncio.to_thread(self._create_container))
        try:
            await asyncio.shield(making)
            agent = self._plan.agent_factory(f"http://{await self._wait_for_address()}")
            self._agent = await agent.__aenter__()
            await self._wait_until_ready(agent)
        except AgentUnreachableError as error:
            failure = error.failure
            if not failure.detail:
                failure = replace(failure, detail=await self.read_log()).quote_last_output()
            await self.stop()
            raise AgentUnreachableError(failure) from None
        except BaseException:
            await asyncio.wait([making])
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close the connections to the container and remove it."""
        if self._end_watch is not None:
            await asyncio.wait([self._end_watch])
        agent, self._agent = self._agent, None
        try:
            if agent is not None:
                await agent.__aexit__(None, None, None)
        finally:
            container, self._container = self._container, None
            if container is not None:
                await asyncio.to_thread(docker_client.remove_container, container)

    async def read_log(self) -> str:
        """Return the end of the container's log; "" if there is no container or no log.

        Wait up to 2 seconds for the first line of the log. Do not wait if the last call found no log: the
        container probably writes none.
        """
        container = self._container
        if container is None:
            return ""
        polls_left = 0 if self._logs_nothing else _FIRST_LOG_POLLS
        while not (log := await asyncio.to_thread(docker_client.read_log_tail, container)) and polls_left:
            polls_left -= 1
            await asyncio.sleep(_POLL_S)
        self._logs_nothing = not log
        return log

    async def detect_end(self) -> Failure | None:
        """Return a failure that describes the end of the container; None if the container still runs.

        Call this method after a connection to the container broke, because the container may end a little
        later. Wait a second for its end. If the server fails its health check then, wait until the container
        ends or the server is healthy again, for up to 15 seconds in all.
        """
        self.affected_turns = max(self.affected_turns, self.busy)
        if self._end_watch is None or (self._end_watch.done() and self.end_failure is None):
            self._end_watch = asyncio.create_task(self._watch_end())
        return await asyncio.shield(self._end_watch)

    async def _watch_end(self) -> Failure | None:
        clock = asyncio.get_running_loop().time
        began = clock()
        while (ended := await asyncio.to_thread(self._find_end_failure)) is None:
            seconds = clock() - began
            if seconds >= _DYING_S and (seconds >= _DEAD_S or await self.agent.is_healthy()):
                break
            await asyncio.sleep(_POLL_S)
        if ended is None:
            self.affected_turns = 0
        else:
            self.end_failure = replace(ended, detail=await self.read_log())
        return self.end_failure

    def _create_container(self) -> None:
        plan = self._plan
        self._container = docker_client.create_container(plan.client, plan.image, plan.spec)
        docker_client.start_container(self._container)

    async def _wait_for_address(self) -> str:
        end = asyncio.get_running_loop().time() + _ADDRESS_S
        while self._container is not None and asyncio.get_running_loop().time() < end:
            if address := await asyncio.to_thread(
                docker_client.find_address, self._plan.client, self._container, self._plan.port
            ):
                return address
            await self._require_running()
            await asyncio.sleep(_POLL_S)
        raise AgentUnreachableError(
            Failure("start", "the agent's container has no address: it has no network")
        )

    async def _wait_until_ready(self, agent: RemoteAgent) -> None:
        ready = asyncio.ensure_future(agent.wait_until_ready())
        try:
            while not ready.done():
                await asyncio.wait([ready], timeout=_CHECK_S)
                if not ready.done():
                    await self._require_running()
            ready.result()
        finally:
            ready.cancel()
            await asyncio.wait([ready])

    async def _require_running(self) -> None:
        ended = await asyncio.to_thread(self._find_end_failure)
        if ended is not None:
            raise AgentUnreachableError(
                replace(ended, kind="start", message=f"{ended.message} before it answered")
            )

    def _find_end_failure(self) -> Failure | None:
        import docker.errors

        container = self._container
        if container is None:
            return None
        try:
            container.reload()
        except docker.errors.NotFound:
            return Failure("exited", "the agent's container was removed from outside")
        except (docker.errors.APIError, OSError):
            return None  # a busy daemon did not answer in time: the container may still run
        state = container.attrs["State"]
        if state["Status"] not in {"exited", "dead"}:
            return None
        if state.get("OOMKilled"):
            return Failure("killed", "the agent's container exceeded its memory limit and was killed")
        return Failure("exited", f"the agent's container ended with exit code {state['ExitCode']}")


_MAX_ISOLATED = 4
"""Maximum number of containers at the same time that serve one conversation each."""
_BROKEN_KINDS = frozenset({"connection", "unavailable"})
"""Kinds of failures after which the container may be gone."""


class ServerContainerAgent:
    """An `Agent` that is a server in a container."""

    def __init__(self, spec: ContainerSpec, port: int, agent_factory: Callable[[str], RemoteAgent]) -> None:
        """Create the agent without starting anything.

        Args:
            spec: Specification of the container.
            port: Port of the server in the container.
            agent_factory: Function that creates the agent from its URL.
        """
        self._spec = spec
        self._port = port
        self._agent_factory = agent_factory
        self._plan: ServerPlan | None = None
        self._shared: ServerContainer | None = None
        self._servers: set[ServerContainer] = set()
        self._replacing = asyncio.Lock()
        self._isolated = asyncio.Semaphore(_MAX_ISOLATED)
        self._refusal: AgentUnreachableError | None = None

    async def __aenter__(self) -> Self:
        preparing = asyncio.ensure_future(asyncio.to_thread(self._prepare_plan))
        try:
            await asyncio.shield(preparing)
            self._shared = await self._start_server()
        except AgentUnreachableError as error:
            self._refusal = error
        except BaseException:
            await asyncio.wait([preparing])
            await self._close_servers()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._close_servers()

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> "_ServerSession":
        """Return an asynchronous context manager that opens a conversation.

        With `alone`, the conversation gets a separate container.

        Raises:
            AgentUnreachableError: the first container did not start.
            RuntimeError: the agent was not entered as a context manager.
        """
        if self._refusal is not None:
            raise self._refusal
        if self._plan is None:
            raise RuntimeError("the agent was not entered")
        return _ServerSession(self, case, run, alone=alone)

    async def acquire_server(self, *, alone: bool) -> ServerContainer:
        """Return a started server: the shared one, or with `alone` one in a new container for this caller.

        If the shared server has ended, a new one replaces it. The caller must pass the server to
        `release_server`. At most four callers at once can have a server with `alone`; further calls wait.

        Raises:
            AgentUnreachableError: a new container was needed, and did not start.
        """
        if alone:
            await self._isolated.acquire()
            try:
                return await self._start_server()
            except BaseException:
                self._isolated.release()
                raise
        # One at a time: all conversations that lost the same container would else start one each.
        async with self._replacing:
            if self._shared is None or self._shared.end_failure is not None:
                if self._shared is not None:
                    await self._stop_server(self._shared)
                self._shared = await self._start_server()
            return self._shared

    async def release_server(self, server: ServerContainer, *, alone: bool) -> None:
        """Stop a server that was acquired with `alone`. The shared server continues to run."""
        if alone:
            try:
                await self._stop_server(server)
            finally:
                self._isolated.release()

    def _prepare_plan(self) -> None:
        client, image = docker_client.prepare_image(self._spec)
        self._plan = ServerPlan(
            client=client, image=image, spec=self._spec, port=self._port, agent_factory=self._agent_factory
        )

    async def _start_server(self) -> ServerContainer:
        if self._plan is None:
            raise RuntimeError("the agent was not entered")
        server = ServerContainer(self._plan)
        self._servers.add(server)
        await server.start()
        return server

    async def _stop_server(self, server: ServerContainer) -> None:
        await server.stop()
        self._servers.discard(server)

    async def _close_servers(self) -> None:
        try:
            await asyncio.gather(*(server.stop() for server in self._servers))
        finally:
            if self._plan is not None:
                self._plan.client.close()


class _ServerSession:
    """One conversation with the server. The errors of its turns contain the end of the container's log."""

    def __init__(self, agent: ServerContainerAgent, case: EvalCase, run: int, *, alone: bool) -> None:
        self._agent = agent
        self._case = case
        self._run = run
        self._alone = alone
        self._turns = 0

    async def __aenter__(self) -> Self:
        self._server = await self._agent.acquire_server(alone=self._alone)
        self._inner: RemoteSession = self._server.agent.open_session(self._case, self._run, alone=self._alone)
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        try:
            if self._server.end_failure is None:
                await self._inner.__aexit__(kind, *exc)
        finally:
            await self._agent.release_server(self._server, alone=self._alone)

    @property
    def applies_mocks(self) -> bool:
        """Return True if the dialect lets the gate answer the agent's tool calls with mocks."""
        return self._inner.applies_mocks

    @property
    def applies_recordings(self) -> bool:
        """Return True if the dialect lets the gate answer the agent's tool calls from a recording."""
        return self._inner.applies_recordings

    async def run_turn(self, message: UserMessage) -> Reply:
        """Return the server's reply to a message.

        Raises:
            AgentError: the turn failed. Or the container ended, and this turn was the only one in progress.
            SessionLostError: the container ended, perhaps because of another conversation.
        """
        server = self._server
        if server.end_failure is not None:
            raise await self._build_lost_error(server.end_failure)
        self._turns += 1
        server.busy += 1
        try:
            return await self._inner.run_turn(message)
        except AgentError as error:
            ended = await server.detect_end() if error.failure.kind in _BROKEN_KINDS else None
            if ended is None:
                log = await server.read_log()
                details = [error.failure.detail, log and f"The container's log:\n{log}"]
                failure = replace(error.failure, detail="\n".join(filter(None, details)))
                raise AgentError(failure, error.outcome, error.usage, error.retry_after_s) from None
            if server.affected_turns > 1 or error.failure.kind == "unavailable":
                raise await self._build_lost_error(ended) from None
            sentence = f"{ended.message} while it answered (turn {self._turns})"
            raise AgentError(replace(ended, message=sentence), usage=error.usage) from None
        finally:
            server.busy -= 1

    async def end(self) -> SessionResult:
        """End the conversation and return its result."""
        return await self._inner.end()

    async def _build_lost_error(self, ended: Failure) -> SessionLostError:
        note = (
            f" ({self._server.affected_turns} cases at once in it)" if self._server.affected_turns > 1 else ""
        )
        usage = (await self._inner.end()).usage
        return SessionLostError(replace(ended, message=ended.message + note), usage=usage)
