"""Each conversation has its own agent, however the entry names it."""

from pathlib import Path

import pytest

from evalgate.core.types import Reply
from tests.agents.play import a_talk, outcomes, tiny

SEPARATED = (
    "Desk",
    "AsyncDesk",
    "Locked",
    "desk",
    "desk.invoke",
    "async_desk",
    "async_desk.ainvoke",
    "partial",
    "make_desk",
    "make_agent",
    "get_agent",
    "get_desk",
    "cached",
)
SHARED = (
    "each conversation needs {} of its own, and this one {}: name its class, or a function without "
    "parameters that makes one (`agent.entry: shops.py:make_agent`); else one user would be answered with what "
    "another one said"
)
LOCKED = "cannot be copied (TypeError: cannot pickle '_thread.lock' object)"
CALLED = "`{}()` takes no text, so it was called to make the agent; "
EXPECTED = (
    "expected a function (text) or (text, session), or an object with a method ainvoke, invoke, arun or run"
)


@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.parametrize("name", SEPARATED)
async def test_each_conversation_has_its_own_agent(name: str, concurrency: int) -> None:
    cases = [a_talk(str(each), f"order {each}", "and?") for each in range(16)]
    runs = await outcomes(lambda env: tiny(f"shops.py:{name}", env=env), cases, concurrency=concurrency)

    for case in cases:
        first = f"order {case.eval_id}"
        assert runs[case.eval_id].replies == (Reply(first), Reply(f"{first} and?"))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("locked", SHARED.format("a `Locked`", LOCKED)),
        ("locked.invoke", SHARED.format("a `Locked`", LOCKED)),
        ("own_copy", SHARED.format("an `OwnCopy`", "is its own copy")),
        ("Single", SHARED.format("a `Single`", "is its own copy")),
        ("cached_and_locked", SHARED.format("a `Locked`", LOCKED)),
        ("makes_nothing", CALLED.format("makes_nothing") + f"it is a value of type NoneType; {EXPECTED}"),
        ("Broken", "making it raised KeyError: 'API_KEY'"),
        ("fails", "making it raised RuntimeError: no database"),
        ("Desk.invoke", "`invoke` is a method of class `Desk`: name the class, or a function that asks it"),
    ],
)
async def test_agent_that_cannot_be_copied_is_refused(name: str, sentence: str) -> None:
    runs = await outcomes(lambda env: tiny(f"shops.py:{name}", env=env), [a_talk("case", "hi")])

    failure = runs["case"].failure
    assert failure is not None
    assert (runs["case"].outcome, failure.kind) == ("not_run", "import")
    assert failure.message == f"cannot load the agent `shops.py:{name}`: {sentence}"


# Not installed for the tests: together they are 1.4 GB. The names are those of crewai 1.15 and claude-agent-sdk 0.2.
@pytest.mark.parametrize(
    ("package", "name", "sentence"),
    [
        ("crewai", "Crew", "an object of CrewAI takes named inputs"),
        ("crewai", "Flow", "an object of CrewAI takes named inputs"),
        ("claude_agent_sdk", "ClaudeAgentOptions", "the Claude Agent SDK needs a client of its own"),
    ],
)
async def test_unsupported_framework_is_refused_with_advice(
    tmp_path: Path, package: str, name: str, sentence: str
) -> None:
    (tmp_path / f"{package}.py").write_text(f"class {name}:\n    def run(self, text): ...\n")
    (tmp_path / "desk.py").write_text(f"import {package}\nagent = {package}.{name}()\n")
    runs = await outcomes(lambda env: tiny("desk.py:agent", env=env, cwd=tmp_path), [a_talk("case", "hi")])

    failure = runs["case"].failure
    assert failure is not None
    assert failure.message.startswith(f"cannot load the agent `desk.py:agent`: {sentence}")
    assert failure.message.endswith("docs/agents.md has the function to copy")
