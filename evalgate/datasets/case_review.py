"""Review of imported cases with the status `observed`, which do not count for the verdict yet.

A person marks each case as `expected`, corrects it, or drops it. Every decision is saved at once, so that an
interrupted review can be continued.
"""

import codecs
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from evalgate.core import plugin_registry
from evalgate.core.did_you_mean import did_you_mean
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.frozen import frozen
from evalgate.core.types import EvalCase, Event, Message, ToolCall
from evalgate.datasets.case_notes import apply_case_notes
from evalgate.datasets.case_notes_edits import change_notes, drop_notes, mark_expected
from evalgate.datasets.edit_undo import FileChange, UndoableEdits
from evalgate.datasets.eval_set_file import EvalSetFile, edit_eval_set, get_editor, open_eval_set
from evalgate.datasets.eval_set_paths import build_notes_name
from evalgate.documents.json_edits import update_json


@frozen
class Review:
    """An eval set, and its cases with the status `observed`, which a person has to review."""

    file: EvalSetFile
    notes_path: Path
    notes_shown_as: str
    open_cases: tuple[EvalCase, ...]
    """Cases with the status `observed`, in the order of the file."""


def open_review(path: Path, shown_as: str) -> Review:
    """Read an eval set and its notes, to review its cases with the status `observed`.

    Raises:
        InvalidInputError: the eval set or the notes cannot be read.
    """
    file = open_eval_set(path, shown_as)
    notes_path = path.with_name(build_notes_name(path.name))
    notes_shown_as = str(Path(shown_as).with_name(notes_path.name))
    cases: Sequence[EvalCase] = ()
    if notes_path.exists():
        cases = apply_case_notes(file.eval_set, path, shown_as).cases
    found = tuple(case for case in cases if case.status == "observed")
    return Review(file, notes_path, notes_shown_as, found)


def mark_cases_expected(review: Review, names: Iterable[str]) -> None:
    """Change the status of the named cases from `observed` to `expected`: they then count for the verdict.

    Raises:
        InvalidInputError: a name belongs to no observed case, or the notes cannot be written.
    """
    UndoableEdits().save_changes(review.file.path, [_build_notes_change(review, check_names(review, names))])


def drop_cases(review: Review, names: Iterable[str]) -> None:
    """Remove the named cases, which must have the status `observed`, from the eval set's file.

    The sources of the cases stay in the notes, so that a later import does not add the cases again.

    Raises:
        InvalidInputError: a name belongs to no observed case, no case would be left, or a file cannot be
            written.
    """
    wanted = check_names(review, names)
    left = [case for case in review.file.eval_set.cases if case.eval_id not in wanted]
    if not left:
        raise InvalidInputError(
            f"{review.file.shown_as}: no case would be left: delete the file and its notes instead"
        )
    edited = edit_eval_set(review.file, left)
    # The notes first: if the process dies before the second write, the case remains and counts for the
    # verdict. Notes without their case would be an error.
    notes = change_notes(
        review.notes_path,
        review.notes_shown_as,
        lambda text: drop_notes(text, wanted, review.notes_shown_as),
    )
    UndoableEdits().save_changes(review.file.path, [notes, _build_file_change(review.file, edited.data)])


def format_case_json(review: Review, name: str) -> str:
    """Return the JSON of a case in its file, indented for a person who edits it.

    Raises:
        InvalidInputError: the eval set has no case of this name, or files of the format cannot be changed.
    """
    at = _find_index(review, name)
    cases = get_editor(review.file).get_cases(review.file.value)
    return json.dumps(cases[at], ensure_ascii=False, indent=2) + "\n"


def replace_case_json(review: Review, name: str, text: str) -> None:
    """Replace a case by edited JSON; if its status is `observed`, the status becomes `expected`.

    Raises:
        InvalidInputError: the text is not JSON, is no case of the format, or has another id. Also raised if
            there is no case `name`, or if a file cannot be changed. After any error, no file is changed.
    """
    file = review.file
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{file.shown_as}: {name}: not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise InvalidInputError(f"{file.shown_as}: {name}: an object was expected")
    at, editor = _find_index(review, name), get_editor(file)
    cases = list(editor.get_cases(file.value))
    cases[at] = raw
    before = file.data.decode("utf-8-sig")
    after = update_json(before, file.value, editor.replace_cases(file.value, cases))
    _check_edited(file, name, after)
    mark = codecs.BOM_UTF8 if file.data.startswith(codecs.BOM_UTF8) else b""
    changes = [_build_file_change(file, mark + after.encode())]
    if name in {case.eval_id for case in review.open_cases}:
        changes.append(_build_notes_change(review, {name}))
    UndoableEdits().save_changes(review.file.path, changes)


def _check_edited(file: EvalSetFile, name: str, text: str) -> None:
    from evalgate.datasets.loading import parse_eval_set

    found = parse_eval_set(
        json.loads(text),
        plugin_registry.get_formats(),
        shown_as=file.shown_as,
        format_name=file.eval_set.format_name,
    )
    if name not in {case.eval_id for case in found.cases}:
        raise InvalidInputError(f"{file.shown_as}: the case {name!r} must keep its id")


def describe_case(case: EvalCase) -> Iterator[str]:
    """Yield lines about a case: id and tags, trace, and each turn's question, calls, messages and answer."""
    tags = f" [{', '.join(case.tags)}]" if case.tags else ""
    yield f"{case.eval_id}{tags}"
    if case.source:
        yield f"  trace: {case.source}"
    for turn in case.turns:
        yield f"  user: {turn.user.text}"
        yield from (f"    {line}" for event in turn.expected.events if (line := _describe_event(event)))
        yield f"  agent: {turn.expected.response if turn.expected.response is not None else '(no answer)'}"


def _describe_event(event: Event) -> str:
    if isinstance(event, ToolCall):
        args = "" if event.arguments is None else json.dumps(event.arguments, ensure_ascii=False)
        return f"calls {event.name}({args})"
    return f"says: {event.text}" if isinstance(event, Message) else ""


def check_names(review: Review, names: Iterable[str]) -> set[str]:
    """Return the names as a set, after checking that each is the id of a case with the status `observed`.

    Raises:
        InvalidInputError: a name is not the id of an observed case. The error has a problem for each such
            name.
    """
    known = [case.eval_id for case in review.open_cases]
    wanted = set(names)
    if unknown := sorted(wanted - set(known)):
        raise InvalidInputError(
            Problem(
                review.file.shown_as,
                0,
                0,
                f"{name!r} is no observed case of this eval set.{did_you_mean(name, known)}",
            )
            for name in unknown
        )
    return wanted


def _find_index(review: Review, name: str) -> int:
    ids = [case.eval_id for case in review.file.eval_set.cases]
    if name not in ids:
        raise InvalidInputError(f"{review.file.shown_as}: there is no case {name!r}")
    return ids.index(name)


def _build_file_change(file: EvalSetFile, data: bytes) -> FileChange:
    return FileChange(file.path, file.shown_as, file.data, data)


def _build_notes_change(review: Review, names: Iterable[str]) -> FileChange:
    shown_as = review.notes_shown_as
    return change_notes(review.notes_path, shown_as, lambda text: mark_expected(text, names, shown_as))
