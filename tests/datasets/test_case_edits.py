"""Changed calls of an expected reply, with the results and messages around them."""

from dataclasses import replace

import pytest

from evalgate.core.types import Event, Message, Reply, ToolCall, ToolResult
from evalgate.datasets.case_edits import set_calls

FIRST, SECOND = ToolCall("look", {"at": 1}), ToolCall("look", {"at": 2})
ONE, TWO = ToolResult("look", 1), ToolResult("look", 2)
STRAY, TEXT = ToolResult("stray", 0), Message("Wait.")
REPLY = Reply("Done.", (FIRST, TEXT, ONE, SECOND, STRAY, TWO))
ADDED = ToolCall("mail", {})
EDITED = replace(FIRST, args={"at": 3})
RENAMED = replace(SECOND, name="find")


@pytest.mark.parametrize(
    ("calls", "sources", "events"),
    [
        ([FIRST, SECOND], [0, 1], REPLY.events),
        ([FIRST, RENAMED], [0, 1], (FIRST, TEXT, ONE, RENAMED, STRAY, ToolResult("find", 2))),
        ([EDITED], [0], (EDITED, TEXT, ONE, STRAY)),
        ([SECOND], [1], (SECOND, TEXT, STRAY, TWO)),
        ([SECOND, FIRST], [1, 0], (SECOND, TEXT, ONE, FIRST, STRAY, TWO)),
        ([FIRST, SECOND, ADDED], [0, 1, None], (FIRST, TEXT, ONE, SECOND, ADDED, STRAY, TWO)),
        ([ADDED, SECOND], [None, 1], (ADDED, TEXT, SECOND, STRAY, TWO)),
        ([], [], (TEXT, STRAY)),
    ],
    ids=["same", "renamed", "edited and removed", "removed", "moved", "added", "replaced", "none"],
)
def test_results_follow_their_calls(
    calls: list[ToolCall], sources: list[int | None], events: tuple[Event, ...]
) -> None:
    assert set_calls(REPLY, calls, sources) == Reply("Done.", events)


def test_result_with_a_name_of_its_own_keeps_it() -> None:
    call, result = ToolCall("look", {}, "c1"), ToolResult("look_v2", 1, "c1")
    edited = replace(call, args={"at": 1})
    assert set_calls(Reply("", (call, result)), [edited], [0]).events == (edited, result)
