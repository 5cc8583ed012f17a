"""Agents of this process that block their event loop or ignore their cancellation."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import evalgate
from evalgate.agents.adapters.in_process import InProcessAgent
from evalgate.core.types import CaseTurn, EvalCase, Reply, SessionInput, UserMessage

CRITERIA = {"response_match_score": 1.0}
BOUND_S = 60
"""Seconds after which a program counts as hanging; it takes about five."""

IGNORES_CANCELLATION = """
async def answer(text):
    while text == "bad":
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            pass
    return text
"""
NEVER_YIELDS = """
async def answer(text):
    while text == "bad":
        pass
    return text
"""
BLOCKS = """
async def answer(text):
    if text == "bad":
        time.sleep(4)
    return text
"""
PROGRAM = """
import asyncio, time
import evalgate
{agent}
def build_case(text):
    return evalgate.EvalCase(text, (evalgate.CaseTurn(evalgate.UserMessage(text), evalgate.Reply(text)),))

cases = [build_case(text) for text in {texts}]
record = evalgate.evaluate(cases, answer, criteria={{"response_match_score": 1.0}}, timeout=0.5)
print([case.runs[-1].outcome for case in record.cases], len(record.notices))
"""
TEST_FILE = """
import asyncio, time
import pytest
{agent}
@pytest.mark.evalgate("bad.evalset.json", criteria={{"response_match_score": 1.0}}, timeout=0.5)
async def marked_agent(text):
    return await answer(text)

def test_fixture(evalgate):
    record = evalgate.evaluate(
        "bad.evalset.json", answer, criteria={{"response_match_score": 1.0}}, timeout=0.5
    )
    assert record.cases[0].runs[0].outcome == "timed_out"
"""
AGENTS = pytest.mark.parametrize(
    "agent",
    [
        pytest.param(IGNORES_CANCELLATION, id="ignores its cancellation"),
        pytest.param(NEVER_YIELDS, id="never yields"),
        pytest.param(BLOCKS, id="blocks"),
    ],
)


def build_case(text: str) -> evalgate.EvalCase:
    return evalgate.EvalCase(text, (evalgate.CaseTurn(evalgate.UserMessage(text), evalgate.Reply(text)),))


def run_python(folder: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *argv], cwd=folder, capture_output=True, text=True, check=False, timeout=BOUND_S
    )


@AGENTS
@pytest.mark.parametrize("texts", [["bad"], ["a", "bad", "b", "c"]], ids=["alone", "among others"])
def test_evaluate_leaves_the_turn_behind(agent: str, texts: list[str], tmp_path: Path) -> None:
    ran = run_python(tmp_path, "-c", PROGRAM.format(agent=agent, texts=texts))

    expected = ["timed_out" if text == "bad" else "answered" for text in texts]
    assert (ran.stdout, ran.stderr) == (f"{expected} 1\n", "")


@AGENTS
def test_pytest_leaves_the_turn_behind(agent: str, tmp_path: Path) -> None:
    turn = {"user_content": {"parts": [{"text": "bad"}]}, "final_response": {"parts": [{"text": "bad"}]}}
    eval_set = {"eval_set_id": "bad", "eval_cases": [{"eval_id": "bad", "conversation": [turn]}]}
    (tmp_path / "bad.evalset.json").write_text(json.dumps(eval_set))
    (tmp_path / "test_bad.py").write_text(TEST_FILE.format(agent=agent))

    ran = run_python(tmp_path, "-m", "pytest", "--evalgate", "-p", "no:cacheprovider", "test_bad.py")

    assert "1 failed, 1 passed" in ran.stdout
    assert "no answer within 0.5 s" in ran.stdout


def test_an_interrupted_loop_does_not_slow_the_next_cases() -> None:
    async def answer(text: str) -> str:
        while text == "bad":
            pass
        return text

    before = set(threading.enumerate())
    evalgate.evaluate([build_case("bad")], answer, criteria=CRITERIA, timeout=0.2)
    for each in set(threading.enumerate()) - before:
        each.join(BOUND_S)

    assert set(threading.enumerate()) <= before


def test_an_exit_of_a_task_ends_its_turn_only() -> None:
    async def leave() -> None:
        sys.exit(5)

    async def answer(text: str) -> str:
        if text == "bad":
            await asyncio.create_task(leave())
        return text

    cases = [build_case(text) for text in ("a", "bad", "b")]
    record = evalgate.evaluate(cases, answer, criteria=CRITERIA, concurrency=1)

    assert [case.runs[0].outcome for case in record.cases] == ["answered", "crashed", "answered"]


def test_an_exit_of_a_task_that_no_turn_awaits_ends_its_turn_only() -> None:
    async def leave() -> None:
        sys.exit(5)

    async def answer(text: str) -> str:
        if text == "bad":
            leaving = asyncio.create_task(leave())
            await asyncio.Event().wait()
            return str(leaving)
        return text

    cases = [build_case(text) for text in ("a", "bad", "b")]
    record = evalgate.evaluate(cases, answer, criteria=CRITERIA, timeout=BOUND_S)

    assert [case.runs[0].outcome for case in record.cases] == ["answered", "crashed", "answered"]
    failure = record.cases[1].runs[0].failure
    assert failure is not None
    assert failure.message == "the agent called sys.exit(5)"


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("is_async", [True, False], ids=["asynchronous", "in threads"])
def test_concurrency_limits_conversations(concurrency: int, is_async: bool) -> None:
    """The scheduler limits them, so an asynchronous agent, which needs no threads, is limited as well."""
    begun: set[str] = set()
    most = 0

    def note(text: str, session: Any) -> str:
        nonlocal most
        begun.add(session.id)
        most = max(most, len(begun))
        return text

    def finish(text: str, session: Any) -> str:
        if text == "last":
            begun.discard(session.id)
        return text

    async def answer(text: str, session: Any) -> str:
        note(text, session)
        await asyncio.sleep(0.02)
        return finish(text, session)

    def answer_in_thread(text: str, session: Any) -> str:
        note(text, session)
        time.sleep(0.02)
        return finish(text, session)

    turns = tuple(CaseTurn(UserMessage(text), Reply(text)) for text in ("first", "last"))
    cases = [EvalCase(str(number), turns) for number in range(8)]
    agent = answer if is_async else answer_in_thread
    record = evalgate.evaluate(cases, agent, criteria=CRITERIA, concurrency=concurrency)

    assert {case.runs[0].outcome for case in record.cases} == {"answered"}
    assert most == concurrency


@pytest.mark.parametrize(
    ("given", "is_seen"),
    [
        (("2", ""), [True, False]),
        (("", "1"), [False, True]),
        (("a", "b"), [True, True]),
    ],
)
async def test_open_sessions_have_different_ids(given: tuple[str, str], is_seen: list[bool]) -> None:
    ids, both = {"first": "", "second": ""}, asyncio.Barrier(2)

    async def answer(text: str, session: Any) -> str:
        ids[text] = session.id
        await both.wait()
        return text

    async def ask(text: str, session_id: str) -> str | None:
        case = EvalCase(text, session=SessionInput(session_id=session_id))
        async with agent.open_session(case, 1, alone=False) as session:
            return (await session.run_turn(UserMessage(text))).response

    async with InProcessAgent(answer, timeout=BOUND_S, threads=2) as agent, asyncio.timeout(5):
        assert await asyncio.gather(*map(ask, ids, given)) == ["first", "second"]

    assert [seen == own for seen, own in zip(ids.values(), given, strict=True)] == is_seen
    assert len(set(ids.values())) == 2


async def test_conversations_with_one_session_id_take_turns_and_see_it() -> None:
    """An agent that keeps its memory by this id would mix two conversations at the same time."""
    open_ids: list[str] = []
    seen: list[str] = []

    async def answer(text: str, session: Any) -> str:
        assert session.id not in open_ids
        open_ids.append(session.id)
        seen.append(session.id)
        await asyncio.sleep(0.01)
        open_ids.remove(session.id)
        return text

    case = EvalCase("a", session=SessionInput(session_id="order-7"))

    async def ask(agent: InProcessAgent, run: int, *, alone: bool) -> str | None:
        async with agent.open_session(case, run, alone=alone) as session:
            await session.run_turn(UserMessage("first"))
            return (await session.run_turn(UserMessage(str(run)))).response

    async with InProcessAgent(answer, timeout=BOUND_S, threads=4) as agent, asyncio.timeout(5):
        runs = [ask(agent, run, alone=run == 3) for run in range(5)]
        assert await asyncio.gather(*runs) == ["0", "1", "2", "3", "4"]
    assert seen == ["order-7"] * 10


async def test_a_conversation_that_failed_keeps_no_other_of_its_id_waiting() -> None:
    async def answer(text: str) -> str:
        await asyncio.sleep(60 if text == "slow" else 0)
        return text

    def build(text: str) -> EvalCase:
        session = SessionInput(session_id="order-7")
        return replace(build_case(text), session=session)

    cases = [build("slow"), build("a")]
    record = await evalgate.evaluate_async(cases, answer, criteria=CRITERIA, timeout=0.3, concurrency=2)
    assert [case.runs[0].outcome for case in record.cases] == ["timed_out", "answered"]


class TestCallersLoop:
    """`evaluate_async`, which shares its event loop with the agent."""

    @pytest.mark.parametrize("texts", [["bad"], ["a", "bad", "b", "c"]], ids=["alone", "among others"])
    async def test_a_turn_that_blocked_the_loop_is_too_late(self, texts: list[str]) -> None:
        async def answer(text: str) -> str:
            await asyncio.sleep(0.1)
            if text == "bad":
                time.sleep(1)  # noqa: ASYNC251
            return text

        record = await evalgate.evaluate_async(
            [build_case(text) for text in texts], answer, criteria=CRITERIA, timeout=0.5
        )

        expected = ["timed_out" if text == "bad" else "answered" for text in texts]
        assert [case.runs[0].outcome for case in record.cases] == expected

    async def test_a_failure_after_the_time_limit_is_late_too(self) -> None:
        async def answer(text: str) -> str:
            time.sleep(0.5)  # noqa: ASYNC251
            raise ValueError(text)

        record = await evalgate.evaluate_async([build_case("a")], answer, criteria=CRITERIA, timeout=0.2)

        assert record.cases[0].runs[0].outcome == "timed_out"

    async def test_others_that_block_the_loop_do_not_fail_turns_in_threads(self) -> None:
        async def block_loop() -> None:
            await asyncio.sleep(0.1)
            time.sleep(1)  # noqa: ASYNC251

        def answer(text: str) -> str:
            time.sleep(0.2)
            return text

        task = asyncio.create_task(block_loop())
        record = await evalgate.evaluate_async([build_case("a")], answer, criteria=CRITERIA, timeout=0.5)
        await task

        assert record.passed

    async def test_an_ignored_cancellation_is_left_to_the_caller(self) -> None:
        cancellations: list[str] = []

        async def answer(text: str) -> str:
            while len(cancellations) < 2:
                try:
                    await asyncio.sleep(BOUND_S)
                except asyncio.CancelledError:
                    cancellations.append(text)
            return text

        record = await evalgate.evaluate_async([build_case("a")], answer, criteria=CRITERIA, timeout=0.2)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()

        assert record.cases[0].runs[0].outcome == "timed_out"
        assert len(record.notices) == 1
        assert len(left) == 1
