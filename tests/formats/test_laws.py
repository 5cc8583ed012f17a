"""What every format of eval sets keeps to."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalgate.errors import InvalidInput
from evalgate.formats.adk import AdkEvalSet
from evalgate.formats.adk_legacy import AdkLegacy
from evalgate.protocols import EvalFormat
from evalgate.reading.jsontext import parse_json

KEYS = st.sampled_from(
    [
        *("eval_set_id", "evalCases", "eval_cases", "eval_id", "conversation", "conversation_scenario"),
        *("user_content", "finalResponse", "intermediate_data", "parts", "text", "tool_uses", "name", "args"),
        *("invocation_events", "content", "author", "function_call", "session_input", "state"),
        *("query", "reference", "data", "expected_tool_use", "tool_name", "initial_session"),
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(["", "a", "\n"])
CONTENT = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=30,
)


@pytest.mark.parametrize("eval_format", [AdkEvalSet(), AdkLegacy()], ids=lambda kind: type(kind).__name__)
@given(content=CONTENT)
def test_any_json_is_read_or_refused_at_a_place(eval_format: EvalFormat, content: Any) -> None:
    document = parse_json(json.dumps(content).encode(), "f.json")

    assert isinstance(eval_format.recognises(document), bool)
    try:
        eval_set = eval_format.read(document)
    except InvalidInput as error:
        places = [(problem.line, problem.column) for problem in error.problems]
    else:
        places = [(case.line, 1) for case in eval_set.cases] or [(1, 1)]
    assert places
    assert all(line and column for line, column in places)
