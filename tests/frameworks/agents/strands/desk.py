"""Agents of Strands, with a scripted model."""

from collections.abc import AsyncIterator
from typing import Any

from strands import Agent, ToolContext, tool
from strands.models import Model
from strands.multiagent import Swarm


class Scripted(Model):
    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        calls = False
        yield {"messageStart": {"role": "assistant"}}
        for part in _script(messages):
            calls = calls or isinstance(part, dict)
            start = {"toolUse": {"toolUseId": "call-1", "name": "get_order"}} if isinstance(part, dict) else {}
            yield {"contentBlockStart": {"start": start}}
            delta = {"toolUse": {"input": part["input"]}} if isinstance(part, dict) else {"text": part}
            yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}
        used = {"inputTokens": 10, "outputTokens": 4, "totalTokens": 14}
        yield {"metadata": {"usage": used, "metrics": {"latencyMs": 1}}}


def _script(messages: Any) -> list[Any]:
    last = messages[-1]["content"][0]
    if "toolResult" in last:
        return ["Order 5 has shipped."]
    if last["text"] == "boom":
        raise RuntimeError("no model")
    if last["text"].startswith("Where"):
        return ["Let me look.", {"input": '{"order_id": "5"}'}]
    parts = [part for each in messages if each["role"] == "user" for part in each["content"]]
    return ["You said: " + ", ".join(part["text"] for part in parts if "text" in part)]


@tool(context=True)
def get_order(order_id: str, tool_context: ToolContext) -> dict[str, str]:
    """Looks an order up."""
    state = tool_context.agent.state
    state.set("seen", [*(state.get("seen") or []), order_id])
    return {"order_id": order_id, "status": "shipped"}


def agent() -> Agent:
    return Agent(Scripted(), tools=[get_order], callback_handler=None)


made = agent()
swarm = Swarm([agent()])
