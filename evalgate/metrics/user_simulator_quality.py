"""`per_turn_user_simulator_quality_v1`: whether a simulated user kept to its plan."""

from collections.abc import Sequence

from pydantic import Field

from evalgate.adkjudging.answers import turn_validity
from evalgate.adkjudging.exchanges import Exchange, as_json, dialogue, exchanges
from evalgate.adkjudging.options import JudgedMetric
from evalgate.adkjudging.turns import JudgedTurn, mean_of, voted, worthless
from evalgate.model import CaseRun, EvalCase, MetricResult, NotApplicable, Scenario, TurnScore


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
