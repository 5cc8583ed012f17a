"""Twins are found by what they are, however many cases look alike at first sight."""

from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.core.types import CaseTurn, EvalCase, Reply, ToolCall, UserMessage
from evalgate.datasets.lints.cases import DuplicateLint
from evalgate.documents.json_edits import is_same_json
from tests.datasets.lints.looking import said_by

VALUES = st.sampled_from([1, 1.0, True, 0, "1", None, [1], [1.0], {"a": 1, "b": 2}, {"b": 2, "a": True}, {}])


@settings(deadline=None)
@given(st.lists(VALUES, max_size=12))
def test_a_case_is_the_twin_of_the_first_that_is_equal(values: list[object]) -> None:
    cases = [
        EvalCase(
            f"case {number}", (CaseTurn(UserMessage("hi"), Reply(None, (ToolCall("f", {"x": value}),))),)
        )
        for number, value in enumerate(values)
    ]
    found = dict(said_by(DuplicateLint(), *cases, metrics={}))
    firsts = [next(at for at, first in enumerate(values) if is_same_json(first, value)) for value in values]
    assert found == {
        f"case {number}": f"asks and expects the same as the case `case {first}`"
        for number, first in enumerate(firsts)
        if first < number
    }
