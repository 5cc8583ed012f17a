"""Change values in the text of a YAML file, and keep the comments, order and layout of all other text."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import yaml

from evalgate.core.errors import InvalidInputError, Problem
from evalgate.documents.strict_yaml import compose_yaml

_NO_LIMIT = 2**31
_BREAK = re.compile(r"[\n\x7f-\x9f\u2028\u2029\ufeff]")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_LONGEST_LINE = 100


def set_yaml_value(text: str, path: Sequence[str], value: object, shown_as: str) -> str:
    """Return the text of a YAML object, changed so that `value` is at a path of one or more keys.

    Objects that are missing on the path are added. A value on the path that is no object is replaced by an
    object. If `value` is None, the old value is removed, and so are objects on the path that are then empty.
    Comments within a replaced value are lost. A list that only gets further items keeps its comments.

    Raises:
        InvalidInputError: the text is not a YAML object or cannot be changed at this path, for example within
            an alias.
    """
    nodes: list[Any] = [parse_mapping(text, shown_as)]
    for key in path:
        if (child := find_value(nodes[-1], key)) is None:
            break
        nodes.append(child)
    depth = len(nodes) - 1
    if value is None and depth < len(path):
        return text
    new = value
    if value is None:
        depth -= 1
        while depth > 0 and len(nodes[depth].value) == 1:
            depth -= 1
        changed = _remove_entry(text, nodes[depth], path[depth])
    else:
        for key in reversed(path[depth + 1 :]):
            new = {key: new}
        if depth < len(path):
            changed = _add_entry(text, nodes, path, new)
        else:
            before = get_value(compose_yaml(text, shown_as)[1], path)
            changed = _append_items(text, nodes[-1], before, new) or _replace_entry(
                text, nodes[-2], path[-1], new
            )
    if compose_yaml(changed, shown_as)[1] != _set_value(compose_yaml(text, shown_as)[1], path, value):
        mark = getattr(nodes[-1], "start_mark", None)
        place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        message = f"evalgate cannot change `{path[-1]}` here: change the file by hand"
        raise InvalidInputError([Problem(shown_as, place[0], place[1], message)])
    return changed


def get_value(root: object, path: Sequence[str]) -> object:
    """Return the value at a path of keys in decoded YAML; None if there is no value."""
    for key in path:
        root = root.get(key) if isinstance(root, Mapping) else None
    return root


def _set_value(root: object, path: Sequence[str], value: object) -> object:
    """Return decoded YAML with `value` at a path of keys.

    If `value` is None, the old value is removed, and so are objects on the path that are then empty.
    """
    before = root if isinstance(root, Mapping) else {}
    key, rest = path[0], path[1:]
    new = _set_value(before.get(key), rest, value) if rest else value
    if new is None or (value is None and new == {}):
        return {name: each for name, each in before.items() if name != key}
    return {**before, key: new}


def _add_entry(text: str, nodes: Sequence[Any], path: Sequence[str], value: object) -> str:
    """Add the first missing key of `path` to a YAML document, with the value `value`, and return the text.

    The key is added to the object at the last existing key of `path`. If the value there is empty or not an
    object, a new object replaces it. `value` must be the whole value of the missing key: if `path` has more
    keys after it, they are already in `value`.

    `nodes` are the root node of the document (None for a text without a document) and the nodes at the
    existing keys of `path`, in order.
    """
    node, key = nodes[-1], path[len(nodes) - 1]
    if node is None:
        return end_line(text) + _format_entry(key, value, 0)
    if not isinstance(node, yaml.MappingNode) or not node.value:
        if len(nodes) > 1:
            return _replace_entry(text, nodes[-2], path[len(nodes) - 2], {key: value})
        return text[: node.start_mark.index] + dump_inline({key: value}) + text[node.end_mark.index :]
    last = node.value[-1][1]
    if node.flow_style:
        entry = f", {format_scalar(key)}: {_format_value(value)}"
        return text[: last.end_mark.index] + entry + text[last.end_mark.index :]
    end, column = find_line_end(text, last), find_column(text, node.value[0][0].start_mark.index)
    return end_line(text[:end]) + _format_entry(key, value, column) + text[end:]


def _append_items(text: str, node: Any, before: object, after: object) -> str:
    """Change the list at `node` from `before` to `after` by adding items at its end, and return the text.

    Return "" if this is not possible: `before`, the decoded value at `node`, is no list or is empty, or
    `after` is not `before` with further items at its end.
    """
    if not (isinstance(before, list) and isinstance(after, list | tuple) and before):
        return ""
    if len(after) <= len(before) or list(after[: len(before)]) != before:
        return ""
    more = after[len(before) :]
    if node.flow_style:
        end = node.value[-1].end_mark.index
        return text[:end] + "".join(f", {_format_value(each)}" for each in more) + text[end:]
    end, column = find_line_end(text, node), find_column(text, node.start_mark.index)
    return end_line(text[:end]) + "".join(_format_item(each, column) for each in more) + text[end:]


def _replace_entry(text: str, parent: Any, key: str, value: object) -> str:
    name, old = next(pair for pair in parent.value if pair[0].value == key)
    if parent.flow_style:
        return text[: old.start_mark.index] + _format_value(value) + text[old.end_mark.index :]
    start = name.start_mark.index
    entry = _format_entry(key, value, find_column(text, start))
    return text[:start] + entry.lstrip(" ") + text[find_line_end(text, old) :]


def _remove_entry(text: str, parent: Any, key: str) -> str:
    at = next(index for index, pair in enumerate(parent.value) if pair[0].value == key)
    name, value = parent.value[at]
    if not parent.flow_style:
        return text[: find_line_start(text, name.start_mark.index)] + text[find_line_end(text, value) :]
    start, end = name.start_mark.index, value.end_mark.index
    if at:
        start = parent.value[at - 1][1].end_mark.index
    elif len(parent.value) > 1:
        end = parent.value[1][0].start_mark.index
    return text[:start] + text[end:]


def _format_entry(key: str, value: object, column: int) -> str:
    """Return a key and its value as one or more lines with an indentation of `column` blanks."""
    start = " " * column + f"{format_scalar(key)}:"
    inline = f"{start} {_format_value(value)}\n"
    if not value or not isinstance(value, Mapping | list | tuple):
        return inline
    inner = value.values() if isinstance(value, Mapping) else ()
    if len(inline) <= _LONGEST_LINE and not any(isinstance(each, Mapping) and each for each in inner):
        return inline
    if isinstance(value, Mapping):
        return f"{start}\n" + "".join(_format_entry(name, each, column + 2) for name, each in value.items())
    return f"{start}\n" + "".join(_format_item(each, column + 2) for each in value)


def _format_value(value: object) -> str:
    """Return a value as YAML on one line."""
    return format_scalar(value) if isinstance(value, str) else dump_inline(value)


def _format_item(value: object, column: int) -> str:
    start = " " * column + "- "
    if not value or not isinstance(value, Mapping):
        return f"{start}{dump_inline(value)}\n"
    entries = "".join(_format_entry(name, each, column + 2) for name, each in value.items())
    return start + entries.lstrip(" ")


def parse_mapping(text: str, shown_as: str) -> yaml.Node | None:
    """Return the root node of a document that is an object or null; None if the text has no document.

    The root of a document that is null is a scalar node.

    Raises:
        InvalidInputError: the text is not YAML, or its root is neither an object nor null.
    """
    node, value = compose_yaml(text, shown_as)
    if value is not None and not isinstance(value, dict):
        raise InvalidInputError([Problem(shown_as, 1, 1, "the file must be an object")])
    return node


def find_value(node: yaml.Node | None, key: str) -> Any:
    """Return the node of the value at `key` of an object; None if `node` is no object or lacks the key."""
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def apply_edits(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Return the text with parts replaced. Each edit is (start, end, new text); edits must not overlap."""
    for start, end, new in sorted(edits, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def find_line_start(text: str, index: int) -> int:
    """Return the index of the first character of the line that holds `index`."""
    return text.rfind("\n", 0, index) + 1


def find_column(text: str, index: int) -> int:
    """Return the 0-based column of the character at `index`."""
    return index - find_line_start(text, index)


def find_line_end(text: str, node: yaml.Node) -> int:
    """Return the index at which the line after a value begins; the length of the text if there is none.

    Blank lines that follow the value do not belong to it, except after a block scalar (`|` or `>`).
    """
    while isinstance(node, yaml.MappingNode | yaml.SequenceNode) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end = text.find("\n", max(node.end_mark.index - (node.end_mark.column == 0), node.start_mark.index))
    return len(text) if end < 0 else end + 1


def end_line(text: str) -> str:
    """Return the text with a line break at its end, unless it is empty."""
    return text if not text or text.endswith("\n") else f"{text}\n"


def indent_block(block: str, indent: int, own: int = 2) -> str:
    """Increase the indentation of a block of lines from `own` blanks to `indent`, and return the block."""
    pad = " " * (indent - own)
    return "".join(f"{pad}{line}" if line.strip() else line for line in block.splitlines(keepends=True))


def format_scalar(value: str) -> str:
    """Return a text as YAML on one line: a simple word, path or URL as it is, else in double quotes."""
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    if re.fullmatch(r"https?://[A-Za-z0-9./_~%?&=+-]+", value):
        return value
    return dump_inline(value)


def dump_inline(value: object) -> str:
    """Return a JSON value, or a date, as YAML on one line."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, str):
        text = yaml.safe_dump(value, default_style='"', allow_unicode=True, width=_NO_LIMIT)
    elif value is None or isinstance(value, bool | int | float):
        text = yaml.safe_dump(value).removesuffix("...\n")  # not as JSON: `1e+22` is a text in YAML
    else:
        text = yaml.safe_dump(
            value, default_flow_style=True, allow_unicode=True, width=_NO_LIMIT, sort_keys=False
        )
        if _BREAK.search(text.strip()):
            text = _dump_escaped(value)  # PyYAML breaks such lines, and loses some of the breaks
    return str(text).strip()


def _dump_escaped(value: object) -> str:
    """Return a JSON value as YAML on one line, with line breaks and control characters escaped."""
    if isinstance(value, str):
        return _BREAK.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))
    if isinstance(value, Mapping):
        pairs = (f"{_dump_escaped(str(name))}: {_dump_escaped(each)}" for name, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_dump_escaped, value))}]"
    return dump_inline(value)
