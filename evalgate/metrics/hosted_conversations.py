"""`multi_turn_…_v1`: in Google ADK services of Google's, here the run's judge."""

from evalgate.adkjudging.answers import share_of_demands
from evalgate.adkjudging.exchanges import declarations_of, dialogue, exchanges, instructions_of
from evalgate.adkjudging.options import JudgedMetric
from evalgate.adkjudging.turns import averaged, on_last_turn
from evalgate.model import CaseRun, EvalCase, MetricResult, NotApplicable


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
