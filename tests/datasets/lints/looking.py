"""Run one lint on some cases."""

from collections.abc import Mapping

from evalgate.core.protocols import Lint, Metric
from evalgate.core.types import EvalCase, EvalSet


def said_by(lint: Lint, *cases: EvalCase, metrics: Mapping[str, Metric]) -> list[tuple[str, str]]:
    """Return (case id, sentence) for each warning of the lint, in file order."""
    look = lint.build_checker(EvalSet("s", cases), metrics)
    return [(case.eval_id, sentence) for case in cases for sentence in look(case)]
