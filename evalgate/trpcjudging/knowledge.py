"""What an agent's knowledge search found, as tRPC-Agent-Go shows it to a judge."""

from collections.abc import Iterator, Mapping

from evalgate.model import Reply
from evalgate.scoring.toolrecords import tool_records
from evalgate.trpcjudging.gojson import Raw, struct
from evalgate.trpcjudging.gotext import folded

TOOLS = frozenset({"knowledge_search", "knowledge_search_with_agentic_filter"})
NOTHING_FOUND = "No knowledge search results were found."

_DOCUMENT: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "text": (str,),
    "metadata": (Mapping,),
    "score": (int, float),
}
"""What a document holds, in Go's order, and of which type."""
_ALWAYS: Mapping[str, object] = {"text": "", "score": 0}
"""What stands there even where the search left it out."""


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
    place = f"the result of `{tool}`"
    found = {} if result is None else _members(result, place)
    documents = _of_type(found, "documents", (list,), place)
    if isinstance(documents, list):
        documents = [
            None if each is None else _document(each, f"a document in {place}") for each in documents
        ]
    message = _of_type(found, "message", (str,), place)
    return _struct([("documents", documents), *([("message", message)] if message else [])])


def _document(document: object, place: str) -> Raw:
    return _struct(list(_given(_members(document, place), place)))


def _given(members: Mapping[str, object], place: str) -> Iterator[tuple[str, object]]:
    for key, types in _DOCUMENT.items():
        value = _of_type(members, key, types, place) or _ALWAYS.get(key)
        if value or key in _ALWAYS:
            yield key, value


def _struct(members: list[tuple[str, object]]) -> Raw:
    try:
        return struct(members, for_html=True)
    except RecursionError:
        raise NoKnowledge("the result of a knowledge search is nested too deep to be shown") from None


def _members(value: object, place: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise NoKnowledge(f"{place} is no object")
    return {folded(str(key)): each for key, each in value.items()}


def _of_type(members: Mapping[str, object], key: str, types: tuple[type, ...], place: str) -> object:
    value = members.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, types)):
        raise NoKnowledge(f"`{key}` in {place} is of another type than a knowledge search gives")
    return value
