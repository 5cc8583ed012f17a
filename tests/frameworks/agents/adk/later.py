"""An agent that is made when it is needed, as one with MCP tools is."""

import asyncio
from contextlib import AsyncExitStack

from google.adk.agents import LlmAgent
from scripted import Scripted


async def get_agent_async() -> tuple[LlmAgent, AsyncExitStack]:
    await asyncio.sleep(0)
    return LlmAgent(name="later", model=Scripted(script=lambda _: ["made later"])), AsyncExitStack()
