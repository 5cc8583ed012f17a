"""Rubrics of cases and turns that no metric judges by."""

from collections.abc import Iterator, Mapping
from functools import partial

from evalgate.model import EvalCase, EvalSet, Rubric
from evalgate.protocols import JudgesByType, LooksAt, Metric


class Rubrics:
    """Looks for rubrics of a type that none of the set's rubric metrics picks.

    Silent where no metric picks rubrics by their type: another one may judge by all of them.
    """

    def begin(self, eval_set: EvalSet, metrics: Mapping[str, Metric]) -> LooksAt:
        """See `Lint.begin`."""
        del eval_set
        return partial(
            _sentences, [metric for metric in metrics.values() if isinstance(metric, JudgesByType)]
        )


def _sentences(metrics: list[JudgesByType], case: EvalCase) -> Iterator[str]:
    if not metrics:
        return
    for rubric in case.rubrics:
        if not any(metric.judges(rubric) for metric in metrics):
            yield _sentence("", rubric)
    for number, turn in enumerate(case.turns, start=1):
        for rubric in turn.rubrics:
            if not any(metric.judges(rubric) for metric in metrics):
                yield _sentence(f" of turn {number}", rubric)


def _sentence(place: str, rubric: Rubric) -> str:
    kind = f"is of the type {rubric.type}, and" if rubric.type else "has no `type`, and so"
    return f"the rubric `{rubric.rubric_id}`{place} {kind} no metric judges by it"
