"""Retries of a case: which attempts are repeated, how often, and what the record keeps of each."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import pytest

from evalgate.core.protocols import AgentError, SessionLostError, SessionResult
from evalgate.core.types import (
    Attempt,
    CaseRun,
    CaseTurn,
    EvalCase,
    Failure,
    Outcome,
    Reply,
    Usage,
    UserMessage,
)
from evalgate.llm.users.scripted import create_scripted_user
from evalgate.runner.case_runner import CaseRunner
from evalgate.runner.scheduler import RunRequest, run_requests
from evalgate.system.throttling.backoff import Clock, slot_release, wait_without_slot
from evalgate.system.throttling.throttle import Throttle, ThrottleSettings

BUSY = Failure("rate_limited", "slow down")
DOWN = Failure("unavailable", "it is down")
WRONG = Failure("exception", "the agent raised ValueError")
CASE = EvalCase("a", (CaseTurn(UserMessage("hello")),))


def busy(retry_after_s: float | None = None) -> AgentError:
    return AgentError(BUSY, "faulted", Usage(3), retry_after_s)


@dataclass
class Script:
    """An agent and its only session: fails as it is told, then answers. Time passes when somebody sleeps."""

    errors: list[Exception]
    now: float = 0.0
    slept: list[float] = field(default_factory=list)
    alone: list[bool] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None: ...

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> "Script":
        self.alone.append(alone)
        return self

    async def run_turn(self, message: UserMessage) -> Reply:
        if self.errors:
            raise self.errors.pop(0)
        return Reply(message.text)

    async def end(self) -> SessionResult:
        return SessionResult()

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    async def played(self, retries: int = 1, refused: Callable[[], Failure | None] = lambda: None) -> CaseRun:
        pace = Throttle(
            ThrottleSettings(4, retries=retries), Clock(lambda: self.now, sleep=self.sleep), lambda: 0.5
        )
        run = await CaseRunner(self, create_scripted_user, pace, refused).make_run(CASE, 1)
        attempts = tuple(replace(attempt, duration_s=0.0) for attempt in run.earlier_attempts)
        return replace(run, duration_s=0.0, earlier_attempts=attempts)


async def test_a_fault_that_passes_is_an_earlier_attempt_of_an_answer() -> None:
    script = Script([busy(), AgentError(DOWN, "faulted")])
    run = await script.played(retries=2)
    assert (run.outcome, run.replies) == ("answered", (Reply("hello"),))
    assert run.earlier_attempts == (Attempt("faulted", BUSY, usage=Usage(3)), Attempt("faulted", DOWN))
    assert script.slept == [0.75, 1.5]


class Paid:
    """Says what the case says, for a token each time it is played."""

    usage = Usage(1, 2, 0.5)

    async def get_next_message(self, replies: Sequence[Reply | None]) -> UserMessage | None:
        return None if replies else UserMessage("hello")


async def test_what_the_user_used_in_attempts_that_came_to_nothing_is_counted() -> None:
    script = Script([busy(), AgentError(DOWN, "faulted")])
    pace = Throttle(
        ThrottleSettings(4, retries=2), Clock(lambda: script.now, sleep=script.sleep), lambda: 0.5
    )
    run = await CaseRunner(script, lambda case, number: Paid(), pace, lambda: None).make_run(CASE, 1)

    assert (run.outcome, len(run.earlier_attempts)) == ("answered", 2)
    assert run.user_usage == Usage(3, 6, 1.5)


class StandsBack(Script):
    """Is asked to wait in the middle of a turn."""

    async def run_turn(self, message: UserMessage) -> Reply:
        await wait_without_slot(30.0, is_rate_limited=True)
        return await super().run_turn(message)


async def test_who_waits_within_a_turn_keeps_the_pace_of_the_run() -> None:
    script = StandsBack([])
    run = await script.played()
    assert (run.outcome, run.earlier_attempts) == ("answered", ())
    assert script.slept == [30.0]
    assert slot_release.get() is None


async def test_the_last_fault_is_the_outcome() -> None:
    script = Script([busy(), busy(), busy()])
    run = await script.played()
    assert (run.outcome, run.failure, run.usage) == ("faulted", BUSY, Usage(3))
    assert run.earlier_attempts == (Attempt("faulted", BUSY, usage=Usage(3)),)


async def test_what_was_used_before_a_wait_that_is_cut_short_is_counted() -> None:
    """The minutes of the budget are over, or somebody presses Ctrl-C, while a provider wants to be left alone."""
    found: list[CaseRun] = []

    async def note(request: RunRequest, run: CaseRun) -> None:
        found.append(run)

    async def wait(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    waiting, script = asyncio.Event(), Script([busy(200.0)])
    pace = Throttle(ThrottleSettings(1, retries=1), Clock(sleep=wait))
    running = asyncio.create_task(
        run_requests(script, [RunRequest(CASE, 1)], concurrency=1, on_finished=note, throttle=pace)
    )
    await waiting.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (run,) = found
    assert run.outcome == "not_run"
    assert [(each.failure, each.usage) for each in run.earlier_attempts] == [(BUSY, Usage(3))]


async def test_nobody_is_asked_before_the_pause_that_it_wants_is_over() -> None:
    script = Script([busy(retry_after_s=12.0)])
    assert (await script.played()).outcome == "answered"
    assert script.slept == [12.0]


async def test_a_day_is_too_long() -> None:
    script = Script([busy(retry_after_s=86_400.0)])
    assert (await script.played()).outcome == "faulted"
    assert script.slept == []


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (AgentError(WRONG), "crashed"),
        (AgentError(Failure("timeout", "too long"), "timed_out"), "timed_out"),
        (AgentError(Failure("unsupported", "no images"), "faulted"), "faulted"),
        (AgentError(BUSY, "crashed"), "crashed"),
        (RuntimeError("a bug in a plugin"), "crashed"),
    ],
)
async def test_what_the_agent_does_is_never_tried_again(error: Exception, outcome: Outcome) -> None:
    run = await Script([error]).played(retries=10)
    assert (run.outcome, run.earlier_attempts) == (outcome, ())


async def test_a_session_lost_among_neighbours_is_played_alone_and_once() -> None:
    lost = SessionLostError(Failure("killed", "gone (3 cases at once in that process)"), "crashed", Usage(5))
    script = Script([lost, busy(), lost])
    run = await script.played()
    assert script.alone == [False, True, True]
    assert run.outcome == "crashed"
    assert [(attempt.failure.kind, attempt.usage) for attempt in run.earlier_attempts] == [
        ("killed", Usage(5)),
        ("rate_limited", Usage(3)),
    ]


async def test_a_spent_budget_ends_the_attempts() -> None:
    run = await Script([busy()]).played(refused=lambda: Failure("budget_spent", "it is spent"))
    assert (run.outcome, run.earlier_attempts) == ("faulted", ())


class Named(Script):
    """Knows under which ids its framework keeps the conversation."""

    session_id = "s-1"
    user_id = "ada"


@pytest.mark.parametrize("ends", [[], [AgentError(Failure("exception", "gone"))]])
async def test_ids_of_the_session_are_kept_of_answered_and_failed_runs(ends: list[Exception]) -> None:
    run = await Named(ends).played(retries=0)
    assert (run.session_id, run.user_id) == ("s-1", "ada")
