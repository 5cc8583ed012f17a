"""What a user attaches to a message, as Google ADK and as tRPC-Agent-Go hold it.

An attachment stands in our model as its eval set has it: an ADK part has a key of its kind (`inline_data`), a
part of tRPC-Agent-Go a `type`.
"""

from typing import Any

from evalgate.model import JsonObject

_FORMATTED = ("image", "audio")
"""Kinds whose format is the second half of a MIME type."""


def as_adk(part: JsonObject) -> JsonObject | None:
    """The attachment as Google ADK's part; None when it has none that says the same."""
    kind = part.get("type")
    if not isinstance(kind, str):
        return part
    held = part.get(kind)
    if not isinstance(held, dict) or part.keys() != {"type", kind}:
        return None
    mime_type, name = _mime_type(kind, held), held.get("filename")
    if mime_type is None or not held.keys() <= {"data", "url", "format", "filename"}:
        return None
    more = {"display_name": name} if name else {}
    if held.get("data") and not held.get("url"):
        return {"inline_data": {"mime_type": mime_type, "data": held["data"], **more}}
    if held.get("url") and not held.get("data"):
        return {"file_data": {"file_uri": held["url"], "mime_type": mime_type, **more}}
    return None


def _mime_type(kind: str, held: JsonObject) -> str | None:
    said = held.get("format")
    if not isinstance(said, str) or not said:
        return None
    if kind in _FORMATTED and "filename" not in held:
        return f"{kind}/{said}"
    return said if kind == "file" and "/" in said else None


def as_trpc(part: JsonObject) -> JsonObject | None:
    """The attachment as tRPC-Agent-Go's part; None when it has none that says the same."""
    if isinstance(part.get("type"), str):
        return part
    given = {key: value for key, value in part.items() if value is not None}
    if len(given) != 1:
        return None
    ((word, held),) = given.items()
    if not isinstance(held, dict):
        return None
    if word in {"inline_data", "inlineData"}:
        return _trpc_part(held, "data", "data")
    return _trpc_part(held, "file_uri", "url") if word in {"file_data", "fileData"} else None


_SNAKE = {"mimeType": "mime_type", "displayName": "display_name", "fileUri": "file_uri"}


def _trpc_part(held: dict[str, Any], source: str, target: str) -> JsonObject | None:
    said = {_SNAKE.get(key, key): value for key, value in held.items() if value is not None}
    mime_type, content = said.pop("mime_type", None), said.pop(source, None)
    name = said.pop("display_name", None)
    if said or not content or not isinstance(mime_type, str):
        return None
    kind, _, form = mime_type.partition("/")
    if kind in _FORMATTED and form and name is None:
        return {"type": kind, kind: {target: content, "format": form}}
    more = {"filename": name} if name else {}
    return {"type": "file", "file": {**more, target: content, "format": mime_type}} if form else None
