"""`evalgate import`: add cases from traces of production as observed cases; they gate only after a review."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from evalgate.cli.storable_cases import make_storable
from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError, NoVerdictError
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.sanitize import to_one_line
from evalgate.core.types import CaseTurn, EvalCase, EvalSet, Reply, ToolCall, ToolResult
from evalgate.datasets.case_notes import CaseNotes, read_case_notes
from evalgate.datasets.case_notes_edits import add_notes, build_note, change_notes
from evalgate.datasets.edit_undo import UndoableEdits
from evalgate.datasets.eval_set_file import EvalSetFile, edit_eval_set, open_eval_set, split_writable
from evalgate.datasets.eval_set_paths import build_eval_set_id, build_notes_name
from evalgate.documents.validation_errors import is_valid_id
from evalgate.integrations.trace_sources.api_client import TraceQuery
from evalgate.integrations.trace_sources.conversation_selection import (
    TRAITS,
    Trait,
    draw_sample,
    drop_repeats,
    limit_per_path,
    list_traits,
)
from evalgate.integrations.trace_sources.conversations import ObservedConversation, build_conversations
from evalgate.integrations.trace_sources.sources import fetch_traces, is_api, read_trace_file
from evalgate.integrations.trace_sources.traces import TraceBatch
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.redaction.personal_data import PersonalDataRedactor
from evalgate.system.files import write_atomically
from evalgate.system.gc import pause_gc
from evalgate.system.workspace import Workspace, resolve_workspace

_MOST_NAMED = 10
_OF_FILE = " trace "
"""Separator between the name of a file and a trace id in the source of a case."""
_SHORTEST_UNIQUE = 16
"""Minimum length, in characters, of a trace id that counts as unique among all exports."""


@frozen
class ImportOptions:
    """Options of the command `evalgate import`."""

    source: str
    """A file, or the name of an API."""
    out: str
    to: str = "adk"
    """Format of a new file; an existing file keeps its own."""
    query: TraceQuery = field(default_factory=TraceQuery)
    endpoint: str | None = None
    only: tuple[Trait, ...] = ()
    keep_per_path: int | None = None
    sample: int | None = None
    seed: int = 0
    tags: tuple[str, ...] = ()
    mocks: bool = False
    keeps_personal_data: bool = False


@frozen
class ImportResult:
    """Outcome of an import, as sentences for the user."""

    counts: tuple[str, ...]
    problems: tuple[str, ...]
    """Parts of the source that could not be read or used, and data that the format cannot hold."""
    added: tuple[str, ...]
    """Ids of the new cases."""
    is_whole: bool = True
    """False if an error ended the reading of the source before all traces were read."""


def import_traces(
    options: ImportOptions, folder: Path, environ: Mapping[str, str], redactor: LiveRedactor
) -> ImportResult:
    """Read traces and add their conversations to an eval set and its notes.

    Raises:
        InvalidInputError: the source or the file is invalid.
        NoVerdictError: no conversation could be read.
    """
    with pause_gc():
        return _import_traces(options, resolve_workspace(folder), environ, redactor)


def _import_traces(
    options: ImportOptions, workspace: Workspace, environ: Mapping[str, str], redactor: LiveRedactor
) -> ImportResult:
    batch = _read_source(options, workspace, environ)
    found, unusable = build_conversations(batch.traces)
    problems = [str(problem) for problem in batch.problems]
    problems += [f"trace {trace_id}: {reason}" for trace_id, reason in unusable]
    if batch.failure:
        problems.append(
            f"{batch.failure}. Only traces that came whole and are in no session are imported; their "
            "feedback may be missing. Repeat the command: it adds the rest"
        )
    counts = [f"Read {pluralize(len(batch.traces), 'trace')}: {pluralize(len(found), 'conversation')}."]
    if without := sum(not trace.spans for trace in batch.traces):
        counts.append(f"{pluralize(without, 'trace')} without spans: calls of tools are not known.")
    if not found:
        raise NoVerdictError("; ".join(problems[:_MOST_NAMED]) or f"{options.source}: there is no trace")
    target = _open_target(options, workspace)

    def is_known(each: ObservedConversation) -> bool:
        return not target.seen.isdisjoint(_list_source_keys(_build_source(each, options, redactor)))

    chosen = _select(found, options, counts, is_known)
    cases = [make_storable(_build_case(each, options, redactor)) for each in chosen]
    added = [
        case for case in cases if target.seen.isdisjoint({case.eval_id, *_list_source_keys(case.source)})
    ]
    if len(added) < len(cases):
        counts.append(f"Left out {len(cases) - len(added):,} that an earlier import had.")
    format_name = target.file.eval_set.format_name if target.file else options.to
    added, refused = split_writable(added, format_name)
    problems += [f"{options.out}: {sentence}" for sentence in refused]
    if not added:
        return ImportResult(
            (*counts, f"Nothing was added to {options.out}."), tuple(problems), (), not batch.failure
        )
    added = _redact_cases(added, options, redactor, counts)
    lost = _write_cases(added, options, target, workspace)
    counts.append(f"Added {pluralize(len(added), 'observed case')} to {options.out}.")
    names = tuple(case.eval_id for case in added)
    return ImportResult(tuple(counts), (*problems, *lost), names, not batch.failure)


def parse_moment(text: str, now: datetime | None = None) -> datetime:
    """Parse a time: ISO 8601, or a span before `now` such as `30m`, `12h`, `7d` or `2w`.

    A time without a zone is in UTC. If `now` is None, it is the current time.

    Raises:
        ValueError: the text has neither form.
        OverflowError: the span begins before the year 1.
    """
    units = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
    if match := re.fullmatch(r"(\d{1,6})([mhdw])", text.strip()):
        return (now or datetime.now(UTC)) - timedelta(**{units[match[2]]: int(match[1])})
    found = datetime.fromisoformat(text.strip())
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _read_source(options: ImportOptions, workspace: Workspace, environ: Mapping[str, str]) -> TraceBatch:
    if is_api(options.source, workspace.folder):
        return asyncio.run(fetch_traces(options.source, options.query, environ, options.endpoint))
    batch = read_trace_file(workspace.folder / options.source, options.source)
    since, until = options.query.since, options.query.until
    kept = [
        trace
        for trace in batch.traces
        if (since is None or not trace.start or trace.start >= since.timestamp() * 1e9)
        and (until is None or not trace.start or trace.start < until.timestamp() * 1e9)
    ]
    return replace(batch, traces=tuple(kept))


def _select(
    found: list[ObservedConversation],
    options: ImportOptions,
    counts: list[str],
    is_known: Callable[[ObservedConversation], bool],
) -> list[ObservedConversation]:
    steps: list[tuple[str, list[ObservedConversation]]] = []
    wanted = found
    if options.only:  # first: a conversation that is wanted may repeat one that is not
        wanted = [each for each in found if any(TRAITS[name](each) for name in options.only)]
        steps.append((f"are not wanted (--only {', '.join(options.only)})", wanted))
    steps.append(("repeat others exactly", drop_repeats(wanted, is_known)))
    if options.keep_per_path is not None:
        limited = limit_per_path(steps[-1][1], options.keep_per_path)
        steps.append((f"have a tool path with {options.keep_per_path} newer ones", limited))
    if options.sample is not None and len(steps[-1][1]) > options.sample:
        steps.append(("are not in the sample", draw_sample(steps[-1][1], options.sample, options.seed)))
    before = len(found)
    for what, kept in steps:
        if len(kept) < before:
            counts.append(f"Left out {before - len(kept):,} that {what}.")
        before = len(kept)
    return steps[-1][1]


def _build_case(found: ObservedConversation, options: ImportOptions, redactor: LiveRedactor) -> EvalCase:
    tags = dict.fromkeys((*options.tags, *list_traits(found), *found.tags))
    turns = tuple(
        CaseTurn(turn.user, Reply(turn.expected.response, tuple(turn.expected.events)))
        for turn in found.turns
    )
    # The id has words of the question. It must be the same in every import, so it is cleaned on its own.
    question = redactor.redact_text(found.turns[0].user.text)
    if not options.keeps_personal_data:
        question = PersonalDataRedactor().redact_text(question)
    return EvalCase(
        found.build_case_id(question),
        turns,
        tags=tuple(dict.fromkeys(cleaned for tag in tags if (cleaned := to_one_line(tag)))),
        status="observed",
        source=_build_source(found, options, redactor),
        creation_timestamp=found.start / 1e9,
    )


def _build_source(found: ObservedConversation, options: ImportOptions, redactor: LiveRedactor) -> str:
    """Return a text that identifies the source of a conversation. It is the same at every import.

    The text is the link to the first trace, or the names of the file and the trace. Secrets are removed.
    Personal data are removed unless the options keep them.
    """
    source = found.url or f"{Path(options.source).name}{_OF_FILE}{found.trace_ids[0]}"
    clean = redactor.redact_text(source)
    if not options.keeps_personal_data:
        clean = PersonalDataRedactor().redact_text(clean)
    # Two sources may differ only in the removed text, so a digest of the whole source is appended.
    return (
        source if clean == source else f"{clean}#{sha256(source.encode(errors='replace')).hexdigest()[:10]}"
    )


def _list_source_keys(source: str) -> set[str]:
    """Return the keys by which an import recognises a trace that was imported before.

    The keys are `source` and, if `source` contains a file name and a trace id, the trace id alone. By its id,
    the trace is recognised in a file with another name. An id that is too short to be unique is no key.
    """
    trace_id = source.rpartition(_OF_FILE)[2]
    return {source, trace_id} if len(trace_id) >= _SHORTEST_UNIQUE else {source}


def _list_mocks(case: EvalCase) -> Iterator[Mapping[str, object]]:
    for number, turn in enumerate(case.turns):
        calls = {event.id: event for event in turn.expected.events if isinstance(event, ToolCall)}
        for event in turn.expected.events:
            if isinstance(event, ToolResult) and (call := calls.get(event.id)) and is_valid_id(call.name):
                yield {"tool": call.name, "args": call.args, "turn": number, "result": event.result}


def _redact_cases(
    cases: list[EvalCase], options: ImportOptions, redactor: LiveRedactor, counts: list[str]
) -> list[EvalCase]:
    """Return the cases without secrets, and without personal data unless the options keep it.

    Sentences about the removed data are appended to the list `counts`.
    """
    cleaned = redactor.redact_tree(cases)
    if hidden := sum(one != other for one, other in zip(cases, cleaned, strict=True)):
        counts.append(f"Hid secrets in {pluralize(hidden, 'case')}.")
    if options.keeps_personal_data:
        return cleaned
    personal = PersonalDataRedactor()
    cleaned = personal.redact_tree(cleaned)
    if personal.counts:
        plurals = {"e-mail address": "e-mail addresses"}
        what = [pluralize(number, kind, plurals.get(kind)) for kind, number in personal.counts.items()]
        counts.append(f"Replaced personal data: {', '.join(what)}.")
    return cleaned


# --- the file and its notes ---------------------------------------------------------------------------------


@frozen
class _Target:
    """The eval set to which cases are added, and its notes."""

    file: EvalSetFile | None
    """File of the eval set; None if it does not exist yet."""
    notes_path: Path
    notes_shown_as: str
    noted: frozenset[str]
    """Ids of the cases in the notes. After an interrupted import, the eval set may lack some of them."""
    seen: frozenset[str]
    """Keys of conversations that must not be added again: the ids and sources of cases in the eval set, and
    the sources and trace ids of cases that a review dropped."""


def _open_target(options: ImportOptions, workspace: Workspace) -> _Target:
    path = workspace.folder / options.out
    notes_path = path.with_name(build_notes_name(path.name))
    shown_as = str(Path(options.out).with_name(notes_path.name))
    notes = read_case_notes(notes_path, shown_as)[0] if notes_path.exists() else CaseNotes()
    file = open_eval_set(path, options.out) if path.exists() else None
    ids = {case.eval_id for case in file.eval_set.cases} if file else set()
    sources = {note.source for name, note in notes.cases.items() if note.source and name in ids}
    dropped = (key for source in notes.dropped for key in _list_source_keys(source))
    seen = frozenset({*ids, *sources, *dropped})
    return _Target(file, notes_path, shown_as, frozenset(notes.cases), seen)


def _write_cases(
    added: Sequence[EvalCase], options: ImportOptions, target: _Target, workspace: Workspace
) -> tuple[str, ...]:
    """Write the eval set and its notes; return sentences about data that the format cannot hold."""
    path, today = workspace.folder / options.out, datetime.now(UTC).date()
    entries = {
        case.eval_id: build_note(
            source=case.source, tags=case.tags, day=today, mocks=_list_mocks(case) if options.mocks else ()
        )
        for case in added
        if case.eval_id not in target.noted
    }
    shown_as = target.notes_shown_as
    notes = change_notes(
        target.notes_path, shown_as, lambda text: add_notes(text, entries, shown_as, path.name)
    )
    bare = [replace(case, tags=(), status="expected", source="") for case in added]
    edited, text = None, ""
    if target.file is None:
        eval_set = EvalSet(build_eval_set_id(path.name), tuple(bare), options.out)
        written = plugin_registry.get_writer(options.to).write_eval_set(eval_set)
        text, lost = written.text, written.lost
    else:
        edited = edit_eval_set(target.file, [*target.file.eval_set.cases, *bare])
        lost = edited.lost
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # The notes first: if the second file cannot be written, notes without a case are reported as an
        # error, whereas cases without notes would gate.
        write_atomically(target.notes_path, (notes.after or b"").decode(), workspace.owner)
        if edited is None:
            write_atomically(path, text, workspace.owner)
        else:
            UndoableEdits().save(edited)
    except OSError as error:
        raise InvalidInputError(f"{options.out}: cannot be written: {error.strerror}") from None
    return tuple(f"{options.out}: {sentence}" for sentence in lost)
