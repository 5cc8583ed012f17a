"""What a judge must affirm: as `llmJudge.rubrics` and cases have it, and as the judge sees it."""

from collections.abc import Iterable, Iterator, Sequence

from evalgate.frozen import frozen
from evalgate.model import EvalCase, Rubric
from evalgate.scoring.criteria import Rule
from evalgate.trpcjudging.gojson import Raw, struct


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
