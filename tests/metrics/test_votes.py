"""From the judge's opinions to the score of a turn."""

from collections.abc import Sequence

import pytest

from evalgate.integrations.adk.judging.answers import Opinion
from evalgate.integrations.adk.judging.evaluation import voted
from evalgate.llm.client import ModelAnswer
from evalgate.llm.sampling import Sample, Samples


@pytest.mark.parametrize(
    ("opinions", "score", "reason"),
    [
        ([Opinion(1.0, "same")], 1.0, "1 of 1 sample says so: same"),
        ([Opinion(0.0)], 0.0, "1 of 1 sample says so"),
        ([Opinion(1.0, "same"), Opinion(0.0, "other")], 0.0, "1 of 2 samples say so: other"),
        ([Opinion(1.0, "a"), Opinion(0.0, "b"), Opinion(1.0, "c")], 1.0, "2 of 3 samples say so: a"),
    ],
)
def test_the_majority_decides_and_says_why(opinions: Sequence[Opinion], score: float, reason: str) -> None:
    samples = [Sample(number, ModelAnswer("?"), each) for number, each in enumerate(opinions, 1)]
    turn = voted(Samples(tuple(samples))).score

    assert (turn.score, turn.reason) == (score, reason)
