"""Load eval sets: read the files that patterns name, and keep the cases that the patterns select.

`eval_set_paths.py` finds the files.
"""

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import Document, EvalFormat
from evalgate.core.types import EvalSet
from evalgate.datasets.cases import assign_eval_set
from evalgate.datasets.eval_set_paths import EvalFile, build_notes_name, find_eval_files
from evalgate.documents.config_file import ConfigDocument
from evalgate.documents.strict_json import as_sequence, read_json
from evalgate.system.gc import pause_gc

LARGE_FILE = 32 * 2**20
"""Size in bytes from which a file is large: its long lists stay in the file."""


def load_eval_sets(
    patterns: Sequence[str],
    formats: Mapping[str, EvalFormat],
    *,
    folder: Path,
    format_name: str | None = None,
) -> tuple[EvalSet, ...]:
    """Load the eval sets of all patterns in the given order, each file once.

    A pattern is a file, `file:case_a,case_b`, a folder or a glob, relative to `folder`. A file is read in the
    format `format_name`; if this is None, in the first of `formats` that recognises the content. The case
    notes next to a file are applied to its cases.

    Raises:
        InvalidInputError: a pattern, a file or its notes are invalid, or two sets have the same id. The error
            lists every problem. Also raised if there is no pattern, or `format_name` is unknown.
    """
    chosen = _select_formats(formats, format_name)
    problems: list[Problem] = []
    found = find_eval_files(patterns, folder=folder, problems=problems)
    eval_sets = []
    with pause_gc():
        for file in found:
            try:
                eval_sets.append(_load_file(file, chosen, is_forced=format_name is not None))
            except InvalidInputError as error:
                problems += error.problems
    problems += _find_repeated_sets(eval_sets)
    if problems:
        raise InvalidInputError(problems)
    return tuple(eval_sets)


def _select_formats(formats: Mapping[str, EvalFormat], name: str | None) -> Mapping[str, EvalFormat]:
    if name is None:
        return formats
    if name not in formats:
        raise InvalidInputError(f"{name!r} is not a format of eval sets.{_suggest_nearest(name, formats)}")
    return {name: formats[name]}


def parse_eval_set(
    value: object, formats: Mapping[str, EvalFormat], *, shown_as: str, format_name: str | None = None
) -> EvalSet:
    """Build an eval set from decoded JSON; `shown_as` names the JSON in messages.

    `format_name` selects the format. If it is None, the first format that recognises the JSON reads it.

    Raises:
        InvalidInputError: the JSON is invalid, no format recognises it, or `format_name` is unknown. The
            error lists every problem.
    """
    document = ConfigDocument(shown_as, value, lambda _: (0, 0))
    chosen = _select_formats(formats, format_name)
    found = _read_with_format(document, chosen, is_forced=format_name is not None)
    if found is None:
        raise InvalidInputError([Problem(shown_as, 0, 0, _describe_unrecognized(document, chosen))])
    return replace(found, path="", cases=assign_eval_set(found.cases, found.eval_set_id))


def read_document(document: Document, formats: Mapping[str, EvalFormat]) -> EvalSet:
    """Return the eval set in a decoded file, read by the first format that recognises it.

    Raises:
        InvalidInputError: the document is invalid, or no format recognises it. The error lists every
            problem.
    """
    found = _read_with_format(document, formats, is_forced=False)
    if found is None:
        raise InvalidInputError([Problem(document.path, 1, 1, _describe_unrecognized(document, formats))])
    return found


def _load_file(file: EvalFile, formats: Mapping[str, EvalFormat], *, is_forced: bool) -> EvalSet:
    try:
        document = _read_json_file(file)
    except InvalidInputError:
        _refuse_dataset(file)
        raise
    found = _read_with_format(document, formats, is_forced=is_forced)
    if found is not None:
        return _select_cases(_add_case_notes(found, file), file)
    _refuse_dataset(file)
    raise InvalidInputError([Problem(file.shown_as, 1, 1, _describe_unrecognized(document, formats))])


def _add_case_notes(eval_set: EvalSet, file: EvalFile) -> EvalSet:
    if not os.path.lexists(file.path.with_name(build_notes_name(file.path.name))):
        return eval_set
    from evalgate.datasets.case_notes import apply_case_notes  # few eval sets have notes

    return apply_case_notes(eval_set, file.path, file.shown_as)


def _read_with_format(
    document: Document, formats: Mapping[str, EvalFormat], *, is_forced: bool
) -> EvalSet | None:
    """Return the eval set of the first format that recognises the document; None if no format does.

    With `is_forced`, the first format reads the document without a check.
    """
    for name, eval_format in formats.items():
        if is_forced or eval_format.matches_document(document):
            return replace(eval_format.read_eval_set(document), format_name=name)
    return None


def _read_json_file(file: EvalFile) -> Document:
    """Read a JSON file. If it is large, its long lists stay in the file."""
    try:
        is_large = file.path.stat().st_size >= LARGE_FILE and file.path.is_file()
    except (OSError, ValueError):  # `read_json` reports it
        is_large = False
    if not is_large:
        return read_json(file.path, file.shown_as)
    from evalgate.datasets.large.large_json import read_large_json

    return read_large_json(file.path, file.shown_as)


def _refuse_dataset(file: EvalFile) -> None:
    """Raise InvalidInputError if a file is a data set of another tool, such as promptfoo.

    The message names the command that converts the file.
    """
    from evalgate.datasets.foreign_datasets import suggest_conversion

    if advice := suggest_conversion(file.path, file.shown_as):
        raise InvalidInputError([Problem(file.shown_as, 1, 1, advice)]) from None


def _describe_unrecognized(document: Document, formats: Mapping[str, EvalFormat]) -> str:
    value = document.value
    kinds = {dict: "an object", str: "a text", type(None): "null"}
    kind = "a list" if as_sequence(value) is not None else kinds.get(type(value), "a number, true or false")
    keys = f" with the keys {', '.join(list(value)[:5])}" if isinstance(value, dict) and value else ""
    return (
        f"this is no eval set of a format that evalgate knows ({', '.join(formats)}): {kind}{keys}. "
        "Name eval sets only."
    )


def _select_cases(eval_set: EvalSet, file: EvalFile) -> EvalSet:
    """Return the eval set with only the cases that `file` selects; each case gets the id of the eval set.

    Raises:
        InvalidInputError: a selected case is not in the file.
    """
    ids = {case.eval_id: index for index, case in enumerate(eval_set.cases)} if file.selections else {}
    selected = {name for text in file.selections for name in _split_names(text, ids)}
    if unknown := sorted(selected - ids.keys()):
        raise InvalidInputError(
            Problem(file.shown_as, 0, 0, f"there is no case {name!r}.{_suggest_nearest(name, ids)}")
            for name in unknown
        )
    cases = eval_set.cases
    if not file.is_whole:
        cases = tuple([cases[index] for index in sorted(ids[name] for name in selected)])
    # Cases of most files have the id already: `assign_eval_set` then returns the same sequence.
    cases = assign_eval_set(cases, eval_set.eval_set_id)
    return replace(eval_set, cases=cases, is_whole=file.is_whole)


def _split_names(selection: str, ids: Container[str]) -> list[str]:
    """Split `case_a, case_b` into ids. A selection that is itself one of `ids` is not split.

    Blanks around a name are dropped, unless the name with its blanks is one of `ids`.
    """
    for name in (selection, selection.strip()):
        if name in ids:
            return [name]
    names = [name if name in ids else name.strip() for name in selection.split(",")]
    return [name for name in names if name]


def _suggest_nearest(name: str, candidates: Iterable[str]) -> str:
    names = list(candidates)
    from evalgate.core.did_you_mean import find_similar

    if near := find_similar(name, names, most=3, cutoff=0.5):
        return f" Did you mean {' or '.join(map(repr, near))}?"
    return f" There are: {', '.join(map(repr, names[:5]))}{', …' if names[5:] else ''}." if names else ""


def _find_repeated_sets(eval_sets: Iterable[EvalSet]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for eval_set in eval_sets:
        earlier = first.setdefault(eval_set.eval_set_id, eval_set.path)
        if earlier != eval_set.path:
            message = (
                f"its eval_set_id {eval_set.eval_set_id!r} is that of {earlier} too: give each eval set "
                "an id of its own, so that their results can be told apart"
            )
            yield Problem(eval_set.path, 0, 0, message)
