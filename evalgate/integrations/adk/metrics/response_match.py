"""`response_match_score`: the share of words that the final response and the expected one have in common."""

from typing import ClassVar, Literal, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from evalgate.core.protocols import MetricContext
from evalgate.core.types import CaseRun, CaseTurn, Criterion, EvalCase, MetricResult, Reply, TurnScore
from evalgate.metrics.rouge import Profile, compute_rouge_1
from evalgate.metrics.turnwise import compute_turn_mean

_IN_FINAL = "include_intermediate_responses_in_final"


class ResponseMatch(BaseModel):
    """ROUGE-1 F-measure of each turn's final response, averaged over the turns, as Google ADK computes it."""

    compares_with: ClassVar[Literal["response", "tools"]] = "response"
    is_mean_of_turns: ClassVar[Literal[True]] = True

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: Profile = "adk>=2.6"
    """Releases of Google ADK to agree with. Those up to 2.5 find only words of ASCII letters and digits."""
    include_intermediate_responses_in_final: bool = Field(
        default=False, exclude=True, validation_alias=AliasChoices(_IN_FINAL, to_camel(_IN_FINAL))
    )
    """Accepted because Google ADK accepts it in every criterion. It has no effect, as in Google ADK."""

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Self:
        """Build the metric as the context's release of Google ADK computes it.

        Raises:
            ValidationError: an option is wrong.
        """
        profile = "adk>=2.6" if context.adk_release >= (2, 6) else "adk<=2.5"
        return cls.model_validate({"profile": profile, **criterion.options})

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1].

        A turn that is missing, unexpected, or has no expected response scores 0.0. The result is not
        applicable for a case without turns, such as a case with a simulated user.
        """
        return await compute_turn_mean(case, run, self._score_turn)

    def _score_turn(self, turn: CaseTurn, reply: Reply) -> TurnScore:
        if turn.expected.response is None:
            return TurnScore(0.0, _NOTHING_EXPECTED)
        # A missing response is compared as an empty text; Google ADK does not leave the turn out.
        overlap = compute_rouge_1(turn.expected.response, reply.response or "", self.profile)
        score = overlap.f_measure
        if score == 1.0:
            return TurnScore(score)
        if not overlap.expected:
            return TurnScore(score, _NO_WORDS)
        if reply.response is None:
            return TurnScore(score, _NO_RESPONSE)
        return TurnScore(
            score,
            f"{overlap.shared} of {overlap.expected} expected words are among the {overlap.actual} given",
        )


_NOTHING_EXPECTED = (
    "the eval set gives no `final_response` to compare with, which scores 0.0 as in Google ADK: "
    "add one, or leave out this metric"
)
_NO_RESPONSE = "the agent gave no final response"
_NO_WORDS = "the expected `final_response` has no words to compare, which scores 0.0 as in Google ADK"
