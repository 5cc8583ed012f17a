"""Score the consumption of a run: tokens, cost, calls, turns and latency.

The score is a plain figure, such as 5,400 tokens, and less is better. If the figure is unknown, the metric is
not applicable: the run does not score 0.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from evalgate.agents.tracing.span_prices import build_price_function
from evalgate.config.schema.budgets import BudgetLimits
from evalgate.core.protocols import Metric, MetricContext
from evalgate.core.score_ranges import UNLIMITED
from evalgate.core.types import (
    CaseRun,
    Criterion,
    EvalCase,
    JsonObject,
    MetricResult,
    MetricScore,
    NotApplicable,
)
from evalgate.llm.judge_resolver import get_judge_resolver


class BudgetMetric:
    """Consumption of a run, which must stay within limits; less is better."""

    options_type = BudgetLimits

    def __init__(self, name: str, context: MetricContext) -> None:
        self._measure = _MEASURES[name]
        self._context = context

    @classmethod
    def build(cls, criterion: Criterion, context: MetricContext) -> Metric:
        """Build the metric that `criterion` names.

        If the criterion is a bare number instead of limits, the number is the limit `max`.

        Raises:
            ValidationError: a limit is unknown, wrong or impossible.
        """
        given = dict(criterion.options)
        if not given and criterion.threshold < UNLIMITED:
            given["max"] = criterion.threshold
        BudgetLimits.model_validate(given, context=criterion)
        return cls(criterion.metric, context)

    def describe_options(self) -> JsonObject:
        """Return {}, because the only options are limits, and the figures of runs do not depend on them.

        So a baseline stays valid if a limit changes.
        """
        return {}

    async def score(self, case: EvalCase, run: CaseRun) -> MetricResult:
        """Return the figure of the run, 0 or more; `NotApplicable` with a reason if the figure is unknown.

        If tools are mocked, the latency counts as unknown, because the real tools would take other times.
        """
        if self._measure is _measure_latency and (case.tool_mocks or case.tool_recording is not None):
            return NotApplicable("tools were mocked, so the run has no latency")
        found = self._measure(run, self._context)
        return NotApplicable(found) if isinstance(found, str) else MetricScore(float(found))


Measure: TypeAlias = Callable[[CaseRun, MetricContext], float | str]
"""Function that returns the figure of a run, or a text with the reason why the figure is not known."""

_NO_TOKENS = "the agent reports no tokens"
_COST_DECIMALS = 12


def _measure_cost(run: CaseRun, context: MetricContext) -> float | str:
    """Return the reported cost in USD, else the cost of the tokens by their prices.

    If neither is known, return a text with the reason.
    """
    usage = run.usage
    if usage is None or not (usage.input_tokens or usage.output_tokens or usage.cost_usd):
        return f"{_NO_TOKENS} and no cost"
    if usage.cost_usd is None and context.judges is not None:
        usage = build_price_function(
            get_judge_resolver(context.judges).models.prices, datetime.now(UTC).date()
        )(usage)
    if usage.cost_usd is not None:
        # Three turns of 0.1 cost 0.3, and not 0.30000000000000004, the sum of the floats.
        return round(usage.cost_usd, _COST_DECIMALS)
    models = " and ".join(usage.models) or "a model that the agent does not name"
    return f"no price for {models}: add it to `prices`"


def _measure_model_calls(run: CaseRun, context: MetricContext) -> float | str:
    if context.is_recording:  # its trace has only turns, so a count of 0 would be wrong
        return "a recording has no model calls"
    if not run.trace:
        return "without a trace model calls are not counted: set `trace: true` in `agent`"
    return sum(span.kind == "model" for span in run.trace)


def _measure_latency(run: CaseRun, context: MetricContext) -> float | str:
    return (
        "a recorded run has no latency" if context.is_recording else run.duration_s or "no latency is known"
    )


_MEASURES: Mapping[str, Measure] = {
    "budget/tokens": lambda run, _: (
        (run.usage.input_tokens + run.usage.output_tokens if run.usage else 0) or _NO_TOKENS
    ),
    "budget/output_tokens": lambda run, _: (run.usage.output_tokens if run.usage else 0) or _NO_TOKENS,
    "budget/cost_usd": _measure_cost,
    "budget/tool_calls": lambda run, _: sum(
        len(reply.tool_calls) for reply in run.replies if reply is not None
    ),
    "budget/model_calls": _measure_model_calls,
    "budget/turns": lambda run, _: len(run.replies),
    "budget/latency_s": _measure_latency,
}
