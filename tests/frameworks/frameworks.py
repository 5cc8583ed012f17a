"""The frameworks beside Google ADK.

Their releases are pinned in `requirements/environments`: a test that breaks shows a change of ours, not of a framework.
Raise them together with `make lock UPGRADE=1`, and run `pytest tests/frameworks tests/agents/test_matrix.py` with them.
"""

from dataclasses import dataclass

ADK_NOW = "2.13.0"
"""The release of Google ADK that the tests know beside the one that its scores are known of."""


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework, and what differs between frameworks in what is told of the same conversation."""

    folder: str
    """Of its agents, and the name of its environment."""
    author: str | None = None
    """The name under which its agent speaks, where it has one."""
    call_id: str | None = "call-1"
    """The id of a tool call, where it has one."""
    told_earlier: bool = True
    """Whether its agents can be told what precedes the conversation."""


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
