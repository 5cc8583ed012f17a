"""A run as rows of plain values, and back: what a journal holds of it.

A row is JSON without names: every object is an array of its fields, in the order of the model. It is written
in a quarter of the time that a record takes, and in half the room. Two rows make a run, that of its turns
after the other, so that whoever goes on with a run needs not look at what was said.
"""

import json
import re
from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeAlias

from evalgate.config.schema.budget import Spent, Tokens
from evalgate.core.types import (
    Attempt,
    Event,
    Failure,
    JudgeTotals,
    Message,
    Reply,
    RunMetric,
    RunResult,
    ToolCall,
    ToolResult,
    TurnMetric,
    TurnResult,
    Usage,
)
from evalgate.datasets.large.lazy_cases import WrittenRun
from evalgate.datasets.results_encoder import mended, written_fields
from evalgate.llm.usage import Used

_Row: TypeAlias = Any
_MOST_DIGITS = 4300
_HUGE = re.compile(rb"\d{%d}" % (_MOST_DIGITS + 1))
"""What may be an integer that Python writes and does not read again."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def dump_run(run: RunResult) -> bytes:
    """A run as compact JSON on one line, for `load_run`. What the model forbids is mended, as in a record.

    Three values with commas between them: how long the second is, the run, its turns.
    """
    row = _dump(_run_row(run))
    return b"%d,%b,%b" % (len(row), row, _dump([_turn_row(turn) for turn in run.turns]))


def _dump(row: _Row) -> bytes:
    from pydantic_core import PydanticSerializationError, to_json

    try:
        written = to_json(row)
    except (PydanticSerializationError, ValueError):
        return _dump_mended(row)
    return written if len(written) <= _MOST_DIGITS or not _HUGE.search(written) else _dump_mended(row)


def _dump_mended(row: _Row) -> bytes:
    text = json.dumps(mended(row), ensure_ascii=False, separators=(",", ":"))
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text).encode()


def load_run(data: bytes) -> "RunInRows":
    """What `dump_run` wrote. Only the shape is looked at: it must be known that nobody changed it.

    Raises:
        ValueError: it is no row of a run.
    """
    from pydantic_core import from_json

    length, _, rows = data.partition(b",")
    try:
        end = int(length)
        run = _run(from_json(rows[:end]))
    except (TypeError, ValueError) as error:
        raise ValueError(f"is no run: {error}") from error
    if rows[end : end + 1] != b",":
        raise ValueError("is no run: nothing was said in it")
    run.written_in(rows[end + 1 :])
    return run


def dump_used(used: Used) -> bytes:
    """What was used, as compact JSON on one line, for `load_used`. A number beyond all sense becomes null."""
    spent, tokens = used.spent, used.spent.tokens
    counted = [tokens.input, tokens.output, tokens.cached_input]
    row = [_judge_row(used.judged), [spent.calls, counted, spent.usd, spent.unpriced, spent.unmetered]]
    return _dump_mended(row)


def load_used(data: bytes) -> Used:
    """What `dump_used` wrote; null counts as nothing, or is a cost that is not known.

    It must be known that nobody changed it.
    """
    (*judged, spared), spent = json.loads(data)
    given, made, cost, *more = spared
    counts, spared = _without_null(judged), [*_without_null([given, made]), cost, *_without_null(more)]
    calls, tokens, usd, unpriced, unmetered = _without_null(spent)
    return Used(_judge([*counts, spared]), Spent(calls, Tokens(*tokens), usd, unpriced, unmetered))


def _without_null(value: _Row) -> _Row:
    return [_without_null(each) for each in value] if isinstance(value, list) else value or 0


# --- writing ------------------------------------------------------------------------------------------------


def _fields_of(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    return attrgetter(*(field.name for field in fields(kind)))


_of_run = attrgetter(*(field.name for field in fields(RunResult) if field.name != "turns"))
_of_run_metric = _fields_of(RunMetric)
_of_turn_metric = _fields_of(TurnMetric)
_of_usage = _fields_of(Usage)
_of_failure = _fields_of(Failure)
_of_judging = _fields_of(JudgeTotals)
_of_event: dict[type[Event], Callable[[Any], tuple[Any, ...]]] = {
    kind: attrgetter(*(name for name, _ in written_fields(kind))) for kind in (ToolCall, ToolResult, Message)
}
"""In the order of a record, which begins with the type."""


def _run_row(run: RunResult) -> _Row:
    (
        number,
        outcome,
        seconds,
        metrics,
        usage,
        failure,
        state,
        attempts,
        confirms,
        user_usage,
        judge,
    ) = _of_run(run)
    return (
        number,
        outcome,
        seconds,
        [_of_run_metric(metric) for metric in metrics],
        usage and _of_usage(usage),
        failure and _of_failure(failure),
        state,
        [_attempt_row(attempt) for attempt in attempts],
        confirms,
        user_usage and _of_usage(user_usage),
        judge and _judge_row(judge),
    )


def _turn_row(turn: TurnResult) -> _Row:
    metrics = [_of_turn_metric(metric) for metric in turn.metrics]
    return turn.user, _reply_row(turn.expected), _reply_row(turn.actual), metrics


def _reply_row(reply: Reply | None) -> _Row:
    return reply and (reply.response, [_of_event[type(event)](event) for event in reply.events])


def _judge_row(judge: JudgeTotals) -> _Row:
    return *_of_judging(judge)[:-1], _of_usage(judge.spared_usage)


def _attempt_row(attempt: Attempt) -> _Row:
    usage = attempt.usage
    return attempt.outcome, _of_failure(attempt.failure), attempt.duration_s, usage and _of_usage(usage)


# --- reading ------------------------------------------------------------------------------------------------


class RunInRows(WrittenRun):
    """A run in a journal."""

    __slots__ = ("_turns",)
    _turns: bytes
    """The row of the turns."""

    def written_in(self, turns: bytes) -> None:
        """Say once what its turns are."""
        object.__delattr__(self, "turns")
        object.__setattr__(self, "_turns", turns)

    def said(self) -> tuple[TurnResult, ...]:
        """See `WrittenRun`."""
        from pydantic_core import from_json

        return tuple([_turn(turn) for turn in from_json(self._turns)])

    def said_as_json(self) -> list[object] | None:
        """See `WrittenRun`."""
        from pydantic_core import from_json

        return list(map(_named_turn, from_json(self._turns))) if hasattr(self, "_turns") else None


def _run(row: _Row) -> RunInRows:
    number, outcome, seconds, metrics, usage, failure, state, attempts, confirms, user_usage, judge = row
    return RunInRows(
        number,
        outcome,
        seconds,
        (),
        tuple([RunMetric(*metric) for metric in metrics]),
        usage and _usage_of(usage),
        failure and Failure(*failure),
        state,
        tuple([_attempt(attempt) for attempt in attempts]),
        confirms,
        user_usage and _usage_of(user_usage),
        judge and _judge(judge),
    )


def _turn(row: _Row) -> TurnResult:
    user, expected, actual, metrics = row
    return TurnResult(
        user, _reply(expected), _reply(actual), tuple([TurnMetric(*metric) for metric in metrics])
    )


def _reply(row: _Row) -> Reply | None:
    return row and Reply(row[0], tuple([_event(event) for event in row[1]]))


def _event(row: _Row) -> Event:
    kind, *said = row
    if kind == "tool_call":
        name, args, id_, author, other_args = said
        return ToolCall(name, args, id_, author, kind, other_args)
    if kind == "tool_result":
        return ToolResult(*said)
    if kind == "message":
        text, author, payload = said
        return Message(text, author, payload=payload)
    raise ValueError(f"is no event: {kind!r}")


def _usage_of(row: _Row) -> Usage:
    given, made, cost, *more = row  # rows of older journals have no models, or no known part of the cost
    models = more[0] if more else ()
    known = more[1] if len(more) > 1 else 0.0
    return Usage(given, made, cost, tuple(models), known or 0.0)


def _judge(row: _Row) -> JudgeTotals:
    calls, input_tokens, output_tokens, cost_usd, unpriced, spared, spared_usage = row
    usage = _usage_of(spared_usage)
    return JudgeTotals(calls, input_tokens, output_tokens, cost_usd, unpriced, spared, usage)


def _attempt(row: _Row) -> Attempt:
    outcome, failure, seconds, usage = row
    return Attempt(outcome, Failure(*failure), seconds, usage and _usage_of(usage))


# --- reading, without objects -------------------------------------------------------------------------------


_NAMES_OF_EVENT = {
    "tool_call": written_fields(ToolCall),
    "tool_result": written_fields(ToolResult),
    "message": written_fields(Message),
}
_NAMES_OF_METRIC = written_fields(TurnMetric)


def _named_turn(row: _Row) -> _Row:
    user, expected, actual, metrics = row
    named = [_named(_NAMES_OF_METRIC, metric) for metric in metrics]
    return {
        "user": user,
        "expected": _named_reply(expected),
        "actual": _named_reply(actual),
        "metrics": named,
    }


def _named_reply(row: _Row) -> _Row:
    return row and {
        "response": row[0],
        "events": [_named(_NAMES_OF_EVENT[event[0]], event) for event in row[1]],
    }


def _named(names: tuple[tuple[str, object], ...], row: _Row) -> dict[str, object]:
    return {name: value for (name, default), value in zip(names, row, strict=True) if value != default}
