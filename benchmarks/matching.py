"""Measure the cost of matching many tool calls in any order. It grows nearly linearly, unlike pairwise comparison."""

import asyncio
import random

from benchmarks.measure import seconds_a_call
from evalgate.core.protocols import MetricContext
from evalgate.core.types import CaseRun, CaseTurn, Criterion, EvalCase, Reply, ToolCall, UserMessage
from evalgate.integrations.adk.metrics.tool_trajectory import ToolTrajectory
from evalgate.integrations.trpc.metrics.tool_trajectory import TrpcToolTrajectory

GOAL_MS = 100  # for Google ADK's metric and 10,000 calls
TOOLS = 20


def main():
    """Print the milliseconds of both metrics for 1,000 and 10,000 calls that differ only in their order."""
    metrics = {
        "Google ADK": ToolTrajectory(match_type="ANY_ORDER"),
        "tRPC-Agent-Go": TrpcToolTrajectory.build(
            Criterion("trpc/tool_trajectory_avg_score", 1.0, {"toolTrajectory": {}}), MetricContext((2, 13))
        ),
    }
    for name, metric in metrics.items():
        thousand, ten_thousand = (_seconds(metric, calls) for calls in (1_000, 10_000))
        goal = f" (goal {GOAL_MS})" if name == "Google ADK" else ""
        print(
            f"{name:14} 1,000 calls {thousand * 1000:6.1f} ms   10,000 calls {ten_thousand * 1000:6.1f} ms{goal}   "
            f"× {ten_thousand / thousand:.1f} for ten times the calls"
        )


def _seconds(metric, count):
    expected, actual = _calls(count), _calls(count)
    random.Random(7).shuffle(actual)
    case = EvalCase("many", (CaseTurn(UserMessage("go"), Reply("", tuple(expected))),))
    run = CaseRun(1, "answered", (Reply("", tuple(actual)),))
    if asyncio.run(metric.score(case, run)).score != 1.0:
        raise SystemExit("matching: the same calls in another order do not match")
    return seconds_a_call(lambda _: asyncio.run(metric.score(case, run)), [None])


def _calls(count):
    return [
        ToolCall(
            f"tool_{number % TOOLS}",
            {"query": f"shoes {number}", "limit": number, "page": 1, "sort": "price"},
            str(number),
        )
        for number in range(count)
    ]
