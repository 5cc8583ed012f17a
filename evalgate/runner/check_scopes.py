"""Limit each check to the cases that it names."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.types import CaseKey, CasePolicy, EvalSet
from evalgate.datasets.cases import describe_selection, select_cases
from evalgate.metrics.scoring import DEFAULT_CASE_POLICY, BoundMetric


def limit_checks(
    metrics: Sequence[BoundMetric],
    rules: Thresholds,
    eval_sets: Sequence[EvalSet],
    policies: Mapping[CaseKey, CasePolicy],
    *,
    is_part: bool,
) -> tuple[BoundMetric, ...]:
    """Return the metrics, with the cases of each check that names some.

    `policies` hold the tags of cases. `is_part`: the user selected some of the cases, so a check may name
    others; it is then left out.

    Raises:
        InvalidInputError: a check matches no case.
    """
    problems: list[Problem] = []
    found = []
    for bound in metrics:
        check = rules.find_check(bound.criterion)
        if check is None or not (check.ids or check.tags):
            found.append(bound)
            continue
        cases = frozenset(
            select_cases(
                check.ids, check.tags, eval_sets, lambda key: policies.get(key, DEFAULT_CASE_POLICY).tags
            )
        )
        if cases:
            found.append(replace(bound, cases=cases))
        elif not is_part:
            where = rules.find_position(rules.locate_criterion(bound.criterion))
            message = f"`{bound.name}`: no case is {describe_selection(check.ids, check.tags)}"
            problems.append(Problem(rules.file, *where, message))
    if problems:
        raise InvalidInputError(problems)
    return tuple(found)
