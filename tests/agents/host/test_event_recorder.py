"""Recorded events of frameworks: what a model wrote as arguments of a call, and what a tool returned."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from evalgate.agents.host.frameworks.event_recorder import EventRecorder, parse_tool_output
from evalgate.agents.host.session import Session

DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("args", "recorded"),
    [('{"a": 1}', {"a": 1}), ("", {}), ({"a": 1}, {"a": 1}), ("{broken", None), ("[1]", None), (DEEP, None)],
    ids=["text", "empty", "object", "broken", "list", "deep"],
)
def test_arguments_that_cannot_be_read_are_those_of_a_wrong_call(args: object, recorded: object) -> None:
    events: list[dict[str, Any]] = []
    recorder = SimpleNamespace(report_event=lambda kind, **values: events.append({"kind": kind, **values}))
    EventRecorder(cast("Session", SimpleNamespace(recorder=recorder))).record_call("find", args, "c1")
    assert events == [{"kind": "tool_call", "name": "find", "args": recorded, "id": "c1", "author": None}]


@pytest.mark.parametrize(
    ("content", "result"),
    [('{"a": 1}', {"a": 1}), ("{'a': 1}", {"a": 1}), ("[x", "[x"), (DEEP, DEEP), (5, 5)],
)
def test_results_are_read_from_the_text_that_the_model_got(content: object, result: object) -> None:
    assert parse_tool_output(content) == result
