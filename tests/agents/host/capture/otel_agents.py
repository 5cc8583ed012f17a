"""Agents that are traced with the OpenTelemetry SDK and know nothing of evalgate."""

import asyncio
import json
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())
_tracer = trace.get_tracer("agent")


def _look_up(city: str, call_id: str) -> str:
    with _tracer.start_as_current_span("execute_tool get_forecast") as span:
        result = json.dumps({"city": city, "sky": "sunny"})
        span.set_attributes(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "get_forecast",
                "gen_ai.tool.call.id": call_id,
                "gen_ai.tool.call.arguments": json.dumps({"city": city}),
                "gen_ai.tool.call.result": result,
            }
        )
        return result


def _ask_model(text: str) -> None:
    with _tracer.start_as_current_span("chat small") as span:
        span.set_attributes(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "small",
                "gen_ai.usage.input_tokens": 11,
                "gen_ai.usage.output_tokens": 7,
                "gen_ai.output.messages": json.dumps(
                    [{"role": "assistant", "parts": [{"type": "text", "content": text}]}]
                ),
            }
        )


async def traced(text: str) -> str:
    """Record three spans: a model call, a tool call without GenAI attributes, and a model call."""
    with _tracer.start_as_current_span("invoke_agent") as span:
        span.set_attributes({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather"})
        _ask_model("Let me look.")
        await asyncio.sleep(0)
        with _tracer.start_as_current_span("GET /forecast"):
            result = _look_up(text, f"call {text}")
        await asyncio.sleep(0)
        _ask_model(result)
    return result


def in_a_bare_thread(text: str) -> str:
    """Call the tool in a thread that C started. Only the id of its trace connects the span to a turn."""
    found: list[str] = []
    done = threading.Event()
    with _tracer.start_as_current_span("turn"):
        here = context.get_current()

        def work() -> None:
            context.attach(here)
            found.append(_look_up(text, "1"))
            done.set()

        import _thread

        _thread.start_new_thread(work, ())
        done.wait()
    return found[0]


def only_http_spans(text: str) -> str:
    """Record only HTTP spans, without models or tools."""
    with _tracer.start_as_current_span("GET /") as span:
        span.set_attribute("http.request.method", "GET")
        return text


def reports_as_well(text: str) -> dict[str, Any]:
    """Record spans and also report events, which take precedence over the spans."""
    _look_up(text, "1")
    _ask_model("It is sunny.")
    return {"response": "sunny", "tool_calls": [{"name": "own", "args": {}}]}


def deep(text: str) -> str:
    """Record attribute values that the protocol cannot carry unchanged."""
    with _tracer.start_as_current_span("execute_tool dig") as span:
        nested = "[" * 300 + "]" * 300
        span.set_attributes(
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "dig",
                "gen_ai.tool.call.result": nested,
            }
        )
    return text


def chatty(text: str) -> str:
    """Record ten spans of 2 MiB each in one turn."""
    for _ in range(10):
        with _tracer.start_as_current_span("execute_tool dig") as span:
            span.set_attributes(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "dig",
                    "gen_ai.tool.call.result": text * (2 << 20),
                }
            )
    return text


class BaseAgent:
    """Agent of a framework that reports the calls itself, and that records spans as `chatty` does."""

    __module__ = "agent_framework"

    def create_session(self) -> None:
        pass

    async def run(self, messages: Any, session: None) -> Any:
        del session
        chatty(messages[-1].text)
        return SimpleNamespace(usage_details=None, messages=[])


sys.modules["agent_framework"] = ModuleType("agent_framework")
sys.modules["agent_framework"].Message = lambda role, texts: SimpleNamespace(  # type: ignore[attr-defined]
    role=role, text=texts[0]
)
chatty_of_a_framework = BaseAgent()
