"""Metrics that a project's tests construct from DeepEval, read from the source text without running it."""

import ast
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from evalgate.core.frozen import frozen
from evalgate.system.files import read_text

_DEFAULT_THRESHOLD = 0.5
_LONGEST_SOURCE = 1_000_000


@frozen
class DeepEvalMetrics:
    """Metrics of a project's tests."""

    criteria: dict[str, object]
    """Metric of evalgate to its threshold or options."""
    lost: tuple[str, ...]
    """One sentence for each metric without a counterpart, `file:line` first."""


def read_metrics(paths: Iterable[Path], format_path: Callable[[Path], str]) -> DeepEvalMetrics:
    """Return the metrics that these Python files construct. Files that cannot be read or parsed are skipped.

    `ToolCorrectnessMetric` is the share of expected tools that were called, as `trajectory_recall` is. If
    several tests give it different thresholds, the highest applies.
    """
    criteria: dict[str, object] = {}
    lost: list[str] = []
    strictest = -1.0
    for path in paths:
        for name, call in _iter_metrics(path):
            where = f"{format_path(path)}:{call.lineno}"
            options = {each.arg: each.value for each in call.keywords if each.arg}
            if name != "ToolCorrectnessMetric" or {*options} & {
                "should_consider_ordering",
                "available_tools",
            }:
                lost.append(f"{where}: metric {name}")
                continue
            threshold = (
                1.0 if _is_true(options.get("strict_mode")) else _get_threshold(options.get("threshold"))
            )
            if threshold > strictest:
                strictest = threshold
                exact = _is_true(options.get("should_exact_match"))
                has_args = "INPUT_PARAMETERS" in ast.dump(options.get("evaluation_params") or ast.List([]))
                metric = "trajectory_exact_match" if exact else "trajectory_recall"
                criteria = {metric: {"threshold": threshold, "ignore_args": not has_args}}
    return DeepEvalMetrics(criteria, tuple(lost))


def _iter_metrics(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Yield the constructions of metrics, each with the name of its class."""
    try:
        text = read_text(path, errors="replace")
    except OSError:
        return
    if "deepeval" not in text or len(text) > _LONGEST_SOURCE:
        return
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    imported = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("deepeval.metrics")
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in imported:
            yield imported[node.func.id], node


def _is_true(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def _get_threshold(value: ast.expr | None) -> float:
    is_number = isinstance(value, ast.Constant) and isinstance(value.value, int | float)
    return float(value.value) if is_number and isinstance(value, ast.Constant) else _DEFAULT_THRESHOLD  # type: ignore[arg-type]
