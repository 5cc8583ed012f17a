"""A judge is compared with people's labels."""

import pytest

from evalgate.llm.judge_calibration import CalibrationAnswer, evaluate_calibration


@pytest.mark.parametrize(
    ("anchor", "is_met"),
    [
        (CalibrationAnswer("a", label=True, judged=1.0), True),
        (CalibrationAnswer("a", label=True, judged=0.5), True),
        (CalibrationAnswer("a", label=True, judged=0.49), False),
        (CalibrationAnswer("a", label=False, judged=0.49), True),
        (CalibrationAnswer("a", label=False, judged=1.0), False),
        (CalibrationAnswer("a", label=False, judged=None), False),
        (CalibrationAnswer("a", label=True, judged=0.7, threshold=0.8), False),
        (CalibrationAnswer("a", label=0.8, judged=0.7), True),
        (CalibrationAnswer("a", label=0.8, judged=0.69), False),
        (CalibrationAnswer("a", label=0.0, judged=None), False),
        (CalibrationAnswer("a", label=1.0, judged=0.5, tolerance=0.5), True),
    ],
)
def test_an_anchor_is_met(anchor: CalibrationAnswer, is_met: bool) -> None:
    assert anchor.is_met is is_met


def anchors(met: int, missed: int, silent: int = 0) -> list[CalibrationAnswer]:
    return [
        *(CalibrationAnswer(f"met {number}", label=True, judged=1.0) for number in range(met)),
        *(CalibrationAnswer(f"missed {number}", label=True, judged=0.0) for number in range(missed)),
        *(
            CalibrationAnswer(f"silent {number}", label=False, judged=None, failure=f"no answer {number}.")
            for number in range(silent)
        ),
    ]


@pytest.mark.parametrize(
    ("given", "floor", "is_reliable", "sentence"),
    [
        (anchors(7, 3), 0.8, False, "the judge is unreliable: 7 of 10 anchors, fewer than the 80% that are asked for"),
        (anchors(7, 3), 0.7, True, "the judge agrees with people on 7 of 10 anchors"),
        (anchors(9, 0, 1), 0.9, True, "the judge agrees with people on 9 of 10 anchors"),
        (anchors(0, 1), 0.5, False, "the judge is unreliable: 0 of 1 anchor, fewer than the 50% that are asked for"),
        ([], 1.0, True, "the judge was compared with no anchors"),
    ],
)  # fmt: skip
def test_the_verdict_on_a_judge(
    given: list[CalibrationAnswer], floor: float, is_reliable: bool, sentence: str
) -> None:
    verdict = evaluate_calibration(given, floor)

    assert verdict.is_reliable is is_reliable
    assert verdict.sentence == sentence


@pytest.mark.parametrize(
    ("given", "sentences"),
    [
        (anchors(2, 0), ""),
        (anchors(1, 2), "Missed: missed 0, missed 1."),
        (
            anchors(1, 1, 2),
            (
                "Missed: missed 0, silent 0, silent 1. The judge gave no score to 2 of these. The first reason: "
                "no answer 0."
            ),
        ),
    ],
)
def test_the_anchors_that_were_missed_are_named(given: list[CalibrationAnswer], sentences: str) -> None:
    assert evaluate_calibration(given, 1.0).shortfall == sentences
