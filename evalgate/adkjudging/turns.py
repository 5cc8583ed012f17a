"""From the judge's opinions to the score of a turn, and from turns to a score."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from evalgate.adkjudging.answers import Opinion
from evalgate.frozen import frozen
from evalgate.judge.failures import JudgeFailed
from evalgate.judge.health import agreement
from evalgate.judge.sampling import Samples
from evalgate.model import JsonObject, MetricResult, NotApplicable, Scored, TurnScore
from evalgate.numbers import counted, mean_as_added

NOT_ASKED_FOR = "the case does not ask for this turn"
NO_REPLY = "the agent gave no reply to this turn"


@frozen
class JudgedTurn:
    """A turn with its opinions."""

    score: TurnScore
    failure: JudgeFailed | None = None
    """Why it has no score, where the judge is to blame."""


def unjudged(reason: str) -> JudgedTurn:
    """A turn that the metric has nothing to say about."""
    return JudgedTurn(TurnScore(None, reason))


def worthless(reason: str) -> JudgedTurn:
    """A turn that scores 0 without a judge."""
    return JudgedTurn(TurnScore(0.0, reason))


def voted(samples: Samples[Opinion]) -> JudgedTurn:
    """1.0 when more than half of the opinions are positive, else 0.0: a tie is none."""
    if not samples.good:
        return failed(samples)
    positive = [opinion for opinion in samples.values if opinion.score > 0]
    wins = len(positive) > len(samples.values) - len(positive)
    side = positive if wins else [opinion for opinion in samples.values if not opinion.score]
    says = "says" if len(samples.values) == 1 else "say"
    share = f"{len(side)} of {counted(len(samples.values), 'sample')} {says} so"
    reason = f"{share}: {side[0].reason}" if side[0].reason else share
    return JudgedTurn(TurnScore(float(wins), reason, details(samples)))


def averaged(samples: Samples[Opinion]) -> JudgedTurn:
    """The mean of the opinions."""
    if not samples.good:
        return failed(samples)
    scores = [opinion.score for opinion in samples.values]
    mean = mean_as_added(scores)
    nearest = min(samples.values, key=lambda opinion: abs(opinion.score - mean))
    return JudgedTurn(TurnScore(mean, nearest.reason, details(samples)))


def failed(samples: Samples[Opinion]) -> JudgedTurn:
    """A turn that the judge said nothing usable about."""
    failure = samples.failed[0].failure
    return JudgedTurn(TurnScore(None, str(failure), details(samples)), failure)


def details(
    samples: Samples[Opinion],
    tell: Callable[[Opinion], tuple[float | None, str]] = lambda each: (each.score, each.reason),
) -> JsonObject:
    """Every sample with its reason, and how far they agree."""
    found: dict[str, object] = {"samples": samples.told(tell)}
    agreed = agreement([tell(value)[0] for value in samples.values])
    return found if agreed is None else {**found, "agreement": agreed}


def mean_of(
    turns: Sequence[JudgedTurn],
    *,
    nothing: str,
    mean: Callable[[Sequence[float]], float] = mean_as_added,
) -> MetricResult:
    """The mean over the turns that have a score, as Google ADK takes it.

    `nothing` says why none may have one, when that is not the judge's fault; `mean` how the metric rounds.

    Raises:
        JudgeFailed: none has a score because the judge failed.
    """
    scores = [turn.score.score for turn in turns if turn.score.score is not None]
    if not scores:
        if failure := next((turn.failure for turn in turns if turn.failure), None):
            raise failure
        return NotApplicable(next((turn.score.reason for turn in turns if turn.score.reason), nothing))
    return Scored(mean(scores), tuple(turn.score for turn in turns), first_reason(turns))


def on_last_turn(turn: JudgedTurn, turns: int) -> MetricResult:
    """The score of a whole conversation, which stands at its last turn.

    Raises:
        JudgeFailed: the judge gave none.
    """
    if turn.score.score is None:
        if turn.failure:
            raise turn.failure
        return NotApplicable(turn.score.reason)
    earlier = (TurnScore(None, "the conversation is judged as a whole"),) * (turns - 1)
    return replace(Scored(turn.score.score, (*earlier, turn.score)), reason=turn.score.reason)


def first_reason(turns: Sequence[JudgedTurn]) -> str:
    """Why the worst turn has its score."""
    judged = [(at, turn.score) for at, turn in enumerate(turns, 1) if turn.score.score is not None]
    at, worst = min(judged, key=lambda pair: pair[1].score or 0.0)
    return f"turn {at}: {worst.reason}" if len(turns) > 1 and worst.reason else worst.reason
