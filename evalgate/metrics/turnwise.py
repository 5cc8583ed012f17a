"""Scoring turn by turn: every expected turn meets the agent's, and none is lost between them."""

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
    """Return the mean of `judge` over all turns; a turn that is left out, or not asked for, scores 0.0.

    Not applicable to a case without written turns. `judge` must give a score, not None. It is called in a
    thread if the answers are large, so that other cases go on: ROUGE-1 takes a second for 1 MB of rare words.
    """
    if not case.turns:
        return NotApplicable("the case has no written turns to compare with")
    if _estimate_size(case, run) > _LARGE:
        return await asyncio.to_thread(_judge_turns, case, run, judge)
    return _judge_turns(case, run, judge)


def _estimate_size(case: EvalCase, run: CaseRun) -> int:
    """Return about how many characters are compared."""
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
    """As `compute_turn_mean`, and passed exactly when every turn passed, whatever the mean is.

    `judge` says of each turn whether it passed. A turn that is missing or unasked fails at any threshold.
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
