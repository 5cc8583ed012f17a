"""From the judge's opinions to the score of a turn."""

from collections.abc import Sequence

import pytest

from evalgate.integrations.adk.judging.answers import JudgeOpinion
from evalgate.integrations.adk.judging.judged_metric import score_by_vote
from evalgate.llm.client import ModelAnswer
from evalgate.llm.sampling import Sample, Samples


@pytest.mark.parametrize(
    ("opinions", "score", "reason"),
    [
        ([JudgeOpinion(1.0, "same")], 1.0, "1 of 1 sample says so: same"),
        ([JudgeOpinion(0.0)], 0.0, "1 of 1 sample says so"),
        ([JudgeOpinion(1.0, "same"), JudgeOpinion(0.0, "other")], 0.0, "1 of 2 samples say so: other"),
        (
            [JudgeOpinion(1.0, "a"), JudgeOpinion(0.0, "b"), JudgeOpinion(1.0, "c")],
            1.0,
            "2 of 3 samples say so: a",
        ),
    ],
)
def test_the_majority_decides_and_says_why(
    opinions: Sequence[JudgeOpinion], score: float, reason: str
) -> None:
    samples = [Sample(number, ModelAnswer("?"), each) for number, each in enumerate(opinions, 1)]
    turn = score_by_vote(Samples(tuple(samples))).score

    assert (turn.score, turn.reason) == (score, reason)
