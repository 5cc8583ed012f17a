"""What the exceptions that end a command say."""

import pytest

from evalgate.core.errors import InvalidInputError, Problem


@pytest.mark.parametrize(
    ("problems", "lines", "last"),
    [
        (1, 1, "f:1:1: wrong"),
        (100, 100, "f:100:1: wrong"),
        (101, 101, "… and 1 more"),
        (200_000, 101, "… and 199,900 more"),
    ],
)
def test_no_more_than_a_hundred_problems_are_listed(problems: int, lines: int, last: str) -> None:
    error = InvalidInputError(Problem("f", line, 1, "wrong") for line in range(1, problems + 1))
    assert len(error.problems) == problems
    told = str(error).split("\n")
    assert (len(told), told[-1]) == (lines, last)
