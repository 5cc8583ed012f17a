"""A run as one conversation: the transcript that a judge gets."""

from evalgate.core.types import CaseRun, EvalCase, Message, Reply, ToolCall, ToolResult, UserMessage
from evalgate.integrations.orchestrate.journey.outcome import build_conversation

CALL = ToolCall("find", {"day": 5}, "c1")
FOUND = ToolResult("find", ["x"], "c1")
WIDGET = Message("Sure?", payload={"w": 1})


def test_the_transcript_holds_messages_calls_answers_and_widgets() -> None:
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


def test_the_last_text_may_be_of_a_widget() -> None:
    run = CaseRun(1, "answered", (Reply(None, (Message("Hi"), WIDGET, FOUND)),))

    assert build_conversation(EvalCase("c"), run).last_said == "Sure?"
