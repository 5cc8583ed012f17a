"""The simulated user of watsonx Orchestrate; the rows are its evaluation framework's own."""

import json
import re
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest

from evalgate.core.protocols import SessionResult
from evalgate.core.types import CaseRun, EvalCase, Reply, UserMessage
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.orchestrate.evalset import OrchestrateFormat
from evalgate.llm.users.role import apply_story
from evalgate.llm.users.simulated import UserFactory, UserModel
from evalgate.runner.scheduler import RunRequest, run_requests
from tests.conformance.orchestrate import rows
from tests.llm.fakes import ScriptedModel

_WORD = re.compile(r"(?<!\w)END(?!\w)")


def ends_otherwise(row: dict[str, Any]) -> bool:
    """END in another word, or where nobody plays the user, or what is written again and again: it ends nothing.

    See docs/conformance.md.
    """
    args = row["run_args"]
    written = [args.get("starting_user_input") or "", *(args.get("user_prompts") or ())]
    played = [turn if isinstance(turn, str) else turn["content"] for turn in row["simulator_turns"]]
    return any("END" in text or written.count(text) > 3 for text in written) or any(
        "END" in text and not _WORD.search(text) for text in played
    )


def is_silent(row: dict[str, Any]) -> bool:
    """The agent says nothing: an error of the run there, here the end of the conversation."""
    return not all(row["agent_replies"])


def a_script(*texts: str, asked: int = 0) -> dict[str, Any]:
    said = [[who, what] for text in texts for who, what in (("user", text), ("assistant", "ok"))]
    return {"conversation": said, "agent_calls": len(texts), "simulator_calls": asked}


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
        "id": "script",
        "agent_replies": ["ok"],
        "simulator_turns": ["never"],
        "run_args": {"starting_user_input": "start", "user_prompts": ["two", "three"]},
        "expected": a_script("start", "two", "three"),
    },
    {
        "id": "script-that-is-cut",
        "agent_replies": ["ok"],
        "simulator_turns": ["never"],
        "run_args": {"starting_user_input": "start", "user_prompts": ["two", "three"], "max_user_turns": 2},
        "expected": a_script("start", "two"),
    },
    {
        "id": "script-that-somebody-begins",
        "agent_replies": ["ok"],
        "simulator_turns": ["made up", "never"],
        "run_args": {"user_prompts": ["two", "three"]},
        "expected": a_script("made up", "two", "three", asked=1),
    },
    {
        "id": "script-of-nothing-that-somebody-begins",
        "agent_replies": ["ok"],
        "simulator_turns": ["made up", "never"],
        "run_args": {"user_prompts": []},
        "expected": a_script("made up", asked=1),
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
    async def open_session(self, case: EvalCase, run: int, *, alone: bool) -> Any:
        yield self

    async def run_turn(self, message: UserMessage) -> Reply:
        self.calls += 1
        return Reply(self._replies[min(self.calls, len(self._replies)) - 1])

    async def end(self) -> SessionResult:
        return SessionResult()


def turns_of(row: dict[str, Any]) -> Iterator[str]:
    turns = row["simulator_turns"]
    for at in range(100):
        turn = turns[min(at, len(turns) - 1)]
        yield turn if isinstance(turn, str) else json.dumps(turn)


def case_of(args: dict[str, Any]) -> EvalCase:
    dataset = {
        "story": "story",
        "starting_sentence": args.get("starting_user_input"),
        "user_prompts": args.get("user_prompts"),
        "max_user_turns": args.get("max_user_turns", 25),
        "goals": {"g": []},
        "goal_details": [{"type": "text", "name": "g", "response": "r"}],
    }
    document = parse_json(json.dumps(dataset).encode(), "vector.json")
    return apply_story(OrchestrateFormat().read_eval_set(document).cases[0])


async def played(row: dict[str, Any]) -> tuple[CaseRun, RepeatingAgent, ScriptedModel]:
    case = case_of(row["run_args"])
    model, agent = ScriptedModel(*turns_of(row)), RepeatingAgent(row["agent_replies"])
    found: list[CaseRun] = []

    async def keep(request: RunRequest, run: CaseRun) -> None:
        found.append(run)

    await run_requests(
        agent,
        [RunRequest(case, 1)],
        concurrency=1,
        on_finished=keep,
        create_user=UserFactory(UserModel(model)).create_user,
    )
    return found[0], agent, model


THEIRS = [row for row in rows("simulation.json") if not (ends_otherwise(row) or is_silent(row))]


@pytest.mark.parametrize("row", [*OURS, *THEIRS], ids=lambda row: row["id"])
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
