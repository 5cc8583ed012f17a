"""Where a turn went another way than it should."""

from collections.abc import Sequence

import pytest

from evalgate.core.types import TurnResult
from evalgate.reporting.diff import describe_odd_turn
from tests.builders import a_reply

ASKED = TurnResult("hi", a_reply("hello"), a_reply("hello"))
UNANSWERED = TurnResult("hi", a_reply("hello"), None)
UNASKED = TurnResult("hi", None, a_reply("hello"))
PLAYED_IN_VAIN = TurnResult("crash, please", None, None)


@pytest.mark.parametrize(
    ("turns", "number", "sentences"),
    [
        ((), 0, []),
        ((ASKED,), 1, []),
        ((ASKED, UNANSWERED), 2, ["turn 2 has no answer"]),
        ((ASKED, UNASKED), 2, ["turn 2 was not asked for: the case ends before it"]),
        ((UNASKED, UNASKED), 1, []),
        ((UNASKED, PLAYED_IN_VAIN), 2, ["turn 2 has no answer"]),
    ],
)
def test_a_turn_that_only_one_side_has(
    turns: Sequence[TurnResult], number: int, sentences: list[str]
) -> None:
    assert list(describe_odd_turn(turns, number)) == sentences
