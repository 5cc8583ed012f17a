"""Many sessions in one process: only the one that breaks it fails."""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from evalgate.agents.workers.session import STALL_S, SessionState, WorkerSession
from evalgate.core.types import CaseRun, EvalCase, Reply
from evalgate.runner.scheduler import RunRequest, run_requests
from tests.agents.play import PATIENT_S, Hurried, a_talk, environment, outcomes, survivors, tiny, until


def others_answered(runs: Mapping[str, CaseRun], texts: Mapping[str, str]) -> bool:
    return all(
        runs[name].outcome == "answered" and runs[name].replies == (Reply(text),)
        for name, text in texts.items()
    )


async def test_many_sessions_run_at_once() -> None:
    texts = {f"case{n}": f"hello {n}" for n in range(64)}
    runs = await outcomes(
        lambda env: tiny("poisoned", env=env), [a_talk(name, text) for name, text in texts.items()]
    )
    assert others_answered(runs, texts)
    assert {run.earlier_attempts for run in runs.values()} == {()}


def build_cases_with_poison(poison: str) -> tuple[dict[str, str], list[EvalCase]]:
    """Return the texts of the other cases by id, and all cases."""
    texts = {f"case{n}": f"hello {n}" for n in range(15)}
    cases = [a_talk(name, text) for name, text in texts.items()]
    cases.insert(7, a_talk("poisoned", poison))
    return texts, cases


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("poison", "outcome", "sentence", "attempts"),
    [
        ("die", "crashed", "the agent's process ended with exit code 5 while it answered (turn 1)", 2),
        (
            "block",
            "timed_out",
            "no answer within 0.4 s (turn 1); the agent's process did not react and was ended",
            2,
        ),
        ("hang", "timed_out", "no answer within 0.4 s (turn 1)", 1),
    ],
)
async def test_one_failing_case_among_many(
    poison: str, outcome: str, sentence: str, attempts: int, workers: int, request: pytest.FixtureRequest
) -> None:
    if poison == "hang":
        request.getfixturevalue("patient")
    hurry = {"poisoned": PATIENT_S if poison == "die" else 0.4}
    texts, cases = build_cases_with_poison(poison)
    runs = await outcomes(
        lambda env: Hurried(tiny("poisoned", env=env, workers=workers), hurry), cases, concurrency=16
    )
    assert others_answered(runs, texts)
    poisoned = runs["poisoned"]
    assert poisoned.failure is not None
    assert (poisoned.outcome, poisoned.failure.message) == (outcome, sentence)
    assert 1 + len(poisoned.earlier_attempts) == attempts


async def release_when_late(agent: Hurried, release: Callable[[], None]) -> None:
    """Release a blocked process each time that it has answered a cancel too late."""
    noticed: list[WorkerSession] = []
    while True:
        for each in agent.hurried:
            late = each.state is SessionState.CANCELLING and time.monotonic() - each.cancelled_at > STALL_S
            if late and each not in noticed:
                noticed.append(each)
                release()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("workers", [1, 2])
async def test_case_that_blocks_its_process_for_a_while(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalgate.agents.workers.worker.GRACE_S", PATIENT_S)
    texts, cases = build_cases_with_poison("stand still")
    async with asyncio.TaskGroup() as group:

        def agent(env: dict[str, str]) -> Hurried:
            pool = tiny("poisoned", env={**env, "GO_ON": str(tmp_path / "go on")}, workers=workers)
            found = Hurried(pool, {"poisoned": 0.4})
            watching.append(group.create_task(release_when_late(found, (tmp_path / "go on").touch)))
            return found

        watching: list[asyncio.Task[None]] = []
        runs = await outcomes(agent, cases, concurrency=16)
        watching[0].cancel()
    assert others_answered(runs, texts)
    poisoned = runs["poisoned"]
    assert poisoned.failure is not None
    assert (poisoned.outcome, poisoned.failure.message) == ("timed_out", "no answer within 0.4 s (turn 1)")
    assert len(poisoned.earlier_attempts) == 1


@pytest.mark.usefixtures("patient")
async def test_other_sessions_finish_while_a_thread_hangs() -> None:
    """Two others run next to it; it times out while the second one is answered."""
    cases = [a_talk("a", "hang"), *(a_talk(f"b{n}", "fine") for n in range(3))]
    runs = await outcomes(
        lambda env: Hurried(tiny("poisoned_thread", env=env), {"a": 1.5}), cases, concurrency=2
    )
    assert runs["a"].outcome == "timed_out"
    assert others_answered(runs, {f"b{n}": "fine" for n in range(3)})
    assert {run.earlier_attempts for run in runs.values()} == {()}


async def test_several_failing_cases_each_fail_alone() -> None:
    texts = {f"case{n}": "fine" for n in range(4)}
    cases = [a_talk(name, text) for name, text in texts.items()]
    cases += [a_talk(f"poisoned{n}", "die") for n in range(3)]
    runs = await outcomes(lambda env: tiny("poisoned", env=env), cases, concurrency=7)
    assert others_answered(runs, texts)
    assert [runs[f"poisoned{n}"].outcome for n in range(3)] == ["crashed"] * 3


async def test_process_in_which_a_thread_hangs_is_replaced() -> None:
    env = environment()
    pids: list[str] = []

    async def note(request: RunRequest, run: CaseRun) -> None:
        pids.extend(reply.response for reply in run.replies if reply and reply.response)

    async with Hurried(tiny("hangs_or_tells_process", env=env), {"2": 1}) as agent:
        cases = [a_talk(str(n), text) for n, text in enumerate(["pid", "pid", "hang", "pid"])]
        await run_requests(agent, [RunRequest(case, 1) for case in cases], concurrency=1, on_finished=note)
        await until(lambda: len(survivors(env)) == 1)
    assert pids[0] == pids[1] != pids[2]


async def test_session_that_must_be_alone_shares_no_process() -> None:
    """Two of them get a process each, and an ordinary session has to wait."""
    env = environment()
    case = a_talk("case", "pid")
    message = case.turns[0].user
    async with tiny("hangs_or_tells_process", env=env) as agent:
        async with (
            agent.open_session(case, 1, alone=True) as first,
            agent.open_session(case, 1, alone=True) as second,
        ):
            replies = [await first.run_turn(message), await second.run_turn(message)]
            ordinary = asyncio.create_task(agent.open_session(case, 1, alone=False).__aenter__())
            await asyncio.sleep(0.05)
            assert not ordinary.done()
        session = await ordinary
        replies.append(await session.run_turn(message))
        await until(lambda: len(survivors(env)) == 1)
    pids = [reply.response for reply in replies if reply]
    assert pids[0] != pids[1]
    assert pids[2] in pids[:2]
