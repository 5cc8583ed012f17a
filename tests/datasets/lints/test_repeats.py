"""Twins are found by what they are, however many cases look alike at first sight."""

from hypothesis import given, settings
from hypothesis import strategies as st

from evalgate.core.types import CaseTurn, EvalCase, Reply, ToolCall, UserMessage
from evalgate.datasets.lints.cases import DuplicateLint
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
    assert found == {
        f"case {number}": f"asks and expects the same as the case `case {values.index(value)}`"
        for number, value in enumerate(values)
        if values.index(value) < number
    }
