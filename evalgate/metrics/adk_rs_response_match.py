"""`adk-rs/final_response_match_v1`: how many of the expected words the final response holds.

Recall alone: other words cost nothing, and order does not count. See https://docs.rs/adk-rs (release 0.6),
`eval::ResponseMatch`.
"""

import re
from typing import ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict

from evalgate.model import CaseRun, Criterion, EvalCase, MetricResult, Reply, Turn, TurnScore
from evalgate.protocols import MetricContext
from evalgate.scoring.turnwise import mean_if_every_turn_passes

_WORD = re.compile("[^\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
"""Runs without Unicode White_Space; `str.split` would also split at U+001C to U+001F."""

_TOLERANCE = 1e-9
"""What adk-rs forgives at the threshold."""


class AdkRsResponseMatch(BaseModel):
    """Share of the expected words that are among the given, averaged over the turns; each turn must pass.

    Words are what stands between blanks, punctuation included, in lower case (not case-folded). An expected
    word counts as often as it stands there. A turn that expects no words scores 1.0 and passes.
    """

    compares_with: ClassVar[Literal["response", "tools"]] = "response"
    is_mean_of_turns: ClassVar[Literal[True]] = True

    model_config = ConfigDict(frozen=True, extra="forbid")

    threshold: float

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """The metric; the release of Google ADK changes nothing.

        Raises:
            ValidationError: an option is unknown or wrong.
        """
        del context
        return cls.model_validate({**criterion.options, "threshold": criterion.threshold})

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]. A turn that is missing or unasked scores 0.0 and fails."""
        return await mean_if_every_turn_passes(case, run, self._turn)

    def _turn(self, turn: Turn, reply: Reply) -> TurnScore:
        expected = _words(turn.expected.response)
        if not expected:
            return TurnScore(1.0, details={"reason": "empty expected"}, passed=True)
        actual = set(_words(reply.response))
        hit = sum(word in actual for word in expected)
        score = hit / len(expected)
        reason = "" if hit == len(expected) else f"{hit} of {len(expected)} expected words were given"
        details = {"expected_tokens": len(expected), "hit": hit}
        return TurnScore(score, reason, details, passed=score + _TOLERANCE >= self.threshold)


def _words(text: str | None) -> list[str]:
    return _WORD.findall((text or "").lower())
