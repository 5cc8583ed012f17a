"""The metrics of Google ADK that a model judges."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import Field, PrivateAttr
from typing_extensions import override

from evalgate.core.means import compute_exact_mean, compute_sequential_mean
from evalgate.core.protocols import MetricContext
from evalgate.core.score_ranges import SCORE_RANGES, UNIT_RANGE, Range
from evalgate.core.types import (
    CaseRun,
    EvalCase,
    JsonObject,
    Message,
    MetricFailure,
    MetricResult,
    MetricScore,
    NotApplicable,
    Scenario,
    TurnScore,
)
from evalgate.integrations.adk.judging.answers import (
    JudgeOpinion,
    build_number_parser,
    build_validity_parser,
    parse_met_share,
    parse_sentences,
    parse_support,
    parse_turn_validity,
)
from evalgate.integrations.adk.judging.judged_metric import (
    JudgedMetric,
    ScoredTurn,
    build_conversation_result,
    build_unjudged_turn,
    build_zero_turn,
    compute_mean_result,
    find_worst_reason,
    score_by_mean,
    score_by_vote,
)
from evalgate.integrations.adk.judging.prompts import (
    format_declarations,
    format_dialogue,
    format_instructions,
    format_tool_steps,
    iter_event_lines,
    to_json_line,
)
from evalgate.integrations.adk.judging.rubric_metric import (
    DuplicateRubricError,
    RubricMetric,
    WeightedScores,
    compute_rubric_mean,
    score_turn_by_rubrics,
)
from evalgate.llm.prompt_templates import indent_later_lines
from evalgate.llm.sampling import Samples
from evalgate.metrics.turnwise import NO_REPLY, NOT_ASKED_FOR, Exchange, build_exchanges


class FinalResponseMatch(JudgedMetric):
    """Share of the turns in which the final response matches the expected one, as a model judges.

    The model is asked `num_samples` times about each turn. A turn scores 1.0 if more than half of the usable
    answers say that the responses match, else 0.0.
    """

    compares_with: ClassVar[Literal["response", "tools"]] = "response"
    prompt_names = ("adk_final_response_match",)

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the mean score of the turns, in [0, 1].

        If the agent had fewer or more turns than the case, each turn without a counterpart scores 0.0. A turn
        of the case that expects no response has no score. The result is not applicable if no turn expects a
        response.

        Raises:
            JudgeError: the judge does not answer, or no turn has a score because no answer is usable.
        """
        if not case.turns:
            return NotApplicable("the case has no written turns to compare with")
        turns = [await self._judge_turn(exchange) for exchange in build_exchanges(case, run)]
        return compute_mean_result(turns, nothing="nothing was said")

    async def _judge_turn(self, exchange: Exchange) -> ScoredTurn:
        if not exchange.is_asked_for:
            return build_zero_turn(NOT_ASKED_FOR)
        if exchange.reply is None:
            return build_zero_turn(NO_REPLY)
        if exchange.reference is None:
            return build_unjudged_turn("the eval set gives no `final_response` to compare with")
        response = self.get_response(exchange)
        material = {"user": exchange.user, "response": response, "reference": exchange.reference}
        return score_by_vote(await self.ask_judge(build_validity_parser(self._release), material))


class Hallucinations(JudgedMetric):
    """Share of each response's sentences that the agent's knowledge supports, or that need no support.

    A model judges the sentences. The knowledge is the instructions, the tools, the user's message and the
    earlier events of the turn.
    """

    prompt_names = ("adk_sentences", "adk_support")

    evaluate_intermediate_nl_responses: bool = False
    """True: judge the agent's messages before the final response, too. False: only the final response."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the mean of the turns' shares of supported sentences: 1.0 if all sentences are supported.

        Turns in which the agent says nothing are left out. If there is no other turn, the result is not
        applicable.

        Raises:
            JudgeError: the judge does not answer, or no turn has a score because no answer is usable.
        """
        turns = [await self._judge_turn(exchange) for exchange in build_exchanges(case, run)]
        return compute_mean_result(turns, nothing="nothing was said", mean=compute_exact_mean)

    async def _judge_turn(self, exchange: Exchange) -> ScoredTurn:
        if exchange.reply is None:
            return build_unjudged_turn(NO_REPLY)
        judged = [turn async for turn in self._judge_responses(exchange)]
        scored = [turn.score for turn in judged if turn.score.score is not None]
        if not scored:
            return (
                judged[-1] if judged else build_unjudged_turn("the agent said nothing that could be judged")
            )
        if len(judged) == 1:
            return judged[0]
        score = compute_exact_mean([each.score for each in scored if each.score is not None])
        details = {"responses": [each.details for each in scored]}
        return ScoredTurn(TurnScore(score, "; ".join(filter(None, (s.reason for s in scored))), details))

    async def _judge_responses(self, exchange: Exchange) -> AsyncIterator[ScoredTurn]:
        events = exchange.reply.events if exchange.reply else ()
        for at, event in enumerate(events if self.evaluate_intermediate_nl_responses else ()):
            if isinstance(event, Message) and event.text:
                yield await self._judge_response(event.text, self._build_context(exchange, at))
        if response := exchange.response.strip("\n"):
            yield await self._judge_response(response, self._build_context(exchange, None))

    async def _judge_response(self, response: str, context: str) -> ScoredTurn:
        # Google ADK asks each of the two questions once, whatever `num_samples` is.
        cut = await self.ask_judge(parse_sentences, {"response": response}, samples=1)
        if not cut.good:
            nothing: Samples[JudgeOpinion] = Samples((), cut.failed)
            return score_by_mean(nothing)
        listed = "\n".join(f"<sentence>{sentence}</sentence>" for sentence in cut.values[0])
        material = {"sentences": listed, "context": context}
        return score_by_mean(await self.ask_judge(parse_support, material, at=1, samples=1))

    def _build_context(self, exchange: Exchange, until: int | None) -> str:
        """Format the knowledge of the agent before the event at index `until` of the turn.

        If `until` is None, format the knowledge before the final response.
        """
        parts: Sequence[tuple[str, str]] = (
            ("Developer instructions", format_instructions([exchange])),
            ("User", exchange.user),
            ("Tools", format_declarations([exchange])),
            ("Events", "\n".join(iter_event_lines(exchange, until=until)) or "None."),
        )
        return "\n\n".join(f"{name}:\n  {indent_later_lines(text)}" for name, text in parts)


class _ConversationMetric(JudgedMetric):
    """A metric for which the judge lists requirements on the conversation, and decides if each is met."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1]: the share of met requirements, averaged over the judge's samples.

        The score is recorded at the last turn. The result is not applicable if there is no turn.

        Raises:
            JudgeError: the judge does not answer, or no answer is usable.
        """
        found = build_exchanges(case, run)
        if not found:
            return NotApplicable("nothing was said")
        material = {
            "dialogue": format_dialogue(found),
            "tools": format_declarations(found),
            "instructions": format_instructions(found),
        }
        samples = await self.ask_judge(parse_met_share, material)
        return build_conversation_result(score_by_mean(samples), len(found))


class TaskSuccess(_ConversationMetric):
    """Share of the user's requests that are fulfilled at the end, as a model judges."""

    prompt_names = ("adk_task_success",)


class TrajectoryQuality(_ConversationMetric):
    """Share of the requirements on the agent's steps that are met, as a model judges.

    The model itself first lists the requirements of the conversation.
    """

    prompt_names = ("adk_trajectory_quality",)


class ToolUse(_ConversationMetric):
    """Share of the requirements on the tool calls that are met, as a model judges.

    The model itself first lists the requirements of the conversation.
    """

    prompt_names = ("adk_tool_use_quality",)


class _TurnMeanMetric(JudgedMetric):
    """A metric that averages the judge's scores within each turn, and then averages the turns."""

    score_range: ClassVar[Range]

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the mean of the turns' scores, in `score_range`.

        The score of a turn is the mean of the judge's scores for it. A turn without a text to judge is left
        out; if no turn has one, the result is not applicable. The text is the final response. With
        `include_intermediate_responses_in_final`, the turn's earlier messages belong to the text, too, even
        if there is no final response.

        Raises:
            JudgeError: the judge cannot be asked, for example because it is out of reach. Also raised if no
                turn has a score because no answer is usable.
        """
        turns = [await self._judge_turn(exchange) for exchange in build_exchanges(case, run)]
        return compute_mean_result(turns, nothing="nothing was said")

    async def _judge_turn(self, exchange: Exchange) -> ScoredTurn:
        if exchange.reply is None:
            return build_unjudged_turn(NO_REPLY)
        response = self.get_response(exchange)
        if not response:
            return build_unjudged_turn("the agent said nothing that could be judged")
        reference = exchange.reference or "None given."
        material = {"user": exchange.user, "response": response, "reference": reference}
        return score_by_mean(await self.ask_judge(build_number_parser(*self.score_range), material))


class Safety(_TurnMeanMetric):
    """Harmlessness of the responses, as a model judges.

    1.0 means entirely safe, 0.0 clearly harmful.
    """

    score_range = UNIT_RANGE
    prompt_names = ("adk_safety",)
    more_variables = frozenset({"reference"})


class ResponseEvaluation(_TurnMeanMetric):
    """Coherence of the responses, from 1 to 5, as a model judges."""

    score_range = SCORE_RANGES["response_evaluation_score"]
    prompt_names = ("adk_coherence",)


class _RubricsTurnByTurn(RubricMetric):
    """A metric that judges each turn by rubrics; the score is the mean over all rubrics of all turns."""

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1].

        A turn that is missing or unexpected counts as one rubric that does not hold. The metric fails if
        there is no rubric to judge by, or two rubrics have the same id. The result is not applicable if there
        is no turn.

        Raises:
            JudgeError: the judge does not answer, or no turn has a score because no answer is usable.
        """
        found = build_exchanges(case, run)
        try:
            rubrics = [self.collect_rubric_texts(case, exchange) for exchange in found]
        except DuplicateRubricError as error:
            return MetricFailure(str(error))
        turns: list[ScoredTurn] = []
        # Pooled, as in Google ADK: a turn with more rubrics counts more.
        pool: list[tuple[float, float | None]] = []
        for exchange, own in zip(found, rubrics, strict=True):
            turn, scores = await self._judge_turn(exchange, own, self.collect_points(case, exchange))
            turns.append(turn)
            pool += scores
        if pool:
            score = compute_rubric_mean(pool, compute_sequential_mean)
            return MetricScore(score, tuple(turn.score for turn in turns), find_worst_reason(turns))
        if turns and not any(turn.failure for turn in turns):
            return self.build_no_rubrics_failure()
        return compute_mean_result(turns, nothing="nothing was said")

    async def _judge_turn(
        self, exchange: Exchange, rubrics: Mapping[str, str], points: Mapping[str, float]
    ) -> tuple[ScoredTurn, WeightedScores]:
        if not exchange.is_asked_for:
            return build_zero_turn(NOT_ASKED_FOR), ((0.0, None),)
        if exchange.reply is None:
            return build_zero_turn(NO_REPLY), ((0.0, None),)
        if not rubrics:
            return build_unjudged_turn("there is no rubric for this turn"), ()
        return score_turn_by_rubrics(
            await self.ask_verdicts(rubrics, self._build_material(exchange)), rubrics, points
        )

    def _build_material(self, exchange: Exchange) -> dict[str, str]:
        return {
            "user": exchange.user,
            "tools": format_declarations([exchange]),
            "steps": format_tool_steps(exchange.reply),
            "instructions": format_instructions([exchange]),
            "response": self.get_response(exchange),
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
    """Share of the rubrics that the whole conversation meets, as a model judges.

    The rubrics come from the criterion, the case and the last turn.
    """

    kind = "TRAJECTORY_QUALITY"
    prompt_names = ("adk_rubrics_trajectory",)

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1], recorded at the last turn.

        The metric fails if there is no rubric to judge by, or two rubrics have the same id. The result is not
        applicable if there is no turn.

        Raises:
            JudgeError: the judge does not answer, or no answer is usable.
        """
        found = build_exchanges(case, run)
        if not found:
            return NotApplicable("nothing was said")
        try:
            rubrics = self.collect_rubric_texts(case, found[-1])
        except DuplicateRubricError as error:
            return MetricFailure(str(error))
        if not rubrics:
            return self.build_no_rubrics_failure()
        material = {
            "dialogue": format_dialogue(found),
            "tools": format_declarations(found),
            "instructions": format_instructions(found),
        }
        samples = await self.ask_verdicts(rubrics, material)
        points = self.collect_points(case, found[-1])
        return build_conversation_result(score_turn_by_rubrics(samples, rubrics, points)[0], len(found))


class UserSimulatorQuality(JudgedMetric):
    """Share of the simulated user's messages that follow the scenario, as a model judges.

    This scores the user, not the agent. The first message must be the scenario's starting prompt. On each
    other message, a majority of the judge's samples decides. The judge is also asked if the conversation
    should end after the last message. If at least half of the usable samples deny this, the last message is
    not valid.
    """

    prompt_names = ("adk_user_simulator",)

    stop_signal: str = Field(default="</finished>", min_length=1)
    """The message with which the simulated user ends the conversation."""
    _personas: Mapping[str, object] = PrivateAttr(default_factory=dict)
    """Personas that the configuration defines, by name: a scenario may name one for its simulated user."""

    @override
    def bind_judge(self, context: MetricContext) -> None:
        super().bind_judge(context)
        self._personas = context.load_personas()

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the score in [0, 1]: the share of the user's messages that are valid.

        A message is not valid if no answer of the judge on it is usable. The result is not applicable if no
        user is simulated in the case, or if nothing was said.

        Raises:
            JudgeError: the judge does not answer.
        """
        if case.scenario is None:
            return NotApplicable("no user is simulated in this case")
        found = build_exchanges(case, run)
        if not found:
            return NotApplicable("nothing was said")
        is_start = found[0].user.strip() == case.scenario.starting_prompt.strip()
        first = ScoredTurn(TurnScore(1.0)) if is_start else build_zero_turn(_WRONG_START)
        later = [
            await self._judge_message(case.scenario, found[:at], found[at].user)
            for at in range(1, len(found))
        ]
        turns = [first, *later]
        # The ending has no turn of its own. As in Google ADK, a wrong ending replaces the last turn's score.
        # This holds even for a threshold of 0, with which Google ADK counts the ending as right.
        ending = await self._judge_message(case.scenario, found, self.stop_signal)
        if ending.score.score == 0.0:
            reason = f"the conversation should not end here: {ending.score.reason}"
            turns[-1] = ScoredTurn(TurnScore(0.0, reason, ending.score.details))
        # The mean is over all messages: a message without a usable sample counts as not valid.
        return compute_mean_result(
            turns, nothing="nothing was said", mean=lambda scores: sum(scores) / len(turns)
        )

    async def _judge_message(
        self, scenario: Scenario, history: Sequence[Exchange], message: str
    ) -> ScoredTurn:
        material = {
            "plan": scenario.conversation_plan,
            "persona": self._describe_persona(scenario.user_persona),
            "stop_signal": self.stop_signal,
            "history": format_dialogue(history),
            "message": message,
        }
        return score_by_vote(await self.ask_judge(parse_turn_validity, material))

    def _describe_persona(self, persona: str | JsonObject | None) -> str:
        if isinstance(persona, str):
            return str(self._personas.get(persona, persona))
        return to_json_line(persona) if persona else "None."


_WRONG_START = "the first message is not the scenario's starting prompt"
