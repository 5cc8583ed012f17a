"""Add the mocks of the section `tool_mocks` to cases: fixed results, and results of a recorded run."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from evalgate.agents.host.recorded_tools import format_canonical
from evalgate.agents.workers.protocol import MAX_ANSWER_BYTES, encode_tool_recording
from evalgate.config.schema.criteria import RecordedToolsConfig, ToolMockConfig, drop_recordings
from evalgate.config.schema.thresholds import Config, Thresholds
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import pluralize
from evalgate.core.types import (
    EvalCase,
    EvalSet,
    Record,
    RecordedAnswer,
    RecordedCall,
    Reply,
    ToolCall,
    ToolMock,
    ToolRecording,
    ToolResult,
    TraceSpan,
)
from evalgate.datasets.cases import describe_unmatched_names, map_cases
from evalgate.integrations.recordings import read_recording
from evalgate.redaction.redactor import REPLACEMENT
from evalgate.runner.base_branch import RuleFiles

_LOST = RecordedAnswer(lost="no result of it: the tool raised an error, or the run ended there")
_REDACTED = f"its result is redacted (`{REPLACEMENT}`)"
_SHOWN = 5


def add_tool_mocks(
    eval_sets: Iterable[EvalSet],
    config: Config,
    thresholds: Thresholds,
    rule_files: RuleFiles,
    *,
    is_part: bool = False,
) -> tuple[EvalSet, ...]:
    """Add to each case the mocks and recordings of `config.tool_mocks` that match it; return the eval sets.

    Mocks that a case has already stay first, so they take precedence. `is_part` is True if the user selected
    only some cases: then a mock without a matching case is accepted. Notices about gaps in recordings are
    added to the first eval set.

    Raises:
        InvalidInputError: a mock matches no case (only if `is_part` is False), or a recording cannot be used.
    """
    found = tuple(eval_sets)
    if not is_part and (problems := list(_find_idle_mocks(found, config, thresholds))):
        raise InvalidInputError(problems)
    if fixed := drop_recordings(config.tool_mocks):
        found = tuple(
            replace(
                each, cases=map_cases(each.cases, partial(_add_fixed_mocks, each, fixed), keeps_metadata=True)
            )
            for each in found
        )
    for index, mock in enumerate(config.tool_mocks):
        if isinstance(mock, RecordedToolsConfig):
            # `tool_mocks` may be a single mapping, without an index. A location that is not in the file has
            # the position of its parent, so the greater position is the exact one.
            locations = ("tool_mocks", index, "from"), ("tool_mocks", "from")
            position = max(thresholds.find_position(each) for each in locations)
            found = _add_recording(found, mock, thresholds, position, rule_files, is_part=is_part)
    return found


def _find_idle_mocks(
    eval_sets: Sequence[EvalSet], config: Config, thresholds: Thresholds
) -> Iterator[Problem]:
    for index, mock in enumerate(config.tool_mocks):
        idle = describe_unmatched_names(mock.ids, (), eval_sets, lambda _: ())
        if not any(each.cases for each in eval_sets):
            idle = "there to mock tools for"
        if idle:
            place = thresholds.find_position(("tool_mocks", index))
            yield Problem(thresholds.file, *place, f"no case is {idle}")


def _add_fixed_mocks(eval_set: EvalSet, mocks: Sequence[ToolMockConfig], case: EvalCase) -> EvalCase:
    found = [
        ToolMock(mock.tool, mock.result, mock.args, mock.exact)
        for mock in mocks
        if _matches_case(mock, eval_set, case)
    ]
    return replace(case, tool_mocks=(*case.tool_mocks, *found)) if found else case


def _matches_case(mock: ToolMockConfig | RecordedToolsConfig, eval_set: EvalSet, case: EvalCase) -> bool:
    names = (case.eval_id, f"{eval_set.eval_set_id}:{case.eval_id}", f"{eval_set.path}:{case.eval_id}")
    return not mock.ids or any(fnmatchcase(name, pattern) for pattern in mock.ids for name in names)


# --- recordings ---------------------------------------------------------------------------------------------


class RecordedCases:
    """Tool calls of each case in a recording, which is a record of a run or an eval set."""

    def __init__(self, recording: Record | EvalSet) -> None:
        self._calls = dict(_extract_calls(recording))
        self._sets_of: dict[str, list[str]] = {}
        for eval_set_id, eval_id in self._calls:
            self._sets_of.setdefault(eval_id, []).append(eval_set_id)
        text = json.dumps([[*key, format_canonical(_to_values(calls))] for key, calls in self._calls.items()])
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        """Hash over all recorded calls, as 12 hexadecimal digits; another recording has another hash."""

    def find_calls(self, eval_set: EvalSet, case: EvalCase) -> tuple[RecordedCall, ...] | None:
        """Return the recorded calls of a case; None if the case was not recorded.

        If the recording has no case with this eval set id and case id, for example because the eval set was
        renamed, it is searched for the case id alone. If several recorded sets have a case with this id, the
        result is None.
        """
        sets = self._sets_of.get(case.eval_id, [])
        known = eval_set.eval_set_id if eval_set.eval_set_id in sets else sets[0] if len(sets) == 1 else None
        return None if known is None else self._calls[known, case.eval_id]


def _to_values(calls: Iterable[RecordedCall]) -> object:
    return encode_tool_recording(ToolRecording("", tuple(calls)))


def _add_recording(
    eval_sets: Sequence[EvalSet],
    config: RecordedToolsConfig,
    thresholds: Thresholds,
    position: tuple[int, int],
    rule_files: RuleFiles,
    *,
    is_part: bool,
) -> tuple[EvalSet, ...]:
    path = thresholds.folder / config.source
    shown_as = rule_files.format_relative_path(path)
    if not rule_files.choose_version(path).exists():
        raise InvalidInputError(
            [
                Problem(
                    thresholds.file,
                    *position,
                    f"there is no recording {shown_as}. Run once with `--live-tools`, and copy the "
                    "results.json of that run there",
                )
            ]
        )
    recorded = RecordedCases(read_recording(rule_files.choose_version(path), shown_as))
    found = []
    for each in eval_sets:
        add_calls = partial(_add_recorded_calls, each, config, recorded, shown_as)
        found.append(replace(each, cases=map_cases(each.cases, add_calls, keeps_metadata=True)))
    problems = list(_find_recording_problems(eval_sets, config, recorded, shown_as, is_part=is_part))
    if problems:
        raise InvalidInputError(Problem(thresholds.file, *position, problem) for problem in problems)
    notices = tuple(_describe_gaps(eval_sets, config, recorded, shown_as))
    return (replace(found[0], notices=(*found[0].notices, *notices)), *found[1:])


def _add_recorded_calls(
    eval_set: EvalSet, config: RecordedToolsConfig, recorded: RecordedCases, source: str, case: EvalCase
) -> EvalCase:
    # If several recordings match a case, the first one counts, as with fixed mocks.
    if case.tool_recording is not None or not _matches_case(config, eval_set, case):
        return case
    calls = recorded.find_calls(eval_set, case) or ()
    recording = ToolRecording(source, calls, config.live, recorded.digest)
    return replace(case, tool_recording=recording)


def _iter_matches(
    eval_sets: Sequence[EvalSet], config: RecordedToolsConfig, recorded: RecordedCases
) -> Iterator[tuple[EvalCase, tuple[RecordedCall, ...] | None]]:
    for eval_set in eval_sets:
        for case in eval_set.cases:
            if case.tool_recording is None and _matches_case(config, eval_set, case):
                yield case, recorded.find_calls(eval_set, case)


def _find_recording_problems(
    eval_sets: Sequence[EvalSet],
    config: RecordedToolsConfig,
    recorded: RecordedCases,
    shown_as: str,
    *,
    is_part: bool,
) -> Iterator[str]:
    found = list(_iter_matches(eval_sets, config, recorded))
    if found and not is_part and all(calls is None for _, calls in found):
        yield f"{shown_as} has no run of any of the cases"
    for case, calls in found:
        if calls and len(json.dumps(_to_values(calls))) > MAX_ANSWER_BYTES:
            yield f"{shown_as} has more than 16 MiB of recorded tool calls of the case `{case.eval_id}`"


def _describe_gaps(
    eval_sets: Sequence[EvalSet], config: RecordedToolsConfig, recorded: RecordedCases, shown_as: str
) -> Iterator[str]:
    """Yield a notice if the recording lacks cases, and a notice if it has redacted results.

    Only the cases that `config` selects for this recording are looked at. `shown_as` is the path of the
    recording.
    """
    found = list(_iter_matches(eval_sets, config, recorded))
    missing = [f"`{case.eval_id}`" for case, calls in found if calls is None]
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (" …" if missing[_SHOWN:] else "")
        yield (
            f"{shown_as} has no run of {pluralize(len(missing), 'case')} ({shown}): each call of a tool "
            "ends the case without a score. Record again with `--live-tools`."
        )
    hidden = {
        call.tool: sum(answer.lost == _REDACTED for answer in call.answers)
        for _, calls in found
        for call in calls or ()
        if any(answer.lost == _REDACTED for answer in call.answers)
    }
    if hidden:
        tools = ", ".join(f"`{name}`" for name in hidden)
        yield (
            f"{shown_as} has redacted results (`{REPLACEMENT}`) of {tools}, which are not used: a call that "
            "needs one ends the case without a score. Add a fixed result to `tool_mocks`."
        )


def refuse_overwriting(recordings: Iterable[Path], results: Path) -> None:
    """Check that a run does not write its results over a recording that answers its tool calls.

    Raises:
        InvalidInputError: `results`, the file to write, is one of the recordings.
    """
    if any(each.resolve() == results.resolve() for each in recordings):
        raise InvalidInputError(
            f"the run would write its results over {results.name}, which answers its tools: copy that "
            "file to another folder, or name another one with --out. `--live-tools` records it anew"
        )


# --- reading ------------------------------------------------------------------------------------------------


def _extract_calls(
    recording: Record | EvalSet,
) -> Iterator[tuple[tuple[str, str], tuple[RecordedCall, ...]]]:
    if isinstance(recording, EvalSet):
        runs: dict[tuple[str, str], list[_Calls]] = {}
        for case in recording.cases:
            replies = [turn.expected for turn in case.turns]
            runs.setdefault((recording.eval_set_id, case.eval_id), []).append(_pair_calls(replies, ()))
        yield from ((key, _merge_runs(found)) for key, found in runs.items())
        return
    for result in recording.cases:
        found = [
            _pair_calls([turn.actual for turn in run.turns if turn.actual is not None], run.trace)
            for run in result.runs
        ]
        yield result.key, _merge_runs(found)


_Calls = dict[tuple[str, str], RecordedCall]
"""Tool calls of one run. The key is the name of the tool and its arguments as canonical JSON text."""


def _merge_runs(runs: Sequence[_Calls]) -> tuple[RecordedCall, ...]:
    """Merge the calls of several runs of a case: return each distinct call (tool and arguments) once.

    The answers to a call are those of one run: the run with the largest number of usable answers to it.
    """
    merged: _Calls = {}
    for run in runs:
        for key, call in run.items():
            if key not in merged or _count_usable(call) > _count_usable(merged[key]):
                merged[key] = call
    return tuple(merged.values())


def _count_usable(call: RecordedCall) -> int:
    return sum(not answer.lost for answer in call.answers)


def _pair_calls(replies: Sequence[Reply], trace: Sequence[TraceSpan]) -> _Calls:
    """Return the tool calls in the replies of a run, each with its answers.

    Calls with the same tool and arguments become one call with several answers. A result answers the first
    unanswered call with the same id; without such a call, the first unanswered call of its tool. A call
    without a result gets the tool's error in the trace as its answer. If there is no error either, the answer
    states that the result is lost.
    """
    pairs: list[tuple[ToolCall, RecordedAnswer | None]] = []
    for reply in replies:
        for event in reply.events:
            if isinstance(event, ToolCall):
                pairs.append((event, None))
            elif isinstance(event, ToolResult):
                _answer_call(pairs, event)
    errors = _index_errors(trace)
    found: _Calls = {}
    for call, answer in pairs:
        key = call.name, format_canonical(call.args)
        lost = _LOST
        if answer is None and (raised := errors.get(key)):
            error = raised.pop(0)
            lost = RecordedAnswer(lost=_REDACTED) if _holds_redaction(error) else RecordedAnswer(error=error)
        earlier = found[key].answers if key in found else ()
        found[key] = RecordedCall(call.name, call.args, (*earlier, answer or lost))
    return found


def _answer_call(pairs: list[tuple[ToolCall, RecordedAnswer | None]], result: ToolResult) -> None:
    open_calls = [index for index, (_, answer) in enumerate(pairs) if answer is None]
    same = [index for index in open_calls if result.id is not None and pairs[index][0].id == result.id]
    named = [index for index in open_calls if pairs[index][0].name == result.name]
    for index in (same or named)[:1]:
        pairs[index] = pairs[index][0], _read_answer(result.result)


def _read_answer(result: object) -> RecordedAnswer:
    if _holds_redaction(result):
        return RecordedAnswer(lost=_REDACTED)
    # The decorator of the agent host reports an error in this form.
    if isinstance(result, Mapping) and result.keys() == {"error", "raised"}:
        return RecordedAnswer(error=str(result["error"]), error_type=str(result["raised"]))
    return RecordedAnswer(result)


def _holds_redaction(value: object) -> bool:
    if isinstance(value, str):
        return REPLACEMENT in value
    if isinstance(value, Mapping):
        return any(_holds_redaction(each) for each in value.values())
    return isinstance(value, list | tuple) and any(_holds_redaction(each) for each in value)


def _index_errors(trace: Sequence[TraceSpan]) -> dict[tuple[str, str], list[str]]:
    """Return the errors of the tools in a trace, in order, by the tool's name and canonical arguments."""
    found: dict[tuple[str, str], list[str]] = {}
    for span in trace:
        if span.kind == "tool" and span.error:
            found.setdefault((span.name, format_canonical(span.request)), []).append(span.error)
    return found
