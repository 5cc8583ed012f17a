"""Agents in any language: an executable that speaks the worker protocol on stdin and stdout."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Self

from evalgate.config import AgentConfig
from evalgate.model import EvalCase
from evalgate.protocols import AgentPlace, AgentSession
from evalgate.workerpool.pool import PoolOptions, WorkerPool
from evalgate.workerpool.process import Launch


class CommandAgent:
    """A long-lived process, or several, of the user's own; it speaks `docs/agent-protocol.md`."""

    def __init__(
        self,
        *,
        command: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        timeout: float,
        workers: int = 1,
        start_timeout: float = 60.0,
        uid: int | None = None,
        gid: int | None = None,
    ) -> None:
        """An agent that is not started yet.

        Args:
            command: Executable and arguments; no shell is involved.
            cwd: Where the agent runs.
            env: The whole environment of the agent.
            timeout: Of one turn, in seconds.
            workers: Processes, at most.
            start_timeout: Until the agent says `ready`, in seconds.
            uid: The user to run as; None: the user that runs evalgate.
            gid: The group to run as.
        """
        options = PoolOptions(workers=workers, timeout_s=timeout, start_timeout_s=start_timeout)
        self._pool = WorkerPool(Launch(tuple(command), cwd, env, uid, gid), options)

    async def __aenter__(self) -> Self:
        await self._pool.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._pool.__aexit__(*exc)

    def session(self, case: EvalCase, run: int, *, alone: bool) -> AbstractAsyncContextManager[AgentSession]:
        """See `Agent.session`."""
        del run
        return self._pool.session(case, alone=alone)


def build(config: AgentConfig, place: AgentPlace) -> CommandAgent:
    """The agent of a thresholds file's `agent` section; a command in one string is split as a shell would."""
    command = config.command or ()
    return CommandAgent(
        command=shlex.split(command) if isinstance(command, str) else command,
        cwd=place.folder,
        env=place.env,
        timeout=config.timeout,
        workers=config.workers,
        uid=place.uid,
        gid=place.gid,
    )
