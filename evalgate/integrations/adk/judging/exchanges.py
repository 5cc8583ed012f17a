"""The turns of a run, and the agent's steps in them, as texts for a judge's prompt."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from evalgate.core.frozen import frozen
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    EvalCase,
    JsonObject,
    Message,
    Reply,
    Rubric,
    ToolCall,
    ToolResult,
)
from evalgate.llm.prompting import indent_later_lines


@frozen
class AdkExchange:
    """One turn of a run, with the expected one."""

    number: int
    """1-based."""
    user: str
    turn: CaseTurn | None
    """None if the case does not ask for the turn, or its user is simulated."""
    reply: Reply | None
    """None if the agent made no such turn."""
    is_asked_for: bool = True

    @property
    def app_details(self) -> JsonObject:
        """Return the agents behind the recorded turn, or {} if there are none."""
        return (self.turn.app_details if self.turn else None) or {}

    def get_response(self, *, with_intermediate: bool = False) -> str:
        """Return the final response, after earlier messages if `with_intermediate`."""
        if self.reply is None:
            return ""
        earlier = [event.text for event in self.reply.events if isinstance(event, Message)]
        return "\n".join([*(earlier if with_intermediate else ()), self.reply.response or ""]).strip("\n")


def build_exchanges(case: EvalCase, run: CaseRun) -> tuple[AdkExchange, ...]:
    """Build every turn of the run, as it was written or as a simulated user said it."""
    return tuple(_iter_exchanges(case, run))


def _iter_exchanges(case: EvalCase, run: CaseRun) -> Iterator[AdkExchange]:
    turns = case.turns
    for at, (turn, reply) in enumerate(zip_longest(turns, run.replies)):
        said = run.said[at].text if at < len(run.said) else turn.user.text if turn else ""
        yield AdkExchange(at + 1, said, turn, reply, is_asked_for=turn is not None or not turns)


def collect_rubrics(case: EvalCase, exchange: AdkExchange) -> tuple[Rubric, ...]:
    """Return the case's rubrics, then the turn's, of every type."""
    return (*case.rubrics, *(exchange.turn.rubrics if exchange.turn else ()))


def format_tool_steps(reply: Reply | None) -> str:
    """Format the tool calls with their results, in order, as JSON."""
    events = reply.events if reply else ()
    results = [event for event in events if isinstance(event, ToolResult)]
    steps = []
    for step, call in enumerate((event for event in events if isinstance(event, ToolCall)), 1):
        found = _find_result(call, results)
        if found is not None:
            results.remove(found)
        answer = None if found is None else {"name": found.name, "response": found.result}
        steps.append({"step": step, "tool_call": _to_call_object(call), "tool_response": answer})
    return to_json_line(steps) if steps else "The agent called no tool."


def _find_result(call: ToolCall, results: Sequence[ToolResult]) -> ToolResult | None:
    by_id = (each for each in results if call.id is not None and each.id == call.id)
    by_name = (each for each in results if (call.id is None or each.id is None) and each.name == call.name)
    return next(by_id, next(by_name, None))


def _to_call_object(call: ToolCall) -> dict[str, object]:
    return {"name": call.name, "args": call.args if call.other_args is None else call.other_args}


def format_instructions(exchanges: Sequence[AdkExchange]) -> str:
    """Format the recorded instructions of each agent, each agent once."""
    found = {name: details.get("instructions", "") for name, details in _iter_agents(exchanges)}
    return "\n\n".join(f"{name}:\n{text}" for name, text in found.items() if text) or "Not known."


def format_declarations(exchanges: Sequence[AdkExchange]) -> str:
    """Format the recorded tools of each agent as JSON, each agent once."""
    found = {name: details.get("tool_declarations") for name, details in _iter_agents(exchanges)}
    known = {name: tools for name, tools in found.items() if tools}
    return to_json_line(known) if known else "Not known."


def _iter_agents(exchanges: Sequence[AdkExchange]) -> Iterator[tuple[str, Mapping[str, object]]]:
    for exchange in exchanges:
        agents = exchange.app_details.get("agent_details")
        if isinstance(agents, Mapping):
            yield from ((str(name), each) for name, each in agents.items() if isinstance(each, Mapping))


def iter_event_lines(exchange: AdkExchange, *, until: int | None = None) -> Iterator[str]:
    """Yield a line for each event before the final response, at most `until` of them."""
    events = exchange.reply.events if exchange.reply else ()
    for event in events[:until]:
        author = " ".join((event.author or "agent").split())
        if isinstance(event, Message):
            yield f"{author}: {indent_later_lines(event.text)}"
        elif isinstance(event, ToolCall):
            yield f"{author} calls: {to_json_line(_to_call_object(event))}"
        else:
            yield f"tool answers: {to_json_line({'name': event.name, 'response': event.result})}"


def format_dialogue(exchanges: Sequence[AdkExchange]) -> str:
    """Format the whole conversation, tool calls and results included."""
    return "\n\n".join(block for exchange in exchanges for block in _iter_blocks(exchange))


def _iter_blocks(exchange: AdkExchange) -> Iterator[str]:
    yield f"USER, TURN {exchange.number}:\n  {indent_later_lines(exchange.user)}"
    if exchange.reply is None:
        yield f"AGENT, TURN {exchange.number}: no reply"
        return
    lines = "\n".join(filter(None, [*iter_event_lines(exchange), exchange.get_response()]))
    yield f"AGENT, TURN {exchange.number}:\n  {indent_later_lines(lines)}"


def to_json_line(value: object) -> str:
    """Return JSON on one line; a value that JSON cannot hold is written as its text."""
    try:
        return json.dumps(
            value,
            ensure_ascii=False,
            # json writes only dicts as objects, not other mappings.
            default=lambda item: dict(item) if isinstance(item, Mapping) else str(item),
        )
    except RecursionError:
        return '"(nests too deep to be shown)"'
