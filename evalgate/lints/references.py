"""Turns that expect nothing, under metrics that compare with what is expected."""

from collections.abc import Iterator, Mapping
from functools import partial

from evalgate.model import EvalCase, EvalSet, Turn
from evalgate.numbers import counted
from evalgate.protocols import ComparesWith, LooksAt, Metric

_LISTED = 5


class References:
    """Looks for what a metric misses in a case. That no tool is called may well be what a turn expects."""

    def begin(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> LooksAt:
        """See `Lint.begin`."""
        del eval_set
        names: dict[str, list[str]] = {"response": [], "tools": []}
        for name, metric in metrics.items():
            if isinstance(metric, ComparesWith):
                names[metric.compares_with].append(name)
        return partial(_sentences, names)


def _sentences(names: Mapping[str, list[str]], case: EvalCase) -> Iterator[str]:
    silent = [number for number, turn in enumerate(case.turns, start=1) if turn.expected.response is None]
    if silent and names["response"]:
        lacking = f"{_turns(silent, case)} without an expected response"
        yield f"{lacking}: {_named(names['response'])} compares with nothing there"
    empty = [number for number, turn in enumerate(case.turns, start=1) if _expects_nothing(turn)]
    if empty and names["tools"]:
        lacking = f"{_turns(empty, case)} without an expected response or tool call"
        yield f"{lacking}: {_named(names['tools'])} is met there by any agent that calls no tool"


def _expects_nothing(turn: Turn) -> bool:
    return turn.expected.response is None and not turn.expected.tool_calls


def _turns(numbers: list[int], case: EvalCase) -> str:
    if len(numbers) == len(case.turns):
        return counted(len(numbers), "turn")
    names = ", ".join(map(str, numbers[:_LISTED])) + (", …" if len(numbers) > _LISTED else "")
    return f"turn {names}" if len(numbers) == 1 else f"turns {names}"


def _named(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
