"""The operations of GitLab's API (version 19.5) that posting needs, and checks of requests and answers.

GitLab's OpenAPI description has another licence than this project, so its facts are rewritten here as JSON Schemas:
the parameters of `doc/api/openapi/openapi_v3.yaml` and the entity `API_Entities_Note`. The limits of 1,000,000
characters in a note and 100 items in a page are from `doc/api/notes.md` and `doc/api/rest/_index.md`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator

LONGEST_NOTE = 1_000_000
LARGEST_PAGE = 100

_INTEGER = {"type": "string", "pattern": r"^\d+$"}
_USER = {
    "type": "object",
    "required": ["id", "username", "name", "state", "web_url"],
    "properties": {"id": {"type": "integer"}, "username": {"type": "string"}, "name": {"type": "string"}},
}
_NOTE = {
    "type": "object",
    "required": [
        "id",
        "type",
        "body",
        "author",
        "created_at",
        "updated_at",
        "system",
        "noteable_id",
        "noteable_type",
        "project_id",
        "resolvable",
        "confidential",
        "internal",
        "imported",
        "imported_from",
        "noteable_iid",
        "commands_changes",
    ],
    "properties": {
        "id": {"type": "integer"},
        "body": {"type": "string"},
        "author": _USER,
        "system": {"type": "boolean"},
        "noteable_type": {"type": "string"},
        "noteable_iid": {"type": "integer"},
        "commands_changes": {"type": "object"},
    },
}


@dataclass(frozen=True)
class Operation:
    """A method of a path (a regex). Parameters that are not in `query` and `body` are not documented."""

    method: str
    path: str
    status: int
    answer: Mapping[str, Any] | None
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None


_NOTES = r"/api/v4/projects/(?P<id>[^/]+)/merge_requests/(?P<noteable_id>\d+)/notes"
_BODY = {
    "type": "object",
    "required": ["body"],
    "properties": {"body": {"type": "string"}},
    "additionalProperties": False,
}
OPERATIONS = (
    Operation("GET", r"/api/v4/user", 200, _USER),
    Operation(
        "GET",
        _NOTES,
        200,
        {"type": "array", "maxItems": LARGEST_PAGE, "items": _NOTE},
        query={
            "order_by": {"enum": ["created_at", "updated_at"]},
            "sort": {"enum": ["asc", "desc"]},
            "activity_filter": {"enum": ["all_notes", "only_comments", "only_activity"]},
            "page": _INTEGER,
            "per_page": _INTEGER,
        },
    ),
    Operation("POST", _NOTES, 201, _NOTE, body=_BODY),
    Operation("PUT", rf"{_NOTES}/(?P<note_id>\d+)", 200, _NOTE, body=_BODY),
    Operation("DELETE", rf"{_NOTES}/(?P<note_id>\d+)", 204, None),
)


def operation(method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
    """Return the operation for a request and the values in its path; None if there is no such endpoint."""
    for each in OPERATIONS:
        found = re.fullmatch(each.path, path)
        if found and each.method == method:
            return each, found.groupdict()
    return None


def request_problems(asked: Operation, query: Mapping[str, str], body: object) -> list[str]:
    """Return a sentence for each part of a request that violates GitLab's documentation."""
    problems = [f"unknown query parameter {name!r}" for name in query if name not in asked.query]
    for name, schema in asked.query.items():
        problems += _wrong(query[name], schema, f"query {name}") if name in query else []
    if asked.body is None:
        return problems + ([] if body is None else ["a body where none is documented"])
    return problems + _wrong(body, asked.body, "body")


def answer_problems(asked: Operation, status: int, body: object) -> list[str]:
    """Return a sentence for each part of an answer that violates GitLab's documentation."""
    if status >= 400:
        return []
    if status != asked.status:
        return [f"undescribed status {status}"]
    return _wrong(body, asked.answer, str(status)) if asked.answer else [] if body is None else ["a body"]


def _wrong(value: object, schema: Mapping[str, Any], where: str) -> list[str]:
    found = Draft202012Validator(schema).iter_errors(value)
    return [f"{where}{error.json_path[1:]}: {error.message[:300]}" for error in found]
