"""The bridge, a process that connects the gate to Ray: `python bridge.py`. No other module imports Ray.

It needs only the standard library and Ray. It reads lines from stdin and writes lines to stdout, each a JSON
object. The first line is a `bridge_client.ClusterSpec`. Then the gate sends commands:

- `{"do": "add", "actor": n}` creates an actor.
- `{"do": "ask", "actor": n, "id": k, "body": text}` sends a request to the actor.
- `{"do": "drop", "actor": n}` kills the actor.
- `{"do": "leave", "gently": bool}`, or the end of stdin, ends all actors and the bridge.

The bridge sends `joined` or `refused` once. For each actor it sends `ready`, `failed` or `unfit`, and `lost`
when the actor is lost. For each request it sends `answer`, or `broken` after a bug, unless the actor is lost.
Before it ends, it removes everything that it created.
"""

import asyncio
import json
import logging
import os
import shutil
import socket
import sys
import threading
from typing import Any

_REACHED_S = 10.0
_LEAVE_S = 4.0
"""Seconds that actors may take to end their agents."""
_OBJECT_STORE_BYTES = 100_000_000  # small, as conversations are arguments of calls and not in the store
_READ_BYTES = 256 * 1024


class AgentActor:
    """Ray actor that hosts one agent. It is pickled by value, so that nodes need no file of this module.

    The agent runs in a separate event loop, because Ray's own loop may be uvloop's.
    """

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._host: Any = None
        self._loop = asyncio.SelectorEventLoop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    async def start(self) -> tuple[str, str]:
        """Start the agent; return (`ready`, ""), (`failed`, an `ActorFailure` as JSON) or (`unfit`, reason).

        A node is unfit if it cannot import evalgate.
        """
        try:
            from evalgate.agents.ray.actor_host import ActorFailure, ActorHost, dump_message
        except ImportError as error:
            return "unfit", f"{error} (node {socket.gethostname()}, {sys.executable})"
        host = await self._run_in_loop(ActorHost.start_host(self._spec))
        if isinstance(host, ActorFailure):
            return "failed", dump_message(host)
        self._host = host
        return "ready", ""

    async def handle_request(self, body: str) -> str:
        """Pass an `ActorRequest` as JSON to the agent's host; return its `ActorResponse` as JSON."""
        answer: str = await self._run_in_loop(self._host.handle_request(body))
        return answer

    async def stop(self, gently: bool) -> None:
        """End the agent and its processes; with `gently`, let the agent finish by itself first."""
        if self._host is not None:
            error = None if gently else asyncio.CancelledError()
            await self._run_in_loop(self._host.__aexit__(error and type(error), error, None))

    async def _run_in_loop(self, coroutine: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))


class GateWriter:
    """Writer of lines to the gate."""

    def __init__(self, outgoing: int) -> None:
        self._outgoing = outgoing

    def write_message(self, kind: str, **more: object) -> None:
        """Write one line: a message of the kind `kind`, with the fields in `more`.

        If the pipe is closed, the message is dropped: the gate is gone, and the end of stdin ends the bridge.
        """
        data = memoryview(json.dumps({"say": kind, **more}, separators=(",", ":")).encode() + b"\n")
        try:
            while data:
                data = data[os.write(self._outgoing, data) :]
        except OSError:
            return


class Bridge:
    """Bridge between the gate and the actors of one run. It executes the gate's commands."""

    def __init__(self, ray: Any, given: dict[str, Any], wire: GateWriter) -> None:
        self._ray = ray
        self._wire = wire
        resources = dict(given["resources"])
        options = {"num_cpus": given["cpus"], "max_restarts": 0, "max_concurrency": given["calls"]}
        # Ray takes GPUs only as an option of their own.
        if gpus := resources.pop("GPU", 0):
            options["num_gpus"] = gpus
        self._actor_class = ray.remote(AgentActor).options(**options, resources=resources)
        self._spec = ray.put(given["spec"])  # sent to a node once, not with each actor
        self._actors: dict[int, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._gently = False
        self._rest = b""
        self._left = asyncio.Event()

    async def serve(self, incoming: int, rest: bytes) -> None:
        """Execute the gate's commands until the gate leaves or stdin ends, then end all actors.

        `incoming` is the descriptor of stdin. `rest` has the bytes that were read after the first line.
        """
        loop = asyncio.get_running_loop()
        loop.add_reader(incoming, self._read_lines, incoming)
        self._handle_data(rest)
        await self._left.wait()
        loop.remove_reader(incoming)
        ends = [actor.stop.remote(self._gently) for actor in self._actors.values()]
        if ends:
            await asyncio.to_thread(self._ray.wait, ends, num_returns=len(ends), timeout=_LEAVE_S)
        for actor in self._actors.values():
            self._ray.kill(actor)

    def _read_lines(self, incoming: int) -> None:
        data = os.read(incoming, _READ_BYTES)
        if data:
            self._handle_data(data)
        else:
            self._left.set()

    def _handle_data(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in filter(None, lines):
            self._handle_command(json.loads(line))

    def _handle_command(self, command: dict[str, Any]) -> None:
        match command["do"]:
            case "add":
                self._actors[command["actor"]] = self._actor_class.remote(self._spec)
                self._spawn_task(self._start_actor(command["actor"]))
            case "ask":
                self._spawn_task(self._ask_actor(command["actor"], command["id"], command["body"]))
            case "drop":
                actor = self._actors.pop(command["actor"], None)
                if actor is not None:
                    self._ray.kill(actor)
            case "leave":
                self._gently = command["gently"]
                self._left.set()

    def _spawn_task(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start_actor(self, number: int) -> None:
        try:
            what, why = await self._actors[number].start.remote()
        except Exception as error:  # noqa: BLE001  whatever Ray raises, there is no such actor
            self._report_lost(number, error)
        else:
            self._wire.write_message(what, actor=number, why=why)

    async def _ask_actor(self, number: int, key: int, body: str) -> None:
        actor = self._actors.get(number)
        if actor is None:
            return  # lost, which the gate already knows
        try:
            answer = await actor.handle_request.remote(body)
        except self._ray.exceptions.RayTaskError as error:  # a bug of evalgate in the actor
            self._wire.write_message("broken", id=key, why=str(error))
        except Exception as error:  # noqa: BLE001  the actor died, its node did, or it cannot be reached
            self._report_lost(number, error)
        else:
            self._wire.write_message("answer", id=key, body=answer)

    def _report_lost(self, number: int, error: Exception) -> None:
        actor = self._actors.pop(number, None)
        if actor is not None:
            self._ray.kill(actor)  # a node that is only unreachable must not continue
            self._wire.write_message("lost", actor=number, why=f"{type(error).__name__}: {error}")


def main() -> None:
    """Join the cluster that the first line of stdin names, or start one; serve until the gate leaves.

    Then leave or end the cluster, and remove the folder for its files.
    """
    incoming, wire = _take_over_stdio()
    first, rest = _read_first_line(incoming)
    if not first:
        return
    given = json.loads(first)
    folder = given["folder"]
    try:
        import ray

        _join_cluster(ray, given)
    except Exception as error:  # noqa: BLE001  whatever Ray raises, there is no cluster
        text = " ".join(str(error).split())
        wire.write_message("refused", why=f"{type(error).__name__}: {text}".removesuffix(": "))
    else:
        resources = ray.cluster_resources()
        wanted = {name: resources.get(name, 0) for name in ("CPU", *given["resources"])}
        wire.write_message("joined", resources=wanted, ray=ray.__version__)
        asyncio.run(Bridge(ray, given, wire).serve(incoming, rest))
    finally:
        if "ray" in sys.modules:
            sys.modules["ray"].shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _join_cluster(ray: Any, given: dict[str, Any]) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if given["address"] is None:
        resources = {name: amount * given["actors"] for name, amount in given["resources"].items()}
        ray.init(
            address="local",
            # Rounded up, as `ray.init` takes whole CPUs only.
            num_cpus=max(1, -int(-given["cpus"] * given["actors"] // 1)),
            num_gpus=resources.pop("GPU", None),
            resources=resources,
            object_store_memory=_OBJECT_STORE_BYTES,
            include_dashboard=False,
            _temp_dir=given["folder"],
            **quiet,
        )
        return
    _check_reachable(given["address"])
    ray.init(address=given["address"], runtime_env=given["runtime_env"], **quiet)


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing listens at the address. An address without a port is not checked.

    Ray itself would try to connect for minutes, and then end this process.
    """
    host, colon, port = address.removeprefix("ray://").partition("/")[0].rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACHED_S).close()


def _take_over_stdio() -> tuple[int, GateWriter]:
    """Return a duplicate of stdin and a writer to stdout; redirect other output, such as Ray's, to stderr."""
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return incoming, GateWriter(outgoing)


def _read_first_line(incoming: int) -> tuple[bytes, bytes]:
    data = b""
    while b"\n" not in data:
        more = os.read(incoming, _READ_BYTES)
        if not more:
            return b"", b""
        data += more
    line, _, rest = data.partition(b"\n")
    return line, rest


if __name__ == "__main__":
    main()
