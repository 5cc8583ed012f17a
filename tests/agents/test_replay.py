"""Recordings that are replayed instead of an agent."""

from dataclasses import replace

import pytest

from evalgate.agents.replay import (
    Recording,
    ReplayAgent,
    extract_eval_set_recordings,
    extract_record_recordings,
)
from evalgate.core.protocols import AgentError
from evalgate.core.types import (
    AgentInfo,
    CaseResult,
    CaseRun,
    CaseTurn,
    EvalCase,
    EvalSet,
    Failure,
    Outcome,
    Record,
    Reply,
    RunResult,
    Totals,
    TurnResult,
    UserMessage,
    Verdict,
)
from evalgate.runner.scheduler import RunRequest, run_requests
from tests.agents.play import a_talk
from tests.builders import a_case_result, a_record, a_run_result

A, B, C = Reply("a"), Reply("b"), Reply("c")


async def replay_case(recording: tuple[tuple[Reply | None, ...], ...], case: EvalCase, run: int) -> CaseRun:
    return await replay_runs([Recording(replies) for replies in recording], case, run)


async def replay_runs(recording: list[Recording], case: EvalCase, run: int) -> CaseRun:
    recordings = {("set", "case"): recording}
    agent = ReplayAgent(recordings=recordings, path="old/results.json")
    found: list[CaseRun] = []

    async def note(request: RunRequest, run: CaseRun) -> None:
        found.append(run)

    async with agent:
        await run_requests(agent, [RunRequest(case, run)], concurrency=2, on_finished=note)
    return found[0]


@pytest.mark.parametrize(
    ("recording", "turns", "run", "replies"),
    [
        (((A,),), 1, 1, (A,)),
        (((A, B),), 2, 1, (A, B)),
        (((A,), (B,)), 1, 2, (B,)),
        (((A,),), 1, 7, (A,)),
        (((A,),), 3, 1, (A, None, None)),
        (((A, B, C),), 1, 1, (A, B, C)),
        (((A, None, C),), 2, 1, (A, None, C)),
    ],
)
async def test_recorded_replies_are_replayed(
    recording: tuple[tuple[Reply | None, ...], ...], turns: int, run: int, replies: tuple[Reply | None, ...]
) -> None:
    played = await replay_case(recording, a_talk("case", *["hi"] * turns), run)
    assert (played.outcome, played.replies, played.run) == ("answered", replies, run)


async def test_missing_recording_fails_its_case() -> None:
    played = await replay_case(((A,),), a_talk("other", "hi"), 1)
    sentence = "old/results.json holds no recording of the case `other`"
    assert (played.outcome, played.failure) == ("not_run", Failure("no_recording", sentence))


async def test_recorded_runs_are_not_used_twice() -> None:
    played = await replay_case(((A,), (B,)), a_talk("case", "hi"), 7)
    sentence = "old/results.json holds 2 runs of the case `case`, and no run 7"
    assert (played.outcome, played.failure) == ("not_run", Failure("no_recording", sentence))


async def test_recorded_crash_is_replayed_as_a_crash() -> None:
    failure = Failure("exception", "the agent raised ValueError: no")
    runs = [Recording((A,)), Recording((A,), failure=failure, outcome="crashed"), Recording((B,))]
    case = a_talk("case", "hi", "ho")
    played = await replay_runs(runs, case, 2)
    assert (played.outcome, played.failure, played.replies) == ("crashed", failure, (A,))
    assert (await replay_runs(runs[:2], case, 2)).outcome == "crashed"
    assert (await replay_runs([runs[1]], case, 2)).outcome == "not_run"


async def test_recording_of_another_question_is_refused() -> None:
    played = await replay_runs([Recording((A, B), questions=("hi", "hello"))], a_talk("case", "hi", "ho"), 1)
    sentence = "old/results.json answers another question in turn 2: it was recorded before a change"
    assert (played.outcome, played.failure) == ("not_run", Failure("no_recording", sentence))


async def test_recordings_of_two_eval_sets_are_separate() -> None:
    agent = ReplayAgent(
        recordings={("one", "case"): [Recording((A,))], ("two", "case"): [Recording((B,))]}, path="p"
    )
    for name, reply in (("one", A), ("two", B)):
        case = EvalCase("case", (CaseTurn(UserMessage("hi")),), eval_set_id=name)
        async with agent.open_session(case, 1, alone=False) as session:
            assert await session.run_turn(UserMessage("hi")) == reply
    async with agent.open_session(a_talk("case", "hi"), 1, alone=False) as session:
        with pytest.raises(AgentError, match="several eval sets, none of them this one"):
            await session.run_turn(UserMessage("hi"))


def test_eval_set_recordings_are_its_expected_replies() -> None:
    turns = (CaseTurn(UserMessage("1"), A), CaseTurn(UserMessage("2"), B))
    eval_set = EvalSet("set", (EvalCase("case", turns, final_state={"n": 1}), EvalCase("empty")))
    assert extract_eval_set_recordings(eval_set) == {
        ("set", "case"): [Recording((A, B), {"n": 1}, ("1", "2"))]
    }


async def test_final_state_is_replayed() -> None:
    agent = ReplayAgent(recordings={("set", "case"): [Recording((A,), {"n": 1})]}, path="p")

    async with agent.open_session(a_talk("case", "hi"), 1, alone=False) as session:
        assert (await session.end()).final_state == {"n": 1}


async def test_ids_of_a_recorded_session_are_replayed() -> None:
    run = replace(a_run_result(), session_id="s-1", user_id="ada")
    recordings = extract_record_recordings(a_record(a_case_result("case", runs=(run,), eval_set_id="set")))
    agent = ReplayAgent(recordings=recordings, path="p")

    async with agent.open_session(a_talk("case", "hi"), 1, alone=False) as session:
        assert (session.session_id, session.user_id) == ("s-1", "ada")


def test_record_recordings_are_the_actual_replies() -> None:
    failure = Failure("exited", "the agent's process ended")

    def a_run(number: int, *actual: Reply | None, crash: bool = False) -> RunResult:
        turns = tuple(TurnResult("q", None, each) for each in actual)
        outcome: Outcome = "crashed" if crash else "answered"
        return RunResult(number, outcome, 0.0, turns, failure=failure if crash else None)

    runs = (a_run(1, A, None), a_run(2, B, None, crash=True), a_run(3, None, crash=True))
    cases = (CaseResult("set", "case", "errored", (), runs),)
    record = Record("1", "", 0.0, AgentInfo("python", "x"), 2, Verdict("pass", 0), (), cases, Totals())
    assert extract_record_recordings(record) == {
        ("set", "case"): [
            Recording((A, None), questions=("q", "q")),
            Recording((B,), questions=("q",), failure=failure, outcome="crashed"),
            Recording((), failure=failure, outcome="crashed"),
        ]
    }


async def test_story_is_replayed_with_its_recorded_user_messages() -> None:
    story = EvalCase("case", eval_set_id="set")
    run = await replay_runs([Recording((A, B), questions=("hello", "and then?"))], story, 1)
    assert (run.outcome, run.replies) == ("answered", (A, B))
    assert run.said == (UserMessage("hello"), UserMessage("and then?"))


async def test_story_with_an_incomplete_recording_fails_again() -> None:
    story = EvalCase("case", eval_set_id="set")
    broken = Failure("exited", "the agent's process ended")
    recording = Recording((A,), questions=("hello",), failure=broken, outcome="crashed")
    run = await replay_runs([recording], story, 1)
    assert (run.outcome, run.replies, run.failure) == ("crashed", (A,), broken)
