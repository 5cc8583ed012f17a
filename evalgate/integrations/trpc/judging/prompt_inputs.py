"""What a judge is shown: turns, rubrics and the results of a knowledge search."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from evalgate.core.frozen import frozen
from evalgate.core.types import CaseRun, EvalCase, JsonObject, Reply, Rubric
from evalgate.integrations.trpc.criteria import Rule
from evalgate.integrations.trpc.go_text import Raw, folded, struct
from evalgate.metrics.trajectory import tool_records


@frozen
class Exchange:
    """One turn as it happened."""

    user: str
    reply: Reply | None
    """None: the agent gave no such turn."""
    reference: str | None = None
    """The final response that was expected; None when none was."""
    is_asked_for: bool = True
    """False: the recording is longer than its case."""
    context: tuple[JsonObject, ...] = ()
    """Messages that the conversation is preceded by."""
    execution: JsonObject | None = None
    """What the agent's nodes did in this turn, where a recording says so."""
    rubrics: tuple[Rubric, ...] = ()
    """Those of the turn, which an eval set of Google ADK may have."""

    @property
    def response(self) -> str:
        """The final response; "" when there is none."""
        return (self.reply.response if self.reply else None) or ""


def exchanges(case: EvalCase, run: CaseRun) -> Iterator[Exchange]:
    """Every turn of the run: as it is written, or as a simulated user played it."""
    context = case.context_messages
    if not case.turns:
        for message, reply in zip_longest(run.said, run.replies):
            yield Exchange(message.text if message else "", reply, context=context)
        return
    for index, (turn, reply) in enumerate(zip_longest(case.turns, run.replies)):
        said = run.said[index].text if index < len(run.said) else turn.user.text if turn else ""
        yield Exchange(
            said,
            reply,
            turn.expected.response if turn else None,
            is_asked_for=turn is not None,
            context=context,
            execution=turn.execution if turn else None,
            rubrics=turn.rubrics if turn else (),
        )


class RubricContent(Rule):
    """What a rubric says."""

    text: str = ""


class RubricOption(Rule):
    """Something that the judge must affirm. One without content is passed over."""

    id: str = ""
    content: RubricContent | None = None
    description: str = ""
    type: str = ""


@frozen
class JudgedRubric:
    """A rubric as the judge sees it."""

    id: str
    text: str
    description: str = ""
    type: str = ""

    def as_wire(self) -> Raw:
        """As Go writes it: what is empty is left out."""
        content = struct([("text", self.text)] if self.text else [])
        members = {"id": self.id, "content": content, "description": self.description, "type": self.type}
        return struct((key, value) for key, value in members.items() if value)


def visible(options: Iterable[RubricOption]) -> Iterator[JudgedRubric]:
    """Those that say something."""
    for each in options:
        if each.content is not None:
            yield JudgedRubric(each.id.strip(), each.content.text, each.description, each.type)


def of_case(case: EvalCase, metric: str) -> Iterator[JudgedRubric]:
    """Those of a case that are meant for `metric`, or for any."""
    for each in case.rubrics:
        if each.metric in {"", metric}:
            yield _judged(each)


def of_turn(rubrics: Iterable[Rubric]) -> Iterator[JudgedRubric]:
    """Yield those of a turn that have no type: with one they are meant for a metric of Google ADK."""
    for each in rubrics:
        if not (each.type or "").strip():
            yield _judged(each)


def _judged(rubric: Rubric) -> JudgedRubric:
    kind = (rubric.type or "").strip()
    return JudgedRubric(rubric.rubric_id.strip(), rubric.text.strip(), rubric.description or "", kind)


def listed(rubrics: Sequence[JudgedRubric]) -> str:
    """`id: text`, one a line."""
    return "\n".join(f"{rubric.id}: {rubric.text}" for rubric in rubrics)


def twice(rubrics: Iterable[JudgedRubric]) -> str:
    """The first id that two of them have; "" when there is none."""
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
