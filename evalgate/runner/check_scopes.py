"""Limit each check of the thresholds file to the cases that its `ids` and `tags` name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.formatting import pluralize
from evalgate.core.types import CaseKey, CasePolicy, EvalCase, EvalSet
from evalgate.datasets.cases import describe_unmatched_names, select_cases
from evalgate.metrics.scoring import DEFAULT_CASE_POLICY, BoundMetric


def limit_checks(
    metrics: Sequence[BoundMetric],
    thresholds: Thresholds,
    eval_sets: Sequence[EvalSet],
    case_policies: Mapping[CaseKey, CasePolicy],
    *,
    is_part: bool,
) -> tuple[BoundMetric, ...]:
    """Return the metrics; a check that has `ids` or `tags` is limited to the matching cases.

    `case_policies` hold the tags of the cases. `is_part` is True if the user selected only some of the cases.
    Then a check that matches none of these is left out. Otherwise it is an error.

    Raises:
        InvalidInputError: `is_part` is False, and a check matches no case, or has an id without wildcards
            that no case has.
    """

    def find_tags(key: CaseKey) -> Sequence[str]:
        return case_policies.get(key, DEFAULT_CASE_POLICY).tags

    problems: list[Problem] = []
    found = []
    for bound in metrics:
        check = thresholds.find_check(bound.criterion)
        if check is None or not (check.ids or check.tags):
            found.append(bound)
            continue
        cases = frozenset(select_cases(check.ids, check.tags, eval_sets, find_tags))
        if cases:
            found.append(replace(bound, cases=cases))
        if not is_part and (idle := describe_unmatched_names(check.ids, check.tags, eval_sets, find_tags)):
            where = thresholds.find_position(thresholds.locate_criterion(bound.criterion))
            problems.append(Problem(thresholds.file, *where, f"`{bound.name}`: no case is {idle}"))
    if problems:
        raise InvalidInputError(problems)
    return tuple(found)


def find_unscored_cases(
    eval_set: EvalSet, get_metrics: Callable[[EvalCase], Sequence[BoundMetric]], thresholds: Thresholds
) -> Iterator[Problem]:
    """Yield one problem if the eval set has cases without a metric: they would be run and not scored.

    Yield nothing if each case has a metric. `get_metrics` returns the metrics of a case.
    """
    names = [case.eval_id for case in eval_set.cases if not get_metrics(case)]
    if names:
        which = f"{pluralize(len(names), 'case')} of {eval_set.display_name}, as {names[0]!r}"
        message = f"{which}, would be run and not scored: add a check without `ids` and `tags`, or `criteria`"
        yield Problem(thresholds.file, *thresholds.find_position(("checks",)), message)
