"""Rubrics for a judge, from the criterion, the case and the turn, as a prompt lists them."""

from collections.abc import Iterable, Iterator, Sequence

from evalgate.core.frozen import frozen
from evalgate.core.types import EvalCase, Rubric
from evalgate.integrations.trpc.go_json import (
    RawJson,
    dump_go_struct,
)
from evalgate.integrations.trpc.value_criteria import GoModel
from evalgate.metrics.turnwise import Exchange


class TrpcRubricOptionContent(GoModel):
    """The text of a rubric."""

    text: str = ""


class TrpcRubricOption(GoModel):
    """A statement that the judge must affirm. A rubric without content is ignored."""

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
        """Return the JSON of the rubric as Go writes it, without empty fields."""
        content = dump_go_struct([("text", self.text)] if self.text else [])
        members = {"id": self.id, "content": content, "description": self.description, "type": self.type}
        return dump_go_struct((key, value) for key, value in members.items() if value)


def iter_visible_rubrics(options: Iterable[TrpcRubricOption]) -> Iterator[JudgedRubric]:
    """Yield the rubrics that have content; tRPC-Agent-Go shows the judge no others."""
    for each in options:
        if each.content is not None:
            yield JudgedRubric(each.id.strip(), each.content.text, each.description, each.type)


def iter_case_rubrics(case: EvalCase, metric: str) -> Iterator[JudgedRubric]:
    """Yield the rubrics of a case that are meant for `metric` or for every metric."""
    for each in case.rubrics:
        if each.metric in {"", metric}:
            yield _to_judged_rubric(each)


def iter_turn_rubrics(exchange: Exchange) -> Iterator[JudgedRubric]:
    """Yield the rubrics of a turn that have no type; rubrics with a type are for metrics of Google ADK."""
    for each in exchange.turn.rubrics if exchange.turn else ():
        if not (each.type or "").strip():
            yield _to_judged_rubric(each)


def _to_judged_rubric(rubric: Rubric) -> JudgedRubric:
    kind = (rubric.type or "").strip()
    return JudgedRubric(rubric.rubric_id.strip(), rubric.text.strip(), rubric.description or "", kind)


def format_rubrics(rubrics: Sequence[JudgedRubric]) -> str:
    """Format the rubrics as `id: text`, each on one line, so that no line of a text looks like a rubric."""
    return "\n".join(f"{rubric.id}: {' '.join(rubric.text.split())}" for rubric in rubrics)


def find_repeated_id(rubrics: Iterable[JudgedRubric]) -> str:
    """Return the first id that two rubrics have, or "" if there is none."""
    seen: set[str] = set()
    for rubric in rubrics:
        if rubric.id in seen:
            return rubric.id
        seen.add(rubric.id)
    return ""
