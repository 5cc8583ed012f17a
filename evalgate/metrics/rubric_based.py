"""`rubric_based_…_v1`: the share of rubrics that a model finds to hold."""

from collections.abc import Mapping

from evalgate.adkjudging.exchanges import (
    Exchange,
    declarations_of,
    dialogue,
    exchanges,
    instructions_of,
    tool_steps,
)
from evalgate.adkjudging.rubrics import RubricMetric, TwiceTheSameRubric, judged_by_rubrics
from evalgate.adkjudging.turns import (
    NO_REPLY,
    NOT_ASKED_FOR,
    JudgedTurn,
    first_reason,
    mean_of,
    on_last_turn,
    unjudged,
    worthless,
)
from evalgate.model import CaseRun, EvalCase, MetricFailed, MetricResult, NotApplicable, Scored
from evalgate.numbers import mean_as_added


class _TurnByTurn(RubricMetric):
    """Each turn by its rubrics; the mean over all rubrics of all turns, pooled."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]. A turn that is missing or unasked counts as one rubric that does not hold."""
        found = exchanges(case, run)
        try:
            rubrics = [self.texts(case, exchange) for exchange in found]
        except TwiceTheSameRubric as error:
            return MetricFailed(str(error))
        turns: list[JudgedTurn] = []
        pool: list[float] = []
        for exchange, own in zip(found, rubrics, strict=True):
            turn, scores = await self._turn(exchange, own)
            turns.append(turn)
            pool += scores
        if pool:
            return Scored(mean_as_added(pool), tuple(turn.score for turn in turns), first_reason(turns))
        if turns and not any(turn.failure for turn in turns):
            return self.no_rubrics()
        return mean_of(turns, nothing="nothing was said")

    async def _turn(
        self, exchange: Exchange, rubrics: Mapping[str, str]
    ) -> tuple[JudgedTurn, tuple[float, ...]]:
        if not exchange.is_asked_for:
            return worthless(NOT_ASKED_FOR), (0.0,)
        if exchange.reply is None:
            return worthless(NO_REPLY), (0.0,)
        if not rubrics:
            return unjudged("there is no rubric for this turn"), ()
        return judged_by_rubrics(await self.verdicts(rubrics, self._material(exchange)), rubrics)

    def _material(self, exchange: Exchange) -> dict[str, str]:
        return {
            "user": exchange.user,
            "tools": declarations_of([exchange]),
            "steps": tool_steps(exchange.reply),
            "instructions": instructions_of([exchange]),
            "response": exchange.response(with_intermediate=self.include_intermediate_responses_in_final),
        }


class FinalResponseQuality(_TurnByTurn):
    """Share of the rubrics that the final response meets, as a model judges."""

    kind = "FINAL_RESPONSE_QUALITY"
    prompt_names = ("adk_rubrics_final_response",)


class ToolUseQuality(_TurnByTurn):
    """Share of the rubrics that the use of tools meets, as a model judges."""

    kind = "TOOL_USE_QUALITY"
    prompt_names = ("adk_rubrics_tool_use",)
    more_variables = frozenset({"instructions", "response"})


class MultiTurnTrajectoryQuality(RubricMetric):
    """Share of the rubrics that the whole conversation meets, as a model judges."""

    kind = "TRAJECTORY_QUALITY"
    prompt_names = ("adk_rubrics_trajectory",)

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]; stands at the last turn."""
        found = exchanges(case, run)
        if not found:
            return NotApplicable("nothing was said")
        try:
            rubrics = self.texts(case, found[-1])
        except TwiceTheSameRubric as error:
            return MetricFailed(str(error))
        if not rubrics:
            return self.no_rubrics()
        material = {
            "dialogue": dialogue(found),
            "tools": declarations_of(found),
            "instructions": instructions_of(found),
        }
        samples = await self.verdicts(rubrics, material)
        return on_last_turn(judged_by_rubrics(samples, rubrics)[0], len(found))
