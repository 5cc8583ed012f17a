"""What a thresholds file says of some cases only: tags, weights, thresholds, and which must never fail."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TypeAlias

from evalgate.config import CaseRule, Thresholds
from evalgate.errors import InvalidInput, Problem
from evalgate.model import CasePolicy, EvalSet, ScopedThreshold
from evalgate.reading.caseids import names_of
from evalgate.reading.validation import did_you_mean

Policies: TypeAlias = Mapping[tuple[str, str], CasePolicy]
"""Eval set and case → what holds for it; cases of which no rule speaks are left out."""


def policies(
    rules: Thresholds, case_rules: Sequence[CaseRule], eval_sets: Iterable[EvalSet], *, is_part: bool = False
) -> Policies:
    """What the rules say of each case; where they disagree the later one wins, and tags add up.

    `is_part`: the user picked some of the cases for now, so a rule may speak of others.

    Raises:
        InvalidInput: a rule speaks of no case, or of a metric that is not among the criteria.
    """
    eval_sets = tuple(eval_sets)
    tagged = ((each, case) for each in eval_sets for case in each.heads if case.tags)
    found = {(each.eval_set_id, case.eval_id): CasePolicy(tags=case.tags) for each, case in tagged}
    problems: list[Problem] = []
    for index, rule in enumerate(case_rules):
        problems += _unknown_metrics(rule, index, rules)
        chosen = list(_chosen(rule, eval_sets, found))
        if not chosen and not is_part:
            place = rules.position(("cases", index))
            problems.append(Problem(rules.file, *place, f"no case is {_selection(rule)}"))
        found |= {key: _with(found.get(key, _NOTHING_SAID), rule) for key in chosen}
    if problems:
        raise InvalidInput(sorted(problems))
    return {key: policy for key, policy in found.items() if policy != _NOTHING_SAID}


_NOTHING_SAID = CasePolicy()


def _chosen(rule: CaseRule, eval_sets: Sequence[EvalSet], found: Policies) -> Iterator[tuple[str, str]]:
    for eval_set, case in ((each, case) for each in eval_sets for case in each.heads):
        key = (eval_set.eval_set_id, case.eval_id)
        names = names_of(eval_set.eval_set_id, eval_set.path, case.eval_id)
        by_id = any(fnmatchcase(name, pattern) for pattern in rule.ids for name in names)
        if by_id or not set(rule.tags).isdisjoint(found.get(key, _NOTHING_SAID).tags):
            yield key


def _with(policy: CasePolicy, rule: CaseRule) -> CasePolicy:
    scope = _scope(rule)
    thresholds = {
        name: ScopedThreshold(held.threshold, scope, held.min_mean) for name, held in rule.criteria.items()
    }
    return replace(
        policy,
        tags=tuple(dict.fromkeys((*policy.tags, *rule.tag))),
        weight=policy.weight if rule.weight is None else rule.weight,
        protected=policy.protected if rule.protected is None else rule.protected,
        thresholds={**policy.thresholds, **thresholds},
    )


def _scope(rule: CaseRule) -> str:
    tags = [f"tag {name}" for name in rule.tags]
    return ", ".join([*rule.ids, *tags])


def _selection(rule: CaseRule) -> str:
    ids = [f"called `{pattern}`" for pattern in rule.ids]
    return " or ".join([*ids, *(f"tagged `{name}`" for name in rule.tags)])


def _unknown_metrics(rule: CaseRule, index: int, rules: Thresholds) -> Iterator[Problem]:
    known = [criterion.metric for criterion in rules.criteria]
    for name in rule.criteria:
        if name not in known:
            place = rules.position(("cases", index, "criteria", name))
            hint = did_you_mean(name, known)
            yield Problem(rules.file, *place, f"`{name}` is not among the file's `criteria`.{hint}")
