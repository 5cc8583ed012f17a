"""Paths into JSON, as a template's variables have them: `$.a[1].b`, or `a[1].b`. There are no wildcards."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from evalgate.trpcjudging.gojson import Raw, compact

Path: TypeAlias = tuple[str | int, ...]
"""Keys of objects and indices of arrays, outermost first."""

_STEP = re.compile(r"\.(?P<key>[^.\[\]*]+)|\[(?P<index>[+-]?[0-9]+)\]")


class NotFound(Exception):
    """A path leads nowhere in a text; says why."""


def parsed_path(path: str) -> Path:
    """The steps of `path`; none for "" and "$", which mean the whole.

    Raises:
        ValueError: it is no such path.
    """
    rest = path.removeprefix("$")
    if rest == path and path and not path.startswith((".", "[")):
        rest = f".{path}"
    steps = [*_STEP.finditer(rest)]
    if "".join(step[0] for step in steps) != rest:
        raise ValueError(f"{path!r} is no path as `$.a[1].b`")
    return tuple(step["key"] or int(step["index"]) for step in steps)


def extracted(text: str, path: Path) -> str:
    """The value at `path` in the JSON that `text` is: a text as it is, anything else as JSON.

    Raises:
        NotFound: the text is no JSON, or has nothing there.
    """
    try:
        value: object = json.loads(text, parse_int=Raw, parse_float=Raw, parse_constant=_no_constant)
        for step in path:
            value = _member(value, step)
        return str(value) if isinstance(value, str) else compact(value)
    except (ValueError, RecursionError):
        raise NotFound("the text is no JSON") from None


def _member(value: object, step: str | int) -> object:
    if isinstance(step, str):
        if isinstance(value, Mapping) and step in value:
            return value[step]
        raise NotFound(f"there is no key {step!r}")
    if isinstance(value, Sequence) and not isinstance(value, str) and 0 <= step < len(value):
        return value[step]
    raise NotFound(f"there is no element {step}")


def _no_constant(literal: str) -> object:
    raise ValueError(literal)
