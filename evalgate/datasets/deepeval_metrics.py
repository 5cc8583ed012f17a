"""Find the metrics of DeepEval that a project's tests construct, without running the tests."""

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evalgate.core.frozen import frozen
from evalgate.core.types import JsonObject
from evalgate.datasets.javascript_patterns import UnknownPatternError
from evalgate.datasets.promptfoo_values import NoCounterpartError
from evalgate.datasets.python_patterns import translate_full_match
from evalgate.documents.re2_patterns import InvalidPatternError, RegexEngineMissingError, compile_pattern
from evalgate.system.files import read_text

_TOOL_CORRECTNESS = "ToolCorrectnessMetric"
_DEFAULT_THRESHOLD = 0.5
_LONGEST_SOURCE = 1_000_000
_GLOBBING = frozenset("*?[")
_REASONS = {
    "JsonCorrectnessMetric": "its schema is a class, which only its code knows",
    "AgentLoopDetectionMetric": "no check has its measure of repetition",
}
_GRADED = "a model grades it from 0 to 1"


@frozen
class DeepEvalMetrics:
    """Metrics of a project's tests, converted to criteria and checks of evalgate."""

    criteria: dict[str, object]
    """Criteria of a thresholds file, by the name of evalgate's metric."""
    checks: dict[str, JsonObject]
    """Checks of a thresholds file, by name. Each check applies to every case."""
    lost: tuple[str, ...]
    """One sentence for each metric without a counterpart, `file:line` first."""


def read_metrics(paths: Iterable[Path], format_path: Callable[[Path], str]) -> DeepEvalMetrics:
    """Convert the metrics that Python files construct from classes of `deepeval.metrics`.

    Only classes that a file imports by name (`from … import …`) are found. Files are skipped if they cannot
    be read or parsed, or have more than 1,000,000 characters. `format_path` returns a path as messages show
    it.

    A `ToolCorrectnessMetric` becomes the criterion `trajectory_recall`, or `trajectory_exact_match` if it
    asks for an exact match. If several become the same criterion, only the one with the highest threshold is
    kept, and `lost` does not list the others. A metric that becomes a check is lost if the tests construct
    it several times with different options, because only their code decides which case gets which options.
    """
    criteria: dict[str, object] = {}
    lost: list[str] = []
    checks: dict[str, list[tuple[str, JsonObject]]] = {}
    strictest: dict[str, float] = {}
    for path in paths:
        for name, call in _iter_metrics(path):
            where = f"{format_path(path)}:{call.lineno}: metric {name}"
            if name not in _CONVERTERS and name != _TOOL_CORRECTNESS:
                lost.append(f"{where} ({_REASONS.get(name, _GRADED)})")
                continue
            try:
                options = _read_options(name, call)
                if name in _CONVERTERS:
                    check = _CONVERTERS[name](options)
                    checks.setdefault(name, []).append((where, check))
                    continue
                threshold, found = _convert_tool_correctness(options)
            except (NoCounterpartError, UnknownPatternError) as error:
                lost.append(f"{where} {error}")
                continue
            for metric, criterion in found.items():
                if threshold > strictest.get(metric, -1.0):
                    strictest[metric], criteria[metric] = threshold, criterion
    for made in checks.values():
        if any(check != made[0][1] for _, check in made):
            lost += [f"{where} with other options in other tests" for where, _ in made]
    kept = {name: made[0][1] for name, made in checks.items() if all(c == made[0][1] for _, c in made)}
    return DeepEvalMetrics(criteria, {_NAMES[name]: check for name, check in kept.items()}, tuple(lost))


def _iter_metrics(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Yield (name of the class, call of its constructor) for each metric that a file constructs."""
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


def _read_options(name: str, call: ast.Call) -> Mapping[str, ast.expr]:
    """Return the arguments of a constructor's call as unevaluated expressions, by parameter name.

    Raises:
        NoCounterpartError: the call has `*args` or `**options`, which only running the code would evaluate.
            Also raised if a `ToolCorrectnessMetric` has positional arguments.
    """
    is_starred = any(isinstance(each, ast.Starred) for each in call.args)
    if is_starred or any(each.arg is None for each in call.keywords):
        raise NoCounterpartError("with options that are computed")
    if name == _TOOL_CORRECTNESS and call.args:
        raise NoCounterpartError("with options that are not named")
    options = dict(zip(_PARAMETERS.get(name, ()), call.args, strict=False))
    return options | {each.arg: each.value for each in call.keywords if each.arg}


def _convert_tool_correctness(options: Mapping[str, ast.expr]) -> tuple[float, dict[str, object]]:
    """Return the threshold of a `ToolCorrectnessMetric`, and its criterion as {name: settings}.

    Raises:
        NoCounterpartError: evalgate has no equivalent criterion, or an option's value is computed.
    """
    if {*options} & {"should_consider_ordering", "available_tools"}:
        raise NoCounterpartError("(with the order of calls, or with a model that grades them)")
    is_strict = _read_value(options, "strict_mode", default=False)
    threshold = 1.0 if is_strict else _read_value(options, "threshold", _DEFAULT_THRESHOLD)
    if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise NoCounterpartError(f"with the threshold {threshold}")
    exact = _read_value(options, "should_exact_match", default=False)
    has_args = _compares_arguments(options.get("evaluation_params", ast.List([], ast.Load())))
    metric = "trajectory_exact_match" if exact else "trajectory_recall"
    return threshold, {metric: {"threshold": float(threshold), "ignore_args": not has_args}}


def _compares_arguments(params: ast.expr) -> bool:
    """Return True if `evaluation_params` selects the arguments, False if it is empty.

    Raises:
        NoCounterpartError: `evaluation_params` selects anything else, or is computed.
    """
    items = params.elts if isinstance(params, ast.List | ast.Tuple) else [params]
    names = {each.attr if isinstance(each, ast.Attribute) else "" for each in items}
    if "" in names:
        raise NoCounterpartError("with `evaluation_params` that are computed")
    if names - {"INPUT_PARAMETERS"}:
        raise NoCounterpartError("with `evaluation_params` that no criterion compares")
    return bool(names)


# --- checks -------------------------------------------------------------------------------------------------


def _read_value(options: Mapping[str, ast.expr], name: str, default: object) -> Any:
    """Return the literal value of an option, or `default` if the option is absent.

    Raises:
        NoCounterpartError: the value is computed.
    """
    if name not in options:
        return default
    try:
        return ast.literal_eval(options[name])
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise NoCounterpartError(f"with a `{name}` that is computed") from None


def _require_threshold(options: Mapping[str, ast.expr], least: float) -> None:
    """Raise NoCounterpartError unless the option `threshold` is absent, None, or in (`least`, 1].

    The error is also raised if the value of the option is computed.
    """
    threshold = _read_value(options, "threshold", 1)
    if threshold is not None and not (isinstance(threshold, int | float) and least < threshold <= 1):
        raise NoCounterpartError(f"with the threshold {threshold}")


def _convert_exact_match(options: Mapping[str, ast.expr]) -> JsonObject:
    _require_threshold(options, 0)
    return {"response": {"similar": {"by": "edit_distance", "max_edits": 0}}}


def _convert_pattern_match(options: Mapping[str, ast.expr]) -> JsonObject:
    _require_threshold(options, 0)
    pattern = _read_value(options, "pattern", None)
    if not isinstance(pattern, str):
        raise NoCounterpartError("without a pattern")
    ignore_case = _read_value(options, "ignore_case", default=False)
    translated = translate_full_match(pattern.strip(), ignore_case=bool(ignore_case))
    try:
        compile_pattern(translated)
    except InvalidPatternError as error:
        raise NoCounterpartError(f"with a pattern that RE2 does not read: {error}") from None
    except RegexEngineMissingError:
        pass  # `evalgate validate` says what to install
    return {"response": {"matches": translated}}


def _convert_permission(options: Mapping[str, ast.expr]) -> JsonObject:
    if not _read_value(options, "strict_mode", default=False):
        _require_threshold(options, 1 - 1e-9)
    allowed = _read_value(options, "allowed_tools", None)
    denied = _read_value(options, "denied_tools", None)
    for listed in (allowed, denied):
        if listed is not None and not _is_list_of_names(listed):
            raise NoCounterpartError("with tools that are no list of names")
    if allowed is None and not denied:
        raise NoCounterpartError("without tools")
    if allowed == []:
        return {"tools": {"forbid": ["*"]}}
    found = {"only": allowed, "forbid": denied}
    return {"tools": {key: value for key, value in found.items() if value}}


def _is_list_of_names(found: object) -> bool:
    return isinstance(found, list) and all(
        isinstance(name, str) and name and not _GLOBBING & set(name) for name in found
    )


_CONVERTERS: Mapping[str, Callable[[Mapping[str, ast.expr]], JsonObject]] = {
    "ExactMatchMetric": _convert_exact_match,
    "PatternMatchMetric": _convert_pattern_match,
    "ToolPermissionMetric": _convert_permission,
}
_NAMES = {
    "ExactMatchMetric": "exact_match",
    "PatternMatchMetric": "pattern_match",
    "ToolPermissionMetric": "tool_permission",
}
_PARAMETERS = {
    "ExactMatchMetric": ("threshold",),
    "PatternMatchMetric": ("pattern", "ignore_case", "threshold"),
    "ToolPermissionMetric": ("allowed_tools", "denied_tools", "threshold"),
}
"""Class of a metric to the names of its parameters that may be given by position, in order."""
