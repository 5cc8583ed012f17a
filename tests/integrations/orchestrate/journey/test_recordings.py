"""Recorded conversations: a folder of messages stands in for the agent."""

import json
from pathlib import Path
from typing import Any

import pytest

from evalgate.agents.replay import extract_eval_set_recordings
from evalgate.core.errors import InvalidInputError
from evalgate.core.types import CaseTurn, Message, Reply, ToolCall, ToolResult, UserMessage
from evalgate.documents.strict_json import parse_json
from evalgate.integrations.orchestrate.recordings import read_conversation, read_conversations

USER = {"role": "user", "type": "text", "content": "go"}
TALK = [USER, {"role": "assistant", "content": "done"}]
CALL = {"type": "tool_call", "name": "f", "args": {"x": 1}, "id": "i"}
RESULT = {"type": "tool_response", "name": "f", "content": "ok", "tool_call_id": "i"}


def turns(*messages: Any) -> tuple[CaseTurn, ...]:
    return read_conversation(parse_json(json.dumps(messages).encode(), "c.messages.json"))


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ({"role": "assistant", **CALL}, {"role": "assistant", "type": "tool_response", "name": "f", "content": "ok", "id": "i"}),
        (
            {"role": "assistant", "type": "tool_call", "content": json.dumps(CALL)},
            {"role": "assistant", "type": "tool_response", "content": json.dumps(RESULT)},
        ),
        (
            {"role": "assistant", "type": "tool_call", "content": "x", "tool_calls": [{"id": "i", "function": {"name": "f", "arguments": '{"x": 1}'}}]},
            {"role": "tool", "type": "tool_response", "content": json.dumps(RESULT), "tool_call_id": "i"},
        ),
    ],
)  # fmt: skip
def test_every_shape_of_a_call_is_read(call: Any, result: Any) -> None:
    said = {"role": "assistant", "type": "text", "content": "done"}

    assert turns(USER, call, result, said) == (
        CaseTurn(
            UserMessage("go"), Reply("done", (ToolCall("f", {"x": 1}, "i"), ToolResult("f", "ok", "i")))
        ),
    )


@pytest.mark.parametrize("arguments", ["{bad", "[1]", "", None, 7])
def test_arguments_that_are_no_object_are_empty(arguments: Any) -> None:
    call = {"type": "tool_call", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}

    (turn,) = turns(USER, {"role": "assistant", **call})

    assert turn.expected.tool_calls == (ToolCall("f", {}),)


def test_each_user_message_starts_a_turn() -> None:
    hello = {"role": "assistant", "content": "hello"}
    widget = {
        "role": "assistant",
        "type": "interaction",
        "content": "Sure?",
        "interaction": {"payload": {"k": 1}},
    }

    assert turns(hello, USER, hello, hello, widget, USER) == (
        CaseTurn(UserMessage(""), Reply("hello")),
        CaseTurn(UserMessage("go"), Reply("hello", (Message("hello"), Message("Sure?", payload={"k": 1})))),
        CaseTurn(UserMessage("go")),
    )


def test_an_invalid_message_is_reported_with_its_position() -> None:
    with pytest.raises(InvalidInputError, match=r"c\.messages\.json:1:2: `\[0\]\.role` is missing"):
        turns({"content": "x"})


@pytest.mark.parametrize("subfolder", ["", "messages"])
def test_a_folder_holds_every_run_of_every_case(tmp_path: Path, subfolder: str) -> None:
    folder = tmp_path / subfolder
    folder.mkdir(exist_ok=True)
    for name in ("a", "b.run10", "b.run2"):
        content = [USER, {"role": "assistant", "content": name}]
        (folder / f"{name}.messages.json").write_text(json.dumps(content))
    (folder / "a.metrics.json").write_text("NaN")

    recordings = extract_eval_set_recordings(read_conversations(tmp_path, "out"))

    said = {case: [run.replies[0] for run in runs] for (_, case), runs in recordings.items()}
    assert said == {"a": [Reply("a")], "b": [Reply("b.run2"), Reply("b.run10")]}


def test_one_file_holds_one_case(tmp_path: Path) -> None:
    path = tmp_path / "a.messages.json"
    path.write_text(json.dumps(TALK))

    assert [case.eval_id for case in read_conversations(path, "a.messages.json").cases] == ["a"]


def test_a_folder_without_conversations_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"out: there is no \*\.messages\.json in this folder"):
        read_conversations(tmp_path, "out")


def test_every_problem_of_every_file_is_reported(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.messages.json").write_text("{}")

    with pytest.raises(InvalidInputError) as caught:
        read_conversations(tmp_path, "out")

    assert [problem.file for problem in caught.value.problems] == [
        "out/a.messages.json",
        "out/b.messages.json",
    ]
