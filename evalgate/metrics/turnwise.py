"""Pairs of a run's turns with its case's turns, and scoring turn by turn; a missing turn scores 0.0."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest

from evalgate.core.frozen import frozen
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    EvalCase,
    JsonObject,
    MetricResult,
    MetricScore,
    NotApplicable,
    Reply,
    TurnScore,
)

NOT_ASKED_FOR = "the case does not ask for this turn"
NO_REPLY = "the agent gave no reply to this turn"


@frozen
class Exchange:
    """One turn of a run, paired with the case's turn of the same number; one of the two may be missing."""

    number: int
    """1-based."""
    user: str
    """The message that was sent, else the case's message."""
    turn: CaseTurn | None
    """None if the case does not ask for the turn, or has no written turns."""
    reply: Reply | None
    """None if the run lacks this turn."""
    is_asked_for: bool = True
    context: tuple[JsonObject, ...] = ()
    """Messages before the conversation."""

    @property
    def response(self) -> str:
        """Return the final response, or "" if there is none."""
        return (self.reply.response if self.reply else None) or ""

    @property
    def reference(self) -> str | None:
        """Return the expected final response, or None if there is none."""
        return self.turn.expected.response if self.turn else None


def build_exchanges(case: EvalCase, run: CaseRun) -> tuple[Exchange, ...]:
    """Return every turn of the run, then the turns of the case that the run lacks."""
    found = []
    for index, (turn, reply) in enumerate(zip_longest(case.turns, run.replies)):
        # The message that was sent, because a recording may ask otherwise than its case.
        user = run.said[index].text if index < len(run.said) else turn.user.text if turn else ""
        is_asked_for = turn is not None or not case.turns
        found.append(Exchange(index + 1, user, turn, reply, is_asked_for, case.context_messages))
    return tuple(found)


_LARGE = 1 << 16
_WEIGHT_OF_AN_EVENT = 100


async def compute_turn_mean(
    case: EvalCase, run: CaseRun, judge: Callable[[CaseTurn, Reply], TurnScore]
) -> MetricResult:
    """Return the mean of `judge` over all turns; a turn that is missing, or not expected, scores 0.0.

    Return `NotApplicable` for a case without written turns. The score that `judge` returns must not be None.
    `judge` runs in a thread for large texts, so that other cases go on: ROUGE-1 takes a second for 1 MB of
    rare words.
    """
    if not case.turns:
        return NotApplicable("the case has no written turns to compare with")
    if _estimate_size(case, run) > _LARGE:
        return await asyncio.to_thread(_judge_turns, case, run, judge)
    return _judge_turns(case, run, judge)


def _estimate_size(case: EvalCase, run: CaseRun) -> int:
    """Estimate the number of characters that are compared."""
    size = 0
    for reply in (*[turn.expected for turn in case.turns], *run.replies):
        if reply is not None:
            size += len(reply.response or "") + len(reply.events) * _WEIGHT_OF_AN_EVENT
    return size


def _judge_turns(case: EvalCase, run: CaseRun, judge: Callable[[CaseTurn, Reply], TurnScore]) -> MetricScore:
    turns: list[TurnScore] = []
    total = 0.0
    for turn, reply in zip_longest(case.turns, run.replies):
        if turn is None:
            score = TurnScore(0.0, NOT_ASKED_FOR)
        elif reply is None:
            score = TurnScore(0.0, NO_REPLY)
        else:
            score = judge(turn, reply)
        turns.append(score)
        total += score.score or 0.0  # one after the other, because engines do: the last bit can decide
    return MetricScore(total / len(turns), tuple(turns), _find_first_reason(turns))


async def compute_turn_mean_all_pass(
    case: EvalCase, run: CaseRun, judge: Callable[[CaseTurn, Reply], TurnScore]
) -> MetricResult:
    """Return the mean of `compute_turn_mean`; the case passes if every turn passes, at any mean.

    `judge` decides for each turn whether it passed. A turn that is missing, or not expected, fails.
    """
    result = await compute_turn_mean(case, run, judge)
    if not isinstance(result, MetricScore):
        return result
    turns = tuple(replace(turn, passed=bool(turn.passed)) for turn in result.turns)
    return replace(result, turns=turns, passed=all(turn.passed for turn in turns))


def _find_first_reason(turns: Sequence[TurnScore]) -> str:
    for number, turn in enumerate(turns, start=1):
        if turn.reason:
            return f"turn {number}: {turn.reason}" if len(turns) > 1 else turn.reason
    return ""
