"""Pair the turns of a run with the turns of its case, and score turn by turn; a missing turn scores 0.0."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import zip_longest

from evalgate.core.frozen import frozen
from evalgate.core.means import compute_sequential_mean
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
    """Turn of a run, with the case's turn of the same number; one of the two may be missing."""

    number: int
    """1-based number of the turn."""
    user: str
    """The user's message that was sent, or the case's message if the run lacks the turn."""
    turn: CaseTurn | None
    """The case's turn. None if the case has fewer turns, or has no written turns."""
    reply: Reply | None
    """The agent's reply. None if the run lacks the turn, or the agent gave no reply to the turn."""
    is_asked_for: bool = True
    """False if the case has written turns, but none with this number; True without any written turns."""
    context: tuple[JsonObject, ...] = ()
    """Messages of the case that come before the conversation."""

    @property
    def response(self) -> str:
        """Return the actual final response, or "" if there is none."""
        return (self.reply.response if self.reply else None) or ""

    @property
    def reference(self) -> str | None:
        """Return the expected final response, or None if there is none."""
        return self.turn.expected.response if self.turn else None


def build_exchanges(case: EvalCase, run: CaseRun) -> tuple[Exchange, ...]:
    """Pair the turns of the run and of the case by number, and return an `Exchange` for each number."""
    found = []
    for index, (turn, reply) in enumerate(zip_longest(case.turns, run.replies)):
        # The message that was sent comes first, because a recording may have other messages than its case.
        user = run.said[index].text if index < len(run.said) else turn.user.text if turn else ""
        is_asked_for = turn is not None or not case.turns
        found.append(Exchange(index + 1, user, turn, reply, is_asked_for, case.context_messages))
    return tuple(found)


_LARGE = 1 << 16
_WEIGHT_OF_AN_EVENT = 100


async def compute_turn_mean(
    case: EvalCase,
    run: CaseRun,
    score_turn: Callable[[CaseTurn, Reply], TurnScore],
    *,
    mean: Callable[[Sequence[float]], float] = compute_sequential_mean,
) -> MetricResult:
    """Score each turn with `score_turn`, and return the mean with the scores of the turns.

    A turn without a reply, and a turn that the case does not have, score 0.0. A score of None from
    `score_turn` counts as 0.0. Return `NotApplicable` for a case without written turns. For large texts
    `score_turn` runs in a thread, so that other cases go on: ROUGE-1 takes a second for 1 MB of rare words.

    By default, `mean` adds the scores one after the other, as the frameworks do, because the last bit may
    decide at a threshold.
    """
    if not case.turns:
        return NotApplicable("the case has no written turns to compare with")
    if _estimate_size(case, run) > _LARGE:
        return await asyncio.to_thread(_score_turns, case, run, score_turn, mean)
    return _score_turns(case, run, score_turn, mean)


def _estimate_size(case: EvalCase, run: CaseRun) -> int:
    """Estimate the number of characters of all replies, expected and actual.

    Each event of a reply, such as a tool call, counts as 100 characters.
    """
    size = 0
    for reply in (*[turn.expected for turn in case.turns], *run.replies):
        if reply is not None:
            size += len(reply.response or "") + len(reply.events) * _WEIGHT_OF_AN_EVENT
    return size


def _score_turns(
    case: EvalCase,
    run: CaseRun,
    score_turn: Callable[[CaseTurn, Reply], TurnScore],
    mean: Callable[[Sequence[float]], float],
) -> MetricScore:
    turns: list[TurnScore] = []
    # `build_exchanges` is not used, because its objects would double the time of this loop.
    for turn, reply in zip_longest(case.turns, run.replies):
        if turn is None:
            score = TurnScore(0.0, NOT_ASKED_FOR)
        elif reply is None:
            score = TurnScore(0.0, NO_REPLY)
        else:
            score = score_turn(turn, reply)
        turns.append(score)
    return MetricScore(mean([turn.score or 0.0 for turn in turns]), tuple(turns), _find_first_reason(turns))


async def compute_turn_mean_all_pass(
    case: EvalCase, run: CaseRun, score_turn: Callable[[CaseTurn, Reply], TurnScore]
) -> MetricResult:
    """Return the mean of the turns' scores, with `passed` True if every turn passed, else False.

    The mean has no effect on `passed`. A turn passed if `score_turn` returned a score with `passed` True. A
    turn without a reply, and a turn that the case does not have, failed. Return `NotApplicable` for a case
    without written turns.
    """
    result = await compute_turn_mean(case, run, score_turn)
    if not isinstance(result, MetricScore):
        return result
    turns = tuple(replace(turn, passed=bool(turn.passed)) for turn in result.turns)
    return replace(result, turns=turns, passed=all(turn.passed for turn in turns))


def _find_first_reason(turns: Sequence[TurnScore]) -> str:
    for number, turn in enumerate(turns, start=1):
        if turn.reason:
            return f"turn {number}: {turn.reason}" if len(turns) > 1 else turn.reason
    return ""
