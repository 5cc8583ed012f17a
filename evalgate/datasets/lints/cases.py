"""Warnings about cases: missing references, unused rubrics, unknown tools, ignored features, duplicates."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from evalgate.core.formatting import join_quoted, pluralize
from evalgate.core.protocols import CaseChecker, Metric, RequiresReference, SelectsRubrics
from evalgate.core.types import (
    CaseTurn,
    EvalCase,
    EvalSet,
    Event,
    JsonObject,
    Message,
    Reply,
    Rubric,
    ToolCall,
)
from evalgate.datasets.raw_edits import is_same_data

_IGNORED_FEATURES = {
    ("trpc", "expectedRunnerEnabled"): "`expectedRunnerEnabled` is passed over: only what is written counts",
    ("orchestrate", "attack_data"): "`attack_data` is not looked at: the case is scored by its goals alone",
    ("orchestrate", "file_upload"): "`file_upload` is passed over: the agent gets no file",
    (
        "orchestrate",
        "user_prompts",
    ): "`user_prompts` are passed over: without a `starting_sentence` a simulated user says everything",
}
"""(format, key of a case's native data) to the warning about this key."""


class IgnoredFeaturesLint:
    """Lint for data of other tools, such as `file_upload`, that evalgate keeps in a case but ignores.

    It also reports tool mocks that evalgate cannot apply: the case is then not run.
    """

    def build_checker(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> CaseChecker:
        """Return the checker for ignored features; both arguments are unused."""
        del eval_set, metrics
        return _describe_ignored_features


def _describe_ignored_features(case: EvalCase) -> Iterator[str]:
    for (source, key), sentence in _IGNORED_FEATURES.items():
        if case.native.get(source, {}).get(key):
            yield sentence
    for mock in case.tool_mocks:
        if mock.unsupported:
            prefix = "" if mock.turn is None else f"turn {mock.turn + 1}: "
            yield f"{prefix}{mock.unsupported}; the case will not be run"


_LISTED = 5


class MissingReferencesLint:
    """Lint for turns without the expected response or tool calls that a metric compares with.

    If a metric compares tool calls, a turn with a response and no tool calls is not reported: it may expect
    that no tool is called.
    """

    def build_checker(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> CaseChecker:
        """Return the checker for the references that `metrics` require."""
        del eval_set
        names: dict[str, list[str]] = {"response": [], "tools": []}
        for name, metric in metrics.items():
            if isinstance(metric, RequiresReference):
                names[metric.compares_with].append(name)
        return partial(_describe_missing_references, names)


def _describe_missing_references(names: Mapping[str, list[str]], case: EvalCase) -> Iterator[str]:
    silent = [number for number, turn in enumerate(case.turns, start=1) if turn.expected.response is None]
    if silent and names["response"]:
        lacking = f"{_format_turns(silent, case)} without an expected response"
        yield f"{lacking}: {_join_names(names['response'])} compares with nothing there"
    empty = [number for number in silent if not case.turns[number - 1].expected.tool_calls]
    if empty and names["tools"]:
        lacking = f"{_format_turns(empty, case)} without an expected response or tool call"
        yield f"{lacking}: {_join_names(names['tools'])} is met there by any agent that calls no tool"


def _format_turns(numbers: list[int], case: EvalCase) -> str:
    if len(numbers) == len(case.turns):
        return pluralize(len(numbers), "turn")
    names = ", ".join(map(str, numbers[:_LISTED])) + (", …" if len(numbers) > _LISTED else "")
    return f"turn {names}" if len(numbers) == 1 else f"turns {names}"


def _join_names(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


class UnusedRubricsLint:
    """Lint for rubrics that no metric of the eval set selects.

    It reports nothing if the set has no metric that selects rubrics, because other metrics may use all
    rubrics.
    """

    def build_checker(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> CaseChecker:
        """Return the checker for rubrics that none of `metrics` selects; `eval_set` is unused."""
        del eval_set
        judged: list[SelectsRubrics] = [
            metric for metric in metrics.values() if isinstance(metric, SelectsRubrics)
        ]
        return partial(_describe_unused_rubrics, judged)


def _describe_unused_rubrics(metrics: list[SelectsRubrics], case: EvalCase) -> Iterator[str]:
    if not metrics:
        return
    for rubric in case.rubrics:
        if not any(metric.accepts_rubric(rubric) for metric in metrics):
            yield _describe_rubric("", rubric)
    for number, turn in enumerate(case.turns, start=1):
        for rubric in turn.rubrics:
            if not any(metric.accepts_rubric(rubric) for metric in metrics):
                yield _describe_rubric(f" of turn {number}", rubric)


def _describe_rubric(location: str, rubric: Rubric) -> str:
    kind = f"is of the type {rubric.type}, and" if rubric.type else "has no `type`, and so"
    return f"the rubric `{rubric.rubric_id}`{location} {kind} no metric judges by it"


class UndeclaredToolsLint:
    """Lint for expected calls of undeclared tools, in turns with `app_details` that declare tools."""

    def build_checker(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> CaseChecker:
        """Return the checker for undeclared tools; both arguments are unused."""
        del eval_set, metrics
        return _describe_unknown_tools


def _describe_unknown_tools(case: EvalCase) -> Iterator[str]:
    for number, turn in enumerate(case.turns, start=1):
        declared = collect_declared_tools(turn)
        unknown = [call.name for call in turn.expected.tool_calls if call.name not in declared]
        if declared and unknown:
            yield (
                f"turn {number} expects {join_quoted(list(dict.fromkeys(unknown)))}, which its "
                f"`app_details` do "
                f"not declare: no agent there could call it (they declare {join_quoted(sorted(declared))})"
            )


def collect_declared_tools(turn: CaseTurn) -> frozenset[str]:
    """Collect the names of all functions that the turn's agents declare; empty if there are none."""
    details = _get_member(turn.app_details, "agent_details")
    agents = details.values() if isinstance(details, Mapping) else ()
    return frozenset(name for agent in agents for name in _iter_function_names(agent))


def _iter_function_names(agent: object) -> Iterator[str]:
    tools = _get_member(agent, "tool_declarations")
    for tool in tools if isinstance(tools, list) else ():
        functions = _get_member(tool, "function_declarations")
        for function in functions if isinstance(functions, list) else ():
            name = _get_member(function, "name")
            if isinstance(name, str):
                yield name


def _get_member(value: JsonObject | object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


_Thing = TypeVar("_Thing")
_Key: TypeAlias = tuple[object, ...]
"""Parts of an item by which possible duplicates are found quickly. Items with equal keys may still differ."""


class DuplicateLint:
    """Lint for two cases, or two turns of a case, with the same messages and expectations.

    1, 1.0 and true are different values, because an agent would get different arguments or results.
    """

    def build_checker(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> CaseChecker:
        """Return the checker for duplicates. The checker must be called once for each case, in order."""
        del metrics
        checks = eval_set.checks.sections if eval_set.checks else {}

        def get_content(case: EvalCase) -> object:
            return (_get_case_content(case), checks.get(case.eval_id))

        cases = _DuplicateFinder(eval_set.cases, _get_case_key, get_content)

        def check_case(case: EvalCase) -> Iterator[str]:
            turns = _DuplicateFinder(case.turns, _get_turn_key, _get_turn_content)
            for number, turn in enumerate(case.turns, start=1):
                if (earlier := turns.find_duplicate(turn)) is not None:
                    yield f"turn {number} asks and expects the same as turn {earlier + 1}"
            if (twin := cases.find_duplicate(case)) is not None:
                yield f"asks and expects the same as the case `{eval_set.cases[twin].eval_id}`"

        return check_case


class _DuplicateFinder(Generic[_Thing]):
    """Finder of items with equal content, which takes time linear in the number of items."""

    def __init__(
        self, things: Sequence[_Thing], key: Callable[[_Thing], _Key], content: Callable[[_Thing], object]
    ) -> None:
        self._things = things
        self._key = key
        self._content = content
        self._next = 0
        self._alone: dict[int, int] = {}
        """Hash of a key to the index of the first item with this key."""
        self._alike: dict[int, list[int]] = {}
        """Hash of (index of the first item with a key, content) to the indices of later items with this hash.

        Items are listed only if no earlier item has an equal content.
        """

    def find_duplicate(self, thing: _Thing) -> int | None:
        """Return the index of the first earlier item with equal content; None if there is none.

        Call this once for each item, in their order.
        """
        index = self._next
        self._next += 1
        first = self._alone.setdefault(hash(self._key(thing)), index)
        if first == index:
            return None
        own = self._content(thing)
        earlier: list[int] = self._alike.setdefault(_hash_content((first, own)), [])
        twin = next(
            (at for at in (first, *earlier) if is_same_data(self._content(self._things[at]), own)), None
        )
        if twin is None:
            earlier.append(index)
        return twin


def _hash_content(value: object) -> int:
    """Return a hash of JSON values and frozen dataclasses; equal values have equal hashes."""
    if isinstance(value, Mapping):
        return hash(frozenset((key, _hash_content(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return hash(tuple(map(_hash_content, value)))
    if is_dataclass(value):
        return hash(tuple(_hash_content(getattr(value, field.name)) for field in fields(value)))
    return hash(value)


def _get_case_key(case: EvalCase) -> _Key:
    plan = case.scenario
    texts = (plan.starting_prompt, plan.conversation_plan) if plan else ()
    return (*texts, *(each for turn in case.turns for each in _get_turn_key(turn)))


def _get_case_content(case: EvalCase) -> object:
    turns = [_get_turn_content(turn) for turn in case.turns]
    session = (case.session.app_name, case.session.state, case.final_state, case.context_messages)
    recorded = None if case.recorded is None else [_get_reply_content(reply) for reply in case.recorded]
    alternatives = [[_get_reply_content(reply) for reply in each] for each in case.alternatives]
    # Without the recording's file and digest, because they do not change the answers that this case gets.
    recording = (case.tool_recording.calls, case.tool_recording.live) if case.tool_recording else None
    tools = (case.tool_mocks, recording)
    return (turns, case.scenario, session, case.journey, recorded, case.rubrics, alternatives, tools)


def _get_turn_key(turn: CaseTurn) -> _Key:
    return (turn.user.text, turn.expected.response, *(call.name for call in turn.expected.tool_calls))


def _get_turn_content(turn: CaseTurn) -> object:
    return (turn.user, _get_reply_content(turn.expected), turn.rubrics)


def _get_reply_content(reply: Reply) -> object:
    return (reply.response, [_get_event_content(event) for event in reply.events])


def _get_event_content(event: Event) -> object:
    """Return an event's content without its id, which differs in every recording."""
    if isinstance(event, ToolCall):
        return (event.name, event.args, event.other_args)
    return (event.text, event.payload) if isinstance(event, Message) else (event.name, event.result)
