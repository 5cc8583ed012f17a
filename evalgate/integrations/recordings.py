"""Read recordings of any supported kind: runs, conversations, sessions, traces and eval sets."""

from pathlib import Path

from evalgate.agents.tracing.span_steps import build_trace
from evalgate.agents.tracing.trace_formats import is_trace_file
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.types import EvalCase, EvalSet, Record, TraceSpan
from evalgate.datasets.results_io import load_record, read_record_bytes
from evalgate.documents.strict_json import JsonDocument, read_json
from evalgate.integrations.adk.sessions import has_sessions, is_session, parse_session, read_sessions
from evalgate.integrations.orchestrate.recordings import may_hold_conversations, read_conversations
from evalgate.integrations.trace_sources.conversations import ObservedConversation, build_conversations
from evalgate.integrations.trace_sources.sources import read_trace_file
from evalgate.integrations.trpc.results import TrpcResultsFormat


def read_recording(path: Path, shown_as: str) -> Record | EvalSet:
    """Read a `results.json`, or a file or folder with another recording.

    * `results.json` and results of tRPC-Agent-Go become a record.
    * Conversations, saved sessions, traces of OTLP or Jaeger, and eval sets become an eval set.

    Raises:
        InvalidInputError: the file cannot be read, is none of these, or is damaged.
    """
    # Sessions first, because `may_hold_conversations` is True for every folder.
    if has_sessions(path):
        return read_sessions(path, shown_as)
    if may_hold_conversations(path):
        return read_conversations(path, shown_as)
    if is_trace_file(path):
        cases = tuple(EvalCase(found.key, found.turns) for found in _read_trace_conversations(path, shown_as))
        return EvalSet(path.stem, cases, path=shown_as)
    return _find_recording(read_json(path, shown_as)) or load_record(
        read_record_bytes(path, shown_as), shown_as
    )


def may_become_eval_set(path: Path, shown_as: str) -> bool:
    """Return True if a path is recognised as a recording that becomes an eval set, not a record of results.

    The result is True for folders, for files named `*.messages.json`, for traces of OTLP or Jaeger, and for
    eval sets in a file named `*.json`. For all other files it is False, even for the file of a single saved
    session, although `read_recording` returns an eval set for it.

    Raises:
        InvalidInputError: the file is named `*.json`, and cannot be read or is not JSON.
    """
    if has_sessions(path) or may_hold_conversations(path) or is_trace_file(path):
        return True
    if path.suffix.lower() != ".json":
        return False
    document = read_json(path, shown_as)
    return any(
        eval_format.matches_document(document) for eval_format in plugin_registry.get_formats().values()
    )


def read_trace_steps(path: Path, shown_as: str) -> dict[str, tuple[TraceSpan, ...]]:
    """Return the timed steps of each conversation in a file of traces, by the id of its case.

    The cases are those of the eval set that `read_recording` returns for the file. `TraceSpan.turn` is the
    0-based index of a turn in its case. Times are seconds since the first turn with spans began.

    Raises:
        InvalidInputError: the file or a part of it cannot be read, or it holds no trace.
    """
    return {found.key: build_trace(found.turn_spans) for found in _read_trace_conversations(path, shown_as)}


def _read_trace_conversations(path: Path, shown_as: str) -> list[ObservedConversation]:
    """Return the conversations in a file of traces.

    Raises:
        InvalidInputError: the file or a part of it cannot be read, or it holds no trace.
    """
    batch = read_trace_file(path, shown_as)
    if batch.problems:
        raise InvalidInputError(batch.problems)
    if not batch.traces:
        raise InvalidInputError([Problem(shown_as, 1, 1, "there is no span in the traces")])
    return build_conversations(batch.traces, needs_questions=False)[0]


def _find_recording(document: JsonDocument) -> Record | EvalSet | None:
    for eval_format in plugin_registry.get_formats().values():
        if eval_format.matches_document(document):
            return eval_format.read_eval_set(document)
    if is_session(document.value):
        return parse_session(document)
    results = TrpcResultsFormat()
    return results.read_results(document) if results.matches_document(document) else None
