"""What stands twice: cases and turns that ask and expect the same, so that they count twice."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TypeAlias, TypeVar

from evalgate.model import EvalCase, EvalSet, Event, Message, Reply, ToolCall, Turn
from evalgate.protocols import Metric, Suspicion

_Thing = TypeVar("_Thing", EvalCase, Turn)
_Key: TypeAlias = tuple[object, ...]
"""What can be compared quickly; things with the same key may still differ."""


class Repeats:
    """Looks for cases, and turns of a case, that differ in nothing that is asked or expected."""

    def lint(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> Iterator[Suspicion]:
        """See `Lint.lint`."""
        del metrics
        twins = _twins(eval_set.cases, _case_key, _case)
        for index, case in enumerate(eval_set.cases):
            for number, earlier in _twins(case.turns, _turn_key, _turn).items():
                sentence = f"turn {number + 1} asks and expects the same as turn {earlier + 1}"
                yield Suspicion(case.line, case.eval_id, sentence)
            if index in twins:
                other = eval_set.cases[twins[index]].eval_id
                yield Suspicion(case.line, case.eval_id, f"asks and expects the same as the case `{other}`")


def _twins(
    things: Sequence[_Thing], key: Callable[[_Thing], _Key], content: Callable[[_Thing], object]
) -> dict[int, int]:
    """Index → index of the first thing of equal content, in time linear in their number."""
    alone: dict[int, int] = {}
    alike: dict[int, list[int]] = {}
    found: dict[int, int] = {}
    for index, thing in enumerate(things):
        first = alone.setdefault(hash(key(thing)), index)
        if first == index:
            continue
        own = content(thing)
        earlier: list[int] = alike.setdefault(_hash((first, own)), [])
        twin = next((at for at in (first, *earlier) if content(things[at]) == own), None)
        if twin is None:
            earlier.append(index)
        else:
            found[index] = twin
    return found


def _hash(value: object) -> int:
    """Of any JSON and frozen data; equal values have equal ones."""
    if isinstance(value, Mapping):
        return hash(frozenset((key, _hash(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return hash(tuple(map(_hash, value)))
    if is_dataclass(value):
        return hash(tuple(_hash(getattr(value, field.name)) for field in fields(value)))
    return hash(value)


def _case_key(case: EvalCase) -> _Key:
    plan = case.scenario
    said = (plan.starting_prompt, plan.conversation_plan) if plan else ()
    return (*said, *(each for turn in case.turns for each in _turn_key(turn)))


def _case(case: EvalCase) -> object:
    turns = [_turn(turn) for turn in case.turns]
    session = (case.session.app_name, case.session.state, case.final_state, case.context_messages)
    recorded = None if case.recorded is None else [_reply(reply) for reply in case.recorded]
    return (turns, case.scenario, session, case.journey, recorded, case.rubrics)


def _turn_key(turn: Turn) -> _Key:
    return (turn.user.text, turn.expected.response, *(call.name for call in turn.expected.tool_calls))


def _turn(turn: Turn) -> object:
    return (turn.user, _reply(turn.expected), turn.rubrics)


def _reply(reply: Reply) -> object:
    return (reply.response, [_event(event) for event in reply.events])


def _event(event: Event) -> object:
    """Without its id, which every recording gives anew."""
    if isinstance(event, ToolCall):
        return (event.name, event.args, event.other_args)
    return (event.text, event.payload) if isinstance(event, Message) else (event.name, event.result)
