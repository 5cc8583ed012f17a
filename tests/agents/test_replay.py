"""Recordings in the agent's place."""

import pytest

from evalgate.agents.replay import Recording, ReplayAgent, recordings_of_eval_set, recordings_of_record
from evalgate.model import (
    AgentInfo,
    CaseResult,
    CaseRun,
    EvalCase,
    EvalSet,
    Failure,
    Record,
    Reply,
    RunResult,
    Totals,
    Turn,
    TurnResult,
    UserMessage,
    Verdict,
)
from evalgate.run import RunRequest, run_cases
from tests.agents.play import a_talk

A, B, C = Reply("a"), Reply("b"), Reply("c")


async def replayed(recording: tuple[tuple[Reply | None, ...], ...], case: EvalCase, run: int) -> CaseRun:
    recordings = {"case": [Recording(replies) for replies in recording]}
    agent = ReplayAgent(recordings=recordings, path="old/results.json")
    found: list[CaseRun] = []

    async def note(request: RunRequest, run: CaseRun) -> None:
        found.append(run)

    async with agent:
        await run_cases(agent, [RunRequest(case, run)], concurrency=2, on_finished=note)
    return found[0]


@pytest.mark.parametrize(
    ("recording", "turns", "run", "replies"),
    [
        (((A,),), 1, 1, (A,)),
        (((A, B),), 2, 1, (A, B)),
        (((A,), (B,)), 1, 2, (B,)),
        (((A,), (B,)), 1, 7, (B,)),
        (((A,),), 3, 1, (A, None, None)),
        (((A, B, C),), 1, 1, (A, B, C)),
        (((A, None, C),), 2, 1, (A, None, C)),
    ],
)
async def test_replays(
    recording: tuple[tuple[Reply | None, ...], ...], turns: int, run: int, replies: tuple[Reply | None, ...]
) -> None:
    played = await replayed(recording, a_talk("case", *["hi"] * turns), run)
    assert (played.outcome, played.replies, played.run) == ("answered", replies, run)


async def test_missing_recording_is_a_failure_of_its_case() -> None:
    played = await replayed(((A,),), a_talk("other", "hi"), 1)
    sentence = "old/results.json holds no recording of the case `other`"
    assert (played.outcome, played.failure) == ("crashed", Failure("no_recording", sentence))


def test_recordings_of_eval_set_are_its_expectations() -> None:
    turns = (Turn(UserMessage("1"), A), Turn(UserMessage("2"), B))
    eval_set = EvalSet("set", (EvalCase("case", turns, final_state={"n": 1}), EvalCase("empty")))
    assert recordings_of_eval_set(eval_set) == {"case": [Recording((A, B), {"n": 1})]}


async def test_the_final_state_is_replayed_too() -> None:
    agent = ReplayAgent(recordings={"case": [Recording((A,), {"n": 1})]}, path="p")

    async with agent.session(a_talk("case", "hi"), 1, alone=False) as session:
        assert (await session.end()).final_state == {"n": 1}


def test_recordings_of_record_are_what_the_agent_did() -> None:
    def a_run(number: int, *actual: Reply | None) -> RunResult:
        return RunResult(number, "answered", 0.0, tuple(TurnResult("", None, each) for each in actual))

    cases = (
        CaseResult("set", "case", "passed", (), (a_run(1, A, None), a_run(2, B))),
        CaseResult("set", "crashed", "errored", (), (a_run(1, None),)),
    )
    record = Record("1", "", 0.0, AgentInfo("python", "x"), 2, Verdict("pass", 0), (), cases, Totals())
    assert recordings_of_record(record) == {"case": [Recording((A, None)), Recording((B,))]}
