"""Run cases with a real agent, and check that none of its processes is left."""

import asyncio
import os
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Self

import psutil
import pytest

from evalgate.agents.adapters.command import build_command_agent
from evalgate.agents.adapters.python import build_python_agent
from evalgate.agents.http.agent import RemoteSession
from evalgate.agents.tracing.run_trace import RunTrace
from evalgate.agents.workers.pool import WorkerPool
from evalgate.agents.workers.session import WorkerSession
from evalgate.core.protocols import Agent, AgentSession
from evalgate.core.types import CaseRun, CaseTurn, EvalCase, SessionInput, UserMessage
from evalgate.runner.scheduler import RunRequest, run_requests

TINY = Path(__file__).parent / "tiny"
MARK = "EVALGATE_TEST_MARK"
PATIENT_S = 120.0
"""Timeout in seconds of steps that take milliseconds, unless the machine is busy."""


def a_talk(eval_id: str, *texts: str, session: SessionInput | None = None) -> EvalCase:
    """Return a case with one turn for each text."""
    turns = tuple(CaseTurn(UserMessage(text)) for text in texts)
    return EvalCase(eval_id, turns, session=session or SessionInput())


def environment() -> dict[str, str]:
    """Return the environment of an agent, with a mark that finds its processes."""
    return {"PATH": os.environ["PATH"], MARK: uuid.uuid4().hex}


def tiny(
    name: str,
    *,
    env: dict[str, str] | None = None,
    timeout: float = PATIENT_S,
    workers: int = 1,
    python: str | None = None,
    cwd: Path = TINY,
    start_timeout: float = PATIENT_S,
) -> WorkerPool:
    """Build the agent function `name` of `tiny/agents.py`, or the agent of an entry such as `shops.py:desk`."""
    return build_python_agent(
        entry=name if ":" in name else f"agents:{name}",
        cwd=cwd,
        env=env or environment(),
        timeout=timeout,
        workers=workers,
        threads=64,
        python=python,
        start_timeout=start_timeout,
    )


def command(
    *argv: str,
    cwd: Path = TINY,
    env: dict[str, str] | None = None,
    timeout: float = PATIENT_S,
    start_timeout: float = PATIENT_S,
) -> WorkerPool:
    """Build an agent that is an executable."""
    return build_command_agent(
        command=argv, cwd=cwd, env=env or environment(), timeout=timeout, start_timeout=start_timeout
    )


async def outcomes(
    make: Callable[[dict[str, str]], Agent],
    cases: Iterable[EvalCase],
    *,
    concurrency: int = 64,
    trace: bool = False,
) -> dict[str, CaseRun]:
    """Return the run of each case by id; fail if a case ran twice or a process survives the agent."""
    env = environment()
    found: dict[str, CaseRun] = {}

    async def note(request: RunRequest, run: CaseRun) -> None:
        assert request.case.eval_id not in found
        found[request.case.eval_id] = run

    async with make(env) as agent:
        await run_requests(
            agent,
            [RunRequest(case, 1) for case in cases],
            concurrency=concurrency,
            on_finished=note,
            create_trace=RunTrace if trace else None,
        )
    assert left(env) == []
    return found


class Hurried:
    """Agent with a shorter timeout in the cases that hang.

    The other cases keep a long timeout, because the machine may be busy.
    """

    def __init__(self, agent: Agent, seconds: Mapping[str, float]) -> None:
        self._agent = agent
        self._seconds = seconds
        """Timeout in seconds of a turn, by case id."""
        self.hurried: list[WorkerSession] = []
        """Sessions of the cases with a shorter timeout."""

    async def __aenter__(self) -> Self:
        await self._agent.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._agent.__aexit__(*exc)

    @asynccontextmanager
    async def open_session(self, case: EvalCase, run: int, *, alone: bool) -> AsyncIterator[AgentSession]:
        async with self._agent.open_session(case, run, alone=alone) as found:
            if case.eval_id in self._seconds:
                assert isinstance(found, WorkerSession | RemoteSession)
                found._timeout_s = self._seconds[case.eval_id]
                self.hurried += [found] if isinstance(found, WorkerSession) else []
            yield found


@contextmanager
def running(*command: str, folder: Path, log: Path) -> Iterator[None]:
    """Run a server in `folder` with its output in `log`."""
    with log.open("w") as said, subprocess.Popen(command, cwd=folder, stdout=said, stderr=said) as server:
        try:
            yield
        finally:
            server.kill()


async def until(reached: Callable[[], bool]) -> None:
    """Wait until `reached` returns True; fail after a minute or more."""
    for _ in range(1200):
        if reached():
            return
        await asyncio.sleep(0.05)
    pytest.fail("the condition was not reached")


def left(env: dict[str, str]) -> list[str]:
    """Return the surviving processes, as `survivors` does, after up to 30 s in which killed processes end."""
    for _ in range(600):
        if not (found := survivors(env)):
            break
        time.sleep(0.05)
    return found


def survivors(env: dict[str, str]) -> list[str]:
    """Return the command lines of running processes that have the mark in `env`."""
    return [" ".join(process.cmdline()) for process in psutil.process_iter() if _is_marked(process, env)]


def _is_marked(process: psutil.Process, env: dict[str, str]) -> bool:
    try:
        alive = process.status() != psutil.STATUS_ZOMBIE
        return alive and process.environ().get(MARK) == env[MARK]
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
