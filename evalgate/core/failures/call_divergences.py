"""Compare the tool calls of a failed run with the expected ones, by the rule of the metric that failed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from evalgate.core.failures.divergence import Criteria, Divergence, FailureKind, clean_name
from evalgate.core.frozen import frozen
from evalgate.core.types import CaseResult, RunMetric, RunResult, ToolCall, TurnResult

_DEEPEST = 20


@frozen
class _MatchRule:
    """Rule by which a metric compares the calls of a turn with the expected calls."""

    is_ordered: bool = True
    allows_extra: bool = False
    ignores_args: bool = False

    def is_same_call(self, one: ToolCall, other: ToolCall) -> bool:
        return one.name == other.name and (self.ignores_args or _get_args(one) == _get_args(other))


_ANY_ORDER = _MatchRule(is_ordered=False, allows_extra=True)

_TOOL_METRICS: Mapping[str, _MatchRule] = {
    "tool_trajectory_avg_score": _MatchRule(),
    "adk-rs/tool_trajectory_avg_score": _MatchRule(),
    "trpc/tool_trajectory_avg_score": _MatchRule(is_ordered=False),
    "trajectory_exact_match": _MatchRule(),
    "trajectory_in_order_match": _MatchRule(allows_extra=True),
    "trajectory_any_order_match": _ANY_ORDER,
    "trajectory_precision": _MatchRule(is_ordered=False),
    "trajectory_recall": _ANY_ORDER,
    "orchestrate/journey_success": _ANY_ORDER,
    "orchestrate/journey_completion": _ANY_ORDER,
    "orchestrate/tool_call_precision": _MatchRule(is_ordered=False),
    "orchestrate/tool_call_recall": _ANY_ORDER,
}
"""Default rule of each metric that compares tool calls. Keys are names of the metric registry."""

_RESPONSE_METRICS = frozenset(
    {
        "response_match_score",
        "final_response_match_v2",
        "final_response_avg_score",
        "final_response_match_v1",
        "llm_final_response",
        "text_match",
        "keyword_match",
    }
)
"""Metrics that compare a response with the expected response; prefixes such as `trpc/` are left out."""


def compares_responses(metric: str) -> bool:
    """Return True if the metric of this name compares responses with expected responses."""
    return metric.rpartition("/")[2] in _RESPONSE_METRICS


def _get_args(call: ToolCall) -> object:
    return {} if call.arguments is None else call.arguments


def _find_rule(case: CaseResult, name: str, criteria: Criteria) -> _MatchRule | None:
    """Return the rule by which the metric `name` compares tool calls; None for metrics of other kinds.

    The options of the criterion override the default rule of the metric.
    """
    prints = (metric.fingerprint for metric in case.metrics if metric.name == name)
    criterion = criteria.get((name, next(prints, "")))
    rule = _TOOL_METRICS.get((criterion.evaluator if criterion else "") or name)
    if rule is None or criterion is None:
        return rule
    options = criterion.options
    match = str(options.get("match_type", options.get("matchType", ""))).upper().replace("-", "_")
    names_only = bool(options.get("ignore_args", options.get("ignoreArgs", rule.ignores_args)))
    if match.replace(" ", "_") in {"IN_ORDER", "1"}:
        return _MatchRule(is_ordered=True, allows_extra=True, ignores_args=names_only)
    if match.replace(" ", "_") in {"ANY_ORDER", "2"}:
        return _MatchRule(is_ordered=False, allows_extra=True, ignores_args=names_only)
    trpc = options.get("toolTrajectory")
    if isinstance(trpc, Mapping):
        is_ordered = trpc.get("orderSensitive", not trpc.get("orderInsensitive", True))
        return _MatchRule(bool(is_ordered), bool(trpc.get("subsetMatching")), names_only)
    return _MatchRule(rule.is_ordered, rule.allows_extra, names_only)


def find_call_divergence(
    case: CaseResult, run: RunResult, failed: Sequence[RunMetric], criteria: Criteria
) -> Divergence | None:
    """Return the first difference of a run's tool calls from the expected calls; None if none is found.

    `failed` are the failed metrics of the run. The calls are compared by the rule of the first failed metric
    that compares tool calls. If the run has no metric that compares tool calls, failed or not, and a metric
    that compares responses failed, each call must equal the expected one. Otherwise, return None.
    """
    rules = {metric.name: _find_rule(case, metric.name, criteria) for metric in run.metrics}
    for metric in failed:
        if rule := rules[metric.name]:
            return _compare_turns(_select_turns(run.turns, metric.name), rule)
    # If no metric compares calls, another call than the expected one may still explain another response.
    if any(rules.values()) or not any(compares_responses(each.name) for each in failed):
        return None
    return _compare_turns([turn for turn in run.turns if turn.expected and turn.expected.tool_calls], _EXACT)


_EXACT = _MatchRule()


def _select_turns(turns: Sequence[TurnResult], metric: str) -> Sequence[TurnResult]:
    """Return the turns in which the metric failed or errored; all turns if there is no such turn."""
    found = [
        turn
        for turn in turns
        if any(each.name == metric and each.status in {"failed", "errored"} for each in turn.metrics)
    ]
    return found or turns


def _compare_turns(turns: Iterable[TurnResult], rule: _MatchRule) -> Divergence | None:
    for turn in turns:
        if turn.expected is None or turn.actual is None:
            continue
        try:
            found = _compare_calls(turn.expected.tool_calls, turn.actual.tool_calls, rule)
        except RecursionError:  # arguments that are nested too deep
            found = None
        if found is not None:
            return found
    return None


def _compare_calls(
    expected: Sequence[ToolCall], actual: Sequence[ToolCall], rule: _MatchRule
) -> Divergence | None:
    if not rule.is_ordered or rule.allows_extra:
        return _compare_loosely(expected, actual, rule)
    shorter = min(len(expected), len(actual))
    first = next((at for at in range(shorter) if not rule.is_same_call(expected[at], actual[at])), shorter)
    wanted, made = expected[first:], actual[first:]
    if not wanted or not made:
        return _describe_lone_call(wanted, made)
    one, other = wanted[0], made[0]
    if one.name == other.name:
        return _compare_args(one, other)
    due, done = Counter(call.name for call in wanted), Counter(call.name for call in made)
    is_missing, is_extra = due[one.name] > done[one.name], done[other.name] > due[other.name]
    if is_missing == is_extra:
        return _name_calls("other_tool" if is_missing else "order", other, one)
    return _name_calls("missing_call", one) if is_missing else _name_calls("extra_call", other)


def _compare_loosely(
    expected: Sequence[ToolCall], actual: Sequence[ToolCall], rule: _MatchRule
) -> Divergence | None:
    """Compare calls by a rule that ignores the order or allows extra calls; return the first difference.

    Return None if there is no difference. If the expected tool was called with other arguments, the result
    describes the first argument that differs.
    """
    left = list(actual)
    since = 0  # in `left`: where the search for the next call begins, if order counts
    lacking = []
    previous: ToolCall | None = None
    for wanted in expected:
        places = range(since, len(left)) if rule.is_ordered else range(len(left))
        place = next((at for at in places if rule.is_same_call(wanted, left[at])), None)
        if place is None:
            lacking.append((wanted, previous))
            if rule.is_ordered:
                break
        else:
            del left[place]
            since = place
            previous = wanted
    if not lacking:
        return None if rule.allows_extra else _describe_lone_call((), left)
    wanted, before = lacking[0]
    if before is not None and any(rule.is_same_call(wanted, call) for call in left):
        return _name_calls("order", wanted, before)
    near = next((call for call in left if call.name == wanted.name), None)
    if near is not None:
        return _compare_args(wanted, near)
    return (
        _name_calls("missing_call", wanted)
        if rule.allows_extra or not left
        else _name_calls("other_tool", left[0], wanted)
    )


def _describe_lone_call(wanted: Sequence[ToolCall], made: Sequence[ToolCall]) -> Divergence | None:
    if wanted:
        return _name_calls("missing_call", wanted[0])
    return _name_calls("extra_call", made[0]) if made else None


def _name_calls(kind: FailureKind, call: ToolCall, other: ToolCall | None = None) -> Divergence:
    return Divergence(kind, clean_name(call.name), clean_name(other.name) if other else "")


def _compare_args(expected: ToolCall, actual: ToolCall) -> Divergence:
    kind, path = _find_argument(_get_args(expected), _get_args(actual), "", 0)
    return Divergence(kind, clean_name(expected.name), clean_name(path) if path else "")


def _find_argument(expected: object, actual: object, path: str, depth: int) -> tuple[FailureKind, str]:
    """Return the kind of the first difference between arguments, and its path, such as `items[*].sku`.

    The path has `[*]` instead of the index of an item, so that failures in different items of a list are
    grouped together. A difference more than 20 levels deep gets the path of its parent at the 20th level.
    `path` and `depth` tell where `expected` and `actual` are: "" and 0 for whole arguments.
    """
    if isinstance(expected, Mapping) and isinstance(actual, Mapping) and depth < _DEEPEST:
        for key, value in expected.items():
            inner = f"{path}.{key}" if path else str(key)
            if key not in actual:
                return "missing_argument", inner
            if value != actual[key]:
                return _find_argument(value, actual[key], inner, depth + 1)
        extra = next((key for key in actual if key not in expected), None)
        if extra is not None:
            return "extra_argument", f"{path}.{extra}" if path else str(extra)
    is_list = isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual)
    if is_list and isinstance(expected, list) and isinstance(actual, list) and depth < _DEEPEST:
        for one, other in zip(expected, actual, strict=True):
            if one != other:
                return _find_argument(one, other, f"{path}[*]", depth + 1)
    return "argument", path
