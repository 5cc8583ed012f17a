"""Workers in containers: one container per worker, with its stdin, stdout and stderr attached to the gate."""

import asyncio
import os
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from typing_extensions import override

from evalgate.agents.containers import docker_client
from evalgate.agents.containers.spec import ContainerSpec
from evalgate.agents.workers.pool import PoolOptions, WorkerPool
from evalgate.agents.workers.process import AgentProcess, LaunchSpec, ProcessListener
from evalgate.core.protocols import AgentUnreachableError
from evalgate.core.types import EvalCase, Failure

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from docker import DockerClient
    from docker.models.containers import Container

    from evalgate.core.protocols import AgentSession


_ENDING_S = 5.0
"""Seconds to wait for the end of a container after its streams ended: a busy daemon reports an end late."""
_FRAME = struct.Struct(">BxxxL")
"""Header of a frame from an attached container: the stream (1: stdout, 2: stderr) and the bytes of data."""


class ContainerProcess(AgentProcess):
    """An `AgentProcess` that is a container. The container is removed when the process ends."""

    def __init__(
        self, listener: ProcessListener, client: "DockerClient", image: str, spec: ContainerSpec
    ) -> None:
        super().__init__(listener)
        self._client = client
        self._image = image
        self._spec = spec
        self._container: Container | None = None
        self._code: int | None = None
        self._was_out_of_memory = False
        self._tasks: set[asyncio.Task[None]] = set()

    @override
    async def start(self, launch: LaunchSpec) -> None:
        """Create and start the container. `launch` is ignored: the container's specification replaces it.

        Raises:
            AgentUnreachableError: the container cannot be created or started.
        """
        del launch
        making = asyncio.ensure_future(asyncio.to_thread(self._create_container))
        try:
            stream = await asyncio.shield(making)
        except asyncio.CancelledError:
            await asyncio.wait([making])
            if making.exception() is None:
                making.result().close()
            await self._remove_container()
            raise
        except BaseException:
            self.ended.set_result(None)
            raise
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: _FrameProtocol(self), sock=stream)
        self._stdin = transport

    @property
    @override
    def exit_code(self) -> int | None:
        if self._code is None or self._code <= 128:
            return self._code
        return 128 - self._code  # a shell reports signal n as 128 + n, and asyncio as -n

    @property
    @override
    def exit_failure(self) -> Failure:
        if self._was_out_of_memory:
            sentence = "the agent's container exceeded its memory limit and was killed"
            return Failure("killed", sentence, self.get_stderr_tail())
        return super().exit_failure

    @override
    def close_stdin(self) -> None:
        """Close the container's input but continue to read its output."""
        self._flush_pending()
        if self._stdin is not None and self._stdin.can_write_eof():
            with suppress(OSError):
                self._stdin.write_eof()

    @override
    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to the container; SIGKILL ends all of its processes."""
        if self._container is not None and not self.ended.done():
            task = asyncio.create_task(self._send_signal(number))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def on_detached(self) -> None:
        """Start a task that reads the exit code and removes the container. Called once the stream ends."""
        task = asyncio.create_task(self._finish_process())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send_signal(self, number: signal.Signals) -> None:
        container = self._container
        if container is None:
            return
        # The container may have ended by itself meanwhile. `on_detached` learns of that from the stream.
        with suppress(Exception):
            await asyncio.to_thread(container.kill, number.value)

    async def _finish_process(self) -> None:
        if self._container is not None:
            with suppress(Exception):  # the daemon may be gone
                self._code, self._was_out_of_memory = await asyncio.to_thread(
                    _read_exit_state, self._container
                )
        await self._remove_container()
        self._mark_ended()

    async def _remove_container(self) -> None:
        container, self._container = self._container, None
        if container is not None:
            await asyncio.to_thread(docker_client.remove_container, container)

    def _create_container(self) -> socket.socket:
        container = self._container = docker_client.create_container(self._client, self._image, self._spec)
        stream = None
        try:
            attached = container.attach_socket(
                params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1, "logs": 0}
            )
            # Attached before it starts, as the first lines of a fast program would otherwise be lost.
            stream = _detach_socket(attached)
            docker_client.start_container(container)
        except BaseException:
            self._container = None
            if stream is not None:
                stream.close()
            docker_client.remove_container(container)
            raise
        stream.setblocking(False)
        return stream


class _FrameProtocol(asyncio.Protocol):
    """Parser of the frames in which Docker mixes a container's stdout and stderr in one stream."""

    def __init__(self, process: ContainerProcess) -> None:
        self._process = process
        self._rest = bytearray()

    @override
    def data_received(self, data: bytes) -> None:
        self._rest += data
        at = 0
        while len(self._rest) - at >= _FRAME.size:
            stream, size = _FRAME.unpack_from(self._rest, at)
            end = at + _FRAME.size + size
            if len(self._rest) < end:
                break
            self._process.pipe_data_received(stream, bytes(self._rest[at + _FRAME.size : end]))
            at = end
        del self._rest[:at]

    @override
    def eof_received(self) -> bool:
        return False  # closes the transport, and with it the connection

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._process.on_detached()


def _read_exit_state(container: "Container") -> tuple[int, bool]:
    try:
        result = container.wait(timeout=_ENDING_S)
    except Exception:  # noqa: BLE001  # the SDK lets its HTTP client's timeouts through
        with suppress(Exception):  # it may have ended meanwhile
            container.kill()  # it closed its streams but still runs
        result = container.wait(timeout=10 * _ENDING_S)
    container.reload()
    return int(result["StatusCode"]), bool(container.attrs["State"].get("OOMKilled"))


def _detach_socket(attached: Any) -> socket.socket:
    """Return the attached stream as a plain socket, and close the Docker SDK's objects around it."""
    inner = getattr(attached, "_sock", attached)
    stream = socket.socket(fileno=os.dup(inner.fileno()))
    for each in (getattr(attached, "_response", attached), attached, inner):
        # Closing one can close another, and closing that again raises.
        with suppress(ValueError, OSError):
            each.close()
    return stream


def _check_streams(client: "DockerClient") -> None:
    """Check that the standard streams of a container can be attached as a plain socket.

    Raises:
        AgentUnreachableError: the daemon is reached over TLS.
    """
    address = client.api.base_url
    if address.startswith("https://"):
        sentence = (
            f"the Docker daemon at {address} is reached over TLS, which works only for agents with a `port`: "
            "use a daemon without TLS, as the service `docker:dind` of GitLab with the variables "
            '`DOCKER_TLS_CERTDIR: ""` and `DOCKER_HOST: tcp://docker:2375`'
        )
        raise AgentUnreachableError(Failure("start", sentence))


class WorkerContainerAgent:
    """An `Agent` with workers in containers, which speak the worker protocol."""

    def __init__(self, spec: ContainerSpec, options: PoolOptions) -> None:
        self._spec = spec
        self._options = options
        self._client: DockerClient | None = None
        self._pool: WorkerPool | None = None
        self._refusal: AgentUnreachableError | None = None

    async def __aenter__(self) -> Self:
        try:
            client, image = await asyncio.to_thread(docker_client.prepare_image, self._spec)
            self._client = client
            _check_streams(client)
        except AgentUnreachableError as error:
            self._refusal = error
            return self

        def create_process(listener: ProcessListener) -> ContainerProcess:
            return ContainerProcess(listener, client, image, self._spec)

        launch = LaunchSpec(self._spec.command or (), Path("/"), self._spec.env)
        self._pool = WorkerPool(launch, self._options, create_process)
        await self._pool.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        try:
            if self._pool is not None:
                await self._pool.__aexit__(*exc)
        finally:
            if self._client is not None:
                self._client.close()

    async def check_entry(self) -> None:
        """Wait until the first worker is ready or has failed; do nothing if the agent was not started.

        Raises:
            InvalidInputError: the first worker cannot find the agent's entry.
        """
        if self._pool is not None:
            await self._pool.check_entry()

    def open_session(
        self, case: EvalCase, run: int, *, alone: bool
    ) -> "AbstractAsyncContextManager[AgentSession]":
        """Return an asynchronous context manager that opens a conversation.

        With `alone`, the conversation gets a worker without any other conversation.

        Raises:
            AgentUnreachableError: there is no daemon or no image, or the daemon is reached over TLS.
            RuntimeError: the agent was not entered as a context manager.
        """
        if self._refusal is not None:
            raise self._refusal
        if self._pool is None:
            raise RuntimeError("the agent was not entered")
        return self._pool.open_session(case, run, alone=alone)
