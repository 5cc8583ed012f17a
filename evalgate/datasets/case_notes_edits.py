"""Changes of a file of case notes that keep all of its other text: comments, order and layout."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.datasets.case_notes import CaseNote, parse_case_notes
from evalgate.datasets.edit_history import FileChange, read_content
from evalgate.documents.strict_yaml import compose_yaml
from evalgate.documents.validation_errors import validate_id
from evalgate.system.files import decode_text

_HEADER = "# Notes of evalgate about the cases of {}: see docs/import.md\n"
_NO_LIMIT = 2**31
_BREAK = re.compile(r"[\n\x7f-\x9f\u2028\u2029\ufeff]")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})


def change_notes(path: Path, shown_as: str, edit: Callable[[str], str]) -> FileChange:
    """Return the change of a file of notes that `edit` makes of its text; nothing is written yet.

    Raises:
        InvalidInputError: the file cannot be read, or would hold invalid notes.
    """
    before = read_content(path, shown_as)
    text = "" if before is None else decode_text(before, shown_as)
    after = edit(text)
    if after == text:
        return FileChange(path, shown_as, before, before)
    parse_case_notes(after, shown_as)
    return FileChange(path, shown_as, before, after.encode())


def add_notes(text: str, notes: Mapping[str, CaseNote], shown_as: str, eval_set: str) -> str:
    """Return the text of the file with notes about further cases; `text` is "" for a new file.

    Raises:
        InvalidInputError: the file has no place for them, because `cases` is written in braces.
    """
    if not notes:
        return text
    block = "".join(_format_note(name, note) for name, note in notes.items())
    root = _parse_mapping(text, shown_as)
    cases = _find_value(root, "cases")
    if cases is None:
        start = text or _HEADER.format(eval_set)
        return f"{_end_line(start)}cases:\n{block}"
    if isinstance(cases, yaml.MappingNode) and not cases.flow_style and cases.value:
        end = _find_line_end(text, cases.value[-1][1])
        indent = cases.value[0][0].start_mark.column
        return _end_line(text[:end]) + _indent_block(block, indent) + text[end:]
    mark = cases.start_mark
    if isinstance(cases, yaml.MappingNode) and cases.value:
        message = "evalgate cannot add notes within braces: write `cases:` with a case on each line"
        raise InvalidInputError([Problem(shown_as, mark.line + 1, mark.column + 1, message)])
    return text[: mark.index].rstrip(" ") + "\n" + block + text[cases.end_mark.index :].lstrip(" \n")


def set_expected(text: str, names: Iterable[str], shown_as: str) -> str:
    """Return the text with the status `expected` for the named cases."""
    root = _parse_mapping(text, shown_as)
    edits = []
    for name in names:
        status = _find_value(_find_value(_find_value(root, "cases"), name), "status")
        if status is not None:
            edits.append((status.start_mark.index, status.end_mark.index, "expected"))
    return _apply_edits(text, edits)


def drop_notes(text: str, names: Iterable[str], shown_as: str) -> str:
    """Return the text without the notes about the named cases; their sources are listed as `dropped`."""
    root = _parse_mapping(text, shown_as)
    cases = _find_value(root, "cases")
    edits, sources = [], []
    wanted = set(names)
    for key, value in cases.value if isinstance(cases, yaml.MappingNode) else ():
        if key.value not in wanted:
            continue
        source = _find_value(value, "source")
        sources.append(str(source.value) if source is not None and source.value else key.value)
        if not cases.flow_style:
            edits.append((_find_line_start(text, key.start_mark.index), _find_line_end(text, value), ""))
        else:
            line, column = key.start_mark.line + 1, key.start_mark.column + 1
            message = "evalgate cannot remove notes within braces: write `cases:` with a case on each line"
            raise InvalidInputError([Problem(shown_as, line, column, message)])
    text = _apply_edits(text, edits)
    return _add_dropped(text, sources, shown_as)


def rename_notes(text: str, name: str, new_name: str, shown_as: str) -> str:
    """Return the text with the notes about a case under its new name."""
    cases = _find_value(_parse_mapping(text, shown_as), "cases")
    keys = [key for key, _ in cases.value] if isinstance(cases, yaml.MappingNode) else []
    edits = [
        (key.start_mark.index, key.end_mark.index, _format_scalar(new_name))
        for key in keys
        if key.value == name
    ]
    return _apply_edits(text, edits)


def set_tags(text: str, name: str, tags: tuple[str, ...], shown_as: str, eval_set: str) -> str:
    """Return the text with other tags of a case.

    Raises:
        InvalidInputError: a tag is blank or holds control characters.
    """
    for tag in tags:
        try:
            validate_id(tag)
        except ValueError as error:
            raise InvalidInputError([Problem(shown_as, 0, 0, f"a tag {error}")]) from None
    root = _parse_mapping(text, shown_as)
    note = _find_value(_find_value(root, "cases"), name)
    if not isinstance(note, yaml.MappingNode) or not note.value:
        if note is not None:  # {}
            return (
                text[: note.start_mark.index]
                + f"{{tags: {_dump_inline(list(tags))}}}"
                + text[note.end_mark.index :]
            )
        return add_notes(text, {name: CaseNote(tags=tags)}, shown_as, eval_set) if tags else text
    held, new = _find_value(note, "tags"), _dump_inline(list(tags))
    if held is None:
        first = note.value[0][0].start_mark.index
        gap = ", " if note.flow_style else "\n" + " " * _find_column(text, first)
        return text[:first] + f"tags: {new}{gap}" + text[first:]
    end = held.end_mark.index
    if isinstance(held, yaml.SequenceNode) and not held.flow_style:
        # A list of dashes may begin in the column of its key; a list in brackets may not.
        pad = "  " if held.start_mark.column <= _find_column(text, note.value[0][0].start_mark.index) else ""
        end, new = _find_line_end(text, held.value[-1]), f"{pad}{new}\n"
    return text[: held.start_mark.index] + new + text[end:]


def _add_dropped(text: str, sources: list[str], shown_as: str) -> str:
    if not sources:
        return text
    lines = "".join(f"- {_format_scalar(source)}\n" for source in sources)
    dropped = _find_value(_parse_mapping(text, shown_as), "dropped")
    if isinstance(dropped, yaml.SequenceNode) and dropped.value and not dropped.flow_style:
        end = _find_line_end(text, dropped.value[-1])
        indent = _find_column(text, dropped.start_mark.index)
        return _end_line(text[:end]) + _indent_block(lines, indent, 0) + text[end:]
    if dropped is not None:
        known = [str(each.value) for each in getattr(dropped, "value", []) or []]
        new = _dump_inline([*known, *sources])
        return text[: dropped.start_mark.index] + new + text[dropped.end_mark.index :]
    return f"{_end_line(text)}dropped:\n{lines}"


def _parse_mapping(text: str, shown_as: str) -> yaml.Node | None:
    node, value = compose_yaml(text, shown_as)
    if value is not None and not isinstance(value, dict):
        raise InvalidInputError([Problem(shown_as, 1, 1, "the file must be an object")])
    return node


def _find_value(node: yaml.Node | None, key: str) -> Any:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _apply_edits(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def _find_line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _find_column(text: str, index: int) -> int:
    return index - _find_line_start(text, index)


def _find_line_end(text: str, node: yaml.Node) -> int:
    """Return the index after the last line of a value; a block ends before the blank lines behind it."""
    while isinstance(node, yaml.MappingNode | yaml.SequenceNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end = text.find("\n", max(node.end_mark.index - (node.end_mark.column == 0), node.start_mark.index))
    return len(text) if end < 0 else end + 1


def _end_line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _indent_block(block: str, indent: int, own: int = 2) -> str:
    pad = " " * (indent - own)
    return "".join(f"{pad}{line}" if line.strip() else line for line in block.splitlines(keepends=True))


def _format_note(name: str, note: CaseNote) -> str:
    lines = [f"  {_format_scalar(name)}:"]
    values: dict[str, Any] = note.model_dump(mode="json", exclude_defaults=True)
    for key, value in values.items():
        if key == "tool_mocks":
            lines.append(f"    {key}:")
            lines += [f"      - {_dump_inline(mock)}" for mock in value]
        elif isinstance(value, list):
            lines.append(f"    {key}: [{', '.join(map(_format_scalar, value))}]")
        else:
            lines.append(f"    {key}: {value if key == 'imported' else _format_scalar(value)}")
    return "".join(f"{line}\n" for line in (lines if values else [f"{lines[0]} {{}}"]))


def _format_scalar(value: str) -> str:
    """Return a text as YAML on one line: plain if that is safe, else in double quotes."""
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    if re.fullmatch(r"https?://[A-Za-z0-9./_~%?&=+-]+", value):
        return value
    return _dump_inline(value)


def _dump_inline(value: object) -> str:
    """Return any JSON as YAML on one line."""
    if isinstance(value, str):
        text = yaml.safe_dump(value, default_style='"', allow_unicode=True, width=_NO_LIMIT)
    else:
        text = yaml.safe_dump(
            value, default_flow_style=True, allow_unicode=True, width=_NO_LIMIT, sort_keys=False
        )
        if _BREAK.search(text.strip()):
            # PyYAML breaks such lines, and loses some of the breaks. JSON is YAML, too.
            text = _BREAK.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
    return str(text).strip()


def build_note(
    *, source: str, tags: Iterable[str], day: date, mocks: Iterable[Mapping[str, object]] = ()
) -> CaseNote:
    """Return the note about an imported case."""
    return CaseNote.model_validate(
        {
            "status": "observed",
            "tags": tuple(tags),
            "source": source,
            "imported": day,
            "tool_mocks": tuple(mocks),
        }
    )
