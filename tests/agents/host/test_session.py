"""Mocks of tools: the choice of the mock for a call."""

import pytest

from evalgate.agents.host.errors import NoMatchingMockError
from evalgate.agents.host.mocked_tools import Mocks


@pytest.mark.parametrize(
    ("mock", "args", "answers"),
    [
        ({}, {}, True),
        ({"args": {}}, {"a": 1}, True),
        ({"args": {}, "exact": True}, {"a": 1}, False),
        ({"args": {"a": 1}}, {"a": 1.0, "b": 2}, True),
        ({"args": {"a": 1}, "exact": True}, {"a": 1, "b": 2}, False),
        ({"args": {"a": 1}}, {"a": True}, False),
        ({"args": {"a": None}}, {}, False),
        ({"args": {"a": [{"b": 0}]}}, {"a": [{"b": False}]}, False),
        ({"args": {"a": [{"b": 0}]}}, {"a": [{"b": 0}]}, True),
        ({"args": {"a": [1]}}, {"a": [1, 2]}, False),
    ],
)
def test_mock_returns_the_result_for_matching_arguments(
    mock: dict[str, object], args: dict[str, object], answers: bool
) -> None:
    mocks = Mocks([{"name": "f", "result": "fixed", **mock}])
    if answers:
        assert mocks.require_result("f", args) == "fixed"
        assert mocks.missing is None
    else:
        with pytest.raises(NoMatchingMockError, match="`f` is mocked"):
            mocks.require_result("f", args)
        assert mocks.missing is not None


def test_mock_of_one_turn_does_not_apply_to_others() -> None:
    mocks = Mocks([{"name": "f", "result": 1, "turn": 1}])
    seen = []
    for _ in range(3):
        mocks.begin_turn()
        seen.append(mocks.is_mocked("f"))

    assert seen == [False, True, False]
    assert mocks.is_ever_mocked("f")
    assert not mocks.is_ever_mocked("g")
