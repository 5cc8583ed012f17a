"""Expected calls of tools that no agent of the recorded turn has."""

from collections.abc import Iterator, Mapping

from evalgate.model import EvalCase, EvalSet, JsonObject, Turn
from evalgate.protocols import LooksAt, Metric
from evalgate.reading.validation import listed


class Tools:
    """Holds each turn's expected calls against the tools that its `app_details` declare, where it has any."""

    def begin(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> LooksAt:
        """See `Lint.begin`."""
        del eval_set, metrics
        return _sentences


def _sentences(case: EvalCase) -> Iterator[str]:
    for number, turn in enumerate(case.turns, start=1):
        declared = declared_tools(turn)
        unknown = [call.name for call in turn.expected.tool_calls if call.name not in declared]
        if declared and unknown:
            yield (
                f"turn {number} expects {listed(list(dict.fromkeys(unknown)))}, which its `app_details` do "
                f"not declare: no agent there could call it (they declare {listed(sorted(declared))})"
            )


def declared_tools(turn: Turn) -> frozenset[str]:
    """Names of all functions that an agent of the turn has; empty where the source names none."""
    agents = _member(turn.app_details, "agent_details")
    return frozenset(name for agent in _values(agents) for name in _functions(agent))


def _functions(agent: object) -> Iterator[str]:
    tools = _member(agent, "tool_declarations")
    for tool in tools if isinstance(tools, list) else ():
        functions = _member(tool, "function_declarations")
        for function in functions if isinstance(functions, list) else ():
            name = _member(function, "name")
            if isinstance(name, str):
                yield name


def _values(value: object) -> Iterator[object]:
    yield from value.values() if isinstance(value, Mapping) else ()


def _member(value: JsonObject | object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None
