"""The gate's end of the bridge: actors to ask, and what becomes of them."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from evalgate.agents.workers.process import AgentProcess, LaunchSpec, describe_start_error
from evalgate.agents.workers.wire import WorkerProtocolError, decode_message
from evalgate.core.errors import InvalidInputError

_BRIDGE = Path(__file__).with_name("bridge.py")
_LEAVE_S = 15.0
"""How long the bridge may take to leave the cluster, or to end its own."""
_KILL_WAIT_S = 10.0
_MAX_SHOWN = 1_000
_LONGEST_FOLDER = 40
# Characters. Ray adds 63 for the names of its sockets, of which the system allows 107.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """Which cluster is joined, and what each actor there is."""

    address: str | None
    """As `ray.init` takes it; None: one is started on this machine, and ended afterwards."""
    seats: int
    """Actors at the same time."""
    cpus: float
    """CPUs of each."""
    resources: Mapping[str, float]
    runtime_env: Mapping[str, object]
    """What Ray brings to the nodes of a cluster that is joined."""
    calls: int
    """What is asked of one actor at the same time, at most."""
    spec: str
    """`ActorSpec.dump`."""


class ActorListener(Protocol):
    """Who is told what becomes of actors."""

    def on_ready(self, seat: int) -> None:
        """It can be asked."""
        ...

    def on_failed(self, seat: int, broke: str) -> None:
        """The agent cannot start in it; JSON of a `ActorFailure`."""
        ...

    def on_lost(self, seat: int, why: str) -> None:
        """It is gone, or never came to be."""
        ...

    def on_answer(self, key: int, answer: str) -> None:
        """The answer to an ask."""
        ...

    def on_broken(self, key: int, why: str) -> None:
        """An ask that has no answer, through a mistake of evalgate's own."""
        ...

    def on_cluster_lost(self, why: str, detail: str) -> None:
        """The cluster as a whole."""
        ...


class ClusterClient(Protocol):
    """Actors somewhere."""

    async def join_cluster(self, watcher: ActorListener) -> str:
        """Be ready for actors; gives what a user should know of the cluster when there is no room in it.

        Raises:
            InvalidInputError: there is no such cluster.
        """
        ...

    def add_actor(self, number: int) -> None:
        """Ask for an actor."""
        ...

    def ask_actor(self, number: int, key: int, body: str) -> None:
        """Ask an actor; the answer names `key`."""
        ...

    def kill_actor(self, number: int) -> None:
        """End an actor at once."""
        ...

    async def leave_cluster(self, *, gently: bool) -> None:
        """End all actors, and whatever was started for them."""
        ...


class RayClusterClient:
    """A `ClusterClient` to a Ray cluster; its own listener."""

    def __init__(self, cluster: ClusterSpec, env: Mapping[str, str], join_timeout_s: float) -> None:
        """Nothing is started yet.

        Args:
            cluster: What is wanted.
            env: What Ray gets of the gate's environment, and a cluster on this machine with it.
            join_timeout_s: Until the cluster is joined.
        """
        self._cluster = cluster
        self._env = env
        self._join_timeout_s = join_timeout_s
        self._process: AgentProcess | None = None
        self._folder: str | None = None
        """Of the files of a cluster on this machine."""
        self._watcher: ActorListener | None = None
        self._joined: asyncio.Future[Mapping[str, object]] | None = None

    async def join_cluster(self, watcher: ActorListener) -> str:
        """See `ClusterClient.join_cluster`."""
        self._watcher = watcher
        self._joined = asyncio.get_running_loop().create_future()
        self._process = AgentProcess(self)
        if self._cluster.address is None:
            self._folder = _create_short_folder()
        launch = LaunchSpec((sys.executable, "-P", str(_BRIDGE)), Path.cwd(), self._env)
        try:
            await self._process.start(launch)
            self._write_message({**asdict(self._cluster), "folder": self._folder})
            async with asyncio.timeout(self._join_timeout_s):
                said = await self._joined
        except (OSError, ValueError) as error:
            if isinstance(error, TimeoutError):
                await self._end_bridge()
                raise self._build_join_error(f"it did not answer within {self._join_timeout_s:g} s") from None
            raise self._build_join_error(describe_start_error(error, launch)) from None
        except BaseException:
            await self._end_bridge()
            raise
        if said["say"] == "refused":
            await self._end_bridge()
            raise self._build_join_error(str(said["why"]))
        return f"the cluster has {said['cpus']:g} CPUs, and each worker wants {self._cluster.cpus:g}"

    def add_actor(self, number: int) -> None:
        """See `ClusterClient.add_actor`."""
        self._write_message({"do": "seat", "seat": number})

    def ask_actor(self, number: int, key: int, body: str) -> None:
        """See `ClusterClient.ask_actor`."""
        self._write_message({"do": "ask", "seat": number, "id": key, "body": body})

    def kill_actor(self, number: int) -> None:
        """See `ClusterClient.kill_actor`."""
        self._write_message({"do": "drop", "seat": number})

    async def leave_cluster(self, *, gently: bool) -> None:
        """See `ClusterClient.leave_cluster`."""
        if self._process is None:
            return
        self._watcher = None
        self._write_message({"do": "leave", "gently": gently})
        self._process.close_stdin()
        try:
            await asyncio.wait([self._process.ended], timeout=_LEAVE_S)
        finally:
            await self._end_bridge()

    async def _end_bridge(self) -> None:
        """Kill what has not ended by itself: the bridge, and a cluster that it started."""
        if self._process is None:
            return
        self._process.kill()
        try:
            await asyncio.wait([self._process.ended], timeout=_KILL_WAIT_S)
        finally:
            if self._folder is not None:  # a bridge that was killed has left it
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

    # --- what the process does ------------------------------------------------------------------------------

    def on_line(self, line: bytes) -> None:
        """See `process.ProcessListener`."""
        try:
            self._handle_message(decode_message(line))
        except WorkerProtocolError as error:
            self.on_protocol_error(error)

    def on_protocol_error(self, error: WorkerProtocolError) -> None:
        """See `process.ProcessListener`."""
        self._report_lost(error.failure.message)
        if self._process is not None:
            self._process.kill()

    def on_process_ended(self) -> None:
        """See `process.ProcessListener`."""
        self._report_lost("the process that speaks to the Ray cluster ended")

    def _report_lost(self, why: str) -> None:
        detail = self._process.get_stderr_tail() if self._process else ""
        if self._joined is not None and not self._joined.done():
            self._joined.set_result({"say": "refused", "why": f"{why}; {' '.join(detail.split())}"})
        elif self._watcher is not None:
            self._watcher.on_cluster_lost(why, detail)

    def _handle_message(self, message: dict[str, object]) -> None:
        match message:
            case {"say": "joined" | "refused"} if self._joined is not None and not self._joined.done():
                self._joined.set_result(message)
            case {"say": str(what), **rest} if self._watcher is not None:
                _notify_listener(self._watcher, what, rest)


def _notify_listener(watcher: ActorListener, what: str, rest: Mapping[str, object]) -> None:
    match what, rest:
        case "ready", {"seat": int(seat)}:
            watcher.on_ready(seat)
        case "failed", {"seat": int(seat), "why": str(why)}:
            watcher.on_failed(seat, why)
        case "unfit", {"why": str(why)}:
            watcher.on_cluster_lost(why, "")
        case "lost", {"seat": int(seat), "why": str(why)}:
            watcher.on_lost(seat, why)
        case "answer", {"id": int(key), "body": str(body)}:
            watcher.on_answer(key, body)
        case "broken", {"id": int(key), "why": str(why)}:
            watcher.on_broken(key, why)


def _create_short_folder() -> str:
    """A folder for the files of a cluster, whose name leaves room for those of its sockets."""
    usual = tempfile.gettempdir()
    is_short = len(usual) + len("/eg-ray-12345678") <= _LONGEST_FOLDER
    return tempfile.mkdtemp(prefix="eg-ray-", dir=usual if is_short else "/tmp")  # noqa: S108  made safely


def build_python_path(environ: Mapping[str, str]) -> str:
    """PYTHONPATH of a Ray cluster on this machine: its actors import the evalgate that runs here."""
    root = str(Path(__file__).parents[3])
    given = "" if sys.flags.ignore_environment else environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, (root, given)))
