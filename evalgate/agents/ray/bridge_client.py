"""Client of the bridge process: requests to the actors of a Ray cluster, and events of these actors."""

import asyncio
import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from evalgate.agents.workers.process import AgentProcess, LaunchSpec, describe_start_error
from evalgate.agents.workers.protocol import WorkerProtocolError, decode_message
from evalgate.core.errors import InvalidInputError

_BRIDGE = Path(__file__).with_name("bridge.py")
_LEAVE_S = 15.0
"""Seconds that the bridge may take to leave the cluster, or to end the cluster that it started."""
_KILL_WAIT_S = 10.0
_MAX_SHOWN = 1_000
_LONGEST_FOLDER = 40
"""Largest number of characters in the path of the folder for a cluster's files.

Ray appends 63 characters for its sockets, and the system allows 107 in the path of a socket.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """The cluster to join or start, and the actors to create in it."""

    address: str | None
    """Address for `ray.init`; None: a cluster is started on this machine, and ended afterwards."""
    actors: int
    """Number of actors at the same time."""
    cpus: float
    """CPUs that Ray reserves for each actor."""
    resources: Mapping[str, float]
    runtime_env: Mapping[str, object]
    """Files and settings that Ray sends to the nodes of an existing cluster."""
    calls: int
    """Maximum number of requests to one actor at the same time."""
    spec: str
    """The agent: an `ActorSpec` as JSON."""


class ActorListener(Protocol):
    """Receiver of the events of actors.

    `number` identifies the actor; it is the number that was passed to `ClusterClient.add_actor`.
    """

    def on_ready(self, number: int) -> None:
        """Mark an actor as ready for requests."""
        ...

    def on_failed(self, number: int, failure: str) -> None:
        """Receive the failure of an agent that cannot start: an `ActorFailure` as JSON."""
        ...

    def on_lost(self, number: int, why: str) -> None:
        """Learn that an actor is gone or could not be created; `why` is Ray's reason."""
        ...

    def on_answer(self, key: int, answer: str) -> None:
        """Receive the answer to the request `key`: an `ActorResponse` as JSON."""
        ...

    def on_request_failed(self, key: int, why: str) -> None:
        """Learn that a bug of evalgate prevented an answer to the request `key`; `why` describes the bug."""
        ...

    def on_unfit(self, why: str) -> None:
        """Learn that a node cannot import evalgate; `why` is the error, with the node."""
        ...

    def on_cluster_lost(self, why: str, detail: str) -> None:
        """Learn that the cluster is lost; `why` is the reason, `detail` the end of the bridge's stderr."""
        ...


class ClusterClient(Protocol):
    """Connection to a cluster of actors."""

    async def join_cluster(self, listener: ActorListener) -> str:
        """Join or start the cluster. Return a clause about the cluster's resources, for error messages.

        Raises:
            InvalidInputError: the cluster cannot be joined or started.
        """
        ...

    def add_actor(self, number: int) -> None:
        """Request a new actor without waiting; its events, such as `on_ready`, go to the listener.

        `number` is any number that no earlier actor had.
        """
        ...

    def ask_actor(self, number: int, key: int, body: str) -> None:
        """Send `body`, an `ActorRequest` as JSON; the listener receives the answer with the same `key`."""
        ...

    def kill_actor(self, number: int) -> None:
        """Kill an actor without waiting for its agent."""
        ...

    async def leave_cluster(self, *, gently: bool) -> None:
        """End all actors, and a cluster that was started for them.

        With `gently`, let the agents finish first.
        """
        ...


class RayClusterClient:
    """A `ClusterClient` that reaches a Ray cluster through the bridge process."""

    def __init__(self, cluster: ClusterSpec, env: Mapping[str, str], join_timeout_s: float) -> None:
        """Create the client without starting anything.

        Args:
            cluster: The cluster and its actors.
            env: Environment of Ray, and of a cluster on this machine.
            join_timeout_s: Seconds until the cluster must be joined.
        """
        self._cluster = cluster
        self._env = env
        self._join_timeout_s = join_timeout_s
        self._process: AgentProcess | None = None
        self._folder: str | None = None
        """Folder for the files of a cluster on this machine; None for any other cluster."""
        self._listener: ActorListener | None = None
        self._joined: asyncio.Future[Mapping[str, Any]] | None = None

    async def join_cluster(self, listener: ActorListener) -> str:
        """Start the bridge, and join or start the cluster. Return a clause about the cluster's resources.

        Raises:
            InvalidInputError: the bridge cannot be started, or the cluster cannot be joined or started.
        """
        self._listener = listener
        self._joined = asyncio.get_running_loop().create_future()
        self._process = AgentProcess(self)
        if self._cluster.address is None:
            self._folder = _create_short_folder()
        # -P keeps the bridge's folder off `sys.path`: its modules would hide packages of the same names.
        launch = LaunchSpec((sys.executable, "-P", str(_BRIDGE)), Path.cwd(), self._env)
        try:
            await self._process.start(launch)
            self._write_message({**asdict(self._cluster), "folder": self._folder})
            async with asyncio.timeout(self._join_timeout_s):
                reply = await self._joined
        except (OSError, ValueError) as error:
            if isinstance(error, TimeoutError):  # which is an OSError, too
                await self._end_bridge()
                raise self._build_join_error(f"it did not answer within {self._join_timeout_s:g} s") from None
            raise self._build_join_error(describe_start_error(error, launch)) from None
        except BaseException:
            await self._end_bridge()
            raise
        if reply["say"] == "refused":
            await self._end_bridge()
            raise self._build_join_error(str(reply["why"]))
        return describe_capacity(self._cluster, reply["resources"])

    def add_actor(self, number: int) -> None:
        """Request a new actor from the bridge. The actor gets the id `number`, which no earlier actor had."""
        self._write_message({"do": "add", "actor": number})

    def ask_actor(self, number: int, key: int, body: str) -> None:
        """Send `body`, an `ActorRequest` as JSON, to an actor through the bridge."""
        self._write_message({"do": "ask", "actor": number, "id": key, "body": body})

    def kill_actor(self, number: int) -> None:
        """Kill an actor through the bridge."""
        self._write_message({"do": "drop", "actor": number})

    async def leave_cluster(self, *, gently: bool) -> None:
        """End the actors, the bridge and a cluster that the bridge started.

        With `gently`, let the agents finish first.
        """
        if self._process is None:
            return
        self._listener = None
        self._write_message({"do": "leave", "gently": gently})
        self._process.close_stdin()
        try:
            await asyncio.wait([self._process.ended], timeout=_LEAVE_S)
        finally:
            await self._end_bridge()

    async def _end_bridge(self) -> None:
        """Kill the bridge if it has not ended by itself, and remove its files."""
        if self._process is None:
            return
        self._process.kill()
        try:
            await asyncio.wait([self._process.ended], timeout=_KILL_WAIT_S)
        finally:
            if self._folder is not None:  # a bridge that was killed did not remove it
                shutil.rmtree(self._folder, ignore_errors=True)

    def _write_message(self, message: Mapping[str, object]) -> None:
        if self._process is not None:
            self._process.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def _build_join_error(self, why: str) -> InvalidInputError:
        address, why = self._cluster.address, why[:_MAX_SHOWN].rstrip(".")
        if address is None:
            return InvalidInputError(f"cannot start a Ray cluster on this machine: {why}")
        return InvalidInputError(
            f"cannot join the Ray cluster at `{address}`: {why}. Check --ray-address, "
            "`executor.address` and RAY_ADDRESS; without any of them evalgate starts one on this machine."
        )

    # --- called by the process ------------------------------------------------------------------------------

    def on_line(self, line: bytes) -> None:
        """Handle a line of the bridge: its answer to `join_cluster`, or an event for the listener.

        An invalid line is passed to `on_protocol_error`.
        """
        try:
            self._handle_message(decode_message(line))
        except WorkerProtocolError as error:
            self.on_protocol_error(error)

    def on_protocol_error(self, error: WorkerProtocolError) -> None:
        """Report the cluster as lost and kill the bridge, which broke the protocol."""
        self._report_lost(error.failure.message)
        if self._process is not None:
            self._process.kill()

    def on_process_ended(self) -> None:
        """Report the cluster as lost because the bridge ended; a `join_cluster` that still waits fails."""
        self._report_lost("the process that speaks to the Ray cluster ended")

    def _report_lost(self, why: str) -> None:
        detail = self._process.get_stderr_tail() if self._process else ""
        if self._joined is not None and not self._joined.done():
            self._joined.set_result({"say": "refused", "why": f"{why}; {' '.join(detail.split())}"})
        elif self._listener is not None:
            self._listener.on_cluster_lost(why, detail)

    def _handle_message(self, message: dict[str, object]) -> None:
        match message:
            case {"say": "joined" | "refused"} if self._joined is not None and not self._joined.done():
                self._joined.set_result(message)
            case {"say": str(what), **rest} if self._listener is not None:
                _notify_listener(self._listener, what, rest)


def describe_capacity(cluster: ClusterSpec, resources: Mapping[str, float]) -> str:
    """Return a clause with the resources of the whole cluster, and the resources that each worker wants.

    `resources` holds the amounts in the whole cluster by Ray's names: `CPU`, and the names in
    `cluster.resources`. The clause is part of the error message if no actor becomes ready.
    """
    wanted = {"CPU": cluster.cpus, **cluster.resources}
    return f"the cluster has {_join_amounts(resources)}, and each worker wants {_join_amounts(wanted)}"


def _join_amounts(resources: Mapping[str, float]) -> str:
    return " and ".join(f"{amount:g} {name}" for name, amount in resources.items())


def _notify_listener(listener: ActorListener, kind: str, rest: Mapping[str, object]) -> None:
    match kind, rest:
        case "ready", {"actor": int(number)}:
            listener.on_ready(number)
        case "failed", {"actor": int(number), "why": str(why)}:
            listener.on_failed(number, why)
        case "unfit", {"why": str(why)}:
            listener.on_unfit(why)
        case "lost", {"actor": int(number), "why": str(why)}:
            listener.on_lost(number, why)
        case "answer", {"id": int(key), "body": str(body)}:
            listener.on_answer(key, body)
        case "broken", {"id": int(key), "why": str(why)}:
            listener.on_request_failed(key, why)


def _create_short_folder() -> str:
    """Create a folder for the files of a cluster. Its path is short enough for Ray's sockets."""
    usual = tempfile.gettempdir()
    is_short = len(usual) + len("/eg-ray-12345678") <= _LONGEST_FOLDER
    return tempfile.mkdtemp(prefix="eg-ray-", dir=usual if is_short else "/tmp")  # noqa: S108  mkdtemp is safe
