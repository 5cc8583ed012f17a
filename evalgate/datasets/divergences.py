"""Find the first divergence of a failed run: the first difference from the expectation of the case.

Reports group failing cases by their divergences, and a baseline stores the divergence of each failing run.
A divergence depends only on the run and on the options of the run's metrics. It holds no value of an
argument and no text of a response.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_one_line
from evalgate.core.score_ranges import BUDGETS
from evalgate.core.types import (
    AGENT_FAULT_OUTCOMES,
    CaseMetric,
    CaseResult,
    RecordedCriterion,
    RunMetric,
    RunResult,
    ToolCall,
    TurnResult,
)

FailureKind: TypeAlias = Literal[
    "missing_call",
    "extra_call",
    "other_tool",
    "order",
    "argument",
    "missing_argument",
    "extra_argument",
    "response",
    "missing_turn",
    "extra_turn",
    "check",
    "rubric",
    "budget",
    "metric",
    "crash",
    "timeout",
    "not_run",
    "not_scored",
    "unknown",
]

_LABELS: Mapping[FailureKind, str] = {
    "missing_call": "no call of `{tool}`",
    "extra_call": "unexpected call of `{tool}`",
    "other_tool": "`{tool}` instead of `{detail}`",
    "order": "`{tool}` before `{detail}`",
    "argument": "`{tool}` with another `{detail}`",
    "missing_argument": "`{tool}` without `{detail}`",
    "extra_argument": "`{tool}` with an unexpected `{detail}`",
    "response": "only the response differs",
    "missing_turn": "a turn without an answer",
    "extra_turn": "a turn that the case does not have",
    "check": "the check `{detail}` does not hold",
    "rubric": "the rubric `{detail}` is not met",
    "budget": "the budget `{detail}` is exceeded",
    "metric": "`{detail}` is not met",
    "crash": "crashed: `{detail}`",
    "timeout": "timed out",
    "not_run": "could not be run: `{detail}`",
    "not_scored": "`{detail}` could not be evaluated",
    "unknown": "no run shows why",
}

NO_AGENT_KINDS: frozenset[FailureKind] = frozenset({"not_run", "not_scored", "unknown"})
"""Kinds of failures that do not show a fault of the agent."""

_LONGEST_NAME = 80
_DEEPEST = 20
_CHECK = "check/"
_EXCEPTION = re.compile(r"\braised ([A-Za-z_][\w.]*)|\b((?:\w+\.)*[A-Z]\w*(?:Error|Exception))\b")
_HALF = 0.5  # judges' scores of rubrics: yes is 1, no is 0


@frozen
class Divergence:
    """The first difference of a failed run from the expectation of its case."""

    kind: FailureKind
    tool: str = ""
    """The tool that was called, or was expected and not called; "" if no tool is concerned."""
    detail: str = ""
    """The other tool, path of the argument, check, rubric, budget, metric or exception; "" if none."""

    @property
    def label(self) -> str:
        """Return the divergence in words, with names in backticks: `issue_refund` before `lookup_order`."""
        if self.kind == "argument" and not self.detail:
            return f"`{self.tool}` with other arguments"
        return _LABELS[self.kind].format(tool=self.tool, detail=self.detail)

    @property
    def signature(self) -> str:
        """Return a text that is equal for equal divergences, in any version of evalgate."""
        return " ".join(filter(None, (self.kind, self.tool, self.detail)))


Criteria: TypeAlias = Mapping[tuple[str, str], RecordedCriterion]
"""Criteria by the name of the metric and its fingerprint, as `Record.index_criteria` returns them."""


def find_failing_run(case: CaseResult) -> RunResult | None:
    """Return the run of a case that shows the failure best; None if the case was not run.

    The first run without an answer is taken. If all have one, the first run with a failed or errored gating
    metric is taken, and otherwise the first run.
    """
    if len(case.runs) <= 1:
        return case.runs[0] if case.runs else None
    unanswered = (run for run in case.runs if run.outcome != "answered")
    fell_short = (run for run in case.runs if any(_list_bad_metrics(run)))
    return next(unanswered, None) or next(fell_short, case.runs[0])


def find_divergence(case: CaseResult, criteria: Criteria) -> Divergence:
    """Return the divergence that stands for a failed case: that of the run which `find_failing_run` chooses.

    If no run failed by itself, as when only the mean misses a threshold, name the first failed metric of the
    case, else the first errored one.
    """
    run = find_failing_run(case)
    found = find_run_divergence(case, run, criteria) if run is not None else None
    return found or _find_case_fault(case.metrics)


def find_run_divergence(case: CaseResult, run: RunResult, criteria: Criteria) -> Divergence | None:
    """Return the first divergence of one run.

    Return None if the run has an answer, and no gating metric failed or errored.
    """
    if run.outcome != "answered":
        return _describe_ending(run)
    bad = list(_list_bad_metrics(run))
    if not bad:
        return None
    failed = [metric for metric in bad if metric.gating_status == "failed"]
    if not failed:
        return Divergence("not_scored", detail=_clean_name(bad[0].name))
    return (
        _find_odd_turn(run, failed)
        or _find_call_divergence(case, run, failed, criteria)
        or _find_judged_fault(run, failed)
    )


def has_failed(run: RunResult) -> bool:
    """Return True if the agent failed in a run: by a crash or timeout, or by a missed threshold."""
    return run.outcome in AGENT_FAULT_OUTCOMES or any(
        metric.gating_status == "failed" for metric in run.metrics
    )


def _list_bad_metrics(run: RunResult) -> Iterator[RunMetric]:
    return (metric for metric in run.metrics if metric.gating_status in {"failed", "errored"})


def _describe_ending(run: RunResult) -> Divergence:
    if run.outcome == "timed_out":
        return Divergence("timeout")
    failure = run.failure
    raised = _EXCEPTION.search(failure.message) if failure else None
    detail = (
        (raised[1] or raised[2]).rpartition(".")[2] if raised else failure.kind if failure else "no reason"
    )
    return Divergence("crash" if run.outcome == "crashed" else "not_run", detail=_clean_name(detail))


def _find_case_fault(metrics: Sequence[CaseMetric]) -> Divergence:
    """Return a divergence that names the first failed gating metric of a case.

    Without a failed metric, name the first errored one. Without both, return the kind `unknown`.
    """
    failed = (metric for metric in metrics if metric.gating_status == "failed")
    errored = (metric for metric in metrics if metric.gating_status == "errored")
    if metric := next(failed, None):
        return _name_metric(metric.name)
    if metric := next(errored, None):
        return Divergence("not_scored", detail=_clean_name(metric.name))
    return Divergence("unknown")


def _find_odd_turn(run: RunResult, failed: Sequence[RunMetric]) -> Divergence | None:
    """Return the divergence of a run with a missing or extra turn, unless only checks or budgets failed."""
    if all(metric.name.startswith(_CHECK) or metric.name in BUDGETS for metric in failed):
        return None
    is_played = all(turn.expected is None for turn in run.turns)  # by a simulated user
    for turn in run.turns:
        if turn.actual is None:
            return Divergence("missing_turn")
        if turn.expected is None and not is_played:
            return Divergence("extra_turn")
    return None


def _find_judged_fault(run: RunResult, failed: Sequence[RunMetric]) -> Divergence:
    """Return the divergence that a check, a rubric, a comparison of responses or another metric found."""
    for metric in failed:
        if metric.name.startswith(_CHECK):
            return _name_metric(metric.name)
    for metric in failed:
        if rubric := _find_missed_rubric(run, metric):
            return Divergence("rubric", detail=_clean_name(rubric))
    others = [metric for metric in failed if not compares_responses(metric.name)]
    return Divergence("response") if not others else _name_metric(others[0].name)


def _name_metric(name: str) -> Divergence:
    if name.startswith(_CHECK):
        return Divergence("check", detail=_clean_name(name.removeprefix(_CHECK)))
    if name in BUDGETS:
        return Divergence("budget", detail=_clean_name(_get_base_name(name)))
    return Divergence("metric", detail=_clean_name(name))


def _find_missed_rubric(run: RunResult, metric: RunMetric) -> str:
    """Return the id of the first rubric that a judge denied; "" if no rubric was denied."""
    turns = (each.details for turn in run.turns for each in turn.metrics if each.name == metric.name)
    for details in (*turns, metric.details):
        listed = (details or {}).get("rubrics") or (details or {}).get("rubric_scores")
        for rubric in listed if isinstance(listed, Sequence) else ():
            score = rubric.get("score") if isinstance(rubric, Mapping) else None
            if isinstance(score, int | float) and score < _HALF:
                return str(rubric.get("id", ""))
    return ""


def _clean_name(name: str) -> str:
    """Return a name for labels: on one line, shortened, without a backtick."""
    return to_one_line(name.replace("`", "'"), _LONGEST_NAME) or "?"


# --- tool calls -----------------------------------------------------------------------------------------


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
"""The metrics that compare tool calls, by the name of the evaluator, with what they do by default."""

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
    """Return True if a metric compares responses with expected responses."""
    return _get_base_name(metric) in _RESPONSE_METRICS


def _get_base_name(name: str) -> str:
    return name.rpartition("/")[2]


def _get_args(call: ToolCall) -> object:
    return {} if call.arguments is None else call.arguments


def _find_rule(case: CaseResult, name: str, criteria: Criteria) -> _MatchRule | None:
    """Return the rule by which a case's metric compares tool calls; None if it compares none."""
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


def _find_call_divergence(
    case: CaseResult, run: RunResult, failed: Sequence[RunMetric], criteria: Criteria
) -> Divergence | None:
    """Return the first divergence of the tool calls that explains a failed metric; None if there is none."""
    rules = {metric.name: _find_rule(case, metric.name, criteria) for metric in run.metrics}
    for metric in failed:
        if rule := rules[metric.name]:
            return _compare_turns(_select_turns(run.turns, metric.name), rule)
    # Where no metric compares calls, they still explain another response, if the case expects some.
    if any(rules.values()) or not any(compares_responses(each.name) for each in failed):
        return None
    return _compare_turns([turn for turn in run.turns if turn.expected and turn.expected.tool_calls], _EXACT)


_EXACT = _MatchRule()


def _select_turns(turns: Sequence[TurnResult], metric: str) -> Sequence[TurnResult]:
    """Return the turns that fail a metric; all turns if no single turn fails."""
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
    """Return the divergence for a metric that allows another order, or calls in between."""
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
    return Divergence(kind, _clean_name(call.name), _clean_name(other.name) if other else "")


def _compare_args(expected: ToolCall, actual: ToolCall) -> Divergence:
    kind, path = _find_argument(_get_args(expected), _get_args(actual), "", 0)
    return Divergence(kind, _clean_name(expected.name), _clean_name(path) if path else "")


def _find_argument(expected: object, actual: object, path: str, depth: int) -> tuple[FailureKind, str]:
    """Return the kind and the path of the first argument that differs: `items[*].sku`.

    The path names no index of a list, so cases that differ in other items of a list have the same path.
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
