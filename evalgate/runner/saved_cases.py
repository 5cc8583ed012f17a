"""Save recorded conversations as cases of an eval set, with secrets redacted."""

from collections.abc import Sequence
from pathlib import Path

from evalgate.core import plugin_registry
from evalgate.core.errors import InvalidInputError
from evalgate.core.formatting import join_quoted
from evalgate.core.frozen import frozen
from evalgate.core.types import EvalCase, EvalSet
from evalgate.datasets.edit_undo import UndoableEdits
from evalgate.datasets.eval_set_file import EvalSetFile, edit_eval_set, open_eval_set, split_writable
from evalgate.datasets.eval_set_paths import build_eval_set_id
from evalgate.documents.strict_json import parse_json
from evalgate.documents.validation_errors import is_valid_id
from evalgate.redaction.live_redactor import LiveRedactor
from evalgate.system.files import write_atomically
from evalgate.system.workspace import Workspace

DEFAULT_FORMAT = "adk"
DEFAULT_OUT = "evals/chat.evalset.json"


@frozen
class SavedCases:
    """Result of saving cases: the written file, and the cases and data that its format cannot hold."""

    path: str
    format_name: str
    lost: tuple[str, ...]
    """One text for each case that was left out, and for each part of a case that the format cannot hold."""
    is_redacted: bool
    """True: a secret was replaced, so the saved cases differ from the recorded conversations."""
    count: int
    """Number of cases that were written."""


def list_case_ids(out: str, workspace: Workspace) -> tuple[str, ...]:
    """Return the ids of the cases in the eval set file `out`; () if the file does not exist.

    Raises:
        InvalidInputError: the file is not an eval set that can be edited.
    """
    path = workspace.folder / out
    if not path.exists():
        return ()
    return tuple(case.eval_id for case in open_eval_set(path, out).eval_set.cases)


def check_target(out: str, to: str | None, eval_id: str | None, workspace: Workspace) -> None:
    """Check that a case can be added to the file `out` later; a file that does not exist yet is accepted.

    `to` is the format that the user named; None: no format was named. `eval_id` is the id of the new case;
    None: the id is not known yet.

    Raises:
        InvalidInputError: `eval_id` is no valid id, or the file `out` exists and has one of these problems:
            it is no eval set that can be edited, it cannot be read in the format `to`, or it has a case
            `eval_id` already.
    """
    if eval_id is not None and not is_valid_id(eval_id):
        raise InvalidInputError(f"the id of a case must not be empty or hold control characters: {eval_id!r}")
    if (workspace.folder / out).exists():
        _check_file(open_eval_set(workspace.folder / out, out), to, [eval_id] if eval_id is not None else [])


def save_cases(
    cases: Sequence[EvalCase], out: str, to: str | None, workspace: Workspace, redactor: LiveRedactor
) -> SavedCases:
    """Redact cases and write them to the new file `out`; if the file exists, add them to its eval set.

    `to` names the format of a new file (None: Google ADK's). An existing file keeps its own format, but it
    must be readable in the format `to` if this is given. Cases that the file's format cannot hold are left
    out.

    Raises:
        InvalidInputError: the format can hold none of the cases, or the file cannot be written. For an
            existing file also: it is no eval set that can be edited, it cannot be read in the format `to`,
            or it has a case with the same id.
    """
    redacted = redactor.redact_tree(tuple(cases))
    is_redacted = redacted != tuple(cases)
    if (workspace.folder / out).exists():
        return _add_cases(redacted, out, to, workspace, is_redacted=is_redacted)
    format_name = to or DEFAULT_FORMAT
    kept, refused = split_writable(redacted, format_name)
    # If no case can be written, the writer gets all of them and raises the error.
    eval_set = EvalSet(build_eval_set_id(Path(out).name), tuple(kept or redacted), path=out)
    written = plugin_registry.get_writer(format_name).write_eval_set(eval_set)
    # A file that cannot be read again, such as one with a line break in an id, is never written.
    plugin_registry.get_formats()[format_name].read_eval_set(parse_json(written.text.encode(), out))
    try:
        (workspace.folder / out).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(workspace.folder / out, written.text, workspace.owner)
    except OSError as error:
        raise InvalidInputError(f"{out}: cannot be written: {error.strerror}") from None
    return SavedCases(out, format_name, (*refused, *written.lost), is_redacted, len(kept))


def _add_cases(
    cases: Sequence[EvalCase], out: str, to: str | None, workspace: Workspace, *, is_redacted: bool
) -> SavedCases:
    file = open_eval_set(workspace.folder / out, out)
    _check_file(file, to, [case.eval_id for case in cases])
    kept, refused = split_writable(cases, file.eval_set.format_name)
    edited = edit_eval_set(file, (*file.eval_set.cases, *(kept or cases)))
    UndoableEdits().save(edited)
    return SavedCases(out, file.eval_set.format_name, (*refused, *edited.lost), is_redacted, len(kept))


def _check_file(file: EvalSetFile, to: str | None, names: Sequence[str]) -> None:
    out, format_name = file.shown_as, file.eval_set.format_name
    if to and to != format_name and not _is_readable_as(to, file):
        raise InvalidInputError(f"{out}: has the format {format_name}, and --to names {to}")
    taken = {case.eval_id for case in file.eval_set.cases}
    if twice := [name for name in names if name in taken]:
        raise InvalidInputError(f"{out}: has a case {join_quoted(twice)} already: choose another id")


def _is_readable_as(format_name: str, file: EvalSetFile) -> bool:
    """Return True if the file can also be read in the format `format_name`.

    For example, most files in Google ADK's format can also be read in the format `adk-rs`.
    """
    try:
        plugin_registry.get_formats()[format_name].read_eval_set(parse_json(file.data, file.shown_as))
    except InvalidInputError:
        return False
    return True
