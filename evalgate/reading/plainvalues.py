"""Taking JSON values for what they nearly always are, or giving up: for the short ways through a file."""


class Unusual(Exception):
    """The value is something else, right or wrong: whoever reads carefully can tell."""


def members(value: object, known: frozenset[str]) -> dict[str, object]:
    """An object without other keys than those. Raises Unusual."""
    if isinstance(value, dict) and value.keys() <= known:
        return value
    raise Unusual


def items(value: object) -> list[object]:
    """A list. Raises Unusual."""
    if isinstance(value, list):
        return value
    raise Unusual


def text(value: object) -> str:
    """A text. Raises Unusual."""
    if isinstance(value, str):
        return value
    raise Unusual
