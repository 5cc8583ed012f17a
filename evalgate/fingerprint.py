"""What a case asks and expects, as one short text: two results compare only when it is equal."""

import hashlib
import json

from evalgate.model import EvalCase, Event, Message, Scenario, ToolCall, Turn

_DIGITS = 16
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=dict).encode


def fingerprint(case: EvalCase) -> str:
    """16 hexadecimal digits over the case's turns, scenario, initial and final session state.

    The order of keys, the case's id and place, and the ids of tool calls do not count.
    """
    asked = [
        [_turn(turn) for turn in case.turns],
        _scenario(case.scenario),
        case.session.state,
        case.final_state,
    ]
    return hashlib.sha256(_encode(asked).encode()).hexdigest()[:_DIGITS]


def _turn(turn: Turn) -> object:
    expected = turn.expected
    events = [_event(event) for event in expected.events]
    return [turn.user.text, turn.user.attachments, expected.response, events]


def _event(event: Event) -> object:
    if isinstance(event, ToolCall):
        return [event.type, event.author, event.name, event.args]
    if isinstance(event, Message):
        return [event.type, event.author, event.text]
    return [event.type, event.author, event.name, event.result]


def _scenario(scenario: Scenario | None) -> object:
    if scenario is None:
        return None
    return [scenario.starting_prompt, scenario.conversation_plan, scenario.user_persona]
