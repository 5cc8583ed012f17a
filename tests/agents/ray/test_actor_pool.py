"""Conversations in the actors of a fake cluster, with real hosts."""

import asyncio
from functools import partial
from typing import Any, Self

import pytest

from evalgate.agents.ray.actor_host import ActorFailure, ActorHost, ActorSpec, dump_message
from evalgate.agents.ray.actor_pool import ClusterAgent
from evalgate.agents.ray.bridge_client import ClusterSpec, RayClusterClient
from evalgate.agents.tracing.run_trace import RunTrace
from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import Agent, AgentError, AgentUnreachableError, SessionLostError
from evalgate.core.types import (
    CaseRun,
    EvalCase,
    Failure,
    RecordedAnswer,
    RecordedCall,
    ToolMock,
    ToolRecording,
    Usage,
)
from evalgate.runner.scheduler import RunRequest, run_requests
from tests.agents.play import a_talk, tiny, until
from tests.agents.ray.fake import A_FAILURE, FakeLink, Scripted, build_cluster_agent, fail_with

LOST = "the worker in the Ray cluster is lost: ActorDiedError: The actor died"


async def run_in_cluster(agent: Agent, *cases: EvalCase, concurrency: int = 8) -> dict[str, CaseRun]:
    found: dict[str, CaseRun] = {}

    async def note(request: RunRequest, run: CaseRun) -> None:
        assert request.case.eval_id not in found
        found[request.case.eval_id] = run

    await run_requests(
        agent, [RunRequest(case, 1) for case in cases], concurrency=concurrency, on_finished=note
    )
    return found


def list_responses(run: CaseRun) -> list[str | None]:
    return [None if reply is None else reply.response for reply in run.replies]


async def test_conversation_runs_in_an_actor() -> None:
    link = FakeLink(lambda _: Scripted())
    async with build_cluster_agent(link) as agent:
        found = await run_in_cluster(agent, a_talk("c", "one", "two"))
    assert found["c"].outcome == "answered"
    assert list_responses(found["c"]) == ["ONE", "TWO"]
    assert found["c"].final_state == {"done": True}
    assert (found["c"].session_id, found["c"].user_id) == ("s-1", "ada")
    # Opened with the first turn, closed with the end.
    assert link.asked == {1: ["turn", "turn", "end"]}
    assert link.left is True


async def test_the_steps_of_a_trace_come_from_the_actor() -> None:
    kept: list[CaseRun] = []

    async def note(_: RunRequest, run: CaseRun) -> None:
        kept.append(run)

    request = RunRequest(a_talk("c", "one", "two"), 1)
    async with build_cluster_agent(FakeLink(lambda _: tiny("reports_everything"))) as agent:
        await run_requests(agent, [request], concurrency=1, on_finished=note, create_trace=RunTrace)
    assert [(step.turn, step.kind, step.name) for step in kept[0].trace] == [
        *((0, "agent", "agent"), (0, "tool", "look")),
        *((1, "agent", "agent"), (1, "tool", "look")),
    ]


async def test_conversations_are_spread_over_the_actors() -> None:
    gate = asyncio.Event()
    agents = {number: Scripted(gate=gate) for number in (1, 2, 3)}
    link = FakeLink(agents.__getitem__)
    async with build_cluster_agent(link, workers=3) as agent:
        await until(lambda: len(link.hosts) == 3)
        playing = asyncio.create_task(
            run_in_cluster(agent, *[a_talk(f"c{number}", "x") for number in range(6)])
        )
        await until(lambda: sum(each.open for each in agents.values()) == 6)
        assert [each.open for each in agents.values()] == [2, 2, 2]
        gate.set()
        assert {run.outcome for run in (await playing).values()} == {"answered"}
    assert [each.open for each in agents.values()] == [0, 0, 0]


@pytest.mark.parametrize(
    ("error", "outcome", "kind"),
    [
        (AgentError(A_FAILURE, usage=Usage(3, 4)), "crashed", "exception"),
        (AgentError(Failure("timeout", "no answer"), "timed_out"), "timed_out", "timeout"),
        (SessionLostError(Failure("killed", "the process was killed")), "crashed", "killed"),
        (SessionLostError(Failure("host", "the machine is gone"), "faulted", alone=False), "faulted", "host"),
        (ZeroDivisionError("a bug"), "crashed", "plugin"),
    ],
)
async def test_agent_errors_are_the_same_as_in_local_workers(
    error: Exception, outcome: str, kind: str
) -> None:
    there, here = {}, {}
    async with build_cluster_agent(FakeLink(lambda _: Scripted(fail_with(error)))) as agent:
        there = await run_in_cluster(agent, a_talk("c", "x"))
    here = await run_in_cluster(Scripted(fail_with(error)), a_talk("c", "x"))
    for run in (there["c"], here["c"]):
        assert (run.outcome, run.failure and run.failure.kind) == (outcome, kind)
    assert there["c"].usage == here["c"].usage
    assert len(there["c"].earlier_attempts) == len(here["c"].earlier_attempts)


async def test_lost_actor_is_replaced_and_its_conversations_restart() -> None:
    gate = asyncio.Event()
    link = FakeLink(lambda _: Scripted(gate=gate))
    async with build_cluster_agent(link) as agent:
        playing = asyncio.create_task(run_in_cluster(agent, a_talk("a", "x", "y"), a_talk("b", "x")))
        await until(lambda: link.asked.get(1, []) == ["turn", "turn"])
        link.lose(1)
        gate.set()
        found = await playing
    assert {name: run.outcome for name, run in found.items()} == {"a": "answered", "b": "answered"}
    for run in found.values():
        (attempt,) = run.earlier_attempts
        assert (attempt.outcome, attempt.failure.kind, attempt.failure.message) == (
            "faulted",
            "worker_lost",
            LOST,
        )
        assert "essay" in attempt.failure.detail
    assert set(link.hosts) == {2}


async def test_case_that_always_loses_its_actor_is_faulted() -> None:
    gate = asyncio.Event()
    link = FakeLink(lambda _: Scripted(gate=gate))
    async with build_cluster_agent(link) as agent:
        playing = asyncio.create_task(run_in_cluster(agent, a_talk("a", "x")))
        for number in (1, 2, 3, 4):
            await until(partial(_is_asked, link, number))
            link.lose(number)
        run = (await playing)["a"]
    assert (run.outcome, run.failure and run.failure.kind) == ("faulted", "worker_lost")
    assert len(run.earlier_attempts) == 3


async def test_actors_that_cannot_be_created_are_reported_with_the_reason() -> None:
    async with build_cluster_agent(FakeLink(lambda _: Scripted(), refuses=True), workers=2) as agent:
        run = (await run_in_cluster(agent, a_talk("a", "x")))["a"]
    assert run.outcome == "not_run"
    assert run.failure is not None
    assert run.failure.message == (
        "no worker can be started in the Ray cluster: RuntimeEnvSetupError: no space left"
    )


async def test_full_cluster_is_reported() -> None:
    link = FakeLink(lambda _: Scripted(), has_room=False)
    async with build_cluster_agent(link, start_timeout_s=0.0) as agent:
        with pytest.raises(
            AgentUnreachableError, match="no worker was ready within 0 s: the cluster has 2 CPU"
        ):
            await agent.acquire_actor()


async def test_cluster_without_nodes_is_given_up() -> None:
    link = FakeLink(lambda _: Scripted(gate=asyncio.Event()))
    async with build_cluster_agent(link, start_timeout_s=0.2) as agent:
        await agent.acquire_actor()
        link.has_room = False
        link.lose(1)
        run = (await run_in_cluster(agent, a_talk("a", "x")))["a"]
    assert run.outcome == "not_run"
    assert run.failure is not None
    assert run.failure.message.startswith("no worker was ready within 0.2 s")


async def test_agent_that_cannot_start_in_an_actor_is_unreachable() -> None:
    link = FakeLink(lambda _: Scripted())
    async with build_cluster_agent(link) as agent:
        agent.on_failed(
            1, dump_message(ActorFailure("unreachable", Failure("import", "there is no module `agent`")))
        )
        run = (await run_in_cluster(agent, a_talk("a", "x")))["a"]
    assert (run.outcome, run.failure and run.failure.message) == ("not_run", "there is no module `agent`")


@pytest.mark.parametrize("step", ["build_agent", "__aenter__"])
async def test_agent_that_refuses_its_options_in_an_actor_is_unreachable(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(Scripted):
        async def __aenter__(self) -> Self:
            raise InvalidInputError("the port is taken")

    def build_agent(spec: ActorSpec) -> Agent:
        if step == "build_agent":
            raise InvalidInputError("the port is taken")
        return Refusing()

    monkeypatch.setattr(ActorSpec, "build_agent", build_agent)
    spec = ActorSpec(section={}, agent_name="agent", folder=None, environ={}, is_gates_machine=True)

    refused = await ActorHost.start_host(spec.to_json())

    assert refused == ActorFailure("unreachable", Failure("start", "the port is taken"))


async def test_lost_cluster_fails_open_conversations() -> None:
    link = FakeLink(lambda _: Scripted(gate=asyncio.Event()))
    async with build_cluster_agent(link) as agent:
        playing = asyncio.create_task(
            run_in_cluster(agent, a_talk("a", "x"), a_talk("b", "x"), concurrency=1)
        )
        await until(lambda: link.asked.get(1) == ["turn"])
        agent.on_cluster_lost("the connection broke", "its last words")
        found = await playing
    assert {run.outcome for run in found.values()} == {"not_run"}
    assert found["a"].failure == Failure(
        "cluster", "the Ray cluster is lost: the connection broke", "its last words"
    )


async def test_node_without_evalgate_is_named() -> None:
    link = FakeLink(lambda _: Scripted(), has_room=False)
    async with build_cluster_agent(link) as agent:
        client = RayClusterClient(
            ClusterSpec(address="auto", actors=1, cpus=1, resources={}, runtime_env={}, calls=1, spec=""),
            {},
            1,
        )
        client._listener = agent
        client.on_line(b'{"say": "unfit", "actor": 1, "why": "No module named \'x\' (node a, /bin/python)"}')
        run = (await run_in_cluster(agent, a_talk("a", "x")))["a"]
    assert (run.outcome, run.failure) == (
        "not_run",
        Failure(
            "start",
            "a node of the Ray cluster cannot import evalgate: No module named 'x' (node a, /bin/python): each "
            "node needs evalgate's dependencies",
        ),
    )


async def test_abandoned_turn_is_closed_in_the_actor() -> None:
    host_side = Scripted(gate=asyncio.Event())
    link = FakeLink(lambda _: host_side)
    async with build_cluster_agent(link) as agent:
        playing = asyncio.create_task(run_in_cluster(agent, a_talk("a", "x")))
        await until(lambda: host_side.open == 1)
        playing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await playing
        await until(lambda: host_side.open == 0)
    assert link.asked == {1: ["turn", "close"]}


async def test_case_with_mocks_opens_its_session_first() -> None:
    link = FakeLink(lambda _: Scripted())
    case = EvalCase("m", a_talk("m", "x").turns, tool_mocks=(ToolMock("weather", "sunny"),))
    async with build_cluster_agent(link) as agent:
        assert (await run_in_cluster(agent, case))["m"].outcome == "answered"
    assert link.asked == {1: ["open", "turn", "end"]}


async def test_case_with_a_recording_is_run_only_by_an_agent_that_applies_it() -> None:
    given: list[EvalCase] = []

    class Recording(Scripted):
        applies_recordings = True

        def open_session(self, case: EvalCase, run: int, *, alone: bool) -> Any:
            given.append(case)
            return super().open_session(case, run, alone=alone)

    answers = (RecordedAnswer({"sky": None}), RecordedAnswer(error="no"))
    recording = ToolRecording("t.json", (RecordedCall("sky", {"at": 1}, answers),), ("calc*",))
    case = EvalCase("m", a_talk("m", "x").turns, tool_recording=recording)
    for agent_type, outcome in ((Recording, "answered"), (Scripted, "faulted")):
        link = FakeLink(partial(_create_agent, agent_type))
        async with build_cluster_agent(link) as agent:
            assert (await run_in_cluster(agent, case))["m"].outcome == outcome
        assert ("turn" in link.asked[1]) is (outcome == "answered")
    assert given == [case]


def _create_agent(agent_type: type[Scripted], _: object) -> Scripted:
    return agent_type()


async def test_silent_actor_is_given_up() -> None:
    link = FakeLink(lambda _: Scripted(gate=asyncio.Event()))
    async with build_cluster_agent(link) as agent:
        seat = await agent.acquire_actor()
        agent._drop_silent_actor(seat, 320.0)
        assert await _find_number(agent) != seat.number
    assert seat.number not in link.hosts


def _is_asked(link: FakeLink, number: int) -> bool:
    return link.asked.get(number) == ["turn"]


async def _find_number(agent: ClusterAgent) -> int:
    return (await agent.acquire_actor()).number
