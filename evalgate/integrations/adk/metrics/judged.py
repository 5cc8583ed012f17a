"""The metrics of Google ADK that a model judges."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from evalgate.core.formatting import mean_as_added, mean_rounded_once
from evalgate.core.score_ranges import SCORE_RANGES, UNIT
from evalgate.core.types import (
    CaseRun,
    EvalCase,
    Message,
    MetricFailed,
    MetricResult,
    NotApplicable,
    Scenario,
    Scored,
    TurnScore,
)
from evalgate.integrations.adk.judging.answers import (
    Opinion,
    number_between,
    sentences,
    share_of_demands,
    support,
    turn_validity,
    validity,
)
from evalgate.integrations.adk.judging.evaluation import (
    NO_REPLY,
    NOT_ASKED_FOR,
    JudgedMetric,
    JudgedTurn,
    RubricMetric,
    TwiceTheSameRubric,
    averaged,
    first_reason,
    judged_by_rubrics,
    mean_of,
    on_last_turn,
    unjudged,
    voted,
    worthless,
)
from evalgate.integrations.adk.judging.exchanges import (
    Exchange,
    as_json,
    declarations_of,
    dialogue,
    events_told,
    exchanges,
    instructions_of,
    tool_steps,
)
from evalgate.llm.prompting import indent_later_lines
from evalgate.llm.sampling import Samples


class FinalResponseMatch(JudgedMetric):
    """Each turn by majority over the samples, a tie being a miss; the share of the turns that match."""

    compares_with: ClassVar[Literal["response", "tools"]] = "response"
    prompt_names = ("adk_final_response_match",)

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]. A turn that is missing or unasked scores 0.0."""
        if not case.turns:
            return NotApplicable("the case has no written turns to compare with")
        turns = [await self._turn(exchange) for exchange in exchanges(case, run)]
        return mean_of(turns, nothing="nothing was said")

    async def _turn(self, exchange: Exchange) -> JudgedTurn:
        if not exchange.is_asked_for:
            return worthless(NOT_ASKED_FOR)
        if exchange.reply is None:
            return worthless(NO_REPLY)
        expected = exchange.turn.expected.response if exchange.turn else None
        if expected is None:
            return unjudged("the eval set gives no `final_response` to compare with")
        response = exchange.response(with_intermediate=self.include_intermediate_responses_in_final)
        material = {"user": exchange.user, "response": response, "reference": expected}
        return voted(await self.ask(validity(self._release), material))


class Hallucinations(JudgedMetric):
    """Each response is cut into sentences, and each sentence held against all that the agent could know."""

    prompt_names = ("adk_sentences", "adk_support")

    evaluate_intermediate_nl_responses: bool = False
    """Whether what the agent says on its way is judged as well."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]: the mean over the turns that say anything."""
        turns = [await self._turn(exchange) for exchange in exchanges(case, run)]
        return mean_of(turns, nothing="nothing was said", mean=mean_rounded_once)

    async def _turn(self, exchange: Exchange) -> JudgedTurn:
        if exchange.reply is None:
            return unjudged(NO_REPLY)
        judged = [turn async for turn in self._responses(exchange)]
        scored = [turn.score for turn in judged if turn.score.score is not None]
        if not scored:
            return judged[-1] if judged else unjudged("the agent said nothing that could be judged")
        if len(judged) == 1:
            return judged[0]
        score = mean_rounded_once([each.score for each in scored if each.score is not None])
        told = {"responses": [each.details for each in scored]}
        return JudgedTurn(TurnScore(score, "; ".join(filter(None, (s.reason for s in scored))), told))

    async def _responses(self, exchange: Exchange) -> AsyncIterator[JudgedTurn]:
        events = exchange.reply.events if exchange.reply else ()
        for at, event in enumerate(events if self.evaluate_intermediate_nl_responses else ()):
            if isinstance(event, Message) and event.text:
                yield await self._response(event.text, self._context(exchange, at))
        if exchange.response():
            yield await self._response(exchange.response(), self._context(exchange, None))

    async def _response(self, response: str, context: str) -> JudgedTurn:
        cut = await self.ask(sentences, {"response": response}, samples=1)
        if not cut.good:
            nothing: Samples[Opinion] = Samples((), cut.failed)
            return averaged(nothing)
        listed = "\n".join(f"<sentence>{sentence}</sentence>" for sentence in cut.values[0])
        material = {"sentences": listed, "context": context}
        return averaged(await self.ask(support, material, at=1, samples=1))

    def _context(self, exchange: Exchange, until: int | None) -> str:
        """What the agent knew when it spoke."""
        parts: Sequence[tuple[str, str]] = (
            ("Developer instructions", instructions_of([exchange])),
            ("User", exchange.user),
            ("Tools", declarations_of([exchange])),
            ("Events", "\n".join(events_told(exchange, until=until)) or "None."),
        )
        return "\n\n".join(f"{name}:\n  {indent_later_lines(text)}" for name, text in parts)


class _Conversation(JudgedMetric):
    """The judge draws up what the conversation demands, and says of each demand whether it is met."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]: the mean share of demands that are met. Stands at the last turn."""
        found = exchanges(case, run)
        if not found:
            return NotApplicable("nothing was said")
        material = {
            "dialogue": dialogue(found),
            "tools": declarations_of(found),
            "instructions": instructions_of(found),
        }
        samples = await self.ask(share_of_demands, material)
        return on_last_turn(averaged(samples), len(found))


class TaskSuccess(_Conversation):
    """Whether the user got what was asked for."""

    prompt_names = ("adk_task_success",)


class TrajectoryQuality(_Conversation):
    """Whether the way there was a good one."""

    prompt_names = ("adk_trajectory_quality",)


class ToolUse(_Conversation):
    """Whether the right tools were used rightly."""

    prompt_names = ("adk_tool_use_quality",)


class _TurnByTurn(JudgedMetric):
    """The mean of the samples of each turn, and of the turns."""

    score_range: ClassVar[tuple[float, float]]

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In `score_range`; a turn in which the agent says nothing has no score."""
        turns = [await self._turn(exchange) for exchange in exchanges(case, run)]
        return mean_of(turns, nothing="nothing was said")

    async def _turn(self, exchange: Exchange) -> JudgedTurn:
        if exchange.reply is None:
            return unjudged(NO_REPLY)
        response = exchange.response(with_intermediate=self.include_intermediate_responses_in_final)
        if not response:
            return unjudged("the agent said nothing that could be judged")
        expected = exchange.turn.expected.response if exchange.turn else None
        material = {"user": exchange.user, "response": response, "reference": expected or "None given."}
        return averaged(await self.ask(number_between(*self.score_range), material))


class Safety(_TurnByTurn):
    """How harmless the responses are."""

    score_range = UNIT
    prompt_names = ("adk_safety",)
    more_variables = frozenset({"reference"})


class ResponseEvaluation(_TurnByTurn):
    """How coherent the responses are, from 1 to 5."""

    score_range = SCORE_RANGES["response_evaluation_score"]
    prompt_names = ("adk_coherence",)


class _RubricsTurnByTurn(RubricMetric):
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


class FinalResponseQuality(_RubricsTurnByTurn):
    """Share of the rubrics that the final response meets, as a model judges."""

    kind = "FINAL_RESPONSE_QUALITY"
    prompt_names = ("adk_rubrics_final_response",)


class ToolUseQuality(_RubricsTurnByTurn):
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


class UserSimulatorQuality(JudgedMetric):
    """The first message word by word; every later one, and the end, by majority over the samples."""

    prompt_names = ("adk_user_simulator",)

    stop_signal: str = Field(default="</finished>", min_length=1)
    """What the simulated user says when it is done."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """In [0, 1]: the share of the user's messages that are found valid."""
        if case.scenario is None:
            return NotApplicable("no user is simulated in this case")
        found = exchanges(case, run)
        if not found:
            return NotApplicable("nothing was said")
        later = [await self._judged(case.scenario, found[:at], found[at].user) for at in range(1, len(found))]
        turns = [_first(case.scenario, found[0]), *later]
        ending = await self._judged(case.scenario, found, self.stop_signal)
        if ending.score.score == 0.0:
            turns[-1] = JudgedTurn(_ended_wrongly(ending.score))
        # Of all messages: one that no sample decides does not count as valid.
        return mean_of(turns, nothing="nothing was said", mean=lambda scores: sum(scores) / len(turns))

    async def _judged(self, scenario: Scenario, history: Sequence[Exchange], message: str) -> JudgedTurn:
        persona = scenario.user_persona
        material = {
            "plan": scenario.conversation_plan,
            "persona": persona if isinstance(persona, str) else as_json(persona) if persona else "None.",
            "stop_signal": self.stop_signal,
            "history": dialogue(history),
            "message": message,
        }
        return voted(await self.ask(turn_validity, material))


def _first(scenario: Scenario, exchange: Exchange) -> JudgedTurn:
    if exchange.user.strip() == scenario.starting_prompt.strip():
        return JudgedTurn(TurnScore(1.0))
    return worthless("the first message is not the scenario's starting prompt")


def _ended_wrongly(score: TurnScore) -> TurnScore:
    return TurnScore(0.0, f"the conversation should not end here: {score.reason}", score.details)
