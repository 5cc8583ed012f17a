"""Edits of the quarantine file that keep the rest of its text: comments, order and layout."""

import json
from datetime import date

import yaml

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.types import Quarantine
from evalgate.documents.strict_yaml import compose_yaml
from evalgate.documents.yaml_edits import end_line, find_line_end


def find_quarantine(text: str, pattern: str, shown_as: str) -> Quarantine | None:
    """Return the first entry that has exactly `pattern` under the key `case`; None without such an entry.

    `text` is the content of the quarantine file. Values that the entry lacks are "". `shown_as` names the
    file in messages.

    Raises:
        InvalidInputError: the file is not YAML.
    """
    _, value = compose_yaml(text, shown_as)
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict) and entry.get("case") == pattern:
            return Quarantine(*(str(entry.get(key, "")) for key in ("owner", "reason", "expires")))
    return None


def set_quarantine(text: str, pattern: str, quarantine: Quarantine | None, shown_as: str) -> str:
    """Return the file's text with the entry for `pattern` added or replaced.

    If `quarantine` is None, the entry is removed. `shown_as` names the file in messages.

    Raises:
        InvalidInputError: the entry is incomplete, or the file is not a YAML list with `- case:` for each
            entry.
    """
    entry = "" if quarantine is None else _format_entry(pattern, quarantine, shown_as)
    root, _ = compose_yaml(text, shown_as)
    if root is None:
        return end_line(text) + entry
    if isinstance(root, yaml.SequenceNode) and not root.value:
        return end_line(text[: root.start_mark.index] + text[root.end_mark.index :].lstrip()) + entry
    if not isinstance(root, yaml.SequenceNode) or root.flow_style:
        raise InvalidInputError([Problem(shown_as, 1, 1, "must be a list with `- case:` for each entry")])
    pad = " " * root.start_mark.column
    entry = "".join(f"{pad}{line}" for line in entry.splitlines(keepends=True))
    for node in root.value:
        if _get_case(node) == pattern:
            # The dash may stand on a line of its own, before the first key.
            start = text.rfind(f"\n{pad}-", 0, node.start_mark.index) + 1
            return text[:start] + entry + text[find_line_end(text, node) :]
    return end_line(text) + entry


def rename_quarantine(text: str, pattern: str, new_pattern: str, shown_as: str) -> str:
    """Return the file's text with `pattern` replaced by `new_pattern` in the first entry that has it.

    Without such an entry the text is returned unchanged. `shown_as` names the file in messages.

    Raises:
        InvalidInputError: the file is not YAML.
    """
    root, _ = compose_yaml(text, shown_as)
    for node in root.value if isinstance(root, yaml.SequenceNode) else ():
        case = _find_case_node(node)
        if case is not None and case.value == pattern:
            # A block (`|` or `>`) ends with its line.
            end = "\n" if isinstance(case, yaml.ScalarNode) and case.style in ("|", ">") else ""
            new = json.dumps(new_pattern, ensure_ascii=False) + end
            return text[: case.start_mark.index] + new + text[case.end_mark.index :]
    return text


def _get_case(node: yaml.Node) -> object:
    case = _find_case_node(node)
    return None if case is None else case.value


def _find_case_node(node: yaml.Node) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for key, value in pairs if key.value == "case"), None)


def _format_entry(pattern: str, quarantine: Quarantine, shown_as: str) -> str:
    for name in ("owner", "reason"):
        if not getattr(quarantine, name).strip():
            raise InvalidInputError([Problem(shown_as, 0, 0, f"a quarantine needs `{name}`")])
    try:
        expires = date.fromisoformat(quarantine.expires)
    except ValueError:
        message = "`expires` must be the last day of the quarantine, as 2026-12-31"
        raise InvalidInputError([Problem(shown_as, 0, 0, message)]) from None
    values = {"case": pattern, "owner": quarantine.owner.strip(), "reason": quarantine.reason.strip()}
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return "- " + "\n  ".join([*lines, f"expires: {expires.isoformat()}"]) + "\n"
