"""The frameworks beside Google ADK, and what an interpreter must have for each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework, and what differs between frameworks in what is told of the same conversation."""

    folder: str
    requirements: tuple[str, ...]
    author: str | None = None
    """The name under which its agent speaks, where it has one."""


LANGGRAPH = Framework("langgraph", ("langgraph", "langchain"))
OPENAI_AGENTS = Framework("openai_agents", ("openai-agents",), "desk")
PYDANTIC_AI = Framework("pydantic_ai", ("pydantic-ai-slim",))
FRAMEWORKS = (LANGGRAPH, OPENAI_AGENTS, PYDANTIC_AI)
