"""Laws of every format of eval sets."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.core.errors import InvalidInputError
from evalgate.core.protocols import EvalFormat
from evalgate.integrations.adk.evalset import AdkFormat
from evalgate.integrations.adk.legacy_evalset import AdkLegacyFormat
from evalgate.integrations.adk_rs.evalset import AdkRsFormat
from evalgate.integrations.orchestrate.evalset import OrchestrateFormat
from evalgate.integrations.trpc.evalset import TrpcFormat
from tests.integrations.reading import read, recognised

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


FORMATS = [AdkFormat(), AdkLegacyFormat(), AdkRsFormat(), OrchestrateFormat(), TrpcFormat()]


@pytest.mark.parametrize("eval_format", FORMATS, ids=lambda kind: type(kind).__name__)
@settings(deadline=None)
@given(content=CONTENT)
def test_any_json_is_read_or_refused_with_a_position(eval_format: EvalFormat, content: Any) -> None:
    assert isinstance(recognised(eval_format, content), bool)
    try:
        eval_set = read(eval_format, content)
    except InvalidInputError as error:
        places = [(problem.line, problem.column) for problem in error.problems]
    else:
        places = [(case.line, 1) for case in eval_set.cases] or [(1, 1)]
    assert places
    assert all(line and column for line, column in places)
