"""Agent that runs its conversations in a pool of Ray actors, and replaces lost or silent actors."""

import asyncio
import itertools
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from evalgate.agents.factory import AgentSpec
from evalgate.agents.ray.actor_host import (
    ActorRequest,
    ActorResponse,
    ActorSpec,
    SessionStart,
    dump_message,
    load_failure,
    load_response,
)
from evalgate.agents.ray.bridge_client import ClusterClient, ClusterSpec, RayClusterClient
from evalgate.agents.ray.session import ActorSlot, ClusterSessionContext
from evalgate.agents.tracing.trace_context import is_trace_wanted
from evalgate.config.schema.agent import AgentConfig, ExecutorConfig
from evalgate.core.protocols import AgentError, AgentUnreachableError, SessionLostError
from evalgate.core.types import EvalCase, Failure
from evalgate.documents.env_expansion import list_placeholders
from evalgate.system.agent_environment import build_agent_environment
from evalgate.system.workspace import Workspace

_MAX_LOST_AT_START = 3
"""Number of actors that are lost in a row before they are ready, after which all sessions are refused.

No case runs in such actors. `_MOST_LOST_MACHINES` in `runner/case_runner.py` is the other limit: how often
one case may lose its actor.
"""
_SILENCE_S = 300.0
# An actor is given up if it does not answer within twice the time limit of a turn plus these seconds: its
# node hangs, and Ray does not report it as lost. The time limit of the turn itself is applied in the actor.
_MAX_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLimits:
    """Number of actors of an agent, and time limits."""

    workers: int
    timeout_s: float
    """Seconds that one turn may take."""
    start_timeout_s: float
    """Seconds that may pass without a ready actor, at the start and whenever all actors are lost."""


class ClusterAgent:
    """An `Agent` in the actors of a cluster. A lost actor's conversations start again in another actor."""

    def __init__(self, client: ClusterClient, limits: ClusterLimits) -> None:
        self._client = client
        self._limits = limits
        self._slots: dict[int, ActorSlot] = {}
        self._slot_by_request: dict[int, ActorSlot] = {}
        self._numbers = itertools.count(1)
        self._keys = itertools.count(1)
        self._refusal: AgentUnreachableError | None = None
        self._lost_at_start = 0
        self._capacity_notice = ""
        self._waiting: list[asyncio.Future[None]] = []
        self._readiness_timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self._capacity_notice = await self._client.join_cluster(self)
        for _ in range(self._limits.workers):
            self._add_actor()
        self._watch_readiness()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._readiness_timer is not None:
            self._readiness_timer.cancel()
        await self._client.leave_cluster(gently=not any(exc))

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> ClusterSessionContext:
        """Return an asynchronous context manager of a conversation; entering it waits for a ready actor."""
        return ClusterSessionContext(self, SessionStart(case, run, alone, is_trace_wanted.get()))

    def create_session_key(self) -> str:
        """Return the key of a new conversation."""
        return str(next(self._keys))

    async def acquire_actor(self) -> ActorSlot:
        """Wait until an actor is ready; return the ready actor with the fewest sessions.

        The actor's count of sessions is increased by one.

        Raises:
            AgentUnreachableError: no actor is ready, and none will be.
        """
        while True:
            if self._refusal is not None:
                raise self._refusal
            ready = [slot for slot in self._slots.values() if slot.ready]
            if ready:
                slot = min(ready, key=lambda each: each.sessions)
                slot.sessions += 1
                return slot
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    async def run_step(self, slot: ActorSlot, ask: ActorRequest) -> ActorResponse:
        """Send one request of a conversation to an actor, and return the response.

        Raises:
            SessionLostError: the actor is gone, or did not answer in time.
            AgentUnreachableError: the cluster is gone, or the agent cannot start in it.
            AgentError: the actor runs another release of evalgate than the gate, or evalgate has a bug.
        """
        seconds = 2 * self._limits.timeout_s + _SILENCE_S
        timer = asyncio.get_running_loop().call_later(seconds, self._drop_silent_actor, slot, seconds)
        try:
            return await self._send_request(slot, ask)
        finally:
            timer.cancel()

    async def _send_request(self, slot: ActorSlot, ask: ActorRequest) -> ActorResponse:
        if self._refusal is not None:
            raise self._refusal
        if slot.number not in self._slots:
            raise _build_lost_error("it was gone before it was asked")
        key = next(self._keys)
        answer: asyncio.Future[ActorResponse] = asyncio.get_running_loop().create_future()
        self._slot_by_request[key] = slot
        slot.pending[key] = answer
        self._client.ask_actor(slot.number, key, dump_message(ask))
        try:
            return await answer
        finally:
            self._slot_by_request.pop(key, None)
            slot.pending.pop(key, None)

    def close_session(self, slot: ActorSlot, session: str) -> None:
        """Tell an actor to abandon a conversation, without waiting for an answer."""
        if slot.number in self._slots:
            closing = dump_message(ActorRequest(session, "close"))
            self._client.ask_actor(slot.number, next(self._keys), closing)

    # --- called by the client, as its `ActorListener` -------------------------------------------------------

    def on_ready(self, number: int) -> None:
        """Mark an actor as ready, and wake the sessions that wait for an actor."""
        self._lost_at_start = 0
        if number in self._slots:
            self._slots[number].ready = True
            self._watch_readiness()
            self._wake_waiters()

    def on_failed(self, number: int, failure: str) -> None:
        """Refuse all sessions, with `failure`: an agent that cannot start in one actor starts in none."""
        del number
        self._refuse_sessions(load_failure(failure).failure)

    def on_lost(self, number: int, why: str) -> None:
        """Replace a lost actor and fail its requests. After 3 failed starts in a row, refuse all sessions."""
        if (gone := self._slots.pop(number, None)) is None:
            return
        if not gone.ready:
            self._lost_at_start += 1
        for answer in list(gone.pending.values()):
            _fail_answer(answer, _build_lost_error(why))
        if self._lost_at_start >= _MAX_LOST_AT_START:
            self._refuse_sessions(
                Failure("start", f"no worker can be started in the Ray cluster: {_shorten_reason(why)}", why)
            )
        else:
            self._add_actor()
            self._watch_readiness()

    def on_answer(self, key: int, answer: str) -> None:
        """Complete the request with the key `key`; ignore the answer if the request no longer waits."""
        waiting = self._find_waiter(key)
        if waiting is None:
            return
        try:
            waiting.set_result(load_response(answer))
        except ValidationError as error:
            waiting.set_exception(_build_mismatch_error(str(error)))

    def on_request_failed(self, key: int, why: str) -> None:
        """Raise an error in the request with the key `key`; do nothing if the request no longer waits."""
        if (waiting := self._find_waiter(key)) is not None:
            waiting.set_exception(_build_mismatch_error(why))

    def on_unfit(self, why: str) -> None:
        """Refuse all sessions: a node lacks evalgate's dependencies, which every node must have."""
        sentence = f"a node of the Ray cluster cannot import evalgate: {_shorten_reason(why)}"
        self._refuse_sessions(Failure("start", f"{sentence}: each node needs evalgate's dependencies"))

    def on_cluster_lost(self, why: str, detail: str) -> None:
        """Refuse all sessions, because the cluster is lost."""
        self._refuse_sessions(Failure("cluster", f"the Ray cluster is lost: {_shorten_reason(why)}", detail))

    def _find_waiter(self, key: int) -> "asyncio.Future[ActorResponse] | None":
        """Return the future that waits for the answer to the request `key`; None if the request is over."""
        slot = self._slot_by_request.get(key)
        waiting = slot.pending.get(key) if slot else None
        return None if waiting is None or waiting.done() else waiting

    def _add_actor(self) -> None:
        number = next(self._numbers)
        self._slots[number] = ActorSlot(number)
        self._client.add_actor(number)

    def _drop_silent_actor(self, slot: ActorSlot, seconds: float) -> None:
        self._client.kill_actor(slot.number)
        self.on_lost(slot.number, f"it said nothing for {seconds:g} s")

    def _watch_readiness(self) -> None:
        """Start the timer that refuses all sessions if no actor gets ready; stop it if an actor is ready."""
        if any(slot.ready for slot in self._slots.values()):
            if self._readiness_timer is not None:
                self._readiness_timer.cancel()
            self._readiness_timer = None
        elif self._readiness_timer is None:  # a full cluster would never start an actor
            loop = asyncio.get_running_loop()
            self._readiness_timer = loop.call_later(self._limits.start_timeout_s, self._fail_unready)

    def _fail_unready(self) -> None:
        sentence = f"no worker was ready within {self._limits.start_timeout_s:g} s: {self._capacity_notice}"
        self._refuse_sessions(Failure("start", sentence))

    def _refuse_sessions(self, failure: Failure) -> None:
        """Fail all outstanding requests, and refuse all further sessions and requests."""
        self._refusal = self._refusal or AgentUnreachableError(failure)
        for slot in self._slots.values():
            for answer in list(slot.pending.values()):
                _fail_answer(answer, self._refusal)
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


def _build_lost_error(why: str) -> SessionLostError:
    failure = Failure("worker_lost", f"the worker in the Ray cluster is lost: {_shorten_reason(why)}", why)
    return SessionLostError(failure, "faulted", alone=False)


def _build_mismatch_error(why: str) -> AgentError:
    sentence = "the worker in the Ray cluster runs another evalgate than the gate, or evalgate has a bug"
    return AgentError(Failure("cluster", sentence, why), "faulted")


def _shorten_reason(why: str) -> str:
    """Return the first line of Ray's reason, cut after 300 characters."""
    first = next(iter(why.strip().splitlines()), "Ray gives no reason")
    return first[:_MAX_SHOWN].rstrip(". ")


def _fail_answer(answer: "asyncio.Future[ActorResponse]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


_PACKAGE = Path(__file__).parents[2]
_FEWEST_CALLS = 1_000  # Ray's own default for asynchronous actors
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "PYTHONUNBUFFERED": "1"}
"""Defaults of Ray's environment: no usage reports, and workers with the same priority as the gate."""


def build_ray_agent(
    executor: ExecutorConfig, chosen: AgentSpec, workspace: Workspace, environ: Mapping[str, str]
) -> ClusterAgent:
    """Build an agent that runs in Ray actors, one for each configured worker, without starting anything."""
    settings = chosen.settings
    address = executor.address or environ.get("RAY_ADDRESS") or None
    if address == "local":  # Ray's word for a new cluster on this machine
        address = None
    spec = _build_cluster_spec(executor, address, chosen, workspace, environ)
    client = RayClusterClient(spec, _build_ray_env(environ), executor.start_timeout)
    limits = ClusterLimits(
        workers=settings.workers, timeout_s=settings.timeout, start_timeout_s=executor.start_timeout
    )
    return ClusterAgent(client, limits)


def _build_cluster_spec(
    executor: ExecutorConfig,
    address: str | None,
    chosen: AgentSpec,
    workspace: Workspace,
    environ: Mapping[str, str],
) -> ClusterSpec:
    is_ours, settings = address is None, chosen.settings
    is_sent = not is_ours and executor.workspace == "sent"
    runtime_env: dict[str, object] = {"py_modules": [str(_PACKAGE)], "excludes": list(executor.exclude)}
    if is_sent:
        runtime_env["working_dir"] = str(workspace.folder)
    spec = ActorSpec(
        section={**settings.model_dump(mode="json"), "workers": 1},
        agent_name=chosen.name,
        folder=None if is_sent else str(workspace.folder),
        environ=_select_agent_env(settings, chosen.name, environ, with_harmless=is_ours),
        is_gates_machine=is_ours,
        owner=workspace.owner if is_ours else None,
    )
    return ClusterSpec(
        address=address,
        actors=settings.workers,
        cpus=executor.cpus,
        resources=executor.resources,
        runtime_env=runtime_env,
        calls=max(_FEWEST_CALLS, 2 * settings.concurrency),
        spec=spec.to_json(),
    )


def _select_agent_env(
    settings: AgentConfig, agent_name: str, environ: Mapping[str, str], *, with_harmless: bool
) -> dict[str, str]:
    """Return the environment variables of the agent.

    These are the variables in `settings.env`, and those that the agent's options name as `${NAME}`. With
    `with_harmless`, PATH and similar variables are added.
    """
    env = build_agent_environment(environ, settings.env)
    if not with_harmless:
        harmless = build_agent_environment(environ, ()).keys() - set(settings.env)
        env = {name: value for name, value in env.items() if name not in harmless}
    named = list_placeholders(json.dumps([settings.model_dump(mode="json"), agent_name]))
    return {**env, **{name: environ[name] for name in named if name in environ}}


def _build_ray_env(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the bridge, and of a cluster that the bridge starts on this machine.

    Only these variables of the gate are passed on: harmless ones such as PATH, and those with a name that
    begins with `RAY_`, except RAY_ADDRESS.
    """
    ours = {name: environ[name] for name in environ if name.startswith("RAY_") and name != "RAY_ADDRESS"}
    # Actors on this machine import the evalgate that runs here, which may be installed nowhere.
    given = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join(filter(None, (str(_PACKAGE.parent), given)))
    return {**_SETTINGS, **build_agent_environment(environ, ()), **ours, "PYTHONPATH": path}
