"""Two results compare only when their cases ask and expect the same."""

from dataclasses import fields, replace
from typing import Any

import pytest

from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    Message,
    Reply,
    Rubric,
    Scenario,
    SessionInput,
    ToolCall,
    ToolRecording,
    ToolResult,
    UserMessage,
)
from evalgate.datasets.fingerprint import compute_case_fingerprint

CALL = ToolCall("f", {"a": 1, "b": [True, {"c": None, "d": 2.5}]}, id="1", author="x")
REPLY = Reply("Done.", (CALL, ToolResult("f", {"ok": True}, id="1"), Message("So…", "x")))
CASE = EvalCase(
    "case",
    (CaseTurn(UserMessage("Hi", ({"inline_data": {"data": "aGk="}},)), REPLY),),
    session=SessionInput("app", "user", {"n": 1}),
    final_state={"n": 2},
    line=3,
)


def with_reply(**changes: Any) -> EvalCase:
    return replace(CASE, turns=(replace(CASE.turns[0], expected=replace(REPLY, **changes)),))


def with_call(**changes: Any) -> EvalCase:
    return with_reply(events=(replace(CALL, **changes), *REPLY.events[1:]))


def test_it_is_stable_across_versions() -> None:
    assert compute_case_fingerprint(CASE) == "fbc67e5e782f7b99"


@pytest.mark.parametrize(
    "case",
    [
        replace(CASE, eval_id="other"),
        replace(CASE, line=99),
        replace(CASE, session=SessionInput("other", "other", {"n": 1})),
        with_call(id="2"),
        replace(CASE, creation_timestamp=1.5, native={"adk": {"x": 1}}),
        replace(CASE, turns=(replace(CASE.turns[0], invocation_id="i", app_details={}, native={"adk": {}}),)),
        with_call(args={"b": [True, {"d": 2.5, "c": None}], "a": 1}),
    ],
)
def test_what_does_not_change_the_question_does_not_change_it(case: EvalCase) -> None:
    assert compute_case_fingerprint(case) == compute_case_fingerprint(CASE)


@pytest.mark.parametrize(
    "case",
    [
        replace(CASE, turns=()),
        replace(CASE, turns=CASE.turns * 2),
        replace(CASE, turns=(replace(CASE.turns[0], user=UserMessage("Hi")),)),
        replace(CASE, session=SessionInput("app", "user", {"n": 2})),
        replace(CASE, final_state=None),
        replace(CASE, scenario=Scenario("Hi", "Chat")),
        replace(CASE, context_messages=({"role": "system", "content": "Hi"},)),
        replace(CASE, rubrics=(Rubric("r", "Is kind."),)),
        replace(CASE, turns=(replace(CASE.turns[0], rubrics=(Rubric("r", "Is kind."),)),)),
        replace(CASE, alternatives=((REPLY,),)),
        replace(CASE, alternatives=((Reply("Done."),),)),
        with_reply(response=None),
        with_reply(events=REPLY.events[::-1]),
        with_reply(events=(*REPLY.events[:2], Message("So…", "x", payload={"title": "Sure?"}))),
        with_reply(events=(*REPLY.events[:2], Message("So…", "x", payload={}))),
        with_call(name="g"),
        with_call(args=None),
        with_call(args={"a": 1}),
    ],
)
def test_what_changes_the_question_changes_it(case: EvalCase) -> None:
    assert compute_case_fingerprint(case) != compute_case_fingerprint(CASE)


def test_payloads_of_widgets_are_compared() -> None:
    first, second = (
        with_reply(events=(Message("Which?", payload={"options": options}),)) for options in ([1], [2])
    )
    assert compute_case_fingerprint(first) != compute_case_fingerprint(second)


def test_text_that_no_file_can_hold_is_no_failure() -> None:
    assert compute_case_fingerprint(with_reply(response="\ud800"))


COUNTS: dict[type, set[str]] = {
    EvalCase: {
        "turns",
        "scenario",
        "session",
        "final_state",
        "journey",
        "context_messages",
        "rubrics",
        "tool_mocks",
        "tool_recording",
        "alternatives",
    },
    CaseTurn: {"user", "expected", "rubrics"},
    UserMessage: {"text", "attachments"},
    Reply: {"response", "events"},
    ToolCall: {"type", "author", "name", "args", "other_args"},
    ToolResult: {"type", "author", "name", "result"},
    Message: {"type", "author", "text", "payload"},
    Rubric: {"rubric_id", "text", "type", "description", "metric", "points"},
    Scenario: {
        "starting_prompt",
        "conversation_plan",
        "user_persona",
        "stop_signal",
        "max_turns",
        "driver",
        "script",
    },
    ToolRecording: {"calls", "live"},
    SessionInput: {"state"},
}
DOES_NOT_COUNT: dict[type, set[str]] = {
    EvalCase: {
        "eval_id",
        "eval_set_id",
        "line",
        "recorded",
        "creation_timestamp",
        "native",
        "tags",
        "status",
        "source",
    },
    CaseTurn: {"app_details", "execution", "invocation_id", "creation_timestamp", "native"},
    ToolCall: {"id"},
    ToolResult: {"id"},
    ToolRecording: {"source", "digest"},
    SessionInput: {"app_name", "user_id", "session_id"},
}


@pytest.mark.parametrize("kind", COUNTS)
def test_every_field_was_thought_of(kind: type) -> None:
    """A new field that changes what is asked must change the fingerprint: decide, then list it here."""
    names = {field.name for field in fields(kind)}
    undecided = names - COUNTS[kind] - DOES_NOT_COUNT.get(kind, set())
    assert not undecided
