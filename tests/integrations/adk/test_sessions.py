"""Saved sessions of Google ADK, read as recordings."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.core.errors import InvalidInputError
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Message,
    Reply,
    SessionInput,
    ToolCall,
    ToolResult,
    UserMessage,
)
from evalgate.documents.strict_json import read_json
from evalgate.integrations.adk.sessions import read_session_spans
from evalgate.integrations.recordings import read_recording
from tests.agents.http.test_adk_server import EVENTS, REPLY, event

USER = event({"text": "Rain?"}, author="user")
AGAIN = {"author": "user", "content": {"parts": [{"text": "And"}, {"text": "tomorrow?"}]}}
RESUMED = event({"functionResponse": {"name": "approve", "response": {}}}, author="user")
FAILED = {"author": "weather", "errorCode": "SAFETY"}
SESSION = {
    "id": "s-1",
    "appName": "weather",
    "userId": "ada",
    "state": {"city": "Paris"},
    "events": [USER, *EVENTS, AGAIN, event({"text": "Wait."}), RESUMED, event({"text": "No."})],
    "lastUpdateTime": 1.5,
}
TURNS = (
    CaseTurn(UserMessage("Rain?"), REPLY),
    CaseTurn(UserMessage("And\ntomorrow?"), Reply("No.", (Message("Wait.", "weather"),))),
)


def case(name: str) -> EvalCase:
    return EvalCase(name, TURNS, session=SessionInput("weather", "ada"), final_state={"city": "Paris"})


def saved(folder: Path, name: str, session: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(session))
    return path


def snake(session: dict[str, Any]) -> dict[str, Any]:
    return {
        **session,
        "app_name": session["appName"],
        "user_id": session["userId"],
        "appName": None,
        "userId": None,
    }


@pytest.mark.parametrize(
    ("name", "case_id"), [("ask_twice.session.json", "ask_twice"), ("export.json", "s-1")]
)
@pytest.mark.parametrize("spelling", [dict, snake])
def test_a_session_is_a_case(tmp_path: Path, name: str, case_id: str, spelling: Any) -> None:
    recorded = read_recording(saved(tmp_path, name, spelling(SESSION)), name)
    assert isinstance(recorded, EvalSet)
    assert recorded.cases == (case(case_id),)


@pytest.mark.parametrize("key", ["stateDelta", "state_delta"])
def test_keys_that_no_event_changed_are_the_initial_state(tmp_path: Path, key: str) -> None:
    answer = {**event({"text": "No."}), "actions": {key: {"city": "Paris"}}}
    state = {"city": "Paris", "unit": "metric"}
    recorded = read_recording(
        saved(tmp_path, "x.json", {**SESSION, "state": state, "events": [USER, answer]}), "x"
    )
    assert isinstance(recorded, EvalSet)
    [found] = recorded.cases
    assert (found.session.state, found.final_state) == ({"unit": "metric"}, state)


def test_a_folder_of_sessions(tmp_path: Path) -> None:
    for name in ("b", "a"):
        saved(tmp_path, f"{name}.session.json", SESSION)
    recorded = read_recording(tmp_path, "saved")
    assert isinstance(recorded, EvalSet)
    assert recorded.cases == (case("a"), case("b"))


def test_turn_with_a_model_error_has_no_response(tmp_path: Path) -> None:
    recorded = read_recording(
        saved(tmp_path, "x.json", {**SESSION, "events": [USER, *EVENTS[:2], FAILED]}), "x"
    )
    assert isinstance(recorded, EvalSet)
    (turn,) = recorded.cases[0].turns
    assert turn.expected == Reply(None, REPLY.events)
    assert [type(each) for each in turn.expected.events] == [Message, ToolCall, ToolResult]


def test_open_calls_of_one_tool_without_ids_end_in_their_order(tmp_path: Path) -> None:
    call = {"functionCall": {"name": "look", "args": {}}}
    result = {"functionResponse": {"name": "look", "response": {}}}
    events = [USER, event(call), event(call), event(result, author="look"), event(result, author="look")]
    timed = [{**each, "timestamp": 10.0 + at} for at, each in enumerate(events)]
    path = saved(tmp_path, "x.json", {**SESSION, "events": timed})
    spans = read_session_spans(read_json(path, "x.json"))
    assert [(s.start_s, s.duration_s) for s in spans if s.kind == "tool"] == [(1.0, 2.0), (2.0, 2.0)]


def test_steps_hold_the_rest_of_their_event(tmp_path: Path) -> None:
    rest = {"author": "weather", "id": "e-7", "actions": {"stateDelta": {"city": "Rome"}}, "timestamp": 11.0}
    answered = {**rest, "content": {"parts": [{"text": "Rain."}]}}
    path = saved(tmp_path, "x.json", {**SESSION, "events": [{**USER, "timestamp": 10.0}, answered]})
    (_, step) = read_session_spans(read_json(path, "x.json"))
    assert (step.response, step.attributes) == (answered["content"], {"event": rest})


@pytest.mark.parametrize("time", [10**400, 1e300, None, "1", [], {}])
def test_an_event_with_an_impossible_time_gives_no_steps(tmp_path: Path, time: object) -> None:
    path = saved(tmp_path, "x.json", {**SESSION, "events": [{**USER, "timestamp": time}]})
    assert read_session_spans(read_json(path, "x.json")) == ()


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        ([], "x.json:1:92: holds no message of the user"),
        (EVENTS, "x.json:1:92: holds no message of the user"),
        (3, "x.json:1:1: is no session of Google ADK with its `events`"),
        ([USER, 3], "x.json:1:92: the agent sent an event that is not a JSON object"),
    ],
)
def test_refuses(tmp_path: Path, events: object, problem: str) -> None:
    path = saved(tmp_path, "x.json", {**SESSION, "events": events})
    with pytest.raises(InvalidInputError) as caught:
        read_recording(path, "x.json")
    assert str(caught.value) == problem
