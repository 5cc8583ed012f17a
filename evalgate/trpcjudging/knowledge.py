"""What an agent's knowledge search found, as tRPC-Agent-Go shows it to a judge."""

import json
from collections.abc import Iterator, Mapping

from evalgate.model import Reply
from evalgate.scoring.toolrecords import tool_records

TOOLS = frozenset({"knowledge_search", "knowledge_search_with_agentic_filter"})
NOTHING_FOUND = "No knowledge search results were found."

_DOCUMENT = ("id", "text", "metadata", "score")
_ALWAYS = frozenset({"text", "score"})
_HTML = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class NoKnowledge(Exception):
    """A search's result is not of the form that tRPC-Agent-Go's own tools give."""


def knowledge_in(reply: Reply) -> str:
    """One line of JSON for each search of the turn, with what a search gives and nothing else.

    Raises:
        NoKnowledge: a result is of another form.
    """
    lines = [_line(record.name, record.result) for record in tool_records(reply) if record.name in TOOLS]
    return "".join(f"{line}\n" for line in lines) if lines else NOTHING_FOUND


def _line(tool: str, result: object) -> str:
    if result is None:
        return '{"documents":null}'
    if not isinstance(result, Mapping):
        raise NoKnowledge(f"the result of `{tool}` is no object with `documents`")
    documents = result.get("documents")
    if documents is not None and not _are_documents(documents):
        raise NoKnowledge(f"the `documents` in the result of `{tool}` are no list of objects")
    found: dict[str, object] = {"documents": documents and [dict(_document(each)) for each in documents]}
    if result.get("message"):
        found["message"] = result["message"]
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return "".join(_HTML.get(letter, letter) for letter in text)


def _are_documents(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, Mapping) for each in value)


def _document(document: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key in _DOCUMENT:
        value = document.get(key)
        if value or key in _ALWAYS:
            yield key, value if value is not None else ("" if key == "text" else 0)
