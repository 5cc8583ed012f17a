"""Scoring turn by turn: each expected turn is paired with the agent's, and a missing one scores 0.0."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest

from evalgate.core.formatting import compute_sequential_mean
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    EvalCase,
    MetricResult,
    MetricScore,
    NotApplicable,
    Reply,
    TurnScore,
)

_LARGE = 1 << 16
_WEIGHT_OF_AN_EVENT = 100


async def compute_turn_mean(
    case: EvalCase, run: CaseRun, judge: Callable[[CaseTurn, Reply], TurnScore]
) -> MetricResult:
    """Return the mean of `judge` over all turns; a turn that is missing, or not expected, scores 0.0.

    Not applicable to a case without written turns. `judge` must return a score that is not None. It runs in a
    thread if the texts are large, so that other cases go on: ROUGE-1 takes a second for 1 MB of rare words.
    """
    if not case.turns:
        return NotApplicable("the case has no written turns to compare with")
    if _estimate_size(case, run) > _LARGE:
        return await asyncio.to_thread(_judge_turns, case, run, judge)
    return _judge_turns(case, run, judge)


def _estimate_size(case: EvalCase, run: CaseRun) -> int:
    """Estimate the number of characters that are compared."""
    replies = [turn.expected for turn in case.turns] + [reply for reply in run.replies if reply is not None]
    return sum(len(each.response or "") + len(each.events) * _WEIGHT_OF_AN_EVENT for each in replies)


def _judge_turns(case: EvalCase, run: CaseRun, judge: Callable[[CaseTurn, Reply], TurnScore]) -> MetricScore:
    turns = tuple(_judge_turn(turn, reply, judge) for turn, reply in zip_longest(case.turns, run.replies))
    return MetricScore(
        compute_sequential_mean([turn.score or 0.0 for turn in turns]), turns, _find_first_reason(turns)
    )


async def compute_turn_mean_all_pass(
    case: EvalCase, run: CaseRun, judge: Callable[[CaseTurn, Reply], TurnScore]
) -> MetricResult:
    """Return the mean as `compute_turn_mean` does; the case passes if every turn passes, at any mean.

    `judge` decides for each turn whether it passed. A turn that is missing, or not expected, fails.
    """
    result = await compute_turn_mean(case, run, judge)
    if not isinstance(result, MetricScore):
        return result
    turns = tuple(replace(turn, passed=bool(turn.passed)) for turn in result.turns)
    return replace(result, turns=turns, passed=all(turn.passed for turn in turns))


def _judge_turn(
    turn: CaseTurn | None, reply: Reply | None, judge: Callable[[CaseTurn, Reply], TurnScore]
) -> TurnScore:
    if turn is None:
        return TurnScore(0.0, "the case does not ask for this turn")
    if reply is None:
        return TurnScore(0.0, "the agent gave no reply to this turn")
    return judge(turn, reply)


def _find_first_reason(turns: tuple[TurnScore, ...]) -> str:
    for number, turn in enumerate(turns, start=1):
        if turn.reason:
            return f"turn {number}: {turn.reason}" if len(turns) > 1 else turn.reason
    return ""
