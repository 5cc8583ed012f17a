"""Loading of eval sets from the user's patterns; each file is read by the format that recognises it."""

import difflib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.protocols import Document, EvalFormat
from evalgate.core.types import EvalSet
from evalgate.datasets.cases import assign_eval_set
from evalgate.datasets.discovery import METRICS_ENDINGS, TEST_CONFIG, EvalFile, find_eval_files
from evalgate.documents.strict_json import as_sequence, read_json
from evalgate.system.gc import pause_gc

LARGE_FILE = 32 * 2**20
"""Bytes from which on the lists of a file are not held in memory."""


def load_eval_sets(
    patterns: Sequence[str], formats: Mapping[str, EvalFormat], *, base: Path, format_name: str | None = None
) -> tuple[EvalSet, ...]:
    """Load the eval sets of all patterns in the given order, each file once.

    A pattern is a file, `file:case_a,case_b`, a folder or a glob, relative to `base`. The first of `formats`
    that recognises a file's content reads it, unless `format_name` selects one.

    Raises:
        InvalidInputError: a pattern or file is invalid. Lists every problem of all of them.
    """
    chosen = _select_formats(formats, format_name)
    problems: list[Problem] = []
    found = find_eval_files(patterns, base=base, problems=problems)
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


def find_rules_file(
    eval_set_path: Path, eval_set_id: str, exists: Callable[[Path], bool] = Path.is_file
) -> Path | None:
    """Return the thresholds file next to an eval set: tRPC-Agent-Go's, else Google ADK's."""
    return find_metrics_file(eval_set_path, eval_set_id, exists) or find_test_config(eval_set_path, exists)


def find_test_config(eval_set_path: Path, exists: Callable[[Path], bool] = Path.is_file) -> Path | None:
    """Return Google ADK's thresholds file in the folder of an eval set; None if there is none."""
    path = eval_set_path.parent / TEST_CONFIG
    return path if exists(path) else None


def find_metrics_file(
    eval_set_path: Path, eval_set_id: str, exists: Callable[[Path], bool] = Path.is_file
) -> Path | None:
    """Return tRPC-Agent-Go's thresholds file in the folder of an eval set; None if there is none.

    Its name begins with the name of the eval set's file, or with the eval set's id.
    """
    stem = eval_set_path.name.removesuffix(".json").removesuffix(".evalset")
    for name in (stem, eval_set_id):
        for ending in METRICS_ENDINGS:
            path = eval_set_path.with_name(Path(name).name + ending)
            if exists(path):
                return path
    return None


def _select_formats(formats: Mapping[str, EvalFormat], name: str | None) -> Mapping[str, EvalFormat]:
    if name is None:
        return formats
    if name not in formats:
        raise InvalidInputError(f"{name!r} is not a format of eval sets.{_suggest_nearest(name, formats)}")
    return {name: formats[name]}


def _load_file(file: EvalFile, formats: Mapping[str, EvalFormat], *, is_forced: bool) -> EvalSet:
    try:
        document = _read_document(file)
    except InvalidInputError:
        _refuse_dataset(file)
        raise
    for name, eval_format in formats.items():
        if is_forced or eval_format.matches_document(document):
            return replace(_select_cases(eval_format.read_eval_set(document), file), format_name=name)
    _refuse_dataset(file)
    raise InvalidInputError([Problem(file.shown_as, 1, 1, _describe_unrecognized(document, formats))])


def _read_document(file: EvalFile) -> Document:
    """Read a file of JSON. In a large one, long lists stay in the file."""
    try:
        is_large = file.path.stat().st_size >= LARGE_FILE and file.path.is_file()
    except (OSError, ValueError):  # `read_json` reports it
        is_large = False
    if not is_large:
        return read_json(file.path, file.shown_as)
    from evalgate.datasets.large.large_json import read_large_json

    return read_large_json(file.path, file.shown_as)


def _refuse_dataset(file: EvalFile) -> None:
    """Reject a data set of another tool.

    Raises:
        InvalidInputError: the file is one. The message names the command that converts it.
    """
    from evalgate.datasets.conversion import suggest_conversion

    if advice := suggest_conversion(file.path, file.shown_as):
        raise InvalidInputError([Problem(file.shown_as, 1, 1, advice)]) from None


def _describe_unrecognized(document: Document, formats: Mapping[str, EvalFormat]) -> str:
    value = document.value
    keys = f" with the keys {', '.join(list(value)[:5])}" if isinstance(value, dict) and value else ""
    return (
        f"this is no eval set of a format that evalgate knows ({', '.join(formats)}): "
        f"{_describe_kind(value)}{keys}. Name eval sets only."
    )


def _describe_kind(value: object) -> str:
    kinds = {dict: "an object", str: "a text", type(None): "null"}
    return "a list" if as_sequence(value) is not None else kinds.get(type(value), "a number, true or false")


def _select_cases(eval_set: EvalSet, file: EvalFile) -> EvalSet:
    ids = {case.eval_id: index for index, case in enumerate(eval_set.cases)} if file.selections else {}
    wanted = {name for text in file.selections for name in _split_names(text, ids)}
    if unknown := sorted(wanted - ids.keys()):
        raise InvalidInputError(
            Problem(file.shown_as, 0, 0, f"there is no case {name!r}.{_suggest_nearest(name, ids)}")
            for name in unknown
        )
    cases = eval_set.cases
    if not file.is_whole:
        cases = tuple([cases[index] for index in sorted(ids[name] for name in wanted)])
    cases = assign_eval_set(cases, eval_set.eval_set_id)
    return replace(eval_set, cases=cases, is_whole=file.is_whole)


def _split_names(selection: str, ids: Container[str]) -> list[str]:
    """Split `case_a, case_b` into ids. A text that is an id as a whole is not split at its commas."""
    if selection.strip() in ids:
        return [selection.strip()]
    return [name.strip() for name in selection.split(",") if name.strip()]


def _suggest_nearest(name: str, candidates: Iterable[str]) -> str:
    names = list(candidates)
    if near := difflib.get_close_matches(name, names, n=3, cutoff=0.5):
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
