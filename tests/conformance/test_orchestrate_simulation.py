"""The simulated user of watsonx Orchestrate; the rows are its evaluation framework's own."""

import json
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest

from evalgate.model import CaseRun, EvalCase, Journey, Reply, Scenario, UserMessage
from evalgate.protocols import SessionEnd
from evalgate.run import RunRequest, run_cases
from evalgate.simulation.users import Actor, Cast
from tests.conformance.orchestrate import rows
from tests.judge.fakes import ScriptedModel

OTHERWISE = {
    "S02": "a user who says SEND has not finished: the signal is the word END",
    "S12": "an agent that says nothing is not an error of the run: the conversation ends and is scored",
}
"""Rows in which we decide otherwise on purpose; see docs/conformance.md."""

OURS: list[dict[str, Any]] = [
    {
        "id": "goal-failed-three-times",
        "agent_replies": ["no"],
        "simulator_turns": [{"content": f"try {n}", "goal_status": "failed"} for n in range(5)],
        "run_args": {"starting_user_input": "start"},
        "expected": {
            "conversation": [
                [who, what]
                for text in ("start", "try 0", "try 1")
                for who, what in (("user", text), ("assistant", "no"))
            ],
            "agent_calls": 3,
            "simulator_calls": 3,
        },
    },
    {
        "id": "send-is-no-end",
        "agent_replies": ["ok"],
        "simulator_turns": ["Please SEND it", "The END."],
        "run_args": {"starting_user_input": "start"},
        "expected": {
            "conversation": [["user", "start"], ["assistant", "ok"], ["user", "Please SEND it"], ["assistant", "ok"]],
            "agent_calls": 2,
            "simulator_calls": 2,
        },
    },
    {
        "id": "silent-agent",
        "agent_replies": [None],
        "simulator_turns": ["x"],
        "run_args": {"starting_user_input": "start"},
        "expected": {"conversation": [["user", "start"]], "agent_calls": 1, "simulator_calls": 0},
    },
]  # fmt: skip


class RepeatingAgent:
    """Gives its replies in order, the last one again and again."""

    def __init__(self, replies: list[str | None]) -> None:
        self._replies = replies
        self.calls = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    @asynccontextmanager
    async def session(self, case: EvalCase, run: int, *, alone: bool) -> Any:
        yield self

    async def turn(self, message: UserMessage) -> Reply:
        self.calls += 1
        return Reply(self._replies[min(self.calls, len(self._replies)) - 1])

    async def end(self) -> SessionEnd:
        return SessionEnd()


def turns_of(row: dict[str, Any]) -> Iterator[str]:
    turns = row["simulator_turns"]
    for at in range(100):
        turn = turns[min(at, len(turns) - 1)]
        yield turn if isinstance(turn, str) else json.dumps(turn)


async def played(row: dict[str, Any]) -> tuple[CaseRun, RepeatingAgent, ScriptedModel]:
    args = row["run_args"]
    scenario = Scenario(args["starting_user_input"], "story", max_turns=args.get("max_user_turns", 25))
    case = EvalCase("c", scenario=scenario, journey=Journey((), {}, "story"))
    model, agent = ScriptedModel(*turns_of(row)), RepeatingAgent(row["agent_replies"])
    found: list[CaseRun] = []

    async def keep(request: RunRequest, run: CaseRun) -> None:
        found.append(run)

    await run_cases(
        agent, [RunRequest(case, 1)], concurrency=1, on_finished=keep, user_of=Cast(Actor(model)).user
    )
    return found[0], agent, model


@pytest.mark.parametrize(
    "row",
    [*OURS, *(row for row in rows("simulation.json") if row["id"] not in OTHERWISE)],
    ids=lambda row: row["id"],
)
async def test_the_conversation_is_the_same(row: dict[str, Any]) -> None:
    run, agent, model = await played(row)

    wanted = row["expected"]
    assert run.outcome == "answered"
    said: list[list[str]] = []
    for message, reply in zip(run.said, run.replies, strict=True):
        said.append(["user", message.text])
        if reply is not None and reply.response is not None:
            said.append(["assistant", reply.response])
    assert said == wanted["conversation"]
    assert (agent.calls, len(model.requests)) == (wanted["agent_calls"], wanted["simulator_calls"])
