"""The material of a judge's prompt: turns, rubrics and the results of a knowledge search."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from evalgate.core.frozen import frozen
from evalgate.core.types import CaseRun, EvalCase, JsonObject, Reply, Rubric
from evalgate.integrations.trpc.criteria import GoModel
from evalgate.integrations.trpc.go_json import RawJson, dump_go_struct, fold_key
from evalgate.metrics.trajectory import collect_tool_records


@frozen
class TrpcExchange:
    """One turn as it happened."""

    user: str
    reply: Reply | None
    """None if the agent made no such turn."""
    reference: str | None = None
    """The expected final response; None if there is none."""
    is_asked_for: bool = True
    """False if the recording is longer than its case."""
    context: tuple[JsonObject, ...] = ()
    """Messages before the conversation."""
    execution: JsonObject | None = None
    """The steps of the agent's nodes in this turn, if a recording has them."""
    rubrics: tuple[Rubric, ...] = ()
    """Rubrics of the turn, which an eval set of Google ADK may have."""

    @property
    def response(self) -> str:
        """Return the final response, or "" if there is none."""
        return (self.reply.response if self.reply else None) or ""


def iter_exchanges(case: EvalCase, run: CaseRun) -> Iterator[TrpcExchange]:
    """Yield every turn of the run, as it was written or as a simulated user said it."""
    context = case.context_messages
    if not case.turns:
        for message, reply in zip_longest(run.said, run.replies):
            yield TrpcExchange(message.text if message else "", reply, context=context)
        return
    for index, (turn, reply) in enumerate(zip_longest(case.turns, run.replies)):
        said = run.said[index].text if index < len(run.said) else turn.user.text if turn else ""
        yield TrpcExchange(
            said,
            reply,
            turn.expected.response if turn else None,
            is_asked_for=turn is not None,
            context=context,
            execution=turn.execution if turn else None,
            rubrics=turn.rubrics if turn else (),
        )


class TrpcRubricOptionContent(GoModel):
    """The text of a rubric."""

    text: str = ""


class TrpcRubricOption(GoModel):
    """A statement that the judge must affirm. One without content is ignored."""

    id: str = ""
    content: TrpcRubricOptionContent | None = None
    description: str = ""
    type: str = ""


@frozen
class JudgedRubric:
    """A rubric as the judge sees it."""

    id: str
    text: str
    description: str = ""
    type: str = ""

    def to_go_json(self) -> RawJson:
        """Return the JSON that Go writes, without empty fields."""
        content = dump_go_struct([("text", self.text)] if self.text else [])
        members = {"id": self.id, "content": content, "description": self.description, "type": self.type}
        return dump_go_struct((key, value) for key, value in members.items() if value)


def iter_visible_rubrics(options: Iterable[TrpcRubricOption]) -> Iterator[JudgedRubric]:
    """Yield the rubrics that have content."""
    for each in options:
        if each.content is not None:
            yield JudgedRubric(each.id.strip(), each.content.text, each.description, each.type)


def iter_case_rubrics(case: EvalCase, metric: str) -> Iterator[JudgedRubric]:
    """Yield rubrics of a case that are meant for `metric`, or for any metric."""
    for each in case.rubrics:
        if each.metric in {"", metric}:
            yield _to_judged_rubric(each)


def iter_turn_rubrics(rubrics: Iterable[Rubric]) -> Iterator[JudgedRubric]:
    """Yield rubrics of a turn that have no type; with one they are meant for a metric of Google ADK."""
    for each in rubrics:
        if not (each.type or "").strip():
            yield _to_judged_rubric(each)


def _to_judged_rubric(rubric: Rubric) -> JudgedRubric:
    kind = (rubric.type or "").strip()
    return JudgedRubric(rubric.rubric_id.strip(), rubric.text.strip(), rubric.description or "", kind)


def format_rubrics(rubrics: Sequence[JudgedRubric]) -> str:
    """Format the rubrics as `id: text`, one a line."""
    return "\n".join(f"{rubric.id}: {rubric.text}" for rubric in rubrics)


def find_repeated_id(rubrics: Iterable[JudgedRubric]) -> str:
    """Return the first id that two rubrics have, or "" if there is none."""
    seen: set[str] = set()
    for rubric in rubrics:
        if rubric.id in seen:
            return rubric.id
        seen.add(rubric.id)
    return ""


TOOLS = frozenset({"knowledge_search", "knowledge_search_with_agentic_filter"})
NOTHING_FOUND = "No knowledge search results were found."

_DOCUMENT: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "text": (str,),
    "metadata": (Mapping,),
    "score": (int, float),
}
"""The keys of a document, in Go's order, with their types."""
_ALWAYS: Mapping[str, object] = {"text": "", "score": 0}
"""The keys that are written even if the search left them out, with their defaults."""


class InvalidKnowledgeError(Exception):
    """A search's result is not in the form of tRPC-Agent-Go's own tools."""


def format_knowledge(reply: Reply) -> str:
    """Return one line of JSON for each search of the turn, with the known fields only.

    Raises:
        InvalidKnowledgeError: a result is of another form.
    """
    lines = [
        _format_search(record.name, record.result)
        for record in collect_tool_records(reply)
        if record.name in TOOLS
    ]
    return "".join(f"{line}\n" for line in lines) if lines else NOTHING_FOUND


def _format_search(tool: str, result: object) -> str:
    place = f"the result of `{tool}`"
    found = {} if result is None else _fold_members(result, place)
    documents = _get_typed(found, "documents", (list,), place)
    if isinstance(documents, list):
        what = f"a document in {place}"
        documents = [
            None
            if each is None
            else _dump_struct(list(_iter_document_fields(_fold_members(each, what), what)))
            for each in documents
        ]
    message = _get_typed(found, "message", (str,), place)
    return _dump_struct([("documents", documents), *([("message", message)] if message else [])])


def _iter_document_fields(members: Mapping[str, object], place: str) -> Iterator[tuple[str, object]]:
    for key, types in _DOCUMENT.items():
        value = _get_typed(members, key, types, place) or _ALWAYS.get(key)
        if value or key in _ALWAYS:
            yield key, value


def _dump_struct(members: list[tuple[str, object]]) -> RawJson:
    try:
        return dump_go_struct(members, for_html=True)
    except RecursionError:
        raise InvalidKnowledgeError(
            "the result of a knowledge search is nested too deep to be shown"
        ) from None


def _fold_members(value: object, place: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise InvalidKnowledgeError(f"{place} is no object")
    return {fold_key(str(key)): each for key, each in value.items()}


def _get_typed(members: Mapping[str, object], key: str, types: tuple[type, ...], place: str) -> object:
    value = members.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, types)):
        raise InvalidKnowledgeError(f"`{key}` in {place} is of another type than a knowledge search gives")
    return value
