"""Check the tool calls of a run: names, numbers, order, success and arguments."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import Literal

from evalgate.config.schema.checks import ToolsRule, ValueRule
from evalgate.core.formatting import join_quoted, pluralize
from evalgate.core.sanitize import shorten_text
from evalgate.core.types import ToolResult
from evalgate.metrics.checks.transcript import MadeCall, Transcript
from evalgate.metrics.checks.values import ValueCondition, find_values
from evalgate.metrics.tool_call_matching import collect_tool_records

_SHOWN = 8
_LONGEST_RESULT = 120
_ERROR_STATES = frozenset({"error", "errored", "failed", "failure"})
_ERROR_TEXT = re.compile(r"\s*(?:error\b|traceback \(most recent call last\))", re.IGNORECASE)


def build_matcher(glob: str) -> Callable[[str], object]:
    """Return a function that takes a tool's name, and returns a truthy value if `glob` matches the name."""
    if not set(glob) & set("*?["):
        return glob.__eq__
    if glob == "*":
        return lambda _: True
    return re.compile(translate(glob)).match


class ToolsCondition:
    """The conditions under the key `tools` of a check."""

    def __init__(self, rule: ToolsRule) -> None:
        self._require = _build_matchers(rule.require)
        self._forbid = _build_matchers(rule.forbid)
        self._order = _build_matchers(rule.order)
        self._only = [matches for _, matches in _build_matchers(rule.only)]
        self._allowed = join_quoted(rule.only or ())
        self._max = _build_counts(rule.max)
        self._min = _build_counts(rule.min)
        self._no_failed_calls = rule.no_failed_calls
        self._no_repeats = rule.no_repeats

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield a sentence for each condition that does not hold."""
        calls, names = transcript.calls, transcript.names
        # Fast path: `map` runs in C. Only if a condition fails, which is rare, calls are described.
        for glob, matches in self._forbid:
            if any(map(matches, names)):
                yield from (
                    f"{made.describe()}: `{glob}` is forbidden" for made in calls if matches(made.call.name)
                )
        if self._only:
            unwanted = [made for made in calls if not any(matches(made.call.name) for matches in self._only)]
            yield from (f"{made.describe()}: only {self._allowed} may be called" for made in unwanted)
        for glob, matches in self._require:
            if not any(map(matches, names)):
                yield f"expected a call of `{glob}`, found {describe_calls(calls)}"
        if self._max or self._min:
            yield from self._find_count_faults(calls, names)
        if self._order and (fault := self._find_order_fault(calls)):
            yield fault
        if self._no_failed_calls:
            yield from _find_failed_calls(transcript)
        if self._no_repeats and len(set(names)) < len(names):
            yield from _find_repeats(calls)

    def _find_count_faults(self, calls: Sequence[MadeCall], names: Sequence[str]) -> Iterator[str]:
        for glob, matches, most in self._max:
            if len(names) > most and sum(map(bool, map(matches, names))) > most:
                found = [made for made in calls if matches(made.call.name)]
                expected = f"expected at most {_describe_count(most, glob)}"
                yield f"{found[most].describe()}: {expected}, found {len(found)}"
        for glob, matches, least in self._min:
            count = sum(map(bool, map(matches, names)))
            if count < least:
                yield f"expected at least {_describe_count(least, glob)}, found {count}"

    def _find_order_fault(self, calls: Sequence[MadeCall]) -> str:
        at, last = 0, None
        for made in calls:
            if self._order[at][1](made.call.name):
                at, last = at + 1, made
                if at == len(self._order):
                    return ""
        after = f" after {last.describe()}" if last else ""
        return f"expected a call of `{self._order[at][0]}`{after}, found {describe_calls(calls)}"


def _build_matchers(globs: Sequence[str] | None) -> list[tuple[str, Callable[[str], object]]]:
    return [(glob, build_matcher(glob)) for glob in globs or ()]


def _build_counts(counts: Mapping[str, int] | None) -> list[tuple[str, Callable[[str], object], int]]:
    return [(glob, build_matcher(glob), count) for glob, count in (counts or {}).items()]


def _describe_count(count: int, glob: str) -> str:
    calls = pluralize(count, "call")
    return f"{calls} in all" if glob == "*" else f"{calls} of `{glob}`"


def describe_calls(calls: Sequence[MadeCall]) -> str:
    """Return the names of the called tools in their order, such as "`a`, `b` and `a`", or "no call".

    Only the first 8 names are listed.
    """
    if not calls:
        return "no call"
    names = [made.call.name for made in calls]
    more = len(names) - _SHOWN
    return join_quoted(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def is_error_result(result: object) -> bool:
    """Return True if the result of a tool shows that the call failed.

    An object is an error in any of these cases:

    * `error` is truthy in Python, such as a text that is not empty.
    * `isError` or `is_error` is true.
    * `status` is error, errored, failed or failure, in upper or lower case.
    * The object or text at the key `result` is an error.

    A text is an error if it begins with the word "error", in upper or lower case, or with a Python traceback.
    """
    if isinstance(result, Mapping):
        status = result.get("status")
        if result.get("error") or result.get("isError") is True or result.get("is_error") is True:
            return True
        if isinstance(status, str) and status.lower() in _ERROR_STATES:
            return True
        inner = result.get("result")
        return inner is not result and isinstance(inner, Mapping | str) and is_error_result(inner)
    return isinstance(result, str) and _ERROR_TEXT.match(result) is not None


def _find_failed_calls(transcript: Transcript) -> Iterator[str]:
    for turn, reply in transcript.turns:
        if not [event for event in reply.events if isinstance(event, ToolResult)]:
            continue
        for number, record in enumerate(collect_tool_records(reply), 1):
            if is_error_result(record.result):
                made = next(each for each in transcript.calls if (each.turn, each.number) == (turn, number))
                found = json.dumps(record.result, ensure_ascii=False, default=str)
                yield f"{made.describe()} failed: it returned {shorten_text(found, _LONGEST_RESULT)}"


def _find_repeats(calls: Sequence[MadeCall]) -> Iterator[str]:
    seen: dict[str, MadeCall] = {}
    for made in calls:
        call = made.call
        args = {} if call.arguments is None else call.arguments
        key = json.dumps([call.name, _unify_numbers(args)], sort_keys=True, default=str)
        earlier = seen.setdefault(key, made)
        if earlier is not made:
            yield f"{made.describe()} repeats turn {earlier.turn}, call {earlier.number}"


def _unify_numbers(value: object) -> object:
    """Return the value with an int for each whole float (1 for 1.0), because both are equal in JSON."""
    if isinstance(value, Mapping):
        return {key: _unify_numbers(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_unify_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class ArgumentsCondition:
    """The conditions under the key `args` of a check, for one tool."""

    def __init__(
        self, tool: str, rules: Mapping[str, ValueRule], calls: Literal["every", "some", "if_any"]
    ) -> None:
        self._tool = tool
        self._matches = build_matcher(tool)
        self._conditions = [(path, ValueCondition(rule)) for path, rule in rules.items()]
        self._calls = calls

    def find_faults(self, transcript: Transcript) -> Iterator[str]:
        """Yield a sentence for each wrong argument, or one sentence if the tool was not called.

        - If `calls` is "every", all calls of the tool must be right.
        - If it is "some", one right call suffices. If no call is right, yield only the faults of the call
          with the fewest faults.
        - If it is "if_any", all calls must be right, and the tool need not be called.

        Raises:
            QuestionPendingError: a model has to be asked first.
        """
        matches = self._matches
        calls = [made for made in transcript.calls if matches(made.call.name)]
        if not calls:
            if self._calls != "if_any":
                yield f"expected a call of `{self._tool}`, found {describe_calls(transcript.calls)}"
        elif self._calls == "some":
            yield from self._find_nearest_faults(calls, transcript)
        else:
            for made in calls:
                yield from self._find_call_faults(made, transcript)

    def _find_nearest_faults(self, calls: Sequence[MadeCall], transcript: Transcript) -> list[str]:
        """Return the faults of the call with the fewest faults; empty if any call is right."""
        best: list[str] | None = None
        for made in calls:
            faults = self._find_call_faults(made, transcript)
            if not faults:
                return []
            best = faults if best is None or len(faults) < len(best) else best
        return best or []

    def _find_call_faults(self, made: MadeCall, transcript: Transcript) -> list[str]:
        call, faults = made.call, []
        args = {} if call.arguments is None else call.arguments
        for path, condition in self._conditions:
            # Fast path: most paths are just the name of an argument.
            if isinstance(args, dict) and path in args:
                found: Iterable[tuple[str, object]] = ((path, args[path]),)
            else:
                found = find_values(args, path)
            for shown, value in found:
                if fault := condition.find_fault(value, transcript):
                    faults.append(f"{made.describe()}: `{shown}` {fault}")
        return faults
