"""Decode configuration files in YAML, TOML or JSON, with the position of every value."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from evalgate.core.errors import InvalidInputError
from evalgate.core.frozen import frozen
from evalgate.documents.strict_json import Location
from evalgate.system.files import decode_text, read_input_file

if TYPE_CHECKING:
    from typing import TypeAlias

    import yaml

    _YamlEntries: TypeAlias = dict[int, dict[str, tuple[yaml.Node, yaml.Node]]]
    """`id()` of a mapping's node to the mapping's entries: each key to its node and the node of its value."""


@frozen
class ConfigDocument:
    """A decoded configuration file, with the position of every value."""

    path: str
    """Name of the file in messages."""
    value: object
    find_position: Callable[[Location], tuple[int, int]]
    """Function that returns line and column, both from 1, of the key or value at a location.

    If the location does not exist, it returns the position of the innermost existing part. For TOML, the
    position is found by a search of the text, and the column is always 1.
    """


def read_config_document(path: Path, shown_as: str, *, otherwise: str = "") -> ConfigDocument:
    """Read and decode a config file: as TOML or JSON if its suffix is `.toml` or `.json`, else as YAML.

    The value of a `pyproject.toml` is its table `[tool.evalgate]`, or {} without this table. `otherwise` is
    a sentence that is added to the message about a missing file.

    Raises:
        InvalidInputError: the file cannot be read, or its content is not in the format of its suffix.
    """
    try:
        data = read_input_file(path, shown_as)
    except FileNotFoundError:
        raise InvalidInputError(f"{shown_as}: no such file{'. ' if otherwise else ''}{otherwise}") from None
    except OSError as error:
        raise InvalidInputError(f"{shown_as}: cannot be read: {error.strerror}") from None
    text = decode_text(data, shown_as)
    if path.suffix == ".toml":
        return _parse_toml_config(
            text, shown_as, ("tool", "evalgate") if path.name == "pyproject.toml" else ()
        )
    if path.suffix == ".json":
        return _parse_json_config(text, shown_as)
    return parse_yaml(text, shown_as)


def _parse_json_config(text: str, shown_as: str) -> ConfigDocument:
    from evalgate.documents.strict_json import parse_json

    document = parse_json(text.encode(), shown_as)
    return ConfigDocument(shown_as, document.value, document.find_position)


def parse_yaml(text: str, shown_as: str) -> ConfigDocument:
    """Decode the text of a YAML file; `shown_as` is the name of the file in messages.

    Raises:
        InvalidInputError: the syntax is wrong, a key is given twice, a value cannot be read as its type, or
            the nesting is too deep.
    """
    from evalgate.documents.strict_yaml import compose_yaml

    node, value = compose_yaml(text, shown_as)
    entries: _YamlEntries = {}
    return ConfigDocument(shown_as, value, lambda location: _find_yaml_position(node, location, entries))


def _find_yaml_position(
    node: "yaml.Node | None", location: Location, entries: "_YamlEntries"
) -> tuple[int, int]:
    import yaml

    mark = node.start_mark if node else None
    for part in location:
        if isinstance(node, yaml.MappingNode):
            # Indexed once: a mapping with the notes of 10,000 cases would be searched 10,000 times.
            if id(node) not in entries:
                entries[id(node)] = {key.value: (key, value) for key, value in reversed(node.value)}
            entry = entries[id(node)].get(str(part))
            if entry is None:
                break
            mark, node = entry[0].start_mark, entry[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            mark = node.start_mark
        else:
            break
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)


def _parse_toml_config(text: str, shown_as: str, table: tuple[str, ...]) -> ConfigDocument:
    from evalgate.documents.strict_toml import load_toml

    value: object = load_toml(text, shown_as)
    for key in table:
        value = value.get(key, {}) if isinstance(value, dict) else {}
    return ConfigDocument(shown_as, value, lambda location: _find_toml_position(text, (*table, *location)))


def _find_toml_position(text: str, location: Location) -> tuple[int, int]:
    # tomllib keeps no positions: search for each key of the location, from the line of the previous key on.
    names = [str(part) for part in location if isinstance(part, str)]
    lines = text.splitlines()
    best, start = 1, 0
    for name in names:
        word = re.escape(name)
        pattern = re.compile(rf"""^\s*\[+.*\b{word}\b.*\]|(?:^|[{{,])\s*["']?{word}["']?\s*=""")
        found = next((i for i in range(start, len(lines)) if pattern.search(lines[i])), None)
        if found is None:
            break
        best, start = found + 1, found
    return best, 1
