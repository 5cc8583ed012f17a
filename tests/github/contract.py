"""Check requests and answers against GitHub's OpenAPI description, and build valid answers from it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft202012Validator

DESCRIPTION = Path(__file__).with_name("description.json")
_UNDESCRIBED = {401, 403, 404, 422, 429, 500, 502, 503, 504}
"""Error statuses that are allowed for every operation, even if its description lacks them."""
_WITH_SLASHES = {"ref", "path"}


@dataclass(frozen=True)
class Operation:
    """One method of one path template, with its description, and the values in a request's path."""

    method: str
    template: str
    described: Mapping[str, Any]
    values: Mapping[str, str]


@cache
def description() -> Any:
    """Return the OpenAPI description, with its schemas converted to JSON Schema."""
    return _plain(json.loads(DESCRIPTION.read_text(encoding="utf-8")))


def operation(method: str, path: str) -> Operation | None:
    """Return the described operation for a request; None if there is no such endpoint."""
    found = [
        Operation(method, template, item[method.lower()], values)
        for template, item in description()["paths"].items()
        if method.lower() in item and (values := _match(template, path)) is not None
    ]
    return min(found, key=lambda each: each.template.count("{"), default=None)


def request_problems(asked: Operation, query: Mapping[str, str], body: object) -> list[str]:
    """Return a sentence for each part of a request that violates the description."""
    parameters = [_resolved(each) for each in asked.described.get("parameters", ())]
    known = {each["name"]: each["schema"] for each in parameters if each["in"] == "query"}
    problems = [f"unknown query parameter {name!r}" for name in query if name not in known]
    for name, schema in known.items():
        if name in query:
            problems += _wrong(_typed(query[name], _resolved(schema)), schema, f"query {name}")
    for each in parameters:
        if each["in"] == "path":
            value = asked.values[each["name"]]
            problems += _wrong(
                _typed(value, _resolved(each["schema"])), each["schema"], f"path {each['name']}"
            )
    return problems + _body_problems(asked, body)


def answer_problems(asked: Operation, status: int, body: object) -> list[str]:
    """Return a sentence for each part of an answer that violates the description."""
    described = asked.described["responses"].get(str(status))
    if described is None:
        schema = {"$ref": "#/components/schemas/basic-error"}
        return (
            _wrong(body, schema, f"{status}") if status in _UNDESCRIBED else [f"undescribed status {status}"]
        )
    content = _resolved(described).get("content", {})
    if "application/json" not in content:
        return [] if body is None else [f"{status} has no body"]
    return _wrong(body, content["application/json"]["schema"], f"{status}")


def sample(component: str, **values: object) -> dict[str, Any]:
    """Return the smallest value that a component's schema allows, with `values` in it."""
    made: dict[str, Any] = _least({"$ref": f"#/components/schemas/{component}"})
    return made | values


def _body_problems(asked: Operation, body: object) -> list[str]:
    described = asked.described.get("requestBody")
    if described is None:
        return [] if body is None else ["a body where none is documented"]
    if body is None:
        return ["no body"] if described.get("required") else []
    schema = _resolved(described["content"]["application/json"]["schema"])
    known = set(schema.get("properties", {}))
    unknown = sorted(set(body) - known) if isinstance(body, dict) and known else []
    return [f"unknown property {name!r} of the body" for name in unknown] + _wrong(body, schema, "body")


def _wrong(value: object, schema: object, where: str) -> list[str]:
    root = {"allOf": [schema], "components": description()["components"]}
    found = Draft202012Validator(root).iter_errors(value)
    return [f"{where}{error.json_path[1:]}: {error.message[:300]}" for error in found]


def _match(template: str, path: str) -> dict[str, str] | None:
    names = re.findall(r"\{(\w+)\}", template)
    pattern = re.sub(r"\{(\w+)\}", lambda name: "(.+)" if name[1] in _WITH_SLASHES else "([^/]+)", template)
    found = re.fullmatch(pattern, path)
    return dict(zip(names, map(unquote, found.groups()), strict=True)) if found else None


def _resolved(node: Any) -> Any:
    while "$ref" in node:
        _, _, kind, name = node["$ref"].split("/", 3)
        node = description()["components"][kind][name]
    return node


def _typed(text: str, schema: Mapping[str, Any]) -> object:
    if schema.get("type") == "integer":
        return int(text) if re.fullmatch(r"-?\d+", text) else text
    return {"true": True, "false": False}.get(text, text) if schema.get("type") == "boolean" else text


def _plain(node: Any) -> Any:
    """Convert an OpenAPI 3.0 schema to JSON Schema: `nullable` to a type, and `oneOf` to `anyOf`.

    GitHub's alternatives overlap, so that `oneOf` would refuse valid values.
    """
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {"anyOf" if key == "oneOf" else key: _plain(value) for key, value in node.items()}
    if node.get("nullable") is True:
        return {"anyOf": [{"type": "null"}, made]}
    return made


def _least(schema: Any) -> Any:
    schema = _resolved(schema)
    if "anyOf" in schema:
        return _least(schema["anyOf"][0])
    if "allOf" in schema:
        return {name: value for part in schema["allOf"] for name, value in _least(part).items()}
    if "enum" in schema:
        return schema["enum"][0]
    if "properties" in schema:
        return {name: _least(schema["properties"][name]) for name in schema.get("required", ())}
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    return {"array": [], "object": {}, "integer": 1, "number": 1, "boolean": False, "null": None}.get(
        schema.get("type"), "text"
    )


_FORMATS = {"date-time": "2026-01-01T00:00:00Z", "uri": "https://example.com/"}
