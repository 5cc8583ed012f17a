"""The two metrics that adk-rs scores differently from Google ADK.

The response match is recall alone: extra words cost nothing, and order does not count. See
https://docs.rs/adk-rs (release 0.6), `eval::ResponseMatch`.

The tool trajectory pairs the n-th expected call with the n-th actual one. An extra call at the front
therefore shifts every pair, while an extra call at the end spoils none. See https://docs.rs/adk-rs (release
0.6), `eval::TrajectoryMatch`.
"""

import re
from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict

from evalgate.core.protocols import MetricContext
from evalgate.core.types import (
    CaseRun,
    CaseTurn,
    Criterion,
    EvalCase,
    MetricFailure,
    MetricResult,
    Reply,
    TurnScore,
)
from evalgate.metrics.tool_call_matching import TOO_DEEP
from evalgate.metrics.turnwise import compute_turn_mean_all_pass

_WORD = re.compile("[^\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
"""Pattern of a word: characters that are not Unicode White_Space.

`str.split` would also split at U+001C to U+001F.
"""

_TOLERANCE = 1e-9
"""The amount by which a score may miss the threshold, as in adk-rs."""


class _AdkRsMetric(BaseModel):
    """A metric that passes if every turn reaches the threshold; the mean does not decide."""

    is_mean_of_turns: ClassVar[Literal[True]] = True

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """Build the metric from the options and the threshold of `criterion`; `context` is not used.

        Raises:
            ValidationError: an option is unknown or wrong.
        """
        del context
        return cls.model_validate({**criterion.options, "threshold": criterion.threshold})


class AdkRsResponseMatch(_AdkRsMetric):
    """Share of the expected words that occur in the response, averaged over the turns; each turn must pass.

    White space separates words. Words include punctuation and are compared in lower case (not case-folded). A
    word that is expected twice counts twice, even if the response has it once. A turn that expects no words
    scores 1.0 and passes. The case passes only if every turn reaches the threshold.
    """

    compares_with: ClassVar[Literal["response", "tools"]] = "response"

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1]. A turn that is missing or unexpected scores 0.0 and fails.

        The result is not applicable for a case without turns.
        """
        return await compute_turn_mean_all_pass(case, run, self.score_turn)

    def score_turn(self, turn: CaseTurn, reply: Reply) -> TurnScore:
        """Return the score of one turn, in [0, 1], with `passed` set to True or False."""
        expected = _split_words(turn.expected.response)
        if not expected:
            return TurnScore(1.0, details={"reason": "empty expected"}, passed=True)
        actual = set(_split_words(reply.response))
        hit = sum(word in actual for word in expected)
        score = hit / len(expected)
        reason = "" if hit == len(expected) else f"{hit} of {len(expected)} expected words were given"
        details = {"expected_tokens": len(expected), "hit": hit}
        return TurnScore(score, reason, details, passed=score + _TOLERANCE >= self.threshold)


def _split_words(text: str | None) -> list[str]:
    # `str.lower` agrees with Rust's `to_lowercase`, which does not fold case either: `ß` stays.
    return _WORD.findall((text or "").lower())


class AdkRsToolTrajectory(_AdkRsMetric):
    """Share of the tool calls that equal the expected call at the same position; each turn must pass.

    Calls are equal if their names and arguments are. The number of matches is divided by the length of the
    longer list, expected or actual. The score is the mean over the turns, but the case passes only if every
    turn reaches the threshold.
    """

    empty_is_match: bool = False
    """Score of a turn without any call, expected or made: 1.0 if True, 0.0 if False, as in adk-rs."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1]. A turn that is missing or unexpected scores 0.0 and fails.

        The result is not applicable for a case without turns. The metric fails if arguments nest too deep.
        """
        try:
            return await compute_turn_mean_all_pass(case, run, self.score_turn)
        except RecursionError:
            return MetricFailure(TOO_DEEP)

    def score_turn(self, turn: CaseTurn, reply: Reply) -> TurnScore:
        """Return the score of one turn, in [0, 1], with `passed` set to True or False.

        Raises:
            RecursionError: arguments nest too deep.
        """
        expected, actual = turn.expected.tool_calls, reply.tool_calls
        # Not strict: calls beyond the shorter list have no partner.
        pairs = zip(expected, actual, strict=False)
        matched = sum(
            one.name == other.name and _is_equal(one.arguments, other.arguments) for one, other in pairs
        )
        # Without any call this is 0 / 1: adk-rs fails such a turn, Google ADK passes it.
        score = matched / max(len(expected), len(actual), 1)
        if not expected and not actual and self.empty_is_match:
            score = 1.0
        details = {"matched": matched, "expected": len(expected), "actual": len(actual)}
        reason = (
            f"{matched} of {len(expected)} expected calls stand in their place among the {len(actual)} made"
        )
        if score == 1.0:
            reason = ""
        elif not expected and not actual:
            reason = (
                "no call is expected and none was made, which scores 0.0 as in adk-rs: see `empty_is_match`"
            )
        return TurnScore(score, reason, details, passed=score + _TOLERANCE >= self.threshold)


def _is_equal(one: object, other: object) -> bool:
    """Return True if two JSON values are equal in serde_json, Rust's library for JSON.

    1 differs from 1.0 and from true, and null from {}. The order of keys does not count. The order of lists
    counts.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_equal(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    left, right = _normalize_number(one), _normalize_number(other)
    return type(left) is type(right) and left == right


def _normalize_number(value: object) -> object:
    """Return `value`; for an integer of more than 64 bits, return the float that serde_json reads."""
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        try:
            return float(value)
        except OverflowError:
            return value
    return value
