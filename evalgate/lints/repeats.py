"""What stands twice: cases and turns that ask and expect the same, so that they count twice."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Generic, TypeAlias, TypeVar

from evalgate.model import EvalCase, EvalSet, Event, Message, Reply, ToolCall, Turn
from evalgate.protocols import LooksAt, Metric

_Thing = TypeVar("_Thing")
_Key: TypeAlias = tuple[object, ...]
"""What can be compared quickly; things with the same key may still differ."""


class Repeats:
    """Looks for cases, and turns of a case, that differ in nothing that is asked or expected."""

    def begin(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> LooksAt:
        """See `Lint.begin`."""
        del metrics
        cases = _Twins(eval_set.cases, _case_key, _case)

        def look(case: EvalCase) -> Iterator[str]:
            turns = _Twins(case.turns, _turn_key, _turn)
            for number, turn in enumerate(case.turns, start=1):
                if (earlier := turns.of_next(turn)) is not None:
                    yield f"turn {number} asks and expects the same as turn {earlier + 1}"
            if (twin := cases.of_next(case)) is not None:
                yield f"asks and expects the same as the case `{eval_set.heads[twin].eval_id}`"

        return look


class _Twins(Generic[_Thing]):
    """Finds things of equal content, in time linear in their number."""

    def __init__(
        self, things: Sequence[_Thing], key: Callable[[_Thing], _Key], content: Callable[[_Thing], object]
    ) -> None:
        self._things = things
        self._key = key
        self._content = content
        self._next = 0
        self._alone: dict[int, int] = {}
        self._alike: dict[int, list[int]] = {}

    def of_next(self, thing: _Thing) -> int | None:
        """Index of the first thing of equal content; None when it is `thing` itself, the next of them."""
        index = self._next
        self._next += 1
        first = self._alone.setdefault(hash(self._key(thing)), index)
        if first == index:
            return None
        own = self._content(thing)
        earlier: list[int] = self._alike.setdefault(_hash((first, own)), [])
        twin = next((at for at in (first, *earlier) if self._content(self._things[at]) == own), None)
        if twin is None:
            earlier.append(index)
        return twin


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
