"""Leaving an agent ends all of its processes, however the gate ends."""

import asyncio
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from evalgate.agents.adapters.command import build_command_agent
from evalgate.core.types import CaseRun, Reply
from evalgate.runner.scheduler import RunRequest, run_requests
from tests.agents.play import PATIENT_S, a_talk, command, environment, left, outcomes, survivors, tiny, until

IGNORES_SIGTERM = "trap '' TERM; touch stubborn; while :; do sleep 1; done"


async def ignore(request: RunRequest, run: CaseRun) -> None: ...


async def hold(env: dict[str, str], name: str, entered: asyncio.Event) -> None:
    """Run a case with an agent that never answers, until this is cancelled."""
    async with tiny(name, env=env) as agent:
        entered.set()
        case = a_talk("case", "hi")
        await run_requests(agent, [RunRequest(case, 1)], concurrency=1, on_finished=ignore)


@pytest.mark.parametrize("name", ["hangs", "hangs_in_thread", "blocks_loop"])
@pytest.mark.parametrize("wait", [0.0, 0.01, 0.6])
async def test_cancelled_run_leaves_no_process(name: str, wait: float) -> None:
    env, entered = environment(), asyncio.Event()
    task = asyncio.create_task(hold(env, name, entered))
    await entered.wait()
    await asyncio.sleep(wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(env) == []


async def test_run_cancelled_twice_leaves_no_process() -> None:
    env, entered = environment(), asyncio.Event()
    task = asyncio.create_task(hold(env, "blocks_loop", entered))
    await entered.wait()
    await asyncio.sleep(0.5)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(env) == []


async def test_run_cancelled_while_its_workers_end(tmp_path: Path) -> None:
    env = environment()
    agent = command("sh", "-c", IGNORES_SIGTERM, env=env, cwd=tmp_path)
    await agent.__aenter__()
    await until((tmp_path / "stubborn").exists)
    task = asyncio.create_task(agent.__aexit__())
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(env) == []


async def test_unused_agent_ends() -> None:
    assert await outcomes(lambda env: tiny("sync_function", env=env), []) == {}


async def test_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    env = environment()
    async with command("sh", "-c", IGNORES_SIGTERM, env=env, cwd=tmp_path):
        await until((tmp_path / "stubborn").exists)
        assert survivors(env) != []
    assert left(env) == []


async def test_worker_ends_when_the_gate_is_gone() -> None:
    """A gate that is killed sends nothing: only its end of the pipe is closed."""
    env = environment()
    gate = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import asyncio, os; from tests.agents.workers.test_shutdown import hold;"
        "asyncio.run(hold(dict(os.environ), 'hangs', asyncio.Event()))",
        cwd=Path(__file__).parents[3],
        env=env,
    )
    await until(lambda: len(survivors(env)) == 2)
    gate.kill()
    await gate.wait()
    await until(lambda: not survivors(env))


async def test_worker_stays_usable_after_cancelled_turns() -> None:
    async with tiny("poisoned") as agent:
        case = a_talk("case", "hang")
        async with agent.open_session(case, 1, alone=False) as session:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(session.run_turn(case.turns[0].user), 0.5)
        fine = a_talk("fine", "fine")
        async with agent.open_session(fine, 1, alone=True) as session:
            reply = await session.run_turn(fine.turns[0].user)
        assert reply is not None
        assert reply.response == "fine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a process as another user")
async def test_agent_runs_as_the_configured_user() -> None:
    answer = '{"type":"done","session":"1","response":"\'$(id -u) $(id -g) $(id -G)\'"}'
    script = (
        """read hello; echo '{"type":"ready","protocol":1}'; read start; read turn; touch written; """
        f"echo '{answer}'; cat"
    )
    # Not tmp_path: pytest keeps that from other users.
    with TemporaryDirectory() as folder:
        os.chown(folder, 12345, 12346)
        argv = ("/bin/sh", "-c", script)
        runs = await outcomes(
            lambda env: build_command_agent(
                command=argv, cwd=Path(folder), env=env, timeout=PATIENT_S, uid=12345, gid=12346
            ),
            [a_talk("case", "hi")],
        )
        written = (Path(folder) / "written").stat()
    assert runs["case"].replies == (Reply("12345 12346 12346"),)
    assert (written.st_uid, written.st_gid) == (12345, 12346)
