"""Metrics of tool calls that have nothing to compare with, or that let additional calls pass."""

from collections.abc import Iterator, Mapping

from evalgate.config import Thresholds
from evalgate.model import EvalSet
from evalgate.numbers import counted
from evalgate.protocols import AllowsExtraCalls, ComparesWith, Metric


def find_empty_trajectories(eval_set: EvalSet, metrics: Mapping[str, Metric]) -> Iterator[str]:
    """Yield a sentence for each metric of tool calls when no case of the eval set expects a call.

    Cases that a simulated user plays expect nothing turn by turn, so they are left out.
    """
    names = [name for name, metric in metrics.items() if _compares_tools(metric)]
    # Nearly always the first case answers, of a million too.
    if not names or any(head.expects_calls for head in eval_set.heads):
        return
    written = sum(not head.is_played for head in eval_set.heads)
    if not written:
        return
    for name in names:
        passes = "agent" if _allows_extra_calls(metrics[name]) else "agent that calls no tool"
        yield (
            f"`{name}` has nothing to compare in {eval_set.path}: of its {counted(written, 'case')} "
            f"none expects a tool call, so that any {passes} passes."
        )


def lint_extra_calls(rules: Thresholds, metrics: Mapping[str, Metric]) -> Iterator[str]:
    """Yield a sentence, with its place in the file, for each metric that lets additional calls pass."""
    for name, metric in metrics.items():
        if _allows_extra_calls(metric):
            line, _ = rules.position(("criteria", name))
            place = f"{rules.file}:{line}" if line else rules.file
            yield (
                f"{place}: `{name}` lets any additional tool call pass, wanted or not: "
                "only an exact match holds the agent to the expected calls alone"
            )


def _compares_tools(metric: Metric) -> bool:
    return isinstance(metric, ComparesWith) and metric.compares_with == "tools"


def _allows_extra_calls(metric: Metric) -> bool:
    return isinstance(metric, AllowsExtraCalls) and metric.allows_extra_calls
