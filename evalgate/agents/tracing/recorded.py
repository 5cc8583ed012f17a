"""Recorded conversations in trace files: OTLP/JSON (one request, or one per line) and Jaeger's JSON."""

import json
from collections.abc import Iterator
from pathlib import Path

from evalgate.agents.tracing.genai import read_transcript
from evalgate.agents.tracing.trace_formats import (
    InvalidOtlpError,
    Span,
    is_jaeger,
    read_jaeger_spans,
    read_otlp_json,
)
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.types import CaseTurn, EvalCase, EvalSet, UserMessage
from evalgate.system.files import read_text

_SNIFFED = 64 * 1024
_MARKS = (b'"resourceSpans"', b'"traceID"')
_CASE = ("evalgate.case", "gen_ai.conversation.id", "session.id")


def is_trace_file(path: Path) -> bool:
    """Return True if one of the keys of trace files is in the first 64 KiB."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(_SNIFFED)
    return any(mark in start for mark in _MARKS)


def read_traces(path: Path, shown_as: str) -> EvalSet:
    """Return the conversations in a file: each trace is a turn, and traces with the same name form a case.

    The name is the attribute `evalgate.case`, else `gen_ai.conversation.id`, else `session.id`, of any span
    or its resource. A trace without a name is a case of one turn, named by the trace id.

    Raises:
        InvalidInputError: the file has no span, or it cannot be read.
    """
    traces: dict[str, list[Span]] = {}
    for span in _iter_spans(path, shown_as):
        traces.setdefault(span.trace_id, []).append(span)
    cases: dict[str, list[CaseTurn]] = {}
    in_order = sorted(traces.items(), key=lambda trace: min(span.start for span in trace[1]))
    for trace_id, spans in in_order:
        names = (span.get_text(attribute) for attribute in _CASE for span in spans)
        turn = read_transcript(spans)
        cases.setdefault(next(filter(None, names), "") or trace_id, []).append(
            CaseTurn(UserMessage(turn.question), turn.reply)
        )
    if not cases:
        raise InvalidInputError([Problem(shown_as, 1, 1, "there is no span in the traces")])
    return EvalSet(
        path.stem, tuple(EvalCase(name, tuple(turns)) for name, turns in cases.items()), path=shown_as
    )


def _iter_spans(path: Path, shown_as: str) -> Iterator[Span]:
    text = read_text(path, errors="replace")
    for line, found in _iter_json_values(text, shown_as):
        if is_jaeger(found) and isinstance(found, dict):
            yield from read_jaeger_spans(found)
            continue
        try:
            yield from read_otlp_json(found)
        except InvalidOtlpError as error:
            raise InvalidInputError(
                [Problem(shown_as, line, 1, f"no traces in OTLP/JSON: {error}")]
            ) from None


def _iter_json_values(text: str, shown_as: str) -> Iterator[tuple[int, object]]:
    """Yield the JSON value of the file, or of each of its lines, after its line number (from 1)."""
    try:
        yield 1, json.loads(text)
    except ValueError as whole:
        if not isinstance(whole, json.JSONDecodeError) or not whole.msg.startswith("Extra data"):
            raise InvalidInputError([_build_json_problem(shown_as, whole)]) from None
    except RecursionError:
        raise InvalidInputError([Problem(shown_as, 1, 1, "the JSON nests too deep")]) from None
    else:
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError):
                raise InvalidInputError([Problem(shown_as, number, 1, "the line is not JSON")]) from None


def _build_json_problem(shown_as: str, error: ValueError) -> Problem:
    if isinstance(error, json.JSONDecodeError):
        return Problem(shown_as, error.lineno, error.colno, f"not JSON: {error.msg}")
    return Problem(shown_as, 1, 1, f"not JSON: {error}")
