"""The frameworks beside Google ADK, and what an interpreter must have for each.

Releases are pinned: a test that breaks shows a change of ours, not of a framework. Raise them together, and run
`pytest tests/frameworks tests/agents/test_matrix.py` with them.
"""

from dataclasses import dataclass

ADK_NOW = "2.13.0"
"""The release of Google ADK that the tests know beside the one that its scores are known of."""


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework, and what differs between frameworks in what is told of the same conversation."""

    folder: str
    requirements: tuple[str, ...]
    author: str | None = None
    """The name under which its agent speaks, where it has one."""
    call_id: str | None = "call-1"
    """The id of a tool call, where it has one."""
    told_earlier: bool = True
    """Whether its agents can be told what precedes the conversation."""


LANGGRAPH = Framework("langgraph", ("langgraph==1.2.22", "langchain==1.4.7"))
OPENAI_AGENTS = Framework("openai_agents", ("openai-agents==0.24.0",), "desk")
PYDANTIC_AI = Framework("pydantic_ai", ("pydantic-ai-slim==2.68.0",))
STRANDS = Framework("strands", ("strands-agents==1.62.0",))
SMOLAGENTS = Framework("smolagents", ("smolagents==1.26.0",), call_id=None, told_earlier=False)
AGENT_FRAMEWORK = Framework("agent_framework", ("agent-framework-core==1.23.0",), "desk")
LLAMA_INDEX = Framework("llama_index", ("llama-index-core==0.14.25",), "desk")
AUTOGEN = Framework("autogen", ("autogen-agentchat==0.7.5",), "desk")
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
