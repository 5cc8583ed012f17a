"""Every expected turn is compared with the agent's, and none is lost between them."""

import threading

import pytest

from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    EvalCase,
    MetricScore,
    NotApplicable,
    Reply,
    Scenario,
    TurnScore,
)
from evalgate.metrics.turnwise import compute_turn_mean
from tests.builders import a_case, a_reply, a_turn


def by_response(turn: CaseTurn, reply: Reply) -> TurnScore:
    """A judge that scores a turn by what the agent says."""
    return TurnScore(float(reply.response or "0"), reason="" if reply.response == "1" else "said less")


def a_run(*responses: str | None) -> CaseRun:
    return CaseRun(1, "answered", tuple(None if text is None else a_reply(text) for text in responses))


@pytest.mark.parametrize(
    ("asked", "run", "scores", "score", "reason"),
    [
        (1, a_run("1"), [1.0], 1.0, ""),
        (1, a_run("0.5"), [0.5], 0.5, "said less"),
        (2, a_run("1", "0.5"), [1.0, 0.5], 0.75, "turn 2: said less"),
        (2, a_run("1"), [1.0, 0.0], 0.5, "turn 2: the agent gave no reply to this turn"),
        (2, a_run(None, "1"), [0.0, 1.0], 0.5, "turn 1: the agent gave no reply to this turn"),
        (1, a_run("1", "1"), [1.0, 0.0], 0.5, "turn 2: the case does not ask for this turn"),
        (1, a_run(), [0.0], 0.0, "the agent gave no reply to this turn"),
        (3, a_run("0.7", "0.7", "0.7"), [0.7] * 3, 0.6999999999999998, "turn 1: said less"),
    ],
)
async def test_missing_and_unasked_turns_fail(
    asked: int, run: CaseRun, scores: list[float], score: float, reason: str
) -> None:
    result = await compute_turn_mean(a_case("c", *[a_turn()] * asked), run, by_response)

    assert isinstance(result, MetricScore)
    assert [turn.score for turn in result.turns] == scores
    assert (result.score, result.reason) == (score, reason)


@pytest.mark.parametrize("case", [EvalCase("c"), EvalCase("c", scenario=Scenario("Hi", "Chat"))])
async def test_a_case_without_written_turns_is_not_judged(case: EvalCase) -> None:
    result = await compute_turn_mean(case, a_run("1"), by_response)

    assert result == NotApplicable("the case has no written turns to compare with")


@pytest.mark.parametrize(("size", "elsewhere"), [(100, False), (100_000, True)])
async def test_large_answers_are_judged_in_a_thread(size: int, elsewhere: bool) -> None:
    threads = []

    def judge(turn: CaseTurn, reply: Reply) -> TurnScore:
        threads.append(threading.get_ident())
        return TurnScore(1.0)

    assert await compute_turn_mean(a_case("c", a_turn()), a_run("x" * size), judge) == MetricScore(
        1.0, (TurnScore(1.0),)
    )
    assert [each != threading.get_ident() for each in threads] == [elsewhere]
