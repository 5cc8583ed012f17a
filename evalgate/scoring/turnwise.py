"""Scoring turn by turn: every expected turn meets the agent's, and none is lost between them."""

from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest

from evalgate.model import CaseRun, EvalCase, MetricResult, NotApplicable, Reply, Scored, Turn, TurnScore
from evalgate.numbers import mean_as_added


def mean_over_turns(case: EvalCase, run: CaseRun, judge: Callable[[Turn, Reply], TurnScore]) -> MetricResult:
    """The mean of `judge` over all turns. A turn that the agent left out, or nobody asked for, scores 0.0.

    Not applicable to a case without written turns. `judge` must give a score, not None.
    """
    if not case.turns:
        return NotApplicable("the case has no written turns to compare with")
    turns = tuple(_judged(turn, reply, judge) for turn, reply in zip_longest(case.turns, run.replies))
    return Scored(mean_as_added([turn.score or 0.0 for turn in turns]), turns, _first_reason(turns))


def mean_if_every_turn_passes(
    case: EvalCase, run: CaseRun, judge: Callable[[Turn, Reply], TurnScore]
) -> MetricResult:
    """As `mean_over_turns`, and passed exactly when every turn passed, whatever the mean is.

    `judge` says of each turn whether it passed. A turn that is missing or unasked fails at any threshold.
    """
    result = mean_over_turns(case, run, judge)
    if not isinstance(result, Scored):
        return result
    turns = tuple(replace(turn, passed=bool(turn.passed)) for turn in result.turns)
    return replace(result, turns=turns, passed=all(turn.passed for turn in turns))


def _judged(turn: Turn | None, reply: Reply | None, judge: Callable[[Turn, Reply], TurnScore]) -> TurnScore:
    if turn is None:
        return TurnScore(0.0, "the case does not ask for this turn")
    if reply is None:
        return TurnScore(0.0, "the agent gave no reply to this turn")
    return judge(turn, reply)


def _first_reason(turns: tuple[TurnScore, ...]) -> str:
    for number, turn in enumerate(turns, start=1):
        if turn.reason:
            return f"turn {number}: {turn.reason}" if len(turns) > 1 else turn.reason
    return ""
