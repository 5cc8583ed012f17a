"""Convert promptfoo's assertions about tool calls, `trajectory:…`, to the conditions of a check."""

import json
from collections.abc import Iterator, Mapping

from evalgate.core.types import JsonObject
from evalgate.datasets.promptfoo_values import NoCounterpartError, render_template


def convert_call_assertion(kind: str, value: object, variables: Mapping[str, object]) -> JsonObject:
    """Return the conditions of a check that are equivalent to one assertion about tool calls.

    `kind` is the type of the assertion without `not-`, such as `trajectory:tool-used`.

    Raises:
        NoCounterpartError: the assertion has no counterpart.
    """
    if kind == "trajectory:tool-used":
        if isinstance(value, Mapping):
            return {"tools": _count_calls(value, _get_name(value), default_min=1)}
        return {"tools": {"require": _list_tools(value, variables)}}
    if kind == "trajectory:tool-sequence":
        return {"tools": _order_calls(value, variables)}
    if kind == "trajectory:tool-args-match" and isinstance(value, Mapping):
        return _match_args(value)
    if kind == "trajectory:step-count" and isinstance(value, Mapping):
        if value.get("type") not in ("tool", ["tool"]):
            raise NoCounterpartError("of steps that are no calls of tools")
        name = _get_name(value) if value.get("name") or value.get("pattern") else "*"
        return {"tools": _count_calls(value, name, default_min=0)}
    raise NoCounterpartError("(no check has this)")


def _get_name(value: Mapping[str, object]) -> str:
    if not {*value} <= {"name", "pattern", "type", "min", "max", "args", "arguments", "mode"}:
        raise NoCounterpartError("with more than names and numbers of tools")
    return _check_name(value.get("pattern") or value.get("name"))


def _check_name(name: object) -> str:
    if not isinstance(name, str) or not name or "{{" in name or "[" in name:
        raise NoCounterpartError("with more than names of tools")
    return name


def _list_tools(value: object, variables: Mapping[str, object]) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise NoCounterpartError("with more than names of tools")
    found = []
    for each in listed:
        name = _get_name(each) if isinstance(each, Mapping) else each
        found.append(_check_name(render_template(name, variables) if isinstance(name, str) else name))
    return found


def _count_calls(value: Mapping[str, object], name: str, *, default_min: int) -> JsonObject:
    least, most = value.get("min", default_min), value.get("max")
    if not isinstance(least, int) or not isinstance(most, int | None) or (not least and most is None):
        raise NoCounterpartError("with a number of calls that is none")
    if most is not None and most < least:
        raise NoCounterpartError("with `max` below `min`, which always fails")
    if (least, most) == (1, None):
        return {"require": [name]}
    found: JsonObject = {"min": {name: least}} if least > 0 else {}
    return found if most is None else {**found, "max": {name: most}}


def _order_calls(value: object, variables: Mapping[str, object]) -> JsonObject:
    steps = value.get("steps") if isinstance(value, Mapping) else value
    mode = value.get("mode", "in_order") if isinstance(value, Mapping) else "in_order"
    if not isinstance(steps, list) or mode not in {"in_order", "exact"}:
        raise NoCounterpartError("with more than steps")
    names = _list_tools(steps, variables)
    return {"order": names, **({"max": {"*": len(names)}} if mode == "exact" else {})}


def _match_args(value: Mapping[str, object]) -> JsonObject:
    tool = _get_name(value)
    args = value.get("args", value.get("arguments"))
    if not isinstance(args, Mapping) or value.get("mode", "partial") != "partial":
        raise NoCounterpartError(f"of `{tool}`: only some arguments of one call")
    if "{{" in json.dumps(args, default=str):
        raise NoCounterpartError("with a template in the arguments")
    if not args:
        return {"tools": {"require": [tool]}}
    return {"args": {tool: dict(_iter_rules(args))}, "calls": "some"}


def _iter_rules(args: Mapping[str, object]) -> Iterator[tuple[str, JsonObject]]:
    for name, expected in args.items():
        if set(name) & set(".[]"):
            raise NoCounterpartError("with an argument that is named like a path")
        if _has_nested_list({"": expected}):
            raise NoCounterpartError("with objects or lists in a list")
        if not isinstance(expected, Mapping):
            yield name, {"equals": expected}
        elif expected:
            yield name, {"contains": expected}
        else:
            yield name, {"json_schema": {"type": "object"}}


def _has_nested_list(value: Mapping[str, object]) -> bool:
    """Return True if an object holds, at any depth, a list with objects or lists in it.

    A check would compare such a list differently: of objects in a list, promptfoo compares only the keys
    that the assertion names, but a check compares each item of a list completely.
    """
    for each in value.values():
        if isinstance(each, Mapping) and _has_nested_list(each):
            return True
        if isinstance(each, list) and any(isinstance(item, Mapping | list) for item in each):
            return True
    return False
