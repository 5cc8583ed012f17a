"""Format the data in judges' prompts: the agent's tool calls, instructions and tools, and whole dialogues."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress

from evalgate.core.types import EvalCase, Message, Reply, Rubric, ToolCall, ToolResult
from evalgate.llm.prompt_templates import indent_later_lines
from evalgate.metrics.turnwise import Exchange


def collect_rubrics(case: EvalCase, exchange: Exchange) -> tuple[Rubric, ...]:
    """Return all rubrics of the case, followed by all rubrics of the turn, of every type."""
    return (*case.rubrics, *(exchange.turn.rubrics if exchange.turn else ()))


def format_tool_steps(reply: Reply | None) -> str:
    """Return the tool calls with their results as a JSON list, or a sentence if there is no call."""
    events = reply.events if reply else ()
    results = [event for event in events if isinstance(event, ToolResult)]
    steps = []
    for step, call in enumerate((event for event in events if isinstance(event, ToolCall)), 1):
        by_id = (each for each in results if call.id is not None and each.id == call.id)
        is_same_tool = ((call.id is None or each.id is None) and each.name == call.name for each in results)
        found = next(by_id, next(compress(results, is_same_tool), None))
        if found is not None:
            results.remove(found)
        answer = None if found is None else {"name": found.name, "response": found.result}
        steps.append({"step": step, "tool_call": _to_call_object(call), "tool_response": answer})
    return to_json_line(steps) if steps else "The agent called no tool."


def _to_call_object(call: ToolCall) -> dict[str, object]:
    return {"name": call.name, "args": call.arguments}


def format_instructions(exchanges: Sequence[Exchange]) -> str:
    """Return the recorded instructions of each agent, each agent once; "Not known." if none are recorded."""
    found = {name: details.get("instructions", "") for name, details in _iter_agents(exchanges)}
    return "\n\n".join(f"{name}:\n{text}" for name, text in found.items() if text) or "Not known."


def format_declarations(exchanges: Sequence[Exchange]) -> str:
    """Return the recorded tools of each agent as JSON, each agent once; "Not known." if none are recorded."""
    found = {name: details.get("tool_declarations") for name, details in _iter_agents(exchanges)}
    known = {name: tools for name, tools in found.items() if tools}
    return to_json_line(known) if known else "Not known."


def _iter_agents(exchanges: Sequence[Exchange]) -> Iterator[tuple[str, Mapping[str, object]]]:
    for exchange in exchanges:
        app_details = (exchange.turn.app_details if exchange.turn else None) or {}
        agents = app_details.get("agent_details")
        if isinstance(agents, Mapping):
            yield from ((str(name), each) for name, each in agents.items() if isinstance(each, Mapping))


def iter_event_lines(exchange: Exchange, *, until: int | None = None) -> Iterator[str]:
    """Yield a text for each event before the turn's final response, or for the first `until` events."""
    events = exchange.reply.events if exchange.reply else ()
    for event in events[:until]:
        author = " ".join((event.author or "agent").split())
        if isinstance(event, Message):
            yield f"{author}: {indent_later_lines(event.text)}"
        elif isinstance(event, ToolCall):
            yield f"{author} calls: {to_json_line(_to_call_object(event))}"
        else:
            yield f"tool answers: {to_json_line({'name': event.name, 'response': event.result})}"


def format_dialogue(exchanges: Sequence[Exchange]) -> str:
    """Format the whole conversation, tool calls and results included.

    Tool calls are indented less than the second and later lines of a response, so that no line of a response
    looks like a call.
    """
    return "\n\n".join(block for exchange in exchanges for block in _iter_blocks(exchange))


def _iter_blocks(exchange: Exchange) -> Iterator[str]:
    yield f"USER, TURN {exchange.number}:\n  {indent_later_lines(exchange.user)}"
    if exchange.reply is None:
        yield f"AGENT, TURN {exchange.number}: no reply"
        return
    lines = [*iter_event_lines(exchange)]
    if response := exchange.response.strip("\n"):
        lines.append(f"agent: {indent_later_lines(response)}")
    text = "\n".join(lines)
    yield f"AGENT, TURN {exchange.number}:\n  {indent_later_lines(text)}"


_LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
"""Characters that end a line for `str.splitlines` and that json does not escape."""


def to_json_line(value: object) -> str:
    """Return `value` as JSON on one line.

    An inner value of a type that JSON lacks is converted with `str`. A `value` that nests too deep is
    replaced by a remark.
    """
    try:
        text = json.dumps(
            value,
            ensure_ascii=False,
            # json writes only dicts as objects, not other mappings.
            default=lambda item: dict(item) if isinstance(item, Mapping) else str(item),
        )
    except RecursionError:
        return '"(nests too deep to be shown)"'
    return text.translate(_LINE_ENDS)
