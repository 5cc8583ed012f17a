"""Whether a tool call has the arguments that a goal asks for, path by path."""

import json
from collections.abc import Iterator, Mapping

from evalgate.journey.values import IGNORED, like, normalised
from evalgate.model import ArgMatching, Goal, JsonObject

_ANYTHING: JsonObject = {"IGNORE": None}
_ABSENT = object()
_LONGEST_VALUE = 60


def mismatch(goal: Goal, actual: JsonObject) -> str:
    """The first argument that is not as the goal asks, in words; "" when the call matches.

    Arguments that the goal does not name may be anything.
    """
    if goal.args is None:
        return f"no arguments are expected, got {_shown(dict(actual))}" if actual else ""
    if goal.args == _ANYTHING:
        return ""
    given = dict(leaves(actual))
    # A dotted key and a nested one may be one path; the later one counts.
    for path, expected in dict(leaves(goal.args)).items():
        found = given.get(path, _ABSENT)
        if not _matches(strategy(path, goal.arg_matching), expected, found):
            return f"`{path}`: expected {_shown(expected)}, got {_shown(found)}"
    return ""


def leaves(args: JsonObject, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Dotted paths of all values that are no objects. An empty object has none."""
    for key, value in args.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping):
            yield from leaves(value, path)
        else:
            yield path, value


def strategy(path: str, matching: Mapping[str, ArgMatching]) -> ArgMatching:
    """What is said of the path itself, else of its nearest parent, else `strict`."""
    while path not in matching:
        path, dot, _ = path.rpartition(".")
        if not dot:
            return "strict"
    return matching[path]


def _matches(how: ArgMatching, expected: object, found: object) -> bool:
    if how == "ignore" or normalised(expected) == IGNORED:
        return True
    if found is _ABSENT:
        return how == "optional"
    if how == "optional":
        return bool(found == expected)
    if how == "fuzzy":
        return like(found, expected)
    return bool(normalised(found) == normalised(expected))


def _shown(value: object) -> str:
    if value is _ABSENT:
        return "none"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
