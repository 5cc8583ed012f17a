"""What was recorded, in whatever file: runs, conversations, sessions, traces."""

from pathlib import Path

from evalgate.agents.tracing.recorded import is_traces, read_traces
from evalgate.core import registry
from evalgate.core.types import EvalSet, Record
from evalgate.datasets.results_io import load_record, read_bytes
from evalgate.documents.strict_json import JsonDocument, read_json
from evalgate.integrations.adk.sessions import holds_sessions, is_session, read_sessions, session_of
from evalgate.integrations.orchestrate.recordings import is_conversation, read_conversations
from evalgate.integrations.trpc.results import TrpcResults


def read_recording(path: Path, shown_as: str) -> Record | EvalSet:
    """A run's `results.json`, conversations, saved sessions, traces, or an eval set.

    Raises:
        InvalidInput: it is none of these, or damaged.
    """
    if holds_sessions(path):
        return read_sessions(path, shown_as)
    if is_conversation(path):
        return read_conversations(path, shown_as)
    if is_traces(path):
        return read_traces(path, shown_as)
    return _recorded_in(read_json(path, shown_as)) or load_record(read_bytes(path, shown_as), shown_as)


def is_recording(path: Path, shown_as: str) -> bool:
    """Return True for sessions, conversations, traces and eval sets.

    Raises:
        InvalidInput: it is called JSON and is none.
    """
    if holds_sessions(path) or is_conversation(path) or is_traces(path):
        return True
    if path.suffix.lower() != ".json":
        return False
    document = read_json(path, shown_as)
    return any(eval_format.recognises(document) for eval_format in registry.formats().values())


def _recorded_in(document: JsonDocument) -> Record | EvalSet | None:
    for eval_format in registry.formats().values():
        if eval_format.recognises(document):
            return eval_format.read(document)
    if is_session(document.value):
        return session_of(document)
    results = TrpcResults()
    return results.read(document) if results.recognises(document) else None
