"""Texts of others, read as what the protocol can carry."""

from __future__ import annotations

import json
from typing import Any, Optional

_MAX_DEPTH = 50
# The gate refuses lines that nest deeper than 100: a capture must never be what breaks a turn.


def read_object(text: Any) -> Optional[dict[str, Any]]:
    """Return the arguments of a call, an object or its JSON; None when they are neither."""
    found = read_json(text) if isinstance(text, str) and text else ({} if text == "" else text)
    return found if isinstance(found, dict) else None


def read_result(content: Any) -> Any:
    """Return what a tool answered: a text that is the JSON of an object or a list as that."""
    if isinstance(content, str) and content.lstrip()[:1] in ("{", "["):
        return read_json(content)
    return content


def read_json(text: str) -> Any:
    """Return the value of a JSON text; the text itself where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def bounded_json(value: Any) -> Any:
    """Return a value as it is, or its JSON when it nests too deep to be sent."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [child for parent in level for child in _children(parent)]
        if not level:
            return value
    try:
        return json.dumps(value, default=str)
    except (ValueError, RecursionError):
        return str(type(value).__name__)


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [each for each in value if isinstance(each, (dict, list))] if isinstance(value, list) else []
