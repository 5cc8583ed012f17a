"""Change values in a file of case notes, and keep all other text: comments, order and layout."""

import codecs
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.datasets.case_notes import CaseNote, parse_case_notes
from evalgate.datasets.edit_undo import FileChange, read_content
from evalgate.documents.strict_yaml import compose_yaml
from evalgate.documents.validation_errors import validate_id, validate_model
from evalgate.documents.yaml_edits import (
    apply_edits,
    dump_inline,
    end_line,
    find_column,
    find_line_end,
    find_line_start,
    find_value,
    format_scalar,
    get_value,
    indent_block,
    parse_mapping,
    set_yaml_value,
)
from evalgate.system.files import decode_text

_HEADER = "# Notes of evalgate about the cases of {}: see docs/import.md\n"


def change_notes(path: Path, shown_as: str, edit: Callable[[str], str]) -> FileChange:
    """Return the change that `edit` makes to the text of a file of notes; nothing is written yet.

    `edit` gets and returns text; it gets "" for a file that does not exist. A byte order mark is cut off for
    `edit`, and CR LF becomes LF if all lines end in CR LF. The new content has both again.

    Raises:
        InvalidInputError: the file cannot be read, the new notes are invalid, or `edit` raises this error.
    """
    before = read_content(path, shown_as)
    text = "" if before is None else decode_text(before, shown_as)
    has_windows_ends = "\n" in text and text.count("\n") == text.count("\r\n")
    text = text.replace("\r\n", "\n") if has_windows_ends else text
    after = edit(text)
    if after == text:
        return FileChange(path, shown_as, before, before)
    parse_case_notes(after, shown_as)
    after = after.replace("\n", "\r\n") if has_windows_ends else after
    mark = codecs.BOM_UTF8 if before and before.startswith(codecs.BOM_UTF8) else b""
    return FileChange(path, shown_as, before, mark + after.encode())


def add_notes(text: str, notes: Mapping[str, CaseNote], shown_as: str, eval_set: str) -> str:
    """Return the text of a notes file with notes about further cases; `text` is "" for a new file.

    `eval_set` is the name of the file that the notes are about.

    Raises:
        InvalidInputError: the text is not a YAML object, or its `cases` are written in braces (YAML's flow
            style).
    """
    if not notes:
        return text
    block = "".join(_format_note(name, note) for name, note in notes.items())
    root = parse_mapping(text, shown_as)
    cases = find_value(root, "cases")
    if cases is None:
        start = text or _HEADER.format(eval_set)
        return f"{end_line(start)}cases:\n{block}"
    if isinstance(cases, yaml.MappingNode) and not cases.flow_style and cases.value:
        end = find_line_end(text, cases.value[-1][1])
        indent = cases.value[0][0].start_mark.column
        return end_line(text[:end]) + indent_block(block, indent) + text[end:]
    mark = cases.start_mark
    if isinstance(cases, yaml.MappingNode) and cases.value:
        message = "evalgate cannot add notes within braces: write `cases:` with a case on each line"
        raise InvalidInputError([Problem(shown_as, mark.line + 1, mark.column + 1, message)])
    return text[: mark.index].rstrip(" ") + "\n" + block + text[cases.end_mark.index :].lstrip(" \n")


def mark_expected(text: str, names: Iterable[str], shown_as: str) -> str:
    """Return the text of a notes file with the status `expected` for the named cases.

    Notes without a status stay as they are, because `expected` is the default.

    Raises:
        InvalidInputError: the text is not a YAML object.
    """
    root = parse_mapping(text, shown_as)
    edits = []
    for name in names:
        status = find_value(find_value(find_value(root, "cases"), name), "status")
        if status is not None:
            edits.append((status.start_mark.index, status.end_mark.index, "expected"))
    return apply_edits(text, edits)


def drop_notes(text: str, names: Iterable[str], shown_as: str) -> str:
    """Return the text of a notes file without the notes about the named cases.

    The sources of these cases are added to the list `dropped`. A source is not added if a remaining case,
    such as a copy, has the same source. For a case without a source, the id is added, but only if its status
    is `observed`: other cases were not imported, so no later import can add them again.

    Raises:
        InvalidInputError: the text is not a YAML object, or its `cases` are written in braces (YAML's flow
            style).
    """
    root = parse_mapping(text, shown_as)
    cases = find_value(root, "cases")
    edits, sources = [], []
    wanted = set(names)
    for key, value in cases.value if isinstance(cases, yaml.MappingNode) else ():
        if key.value not in wanted:
            continue
        source, status = find_value(value, "source"), find_value(value, "status")
        if source is not None and source.value:
            sources.append(str(source.value))
        elif status is not None and status.value == "observed":
            sources.append(key.value)
        if not cases.flow_style:
            edits.append((find_line_start(text, key.start_mark.index), find_line_end(text, value), ""))
        else:
            line, column = key.start_mark.line + 1, key.start_mark.column + 1
            message = "evalgate cannot remove notes within braces: write `cases:` with a case on each line"
            raise InvalidInputError([Problem(shown_as, line, column, message)])
    kept = {
        str(source.value)
        for key, value in (cases.value if isinstance(cases, yaml.MappingNode) else ())
        if key.value not in wanted and (source := find_value(value, "source")) is not None
    }
    text = apply_edits(text, edits)
    return _add_dropped(text, [each for each in sources if each not in kept], shown_as)


def rename_notes(text: str, name: str, new_name: str, shown_as: str) -> str:
    """Return the text of a notes file with the notes about the case `name` under the id `new_name`.

    Raises:
        InvalidInputError: the text is not a YAML object.
    """
    cases = find_value(parse_mapping(text, shown_as), "cases")
    keys = [key for key, _ in cases.value] if isinstance(cases, yaml.MappingNode) else []
    edits = [
        (key.start_mark.index, key.end_mark.index, format_scalar(new_name))
        for key in keys
        if key.value == name
    ]
    return apply_edits(text, edits)


def copy_notes(text: str, name: str, new_name: str, shown_as: str) -> str:
    """Return the text of a notes file with the notes about the case `name` copied to the case `new_name`.

    Raises:
        InvalidInputError: the text is not a YAML object, or the place cannot be changed, for example because
            it is within a YAML alias.
    """
    note = get_value(compose_yaml(text, shown_as)[1], ("cases", name))
    return set_yaml_value(text, ("cases", new_name), note, shown_as)


def set_tags(text: str, name: str, tags: tuple[str, ...], shown_as: str, eval_set: str) -> str:
    """Return the text of a notes file with `tags` as the tags of the case `name`.

    `text` is "" for a new file. `eval_set` is the name of the file that the notes are about.

    Raises:
        InvalidInputError: a tag is blank or holds control characters, the text is not a YAML object, or its
            `cases` are written in braces (YAML's flow style).
    """
    for tag in tags:
        try:
            validate_id(tag)
        except ValueError as error:
            raise InvalidInputError([Problem(shown_as, 0, 0, f"a tag {error}")]) from None
    root = parse_mapping(text, shown_as)
    note = find_value(find_value(root, "cases"), name)
    if not isinstance(note, yaml.MappingNode) or not note.value:
        if note is not None:  # {}
            return (
                text[: note.start_mark.index]
                + f"{{tags: {dump_inline(list(tags))}}}"
                + text[note.end_mark.index :]
            )
        return add_notes(text, {name: CaseNote(tags=tags)}, shown_as, eval_set) if tags else text
    held, new = find_value(note, "tags"), dump_inline(list(tags))
    if held is None:
        first = note.value[0][0].start_mark.index
        gap = ", " if note.flow_style else "\n" + " " * find_column(text, first)
        return text[:first] + f"tags: {new}{gap}" + text[first:]
    end = held.end_mark.index
    if isinstance(held, yaml.SequenceNode) and not held.flow_style:
        # A list of dashes may begin in the column of its key; a list in brackets may not.
        pad = "  " if held.start_mark.column <= find_column(text, note.value[0][0].start_mark.index) else ""
        end, new = find_line_end(text, held.value[-1]), f"{pad}{new}\n"
    return text[: held.start_mark.index] + new + text[end:]


def _add_dropped(text: str, sources: list[str], shown_as: str) -> str:
    if not sources:
        return text
    lines = "".join(f"- {format_scalar(source)}\n" for source in sources)
    dropped = find_value(parse_mapping(text, shown_as), "dropped")
    if isinstance(dropped, yaml.SequenceNode) and dropped.value and not dropped.flow_style:
        end = find_line_end(text, dropped.value[-1])
        indent = find_column(text, dropped.start_mark.index)
        return end_line(text[:end]) + indent_block(lines, indent, 0) + text[end:]
    if dropped is not None:
        known = [str(each.value) for each in getattr(dropped, "value", []) or []]
        new = dump_inline([*known, *sources])
        return text[: dropped.start_mark.index] + new + text[dropped.end_mark.index :]
    return f"{end_line(text)}dropped:\n{lines}"


def set_check(
    text: str, case: str, name: str, conditions: Mapping[str, Any] | None, shown_as: str, eval_set: str
) -> str:
    """Return the text of a notes file with a check added to a case, or replaced if the name exists.

    If `conditions` is None, the check is removed. `eval_set` is the name of the file that the notes are
    about. Files with JSON Schemas that the conditions name are not read.

    Raises:
        InvalidInputError: the conditions are wrong, the text is not a YAML object, or the place of the check
            cannot be changed, for example because it is within a YAML alias.
    """
    if conditions is not None:
        _validate_check(name, conditions, shown_as)
    return set_note(text, case, ("checks", name), conditions, shown_as, eval_set)


def set_note(text: str, case: str, keys: Sequence[str], value: object, shown_as: str, eval_set: str) -> str:
    """Return the text of a notes file with `value` at the path `keys` in the note about a case.

    `eval_set` is the name of the file that the notes are about. A `value` of None removes the last key of the
    path, and the objects on the path that become empty.

    Raises:
        InvalidInputError: the text is not a YAML object, or the place cannot be changed, for example because
            it is within a YAML alias.
    """
    if value is not None and not text.strip():
        text = _HEADER.format(eval_set)
    return set_yaml_value(text, ("cases", case, *keys), value, shown_as)


def _validate_check(name: str, conditions: Mapping[str, Any], shown_as: str) -> None:
    from evalgate.config.loader import parse_thresholds
    from evalgate.config.schema.checks import CheckConditions

    problems: list[Problem] = []
    (criterion,) = parse_thresholds({"checks": {name: conditions}}, Path(), shown_as).checks
    validate_model(
        CheckConditions,
        dict(criterion.options),
        problems,
        file=shown_as,
        position=lambda _: (0, 0),
        prefix=("checks", name),
        context=lambda _: {},
    )
    problems += [
        Problem(shown_as, 0, 0, f"`checks.{name}.{key}` belongs into a thresholds file")
        for key in ("ids", "tags")
        if key in conditions
    ]
    if problems:
        raise InvalidInputError(problems)


def _format_note(name: str, note: CaseNote) -> str:
    lines = [f"  {format_scalar(name)}:"]
    values: dict[str, Any] = note.model_dump(mode="json", exclude_defaults=True)
    for key, value in values.items():
        if key == "tool_mocks":
            lines.append(f"    {key}:")
            lines += [f"      - {dump_inline(mock)}" for mock in value]
        elif isinstance(value, list):
            lines.append(f"    {key}: [{', '.join(map(format_scalar, value))}]")
        elif isinstance(value, dict):
            lines.append(f"    {key}: {dump_inline(value)}")
        else:
            lines.append(f"    {key}: {value if key == 'imported' else format_scalar(value)}")
    return "".join(f"{line}\n" for line in (lines if values else [f"{lines[0]} {{}}"]))


def build_note(
    *, source: str, tags: Iterable[str], day: date, mocks: Iterable[Mapping[str, object]] = ()
) -> CaseNote:
    """Return the note about a case that was imported on `day`, with the status `observed`."""
    return CaseNote.model_validate(
        {
            "status": "observed",
            "tags": tuple(tags),
            "source": source,
            "imported": day,
            "tool_mocks": tuple(mocks),
        }
    )
