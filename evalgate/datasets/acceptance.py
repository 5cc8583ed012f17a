"""Accept the behaviour of an agent in a run as the new expectation of a case."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.plugin_registry import FINAL_STATE
from evalgate.core.types import (
    CaseResult,
    EvalCase,
    Event,
    Message,
    Reply,
    RunResult,
    ToolCall,
    ToolResult,
)
from evalgate.datasets.case_edits import replace_turn, set_calls, set_conversation_goals, set_expected_reply
from evalgate.datasets.raw_edits import is_same_call, is_same_data
from evalgate.datasets.tool_call_pairs import is_result_of
from evalgate.documents.json_edits import align_items
from evalgate.redaction.redactor import TextCollector

Part: TypeAlias = Literal["tools", "response"]
REDACTION_MARKS = ("***", "[REDACTED]", "… nested too deep")
"""Texts that a redacted record has in place of hidden texts."""


@frozen
class AcceptedParts:
    """Choice of the behaviour to accept as the new expectation: the run, the turn, and calls or response."""

    run: int | None = None
    """1-based number of the run; None: all runs, which must agree."""
    turn: int | None = None
    """1-based number of the only accepted turn; None: all turns."""
    only: Part | None = None
    """The only accepted part of each turn. None: the calls, and the response if the turn expects one."""


def choose_run(result: CaseResult, accepted: AcceptedParts) -> RunResult:
    """Return the run that is accepted as the new expectation of a case.

    If `accepted.run` is a number, return the run with this number. If it is None, return the first run. Then
    all runs must agree in the accepted parts. Follow-up runs (`RunResult.confirms`) are left out: they only
    help to decide whether a failing case broke.

    Raises:
        InvalidInputError: the case was not run, or has no run of the given number. Also raised if a
            considered run has no answer, or if no number is set and the runs disagree.
    """
    counting = [run for run in result.runs if not run.confirms]
    if accepted.run is not None:
        chosen = next((run for run in result.runs if run.run == accepted.run), None)
        if chosen is None:
            numbers = ", ".join(str(run.run) for run in result.runs)
            raise InvalidInputError(f"{result.eval_id!r} has no run {accepted.run}: there are {numbers}")
        counting = [chosen]
    if not counting:
        raise InvalidInputError(f"{result.eval_id!r} was not run")
    for run in counting:
        if run.outcome != "answered":
            outcome = run.outcome.replace("_", " ")
            raise InvalidInputError(
                f"{result.eval_id!r}: run {run.run} {outcome}: only an answer can be accepted"
            )
    first = counting[0]
    parts = _select_parts(first, accepted)
    if not all(is_same_data(parts, _select_parts(run, accepted)) for run in counting[1:]):
        raise InvalidInputError(
            f"{result.eval_id!r}: its {pluralize(len(counting), 'run')} disagree: look at them, and name one "
            f"with `--run N`{_advise_on_parts(counting, accepted)}"
        )
    return first


def _advise_on_parts(runs: Sequence[RunResult], accepted: AcceptedParts) -> str:
    """Return advice for runs that disagree only in their responses: accept the calls alone.

    The advice is the end of a sentence. It is "" if the calls differ, too, or if `accepted` already selects
    only calls or only responses.
    """
    tools = replace(accepted, only="tools")
    first = _select_parts(runs[0], tools)
    if accepted.only is not None or not all(is_same_data(first, _select_parts(run, tools)) for run in runs):
        return ""
    return ", or accept the calls alone with `--only tools`: they agree"


def is_never_accepted(metric: str) -> bool:
    """Return True for the name of a check, of a budget, or of the metric of the final state.

    Accepting an agent's reply as the expectation cannot make these metrics pass.
    """
    return metric.startswith(("check/", "budget/")) or metric == FINAL_STATE


def is_acceptable(result: CaseResult) -> bool:
    """Return True if a case failed, and accepting the agent's behaviour may fix the failure.

    The case must be in a file, and `is_never_accepted` must be False for at least one failed metric. All runs
    except follow-up runs must have an answer and agree with each other. At least one turn must have other
    calls or another response than expected. A redacted record must not hide a part of a reply.
    """
    failed = [metric.name for metric in result.metrics if metric.gating_status == "failed"]
    if result.status != "failed" or not result.path or all(map(is_never_accepted, failed)):
        return False
    try:
        run = choose_run(result, AcceptedParts())
        pairs = [(turn.expected, turn.actual) for turn in run.turns if turn.expected and turn.actual]
        for at, (_, actual) in enumerate(pairs):
            _refuse_hidden(result.eval_id, at, actual)
    except InvalidInputError:
        return False
    return any(
        _describe_calls(expected) != _describe_calls(actual)
        or expected.response not in {None, actual.response}
        for expected, actual in pairs
    )


def _describe_calls(reply: Reply) -> list[tuple[str, object]]:
    """Return (name, arguments) of each call of a reply."""
    return [(call.name, call.arguments) for call in reply.tool_calls]


def _select_parts(run: RunResult, accepted: AcceptedParts) -> list[object]:
    """Return [response, calls without ids] of each accepted turn, with None for a part that is not accepted.

    Turns without a reply are left out.
    """
    turns = run.turns if accepted.turn is None else run.turns[accepted.turn - 1 : accepted.turn]
    return [
        [
            turn.actual.response if _is_response_accepted(turn.expected, accepted.only) else None,
            None
            if accepted.only == "response"
            else [[call.name, call.arguments] for call in turn.actual.tool_calls],
        ]
        for turn in turns
        if turn.actual is not None
    ]


def _is_response_accepted(expected: Reply | None, only: Part | None) -> bool:
    """Return True if the actual response becomes the expected one.

    It does if `only` selects responses, or if `only` is None and `expected` holds a response.
    """
    return only == "response" or (only is None and expected is not None and expected.response is not None)


def accept_run(case: EvalCase, run: RunResult, accepted: AcceptedParts) -> EvalCase:
    """Return the case with the behaviour of a run as its expectation; unchanged turns stay the same objects.

    Raises:
        InvalidInputError: the case has no turn `accepted.turn`, or has no turns because its user is
            simulated. Also raised if a turn of the run has no reply, or lacks a response that the case
            expects, or if the record hides a part of a reply. Also raised if the case has several
            turns and goals, and `accepted` selects a turn or a part: goals are for the whole conversation.
            Also raised if a case with goals would have none.
    """
    found = _set_accepted_replies(case, run, accepted)
    if found.journey is not None and not found.journey.goals:
        raise InvalidInputError(
            f"{case.eval_id!r}: the agent called no tool and gave no response, so the case would have no "
            "goal: nothing was saved. Leave the case out, or correct it by hand"
        )
    return found


def _set_accepted_replies(case: EvalCase, run: RunResult, accepted: AcceptedParts) -> EvalCase:
    replies = dict(_iter_accepted_replies(case, run, accepted))
    if case.journey is not None and len(case.turns) > 1:
        if accepted.turn is not None or accepted.only is not None:
            raise InvalidInputError(
                f"the case {case.eval_id!r} has goals for the whole conversation: leave out --turn and --only"
            )
        return set_conversation_goals(case, list(replies.values()))
    for at, reply in replies.items():
        expected = case.turns[at].expected
        if not is_same_data(reply, expected):
            if case.journey is not None:
                case = set_expected_reply(case, at, reply)
            else:
                case = replace_turn(case, at, replace(case.turns[at], expected=reply))
    return case


def build_alternative(case: EvalCase, run: RunResult, accepted: AcceptedParts) -> dict[str, object]:
    """Return the behaviour of a run as an alternative of the case, with the keys of a `NotedAlternative`.

    Raises:
        InvalidInputError: the case has goals, has no turn `accepted.turn`, or has no turns. Also raised if a
            turn of the run has no reply, or lacks a response that the case expects. Also raised if the record
            hides a part of a reply, or if the arguments of a call are no object.
    """
    if case.journey is not None:
        raise InvalidInputError(
            f"the case {case.eval_id!r} has goals, which have no alternatives: write a check that does"
        )
    replies = dict(_iter_accepted_replies(case, run, accepted))
    expected = [turn.expected for turn in case.turns]
    return {"turns": [_describe_turn(reply, replies.get(at, reply)) for at, reply in enumerate(expected)]}


def _describe_turn(expected: Reply, reply: Reply) -> dict[str, object]:
    """Return the parts of a reply that differ from the expected reply, under the keys of a `NotedTurn`."""
    found: dict[str, object] = {}
    if not is_same_data(expected.events, reply.events):
        results = [event.result for event in reply.events if isinstance(event, ToolResult)]
        calls = [_describe_call(call) for call in reply.tool_calls]
        if len(results) == len(calls):
            calls = [{**call, "result": result} for call, result in zip(calls, results, strict=True)]
        found["tools"] = calls
    if reply.response != expected.response:
        found["response"] = reply.response
    return found


def _describe_call(call: ToolCall) -> dict[str, object]:
    if call.other_args is not None:
        raise InvalidInputError(f"the arguments of `{call.name}` are no object: case notes cannot hold them")
    return {"name": call.name} if call.args is None else {"name": call.name, "args": dict(call.args)}


def _iter_accepted_replies(
    case: EvalCase, run: RunResult, accepted: AcceptedParts
) -> Iterator[tuple[int, Reply]]:
    """Yield (index from 0, new expectation) for each accepted turn.

    Raises:
        InvalidInputError: the case has no turn `accepted.turn`, or has no turns. Also raised if a turn of the
            run has no reply, or lacks a response that the case expects, or if the record hides a part of it.
    """
    if case.scenario is not None or not case.turns:
        raise InvalidInputError(f"{case.eval_id!r} has no expected turns: its user is simulated")
    places = range(len(case.turns)) if accepted.turn is None else [accepted.turn - 1]
    for at in places:
        if at >= len(case.turns):
            raise InvalidInputError(
                f"{case.eval_id!r} has no turn {at + 1}: it has {pluralize(len(case.turns), 'turn')}"
            )
        actual = run.turns[at].actual if at < len(run.turns) else None
        if actual is None:
            raise InvalidInputError(f"{case.eval_id!r}: the agent gave no reply in turn {at + 1}")
        reply = _build_accepted_reply(case.turns[at].expected, actual, accepted.only)
        if accepted.only != "tools" and reply.response is None and case.turns[at].expected.response:
            raise InvalidInputError(
                f"{case.eval_id!r}: the agent gave no response in turn {at + 1}: use `--only tools`"
            )
        _refuse_hidden(case.eval_id, at, reply)
        yield at, reply


def _build_accepted_reply(expected: Reply, actual: Reply, only: Part | None) -> Reply:
    reply = expected if only == "response" else _replace_calls(expected, actual)
    if not _is_response_accepted(expected, only):
        return reply
    return reply if reply.response == actual.response else replace(reply, response=actual.response)


def _replace_calls(expected: Reply, actual: Reply) -> Reply:
    """Return `expected` with its calls, and its results if it has any, replaced by those of `actual`."""
    old = expected.tool_calls
    has_results = any(isinstance(event, ToolResult) for event in expected.events)
    sources = align_items(old, actual.tool_calls, is_same_call)
    calls = [
        _replace_call(old[source] if source is not None else None, call, keeps_id=has_results)
        for call, source in zip(actual.tool_calls, sources, strict=True)
    ]
    if not has_results:
        is_same = len(old) == len(calls) and all(one is call for one, call in zip(old, calls, strict=True))
        return expected if is_same else set_calls(expected, calls, sources)
    events: list[Event] = [event for event in expected.events if isinstance(event, Message)]
    left = [event for event in actual.events if isinstance(event, ToolResult)]
    known = [event for event in expected.events if isinstance(event, ToolResult)]
    for call, made in zip(calls, actual.tool_calls, strict=True):
        events.append(call)
        found = next((each for each in left if is_result_of(each, made)), None)
        if found is not None:
            left.remove(found)
            same = (each for each in known if each.id == call.id and is_same_data(each.result, found.result))
            events.append(next(same, replace(found, id=call.id, author=None)))
    reply = replace(expected, events=tuple(events))
    return expected if _split_events(reply) == _split_events(expected) else reply


def _split_events(reply: Reply) -> tuple[list[Event], list[Event]]:
    calls = [event for event in reply.events if isinstance(event, ToolCall)]
    return [*calls], [event for event in reply.events if isinstance(event, ToolResult)]


def _replace_call(old: ToolCall | None, call: ToolCall, *, keeps_id: bool) -> ToolCall:
    if old is None:
        return ToolCall(call.name, call.args, call.id if keeps_id else None, other_args=call.other_args)
    if is_same_call(old, call):
        return old
    return replace(old, name=call.name, args=call.args, other_args=call.other_args)


def _refuse_hidden(eval_id: str, at: int, reply: Reply) -> None:
    """Raise InvalidInputError if a redacted record hides a part of a reply; `at` is the turn, 0-based."""
    texts = TextCollector()
    texts.gather_texts(reply)
    shown = "\n".join(texts.found)  # no mark has a line end
    for mark in REDACTION_MARKS:
        if mark in shown:
            raise InvalidInputError(
                f"{eval_id!r}: `{mark}` in turn {at + 1} stands for a text that results.json hides, "
                "such as a secret: correct the case by hand"
            )
