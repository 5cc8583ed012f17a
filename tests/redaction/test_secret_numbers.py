"""Secrets that are numbers in JSON are hidden as well as texts."""

from typing import Any

import pytest

from evalgate.core.types import Reply, ToolCall, ToolResult, Usage
from evalgate.redaction.redactor import Redactor

SECRET = 98765432101234
REDACTOR = Redactor((str(SECRET), "1234"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ToolCall("pay", {"id": SECRET, "times": 3}), ToolCall("pay", {"id": "***", "times": 3})),
        (ToolCall("pay", {"ids": [1, SECRET, [SECRET]]}), ToolCall("pay", {"ids": [1, "***", ["***"]]})),
        (
            Reply(None, (ToolResult("find", {"account": {"number": SECRET}}),)),
            Reply(None, (ToolResult("find", {"account": {"number": "***"}}),)),
        ),
        ({"id": SECRET, "note": f"paid by {SECRET}"}, {"id": "***", "note": "paid by ***"}),
        ({"id": True, "few": 1234, "near": SECRET + 1}, {"id": True, "few": 1234, "near": SECRET + 1}),
        (Usage(SECRET, 1, None), Usage(SECRET, 1, None)),
        ([SECRET], [SECRET]),
        ({"huge": 10**5000}, {"huge": 10**5000}),
    ],
)
def test_a_number_that_is_a_secret_is_hidden_in_json(value: Any, expected: Any) -> None:
    assert REDACTOR.redact_tree(value) == expected


def test_a_tree_without_the_number_is_the_same_object() -> None:
    call = ToolCall("pay", {"id": 1, "at": [2.5, None, {"n": 3}]})
    assert REDACTOR.redact_tree(call) is call
