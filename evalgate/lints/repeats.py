"""What stands twice: cases and turns that ask and expect the same, so that they count twice."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from evalgate.model import EvalCase, EvalSet, Event, Message, Reply, ToolCall, Turn
from evalgate.protocols import Metric, Suspicion

_Key: TypeAlias = tuple[object, ...]
"""What can be compared quickly; things with the same key may still differ."""


class Repeats:
    """Looks for cases, and turns of a case, that differ in nothing that is asked or expected."""

    def lint(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> Iterator[Suspicion]:
        """See `Lint.lint`."""
        del metrics
        twins = _twins((_case_key(case), _case(case)) for case in eval_set.cases)
        for index, case in enumerate(eval_set.cases):
            for number, earlier in _twins((_turn_key(turn), _turn(turn)) for turn in case.turns).items():
                sentence = f"turn {number + 1} asks and expects the same as turn {earlier + 1}"
                yield Suspicion(case.line, case.eval_id, sentence)
            if index in twins:
                other = eval_set.cases[twins[index]].eval_id
                yield Suspicion(case.line, case.eval_id, f"asks and expects the same as the case `{other}`")


def _twins(things: Iterable[tuple[_Key, object]]) -> dict[int, int]:
    """Index → index of the first thing that is equal."""
    alike: dict[_Key, list[tuple[int, object]]] = {}
    found = {}
    for index, (key, thing) in enumerate(things):
        earlier = alike.setdefault(key, [])
        first = next((at for at, other in earlier if other == thing), None)
        if first is None:
            earlier.append((index, thing))
        else:
            found[index] = first
    return found


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
