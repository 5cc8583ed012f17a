"""The supported frameworks, except Google ADK.

Their releases are pinned in `requirements/environments`, so that a failing test shows a change in evalgate and not in a
framework. Upgrade all of them with `make lock UPGRADE=1`, then run `pytest tests/frameworks tests/agents/test_matrix.py`.
"""

from dataclasses import dataclass

ADK_NOW = "2.13.0"
"""The newest release of Google ADK in the tests. They also use the older release with reference scores."""


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework, and the details in which its results for the same conversation differ from others."""

    folder: str
    """Name of the folder of its agents, and of its environment."""
    author: str | None = None
    """Author of the agent's events; None if the framework has no authors."""
    call_id: str | None = "call-1"
    """Id of a tool call; None if the framework has no ids of calls."""
    told_earlier: bool = True
    """True if its agents accept messages that precede the conversation."""


LANGGRAPH = Framework("langgraph")
OPENAI_AGENTS = Framework("openai_agents", "desk")
PYDANTIC_AI = Framework("pydantic_ai")
STRANDS = Framework("strands")
SMOLAGENTS = Framework("smolagents", call_id=None, told_earlier=False)
AGENT_FRAMEWORK = Framework("agent_framework", "desk")
LLAMA_INDEX = Framework("llama_index", "desk")
AUTOGEN = Framework("autogen", "desk")
FRAMEWORKS = (
    LANGGRAPH,
    OPENAI_AGENTS,
    PYDANTIC_AI,
    STRANDS,
    SMOLAGENTS,
    AGENT_FRAMEWORK,
    LLAMA_INDEX,
    AUTOGEN,
)
