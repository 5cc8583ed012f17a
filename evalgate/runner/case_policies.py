"""Policies of cases (tags, weight, protection, thresholds), from the section `cases` of a thresholds file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from evalgate.config.schema.criteria import CaseRule
from evalgate.config.schema.thresholds import Thresholds
from evalgate.core.errors import InvalidInputError, Problem
from evalgate.core.types import CaseKey, CasePolicy, EvalSet, ScopedThreshold
from evalgate.datasets.cases import describe_unmatched_names, select_cases

CasePolicies: TypeAlias = Mapping[tuple[str, str], CasePolicy]
"""Policy by (eval set id, case id). A case has no entry if it has no tags and no rule changes it."""


def resolve_case_policies(
    thresholds: Thresholds,
    case_rules: Sequence[CaseRule],
    eval_sets: Iterable[EvalSet],
    *,
    is_part: bool = False,
) -> CasePolicies:
    """Return the policy of each case that has tags of its own or matches a rule in `case_rules`.

    If several rules match a case, later rules override earlier ones. Tags add up: a case keeps its own tags,
    and each matching rule adds tags. If `is_part` is True, `eval_sets` hold only the cases that the user
    selected.

    Raises:
        InvalidInputError: a rule names a metric that is not among the criteria. If `is_part` is False, it is
            also raised if a rule matches no case, or has an id without wildcards that no case has.
    """
    eval_sets = tuple(eval_sets)
    tagged = ((each, case) for each in eval_sets for case in each.cases if case.tags)
    found = {(each.eval_set_id, case.eval_id): CasePolicy(tags=case.tags) for each, case in tagged}
    problems: list[Problem] = []

    def find_tags(key: CaseKey) -> tuple[str, ...]:
        return found.get(key, _NO_POLICY).tags

    for index, rule in enumerate(case_rules):
        problems += _find_unknown_metrics(rule, index, thresholds)
        chosen = list(select_cases(rule.ids, rule.tags, eval_sets, find_tags))
        if not is_part and (idle := describe_unmatched_names(rule.ids, rule.tags, eval_sets, find_tags)):
            position = thresholds.find_position(("cases", index))
            problems.append(Problem(thresholds.file, *position, f"no case is {idle}"))
        found |= {key: _apply_rule(found.get(key, _NO_POLICY), rule) for key in chosen}
    if problems:
        raise InvalidInputError(sorted(problems))
    return {key: case_policy for key, case_policy in found.items() if case_policy != _NO_POLICY}


_NO_POLICY = CasePolicy()


def _apply_rule(case_policy: CasePolicy, rule: CaseRule) -> CasePolicy:
    scope = ", ".join([*rule.ids, *(f"tag {name}" for name in rule.tags)])
    thresholds = {
        name: ScopedThreshold(held.threshold, scope, held.min_mean) for name, held in rule.criteria.items()
    }
    return replace(
        case_policy,
        tags=tuple(dict.fromkeys((*case_policy.tags, *rule.tag))),
        weight=case_policy.weight if rule.weight is None else rule.weight,
        protected=case_policy.protected if rule.protected is None else rule.protected,
        thresholds={**case_policy.thresholds, **thresholds},
    )


def _find_unknown_metrics(rule: CaseRule, index: int, thresholds: Thresholds) -> Iterator[Problem]:
    known = [criterion.metric for criterion in thresholds.criteria]
    for name in rule.criteria:
        if name not in known:
            position = thresholds.find_position(("cases", index, "criteria", name))
            from evalgate.core.did_you_mean import did_you_mean

            hint = did_you_mean(name, known)
            yield Problem(thresholds.file, *position, f"`{name}` is not among the file's `criteria`.{hint}")
