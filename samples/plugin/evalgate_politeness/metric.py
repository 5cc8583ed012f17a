"""A metric: does the agent say the words that it should?"""

from typing import Self

from pydantic import BaseModel, ConfigDict

from evalgate.plugins import (
    CaseRun,
    CaseTurn,
    Criterion,
    EvalCase,
    MetricContext,
    MetricResult,
    Reply,
    TurnScore,
    compute_turn_mean,
)


class Politeness(BaseModel):
    """1.0 for each turn whose response holds one of `words`, averaged over the turns."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    words: tuple[str, ...] = ("please", "thank you", "sorry")

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        return cls.model_validate(criterion.options)

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        return await compute_turn_mean(case, run, self._turn)

    def _turn(self, turn: CaseTurn, reply: Reply) -> TurnScore:
        said = (reply.response or "").lower()
        if any(word in said for word in self.words):
            return TurnScore(1.0)
        return TurnScore(0.0, f"none of {', '.join(self.words)} was said")
