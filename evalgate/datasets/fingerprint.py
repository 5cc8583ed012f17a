"""Fingerprints of cases and metrics. Two results are comparable only if their fingerprints are equal."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict

from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Event,
    Message,
    Reply,
    Rubric,
    Scenario,
    ToolCall,
    ToolRecording,
)

_DIGITS = 16
# Decoded JSON holds no cycles, and to look for them takes a quarter of the time.
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=dict, check_circular=False).encode


def compute_case_fingerprint(case: EvalCase) -> str:
    """Return 16 hexadecimal digits of a hash of everything that a case sends and expects.

    The hash covers turns, their alternatives, scenario, journey, rubrics, tool mocks and recordings,
    context messages, and the session's initial and final state.

    The hash does not cover the order of keys, or the case's id, position and tags. It does not cover ids of
    calls, turns and sessions, time stamps, recorded replies, details of the agent, or data that only the
    case's own format knows.
    """
    asked = {
        "turns": [_to_turn_values(turn) for turn in case.turns],
        "scenario": _to_scenario_values(case.scenario),
        "state": case.session.state,
        "final_state": case.final_state,
        "context": case.context_messages,
        "journey": asdict(case.journey) if case.journey else None,
        "rubrics": [_to_rubric_values(rubric) for rubric in case.rubrics],
        "tool_mocks": [asdict(mock) for mock in case.tool_mocks],
        "tool_recording": _to_recording_values(case.tool_recording),
        "alternatives": [[_to_reply_values(reply) for reply in each] for each in case.alternatives],
    }
    return hashlib.sha256(_encode(_drop_absent(asked)).encode()).hexdigest()[:_DIGITS]


_EMPTY_VALUES: tuple[object, ...] = (None, (), [], {})


def _drop_absent(asked: Mapping[str, object]) -> dict[str, object]:
    """Return `asked` without values that are None or empty lists, tuples or dicts.

    So a field that is added in a later version of evalgate does not change old fingerprints.
    """
    return {key: value for key, value in asked.items() if value or value not in _EMPTY_VALUES}


def compute_metric_fingerprint(name: str, options: object, judge: object = None) -> str:
    """Return 16 hexadecimal digits of a hash of a metric's name and options, without its threshold.

    `judge` is the identity of the metric's judge. If it is not None, `-` and 16 digits of its hash follow.
    """
    own = hashlib.sha256(_encode([name, options]).encode()).hexdigest()[:_DIGITS]
    if judge is None:
        return own
    return f"{own}-{hashlib.sha256(_encode(judge).encode()).hexdigest()[:_DIGITS]}"


def is_other_judge(fingerprint: str, other: str) -> bool:
    """Return True if two fingerprints of metrics differ only in the judge; False if one has no judge."""
    own, _, judge = fingerprint.partition("-")
    others, _, others_judge = other.partition("-")
    return bool(judge and others_judge) and own == others and judge != others_judge


def _to_recording_values(recording: ToolRecording | None) -> object:
    """Return the calls and live tools (called as usual) of a recording; None if there is no recording."""
    if recording is None:
        return None
    return {"calls": [asdict(call) for call in recording.calls], "live": recording.live}


def _to_turn_values(turn: CaseTurn) -> object:
    asked = {
        "user": turn.user.text,
        "attachments": turn.user.attachments,
        **_to_reply_values(turn.expected),
        "rubrics": [_to_rubric_values(rubric) for rubric in turn.rubrics],
    }
    return _drop_absent(asked)


def _to_reply_values(reply: Reply) -> dict[str, object]:
    return {"response": reply.response, "events": [_to_event_values(event) for event in reply.events]}


def _to_rubric_values(rubric: Rubric) -> dict[str, object]:
    """Return the fields of a rubric. `points` is left out if it is None or 1: both mean the same weight."""
    values = asdict(rubric)
    if values["points"] in {None, 1}:
        del values["points"]
    return values


def _to_event_values(event: Event) -> object:
    if isinstance(event, ToolCall):
        return [event.type, event.author, event.name, event.arguments]
    if isinstance(event, Message):
        values = [event.type, event.author, event.text]
        return values if event.payload is None else [*values, event.payload]
    return [event.type, event.author, event.name, event.result]


def _to_scenario_values(scenario: Scenario | None) -> object:
    if scenario is None:
        return None
    asked: list[object] = [scenario.starting_prompt, scenario.conversation_plan, scenario.user_persona]
    limits = [scenario.stop_signal, scenario.max_turns, scenario.driver]
    if any(limit not in {None, ""} for limit in limits):
        asked += limits
    return asked if scenario.script is None else [*asked, list(scenario.script)]
