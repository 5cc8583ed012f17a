"""Objects of frameworks that cannot be used as agents. Each error names a usable object instead."""

from __future__ import annotations

from typing import Optional

from ..errors import UnusableEntryError
from . import HostedAgent, is_a

_SEE = "; docs/agents.md has the function to copy"
_CREWAI = (
    "an object of CrewAI takes named inputs, and which of them is what the user says cannot be told: name a "
    'function, such as `def answer(text): return make_crew().kickoff(inputs={"question": text}).raw`' + _SEE
)
_CLAUDE = (
    "the Claude Agent SDK needs a client of its own for each conversation: name a class with a method "
    "`async def ainvoke(self, text, session)` that holds a `ClaudeSDKClient`" + _SEE
)
_STRANDS = "a graph or swarm of Strands keeps what was said: name a function that makes one and asks it"
_WORKFLOW = (
    "a workflow of the Microsoft Agent Framework serves one conversation: name a function without "
    "parameters that builds it and returns `workflow.as_agent()`"
)
_ENGINE = (
    "an engine of LlamaIndex is no agent: name a function that asks it, such as "
    "`async def answer(text): return str(await engine.aquery(text))`"
)
_REFUSED = (
    ("crewai", ("Crew", "Flow", "Agent"), _CREWAI),
    ("claude_agent_sdk", ("ClaudeSDKClient", "ClaudeAgentOptions"), _CLAUDE),
    ("strands", ("MultiAgentBase",), _STRANDS),
    ("agent_framework", ("Workflow",), _WORKFLOW),
    ("llama_index", ("BaseQueryEngine", "BaseChatEngine"), _ENGINE),
)


def adapt_agent(agent: object) -> Optional[HostedAgent]:
    """Raise an error for an object that is known to be unusable as an agent; return None for any other.

    Raises:
        UnusableEntryError: the object cannot be used as an agent; the message names a usable one instead.
    """
    for package, names, why in _REFUSED:
        if any(is_a(agent, package, name) for name in names):
            raise UnusableEntryError(why)
    return None
