"""What one lint says of some cases."""

from collections.abc import Mapping

from evalgate.core.protocols import Lint, Metric
from evalgate.core.types import EvalCase, EvalSet


def said_by(lint: Lint, *cases: EvalCase, metrics: Mapping[str, Metric]) -> list[tuple[str, str]]:
    """Case and sentence, in file order."""
    look = lint.build_checker(EvalSet("s", cases), metrics)
    return [(case.eval_id, sentence) for case in cases for sentence in look(case)]
