"""The scheduler: every request ends exactly once, also if agents, callbacks or users fail."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

import pytest

from evalgate.core.protocols import (
    AgentError,
    AgentUnreachableError,
    SessionLostError,
    SessionResult,
    SimulatedUserError,
)
from evalgate.core.types import (
    Attempt,
    CaseRun,
    CaseTurn,
    EvalCase,
    Failure,
    Reply,
    Scenario,
    Usage,
    UserMessage,
)
from evalgate.runner.scheduler import RunRequest, run_requests

Behaviour = Callable[["FakeSession"], Awaitable[Reply | None]]


@dataclass
class FakeSession:
    """A conversation that does what the behaviour of its case says."""

    agent: "FakeAgent"
    case: EvalCase
    alone: bool

    async def __aenter__(self) -> Self:
        self.agent.open += 1
        self.agent.most_open = max(self.agent.most_open, self.agent.open)
        self.agent.started.append(self.case.eval_id)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.agent.open -= 1

    async def run_turn(self, message: UserMessage) -> Reply | None:
        return await self.agent.behaviours.get(message.text, answer)(self)

    async def end(self) -> SessionResult:
        return SessionResult(Usage(1), {"said": self.case.eval_id}, self.agent.unasked)


@dataclass
class FakeAgent:
    """Behaves as the text of each turn says; answers otherwise."""

    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    unasked: tuple[Reply, ...] = ()
    open: int = 0
    most_open: int = 0
    started: list[str] = field(default_factory=list)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None: ...

    def open_session(self, case: EvalCase, run: int, *, alone: bool) -> FakeSession:
        return FakeSession(self, case, alone)


async def answer(session: FakeSession) -> Reply:
    await asyncio.sleep(0)
    return Reply(session.case.eval_id)


async def hang(session: FakeSession) -> Reply:
    await asyncio.Event().wait()
    raise AssertionError


def raising(error: Exception, *, alone: Behaviour | None = None) -> Behaviour:
    async def behave(session: FakeSession) -> Reply | None:
        if alone is not None and session.alone:
            return await alone(session)
        raise error

    return behave


def requests(*texts: str) -> list[RunRequest]:
    """One case per text, a `/` between its turns; the case is called like the text."""
    return [
        RunRequest(EvalCase(text, tuple(CaseTurn(UserMessage(each)) for each in text.split("/"))), 1, n)
        for n, text in enumerate(texts)
    ]


async def played(agent: FakeAgent, asked: list[RunRequest], concurrency: int = 2) -> list[CaseRun]:
    found: dict[int, CaseRun] = {}

    async def note(request: RunRequest, run: CaseRun) -> None:
        assert request.index not in found
        found[request.index] = run

    await run_requests(agent, asked, concurrency=concurrency, on_finished=note)
    assert agent.open == 0
    return [found[request.index] for request in asked]


BROKEN = Failure("exception", "it broke", "trace")


async def test_answered() -> None:
    agent = FakeAgent(unasked=(Reply("more"),))
    [run] = await played(agent, requests("a/b"))
    assert (run.run, run.outcome, run.failure, run.earlier_attempts) == (1, "answered", None, ())
    assert run.replies == (Reply("a/b"), Reply("a/b"), Reply("more"))
    assert (run.usage, run.final_state) == (Usage(1), {"said": "a/b"})
    assert run.duration_s > 0


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (raising(AgentError(BROKEN, "crashed", Usage(2))), CaseRun(1, "crashed", (), 0, Usage(2), BROKEN)),
        (raising(AgentError(BROKEN, "timed_out")), CaseRun(1, "timed_out", (), 0, None, BROKEN)),
        (
            raising(SessionLostError(BROKEN, "timed_out")),
            CaseRun(1, "timed_out", (), 0, None, BROKEN, earlier_attempts=(Attempt("timed_out", BROKEN),)),
        ),
        (
            raising(SessionLostError(BROKEN), alone=answer),
            CaseRun(
                1,
                "answered",
                (Reply("x"),),
                0,
                Usage(1),
                None,
                {"said": "x"},
                earlier_attempts=(Attempt("crashed", BROKEN),),
            ),
        ),
        (
            raising(SessionLostError(BROKEN), alone=raising(AgentError(BROKEN))),
            CaseRun(1, "crashed", (), 0, None, BROKEN, earlier_attempts=(Attempt("crashed", BROKEN),)),
        ),
    ],
)
async def test_outcome_of_one_case_leaves_the_others_alone(behaviour: Behaviour, expected: CaseRun) -> None:
    first, run, last = await played(FakeAgent({"x": behaviour}), requests("a", "x", "b"))
    assert (first.outcome, last.outcome) == ("answered", "answered")
    assert (run.outcome, run.replies, run.usage) == (expected.outcome, expected.replies, expected.usage)
    assert (run.failure, run.final_state) == (expected.failure, expected.final_state)
    assert [(a.outcome, a.failure) for a in run.earlier_attempts] == [
        (a.outcome, a.failure) for a in expected.earlier_attempts
    ]


async def test_replies_before_a_failure_are_kept() -> None:
    [run] = await played(FakeAgent({"x": raising(AgentError(BROKEN))}), requests("a/x/b"))
    assert (run.outcome, run.replies) == ("crashed", (Reply("a/x/b"),))


@dataclass
class Curious:
    """A user who asks about what was answered, so many times, and then breaks or is content."""

    times: int
    breaks: bool = False
    usage: Usage | None = None

    async def get_next_message(self, replies: Sequence[Reply | None]) -> UserMessage | None:
        self.usage = Usage(len(replies))
        if len(replies) < self.times:
            return UserMessage(f"why {replies[-1].response}?" if replies and replies[-1] else "hello")
        if self.breaks:
            raise SimulatedUserError(BROKEN)
        return None


@pytest.mark.parametrize(("breaks", "outcome"), [(False, "answered"), (True, "faulted")])
async def test_a_user_who_makes_the_conversation_up(breaks: bool, outcome: str) -> None:
    story = EvalCase("s", scenario=Scenario("hello", "plan"))
    runs: list[CaseRun] = []

    async def keep(request: RunRequest, run: CaseRun) -> None:
        runs.append(run)

    refusal = await run_requests(
        FakeAgent(),
        [RunRequest(story, 1)],
        concurrency=1,
        on_finished=keep,
        create_user=lambda case, run: Curious(2, breaks),
    )
    [run] = runs
    assert refusal is None
    assert (run.outcome, run.failure) == (outcome, BROKEN if breaks else None)
    assert run.said == (UserMessage("hello"), UserMessage("why s?"))
    assert (run.replies, run.user_usage) == ((Reply("s"), Reply("s")), Usage(2))


async def test_bug_in_an_agent_plugin_fails_its_case() -> None:
    [run, other] = await played(FakeAgent({"x": raising(ZeroDivisionError("oops"))}), requests("x", "a"))
    assert run.failure is not None
    assert (run.outcome, run.failure.kind) == ("crashed", "plugin")
    assert run.failure.message == "the agent's plugin raised ZeroDivisionError: oops"
    assert "Traceback" in run.failure.detail
    assert other.outcome == "answered"


async def test_unreachable_agent_leaves_the_rest_not_run() -> None:
    gone = Failure("import", "cannot be imported")
    agent = FakeAgent({"x": raising(AgentUnreachableError(gone))})
    runs = await played(agent, requests("a", "x", "b", "c", "d"), concurrency=1)
    assert [run.outcome for run in runs] == ["answered", "not_run", "not_run", "not_run", "not_run"]
    assert [run.failure for run in runs[1:]] == [gone] * 4
    assert agent.started == ["a", "x"]


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        (
            EvalCase("s", scenario=Scenario("hi", "plan")),
            (
                "the case is a scenario; it needs a simulated user, which is not configured: name its model "
                "with --simulated-user PROVIDER/MODEL, in the `user` section of the thresholds file, or in Google "
                "ADK's `user_simulator_config`"
            ),
        ),
        (EvalCase("e"), "the case has no turns"),
    ],
)
async def test_cases_that_nobody_can_play(case: EvalCase, sentence: str) -> None:
    agent = FakeAgent()
    [run] = await played(agent, [RunRequest(case, 2)])
    assert run == CaseRun(2, "not_run", failure=Failure("unsupported", sentence))
    assert agent.started == []


@pytest.mark.parametrize("concurrency", [1, 3, 50])
async def test_concurrency_is_kept_and_order_is_that_of_the_requests(concurrency: int) -> None:
    agent = FakeAgent()
    texts = [str(n) for n in range(20)]
    await played(agent, requests(*texts), concurrency)
    assert agent.most_open == min(concurrency, 20)
    assert agent.started == texts


async def test_scoring_overlaps_with_other_cases() -> None:
    agent, scoring = FakeAgent(), asyncio.Event()

    async def score(request: RunRequest, run: CaseRun) -> None:
        if request.index == 0:
            await scoring.wait()
        elif request.index == 4:
            scoring.set()

    await run_requests(agent, requests("a", "b", "c", "d", "e"), concurrency=2, on_finished=score)
    assert len(agent.started) == 5


async def test_more_runs_of_the_same_agent() -> None:
    agent = FakeAgent()
    await played(agent, requests("a"))
    await played(agent, requests("a"))
    assert agent.started == ["a", "a"]


async def test_nothing_to_do() -> None:
    assert await played(FakeAgent(), []) == []


@dataclass
class Interrupted:
    """A run that is cancelled while `hanging` cases hang in the agent."""

    asked: list[RunRequest]
    concurrency: int
    found: dict[int, CaseRun] = field(default_factory=dict)
    slow: asyncio.Event = field(default_factory=asyncio.Event)

    async def note(self, request: RunRequest, run: CaseRun) -> None:
        if request.case.eval_id == "slow":
            await self.slow.wait()
        self.found[request.index] = run

    def start(self, agent: FakeAgent) -> asyncio.Task[Failure | None]:
        running = run_requests(agent, self.asked, concurrency=self.concurrency, on_finished=self.note)
        return asyncio.create_task(running)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_interruption_accounts_for_every_request() -> None:
    agent = FakeAgent({"x": hang})
    run = Interrupted(requests("a", "x", "slow", "x", "b", "c"), 3)
    task = run.start(agent)
    await settle()
    task.cancel()
    await settle()
    assert not task.done()
    run.slow.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [run.found[n].outcome for n in range(6)] == [
        "answered",
        "not_run",
        "answered",
        "not_run",
        "not_run",
        "not_run",
    ]
    assert run.found[1].failure == Failure("interrupted", "the run was interrupted before this case was over")
    assert (agent.open, agent.started) == (0, ["a", "x", "slow", "x"])


async def test_what_is_played_is_ended_when_the_time_is_over() -> None:
    over = Failure("budget_spent", "the time is over")
    agent, found = FakeAgent({"b": hang, "c": hang}), list[tuple[str, CaseRun]]()

    async def note(request: RunRequest, run: CaseRun) -> None:
        found.append((request.case.eval_id, run))

    asked = requests("a", "b", "c", "d")
    refusal = await run_requests(agent, asked, concurrency=2, on_finished=note, time_limit=(0.5, over))
    assert refusal is None
    assert agent.open == 0
    assert {name: (run.outcome, run.failure) for name, run in found} == {
        "a": ("answered", None),
        "b": ("not_run", over),
        "c": ("not_run", over),
        "d": ("not_run", over),
    }


async def test_what_is_played_is_ended_when_a_case_spent_what_was_left() -> None:
    spent = Failure("budget_spent", "nothing is left")
    agent, found = FakeAgent({"b": hang}), list[tuple[str, CaseRun]]()

    async def note(request: RunRequest, run: CaseRun) -> None:
        found.append((request.case.eval_id, run))

    refusal = await run_requests(
        agent,
        requests("a", "b", "c"),
        concurrency=2,
        on_finished=note,
        stop_reason=lambda: spent if found else None,
    )
    assert (refusal, agent.open) == (None, 0)
    assert {name: (run.outcome, run.failure) for name, run in found} == {
        "a": ("answered", None),
        "b": ("not_run", spent),
        "c": ("not_run", spent),
    }


async def test_an_interruption_after_the_time_is_over_is_one() -> None:
    """A callback is still at work, and the user does not wait for it."""
    over, began = Failure("budget_spent", "the time is over"), asyncio.Event()
    found = []

    async def slow(request: RunRequest, run: CaseRun) -> None:
        began.set()
        await asyncio.sleep(0.01)
        found.append((request.case.eval_id, run.failure and run.failure.kind))

    running = asyncio.create_task(
        run_requests(
            FakeAgent({"a": hang}),
            requests("a", "b"),
            concurrency=1,
            on_finished=slow,
            time_limit=(0.0, over),
        )
    )
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert found == [("a", "budget_spent"), ("b", "interrupted")]


async def test_second_interruption_gives_up() -> None:
    agent = FakeAgent()
    run = Interrupted(requests("slow", "a"), 1)
    task = run.start(agent)
    for _ in range(2):
        await settle()
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.found == {}


async def test_error_of_the_callback_stops_the_run() -> None:
    agent = FakeAgent({"x": hang, "u": raising(AgentUnreachableError(BROKEN))})

    async def full_disk(request: RunRequest, run: CaseRun) -> None:
        raise OSError("disk full")

    for texts in (["a", "x", "b"], ["u", "x", "b"]):
        with pytest.raises(OSError, match="disk full"):
            await run_requests(agent, requests(*texts), concurrency=2, on_finished=full_disk)
    assert agent.open == 0


async def test_error_of_the_requests_stops_the_run() -> None:
    def broken() -> Iterator[RunRequest]:
        yield from requests("x")
        raise ValueError("no more")

    async def note(request: RunRequest, run: CaseRun) -> None: ...

    with pytest.raises(ValueError, match="no more"):
        await run_requests(FakeAgent({"x": hang}), broken(), concurrency=2, on_finished=note)
