"""Decode YAML, and report errors with their position.

For some invalid values, PyYAML raises plain Python exceptions without a position. These errors are reported
with their position, too.
"""

from typing import Any

import yaml
from yaml.constructor import ConstructorError

from evalgate.core.errors import InvalidInputError, Problem

DEEPEST = 200
"""Most levels of nesting, as for JSON. PyYAML's composer crashes the process at some 100,000 levels."""
_MOST_MERGED = 10_000
"""Most entries of a mapping after its `<<` merges: their number can grow tenfold with every line."""
_MOST_DIGITS = 4300
"""Most digits of a whole number: Python's own default limit."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # either has the same methods
    """YAML loader for plain data. An error in a value is raised with the position of the value."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise ConstructorError(None, None, _explain_node(node), node.start_mark) from None

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > _MOST_MERGED:
            message = f"merging gives this mapping more than {_MOST_MERGED:,} entries"
            raise ConstructorError(None, None, message, node.start_mark)


def compose_yaml(text: str, shown_as: str) -> tuple[yaml.Node | None, object]:
    """Return the root node of a YAML document, and the decoded value.

    The root node and the nodes below have the positions of all values. For an empty document return
    (None, {}). `shown_as` is the name of the file in messages.

    Raises:
        InvalidInputError: the text is not YAML, nests deeper than 200 levels, has a key twice in a mapping,
            or has a value that cannot be read as its type. Also raised if a mapping has more than 10,000
            entries after merges (`<<`). The error has the position.
    """
    loader = None
    try:
        _check_depth(text, shown_as)
        loader = _Loader(text)
        node = loader.get_single_node()
        repeated = _find_repeated_keys(node)
        if repeated:
            raise InvalidInputError(
                _build_problem(shown_as, mark, f"`{key}` is given twice") for key, mark in repeated
            )
        return node, loader.construct_document(node) if node else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise InvalidInputError(
            [_build_problem(shown_as, mark, f"not YAML: {error.problem or error.context}")]
        ) from None
    except yaml.reader.ReaderError as error:
        raise InvalidInputError([_build_unreadable_problem(error, text, shown_as)]) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InvalidInputError([Problem(shown_as, 1, 1, f"not YAML: {error}")]) from None
    finally:
        if loader is not None:
            loader.dispose()


def _check_depth(text: str, shown_as: str) -> None:
    """Raise InvalidInputError if the text nests deeper than 200 levels. The check itself does not recurse."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                message = f"nested more than {DEEPEST} levels deep"
                raise InvalidInputError([_build_problem(shown_as, event.start_mark, message)])
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _build_problem(shown_as: str, mark: Any, message: str) -> Problem:
    return Problem(shown_as, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, message)


def _build_unreadable_problem(error: yaml.reader.ReaderError, text: str, shown_as: str) -> Problem:
    before = text[: error.position]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    character = text[error.position : error.position + 1] or "\ufffd"
    message = f"not YAML: the control character U+{ord(character):04X} may stand only as an escape"
    return Problem(shown_as, line, column, message)


def _explain_node(node: yaml.Node) -> str:
    """Return a sentence with the reason why a node cannot be read as its type."""
    kind = node.tag.rpartition(":")[2]
    if not isinstance(node, yaml.ScalarNode):
        return f"this cannot be read as `{kind}`"
    digits = sum(map(str.isdigit, node.value))
    if kind == "int" and digits > _MOST_DIGITS:
        return (
            f"a whole number of {digits:,} digits is too long to read: the limit is {_MOST_DIGITS:,}; "
            "put it in quotes if it is text"
        )
    shown = node.value if len(node.value) <= 60 else f"{node.value[:57]}…"
    return f"`{shown}` cannot be read as `{kind}`: put it in quotes if it is text"


def _find_repeated_keys(node: yaml.Node | None) -> list[tuple[str, yaml.Mark]]:
    repeated, pending, seen_nodes = [], [node] if node else [], set()
    while pending:
        current = pending.pop()
        if id(current) in seen_nodes:
            continue
        seen_nodes.add(id(current))
        if isinstance(current, yaml.SequenceNode):
            pending.extend(current.value)
        elif isinstance(current, yaml.MappingNode):
            keys: set[str] = set()
            for key, value in current.value:
                if isinstance(key, yaml.ScalarNode) and key.value in keys and key.value != "<<":
                    repeated.append((key.value, key.start_mark))
                keys.add(str(key.value))
                pending.append(value)
    return sorted(repeated, key=lambda item: (item[1].line, item[1].column))
