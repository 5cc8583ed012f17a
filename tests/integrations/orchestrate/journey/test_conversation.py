"""A run as one conversation: what a judge of the whole is shown."""

from evalgate.core.types import CaseRun, EvalCase, Message, Reply, ToolCall, ToolResult, UserMessage
from evalgate.integrations.orchestrate.journey.outcome import build_conversation

CALL = ToolCall("find", {"day": 5}, "c1")
FOUND = ToolResult("find", ["x"], "c1")
WIDGET = Message("Sure?", payload={"w": 1})


def test_a_judge_sees_what_was_said_called_answered_and_shown() -> None:
    replies = (Reply("Found.", (Message("Wait.", "a"), CALL, FOUND, WIDGET)), None, Reply(None, (CALL,)))
    run = CaseRun(1, "answered", replies, said=(UserMessage("Find it"), UserMessage("Well?")))

    found = build_conversation(EvalCase("c"), run)

    assert found.transcript.split("\n") == [
        "user: Find it",
        "assistant: Wait.",
        'assistant: {"type": "tool_call", "name": "find", "args": {"day": 5}, "id": "c1"}',
        'assistant: {"type": "tool_response", "content": ["x"], "name": "find", "id": "c1"}',
        "assistant: Sure?",
        "assistant: Found.",
        "user: Well?",
        'assistant: {"type": "tool_call", "name": "find", "args": {"day": 5}, "id": "c1"}',
    ]
    assert (found.texts, found.last_said) == (("Wait.", "Found."), "Found.")


def test_a_widget_is_the_last_thing_that_was_said() -> None:
    run = CaseRun(1, "answered", (Reply(None, (Message("Hi"), WIDGET, FOUND)),))

    assert build_conversation(EvalCase("c"), run).last_said == "Sure?"
