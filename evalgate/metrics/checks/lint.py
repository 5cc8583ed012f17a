"""Warn of checks that an agent can pass without doing its task, and of unknown tool names in checks."""

from collections.abc import Container, Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import chain

from evalgate.config.schema.checks import CheckConditions, Conditions, ResponseRule, is_covered
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.formatting import join_quoted
from evalgate.core.types import EvalCase, EvalSet, Goal
from evalgate.datasets.lints.cases import collect_declared_tools

_NEGATIVE = {"not_contains", "max_words", "ignore_case"}


def lint_checks(
    files: Iterable[Thresholds], names: Container[str], eval_sets: Iterable[EvalSet]
) -> Iterator[str]:
    """Yield a sentence, with the place in the thresholds file, for each likely mistake in a check.

    `names` are the checks of the selected cases, written `check/name`; other checks are left out.
    """
    tools = _KnownTools(eval_sets)
    checks = ((rules, each) for rules in files for each in rules.checks if each.metric in names)
    for rules, criterion in checks:
        # JSON Schemas do not matter for the warnings, so their files are not read.
        check = CheckConditions.model_validate(dict(criterion.options), context=lambda _: {})
        line, _ = rules.find_position(rules.locate_criterion(criterion))
        location = f"{rules.file}:{line}" if line else rules.file
        for sentence in (
            *_find_refusal_passes(check),
            *_find_wrong_ways_alone(check),
            *_find_hidden_calls(check),
            *tools.find_unknown(check),
        ):
            yield f"{location}: `{criterion.metric}`: {sentence}"


def _find_refusal_passes(check: CheckConditions) -> Iterator[str]:
    groups = check.alternatives or (check,)
    for group in groups:
        rule = group.response or check.response
        if (
            rule is not None
            and _is_negative(rule)
            and not (_asks_for_action(check) or _asks_for_action(group))
        ):
            keys = " and ".join(f"`{key}`" for key in sorted(rule.model_fields_set - {"ignore_case"}))
            yield (
                f"an agent that refuses, or answers something else, passes: {keys} of a response "
                "asks for nothing. Say what it `contains`, or a tool to `require`"
            )
            return


def _find_wrong_ways_alone(check: CheckConditions) -> Iterator[str]:
    wrong_ways = check.none_of or ()
    if not check.alternatives and not _asks_for_action(check) and any(group.response for group in wrong_ways):
        yield (
            "an agent that refuses, or answers something else, passes: `none_of` names wrong answers only. "
            "Say what a `response` `contains`, or a tool to `require`"
        )


def _find_hidden_calls(check: CheckConditions) -> Iterator[str]:
    for number, group in enumerate(check.none_of or (), 1):
        if group.args and "calls" not in group.model_fields_set:
            yield (
                f"number {number} of `none_of` holds only if all calls of {join_quoted([*group.args])} have "
                "these arguments, so that another call hides a wrong one: add `calls: some`, or "
                "`calls: every` if that is meant"
            )


def _is_negative(rule: ResponseRule) -> bool:
    return rule.model_fields_set <= _NEGATIVE


def _asks_for_action(group: Conditions) -> bool:
    """Return True if an agent must act to pass `group`: call a tool, answer, set state or write a file."""
    tools, response = group.tools, group.response
    return bool(
        (tools and (tools.require or tools.order or tools.min))
        or (group.args and group.calls != "if_any")
        or (response and not _is_negative(response))
        or group.state
        or any(rule.exists for rule in (group.files or {}).values())
    )


class _KnownTools:
    """Tools that eval sets name: as declared, expected, recorded or mocked, or as goals of a journey."""

    def __init__(self, eval_sets: Iterable[EvalSet]) -> None:
        self._declared: set[str] = set()
        self._named: set[str] = set()
        for eval_set in eval_sets:
            for case in eval_set.cases:
                self._declared.update(*(collect_declared_tools(turn) for turn in case.turns))
                self._named.update(_iter_named_tools(case))
        self._named |= self._declared

    def find_unknown(self, check: CheckConditions) -> Iterator[str]:
        """Yield a sentence for each tool that the check names, but the eval sets do not.

        A tool that the agent should call is unknown if no case, recording, mock or declaration names it. A
        forbidden tool is unknown if no declaration names it: cases do not expect calls of forbidden tools. If
        the eval sets declare no tool at all, forbidden tools are not checked.
        """
        for glob, is_wanted in dict.fromkeys(_iter_tools(check)):
            known = self._named if is_wanted else self._declared
            if (known or is_wanted) and not any(fnmatchcase(name, glob) for name in known):
                verb = "is named by no case, recording, mock or declaration of a tool"
                text = verb if is_wanted else "is not among the declared tools, so that it forbids nothing"
                yield f"`{glob}` {text}.{did_you_mean(glob, sorted(known))}".removesuffix(".")


def _iter_named_tools(case: EvalCase) -> Iterator[str]:
    replies = (*(turn.expected for turn in case.turns), *(case.recorded or ()), *chain(*case.alternatives))
    for reply in replies:
        yield from (call.name for call in reply.tool_calls)
    yield from (mock.tool for mock in case.tool_mocks)
    if case.tool_recording is not None:
        yield from (call.tool for call in case.tool_recording.calls)
    goals: Iterable[Goal] = case.journey.goals if case.journey else ()
    yield from (goal.tool_name for goal in goals if goal.tool_name)


def _iter_tools(check: CheckConditions) -> Iterator[tuple[str, bool]]:
    """Yield (glob, wanted) for each tool that a check names; `wanted` is True if the agent should call it."""
    right_ways = (check, *(check.alternatives or ()))
    for number, group in enumerate((*right_ways, *(check.none_of or ()))):
        is_right = number < len(right_ways)
        tools = group.tools
        if tools is not None:
            for names in (tools.require, tools.order, tools.min, tools.only if is_right else ()):
                yield from ((name, is_right) for name in names or ())
            required = tuple(tools.require or ())
            # A tool that a group of `none_of` forbids is a tool that the agent should call.
            yield from ((name, not is_right or is_covered(name, required)) for name in tools.max or ())
            yield from ((name, not is_right) for name in tools.forbid or ())
        yield from ((name, is_right and group.calls != "if_any") for name in group.args or ())
