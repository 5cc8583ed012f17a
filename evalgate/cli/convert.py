"""`evalgate convert`: convert an eval set of one ecosystem to a file format of another."""

from dataclasses import replace
from pathlib import Path

from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import pluralize
from evalgate.core.frozen import frozen
from evalgate.core.protocols import EvalFormat, ReportsIgnoredKeys
from evalgate.core.types import EvalSet, SessionInput
from evalgate.datasets.eval_set_paths import build_notes_name
from evalgate.datasets.loading import load_eval_sets
from evalgate.documents.strict_json import JsonDocument, read_json
from evalgate.integrations.adk.legacy_evalset import is_turn_list, read_session_file
from evalgate.system.files import write_atomically
from evalgate.system.workspace import Workspace, resolve_workspace


@frozen
class ConvertResult:
    """Converted text of an eval set, and sentences about lost data."""

    text: str
    """Text of the new file."""
    lost: tuple[str, ...]
    """One sentence for each key or kind of data that could not be carried over."""


@frozen
class ConvertOptions:
    """Options of the command `evalgate convert`."""

    source: str
    to: str
    out: str | None = None
    """File to write; None to write no file."""
    format_name: str | None = None
    """Format of the source; None to detect it by the content."""
    initial_session: str | None = None
    """File with the initial session of all cases, for eval sets in ADK's oldest format, a list of turns."""
    force: bool = False
    """True to replace an existing file."""


def convert_eval_set(options: ConvertOptions, folder: Path) -> ConvertResult:
    """Convert an eval set to the format `to`, and write it to a file if `out` names one.

    Raises:
        InvalidInputError: the source is invalid or is not exactly one eval set, the format `to` cannot be
            written, an option is invalid, or the file `out` exists or cannot be written.
    """
    workspace = resolve_workspace(folder)
    writer = plugin_registry.get_writer(options.to)
    if options.out is not None and not options.out.strip():
        raise InvalidInputError("--out names no file; leave it out for standard output")
    if options.out is not None and not options.force and (workspace.folder / options.out).exists():
        raise InvalidInputError(
            f"{options.out}: exists already: name another file, or replace it with --force"
        )
    eval_set = _load_eval_set(options, workspace)
    document = read_json(workspace.folder / eval_set.path, eval_set.path)
    if options.initial_session is not None:
        session = read_session_file(workspace.folder / options.initial_session, options.initial_session)
        eval_set = _add_initial_session(eval_set, session)
    written = writer.write_eval_set(eval_set)
    if options.out is not None:
        _write_file(written.text, options.out, workspace)
    unread = _describe_ignored_keys(_find_format(document, options.format_name), document)
    return ConvertResult(
        written.text,
        (
            *unread,
            *_describe_notes(eval_set, options.out),
            *(f"{eval_set.path}: {sentence}" for sentence in written.lost),
        ),
    )


def _load_eval_set(options: ConvertOptions, workspace: Workspace) -> EvalSet:
    formats, name = plugin_registry.get_formats(), options.format_name
    eval_sets = load_eval_sets([options.source], formats, folder=workspace.folder, format_name=name)
    if len(eval_sets) != 1:
        raise InvalidInputError(
            f"{options.source}: name one file; there are {pluralize(len(eval_sets), 'eval set')}"
        )
    return eval_sets[0]


def _add_initial_session(eval_set: EvalSet, session: SessionInput) -> EvalSet:
    """Return the eval set with `session` as the initial session of every case.

    Raises:
        InvalidInputError: the eval set is not in ADK's oldest format, a list of turns. Files of newer
            formats contain the initial sessions.
    """
    if not is_turn_list(eval_set):
        message = "--initial-session is for old lists of turns; this file says what its sessions start with"
        raise InvalidInputError([Problem(eval_set.path, 1, 1, message)])
    return replace(eval_set, cases=tuple(replace(case, session=session) for case in eval_set.cases))


def _write_file(text: str, out: str, workspace: Workspace) -> None:
    try:
        write_atomically(workspace.folder / out, text, workspace.owner)
    except OSError as error:
        raise InvalidInputError(f"{out}: cannot be written: {error.strerror}") from None


def _describe_notes(eval_set: EvalSet, out: str | None) -> list[str]:
    """Return a warning if the eval set has observed cases (imported, not reviewed yet); otherwise [].

    The status `observed` is in the notes file, which is not converted: the user has to copy it.
    """
    observed = sum(case.status == "observed" for case in eval_set.cases)
    if not observed:
        return []
    path = Path(eval_set.path)
    notes = path.with_name(build_notes_name(path.name))
    copy = f" to {Path(out).with_name(build_notes_name(Path(out).name))}" if out else " next to the new file"
    what = f"{pluralize(observed, 'case')} {'is' if observed == 1 else 'are'} observed"
    return [f"{eval_set.path}: {what}: copy {notes}{copy}, or they gate without a review"]


def _find_format(document: JsonDocument, forced: str | None) -> EvalFormat:
    formats = plugin_registry.get_formats()
    if forced is not None:
        return formats[forced]
    return next(each for each in formats.values() if each.matches_document(document))


def _describe_ignored_keys(reader: EvalFormat, document: JsonDocument) -> list[str]:
    """Return a sentence for each key that the reader ignores.

    If the format cannot list such keys, return one sentence that says so.
    """
    if not isinstance(reader, ReportsIgnoredKeys):
        return [f"{document.path}: keys that evalgate does not read are lost; this format cannot list them"]
    places: dict[str, list[tuple[int, int]]] = {}
    for location in reader.find_ignored_keys(document):
        places.setdefault(str(location[-1]), []).append(document.find_position(location))
    sentences = []
    for key, positions in places.items():
        times = f" ({len(positions):,} times)" if len(positions) > 1 else ""
        problem = Problem(document.path, *min(positions), f"`{key}` is not carried over{times}")
        sentences.append(str(problem))
    return sentences
